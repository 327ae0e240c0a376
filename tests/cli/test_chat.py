"""``moestream chat``: the conversation loop, from a pipe and on a terminal."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from moestream import EngineConfig, Session
from moestream.cli.conversation import Conversation
from moestream.cli.lines import MessageReader
from moestream.errors import ConfigError
from tests.cli.conftest import Cli
from tests.conftest import ModelMaker

FAST = ("--threads", "1", "--ctx", "512", "-n", "6")


@pytest.fixture
def model(tiny: ModelMaker) -> Path:
    return tiny("qwen35moe")


def test_every_line_of_a_pipe_is_a_message(cli: Cli, model: Path) -> None:
    result = cli("chat", "-m", model, *FAST, stdin="one\ntwo\n")
    assert result.code == 0
    config = EngineConfig(model=model, threads=1, n_ctx=512)
    with Session(config) as session:
        first = session.chat(Conversation().asking("one"), max_tokens=6).text()
        talk = Conversation()
        talk.add("one", first)
        second = session.chat(talk.asking("two"), max_tokens=6).text()
    assert result.out == f"{first}\n{second}\n"


@pytest.mark.parametrize("line", ["/save /", "/save a\0b", "/load a\0b", "/load ~nobody-at-all/x"])
def test_impossible_names_do_not_end_the_chat(cli: Cli, model: Path, line: str) -> None:
    result = cli("chat", "-m", model, *FAST, stdin=f"{line}\none\n")
    assert result.code == 0
    assert "error: " in result.err
    assert "bug" not in result.err
    assert result.out.strip()


def test_commands(cli: Cli, model: Path, tmp_path: Path) -> None:
    saved = tmp_path / "talk.json"
    script = f"""\
/help
/system be kind
one
/stats
/save {saved}
/clear
/regen
/load {saved}
/regen
/set
/set temp 0.5
/set top-k 3
/set seed none
/set max_tokens none
/set max_tokens 2
/set thinking off
/set temp hot
/set temp -1
/set colour red
/frobnicate
/load {tmp_path}/nowhere.json
//slash
/exit
never reached
"""
    result = cli("chat", "-m", model, *FAST, stdin=script)
    assert result.code == 0
    assert "never reached" not in result.out
    for words in (
        "/regen",
        "(system message set)",
        "hit rate",
        f"(saved to {saved})",
        "(forgotten)",
        "there is no answer to take back",
        "(loaded 1 turns",
        "temperature 0.5",
        "top_k 3",
        "max_tokens 2",
        "thinking off",
        "temperature takes a number",
        "temperature must lie in",
        "there is no setting colour",
        "there is no command /frobnicate",
        "No such file",
    ):
        assert words in result.err, words
    assert "Traceback" not in result.err
    messages = json.loads(saved.read_text())["messages"]
    assert [message["role"] for message in messages] == ["system", "user", "assistant"]


def test_messages_of_many_lines(cli: Cli, model: Path, tmp_path: Path) -> None:
    saved = tmp_path / "talk.json"
    script = f'"""first\n\nsecond"""\nthird\\\nfourth\n/save {saved}\n'
    assert cli("chat", "-m", model, *FAST, stdin=script).code == 0
    questions = [m["content"] for m in json.loads(saved.read_text())["messages"][::2]]
    assert questions == ["first\n\nsecond", "third\nfourth"]


def test_going_on_with_a_saved_conversation(cli: Cli, model: Path, tmp_path: Path) -> None:
    talk = Conversation(system="be kind")
    talk.add("one", "1")
    path, after = tmp_path / "talk.json", tmp_path / "after.json"
    talk.save(path)
    result = cli("chat", "-m", model, *FAST, "--load", path, stdin=f"two\n/save {after}\n")
    assert result.code == 0
    messages = json.loads(after.read_text())["messages"]
    assert [m["content"] for m in messages[:4]] == ["be kind", "one", "1", "two"]


def test_a_message_that_is_too_long_does_not_end_the_chat(cli: Cli, model: Path) -> None:
    script = "word " * 400 + "\nshort\n"
    result = cli("chat", "-m", model, *FAST, stdin=script)
    assert result.code == 0
    assert "context" in result.err
    assert result.out.strip()


def test_a_model_without_template_is_refused(cli: Cli, tiny: ModelMaker, tmp_path: Path) -> None:
    path = tmp_path / "plain.gguf"
    data = tiny("qwen3moe").read_bytes()
    path.write_bytes(data.replace(b"tokenizer.chat_template", b"tokenizer.chat_temptate"))
    result = cli("chat", "-m", path, *FAST, stdin="hi\n")
    assert result.code == 1
    assert "chat template" in result.error
    # run goes on without one
    result = cli("run", "-m", path, *FAST, "-p", "hi")
    assert result.code == 0
    assert "no chat template" in result.err


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[" * 100_000,
        "3",
        '{"messages": 3}',
        '{"messages": [3]}',
        '{"messages": [{"role": "user"}]}',
        '{"messages": [{"role": "user", "content": "a"}]}',
        '{"messages": [{"role": "assistant", "content": "a"}]}',
        '[{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]',
    ],
)
def test_files_that_are_no_conversation(tmp_path: Path, text: str) -> None:
    path = tmp_path / "talk.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"talk\.json"):
        Conversation.load(path)


def test_reader_at_the_end_of_input() -> None:
    lines = iter(['"""never', "closed"])

    def read_line(_prompt: str) -> str:
        for line in lines:
            return line
        raise EOFError

    reader = MessageReader(read_line)
    assert reader.read() == "never\nclosed"
    with pytest.raises(EOFError):
        reader.read()


class Terminal:
    """A chat on a pseudo-terminal."""

    def __init__(self, model: Path, state: Path, *flags: str) -> None:
        import pty

        self.master, slave = pty.openpty()
        environment = {**os.environ, "XDG_STATE_HOME": str(state), "TERM": "xterm"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "moestream", "chat", "-m", str(model), "--threads", "1", *flags],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environment,
            start_new_session=True,
        )
        os.close(slave)
        self.seen = ""

    def expect(self, words: str, seconds: float = 60.0) -> None:
        """Wait until ``words`` appear after what was expected before."""
        deadline = time.monotonic() + seconds
        while words not in self.seen:
            ready, _, _ = select.select([self.master], [], [], deadline - time.monotonic())
            assert ready, f"no {words!r} in {self.seen!r}"
            self.seen += os.read(self.master, 65536).decode("utf-8", "replace")
        self.seen = self.seen[self.seen.index(words) + len(words) :]

    def send(self, text: str) -> None:
        os.write(self.master, text.encode())

    def interrupt(self) -> None:
        # readline prints its prompt just before it waits for input; a signal in between is only
        # noticed at the next key. A person is never that fast.
        time.sleep(1.0)
        self.process.send_signal(signal.SIGINT)

    def wait(self) -> int:
        deadline = time.monotonic() + 60
        while self.process.poll() is None and time.monotonic() < deadline:
            ready, _, _ = select.select([self.master], [], [], 0.05)
            if ready:
                try:
                    os.read(self.master, 65536)
                except OSError:
                    break
        code = self.process.wait(timeout=10)
        os.close(self.master)
        return code


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_on_a_terminal(endless: Path, tmp_path: Path) -> None:
    terminal = Terminal(endless, tmp_path, "-n", "-1", "--ctx", "8192")
    terminal.expect(">>> ")
    terminal.send("hello\n")
    terminal.expect("hello")
    time.sleep(0.5)
    terminal.interrupt()  # ends the turn, not the program
    terminal.expect("(interrupted)")
    terminal.expect(">>> ")
    terminal.send("/set max_tokens 3\n")
    terminal.expect("max_tokens 3")
    terminal.expect(">>> ")
    terminal.interrupt()
    terminal.expect("Ctrl-C again")
    terminal.send("again\n")  # anything typed makes the next interrupt the first again
    terminal.expect(">>> ")
    terminal.expect(">>> ")
    terminal.interrupt()
    terminal.expect("Ctrl-C again")
    terminal.interrupt()
    assert terminal.wait() == 130
    history = tmp_path / "moestream" / "chat_history"
    assert "hello" in history.read_text()
    assert history.stat().st_mode & 0o077 == 0


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_end_of_input_on_a_terminal(endless: Path, tmp_path: Path) -> None:
    terminal = Terminal(endless, tmp_path)
    terminal.expect(">>> ")
    terminal.send("\x04")
    assert terminal.wait() == 0
