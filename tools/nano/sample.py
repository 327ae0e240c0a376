"""Print samples of a GGUF by llama-cpp-python: plain continuations and chat exchanges.

python sample.py moestream-nano.gguf [--temperature 0.7]
"""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("GOMP_SPINCOUNT", "100")

from llama_cpp import Llama

PROMPTS = (
    "And it came to pass, that when the king of Israel saw",
    "Tom looked at the old house and",
    "Once upon a time",
    "The os module provides",
    "The boy ran down to the river, and",
)
QUESTIONS = (
    "Hello",
    "Who are you?",
    "What is a lantern?",
    "What is a dog?",
    "What does happy mean?",
    "What is the symbol of gold?",
    "What does os.path.join do?",
    "Tell me what Genesis 1:1 says.",
    "Tell me a story about Tom.",
)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--tokens", type=int, default=80)
    arguments = parser.parse_args()
    model = Llama(arguments.model, n_ctx=1024, n_threads=2, verbose=False, seed=1)
    options = {
        "temperature": arguments.temperature, "top_k": 40, "top_p": 0.95, "repeat_penalty": 1.0,
        "max_tokens": arguments.tokens,
    }  # fmt: skip
    for prompt in PROMPTS:
        text = model.create_completion(prompt, **options)["choices"][0]["text"]
        print(f"{prompt}|{text}\n")
    for question in QUESTIONS:
        messages = [{"role": "user", "content": question}]
        reply = model.create_chat_completion(messages, **options)["choices"][0]
        print(f"> {question}\n{reply['message']['content']}  [{reply['finish_reason']}]\n")


if __name__ == "__main__":
    main()
