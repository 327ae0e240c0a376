"""Control tokens that a reader of the answer needs stay in its text; the others do not."""

from __future__ import annotations

from pathlib import Path

from moestream import EngineConfig, Session
from tests.fixtures.scripted import make_scripted

ASK = [{"role": "user", "content": "hi"}]
TEMPLATE = (
    "{% for m in messages %}{{ m.content }}{% endfor %}{{ tools | tojson if tools else '' }}"
    "{% if add_generation_prompt %}answer:\n{% endif %}"
)


def test_markers_stay_in_the_text(tmp_path: Path) -> None:
    pieces = ["<|one|>", "text", "<|two|>", " more"]
    model = make_scripted(tmp_path, "marked", pieces, template=TEMPLATE)
    with Session(EngineConfig(model=model, threads=1)) as session:
        assert session.chat(ASK).text() == "text more"
        assert session.chat(ASK, markers=["<|two|>", "not a token"]).text() == "text<|two|> more"
        events = list(session.chat(ASK, markers=["<|one|>"], stop="te"))
        assert "".join(event.text for event in events) == "<|one|>"
        assert session.token_bytes(events[0].token_id or 0) == b"<|one|>"
        tools = [{"type": "function", "function": {"name": "f"}}]
        assert '"name": "f"' in session.render(ASK, tools=tools)
        longer = session.chat(ASK, tools=tools).summary.prompt_tokens
        assert longer > session.chat(ASK).summary.prompt_tokens
        assert not session.render(ASK, add_generation_prompt=False).endswith("\n")
