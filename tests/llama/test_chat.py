from __future__ import annotations

import pytest

from moestream.errors import ConfigError, ModelError, UnsupportedModelError
from moestream.llama.chat import ChatTemplate

HELLO = [{"role": "user", "content": "hello"}]
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if not enable_thinking %}<think>\n\n</think>\n\n{% endif %}{% endif %}"
)


def template(source: str | None, bos: str = "<s>", eos: str = "</s>") -> ChatTemplate:
    return ChatTemplate(source, bos_token=bos, eos_token=eos)


def test_a_conversation_is_rendered() -> None:
    text = template(CHATML).render(HELLO)
    assert text == "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"
    assert template(CHATML).render(HELLO, add_generation_prompt=False).endswith("<|im_end|>\n")


def test_thinking_can_be_turned_off() -> None:
    assert template(CHATML).render(HELLO, enable_thinking=False).endswith("</think>\n\n")


def test_templates_get_what_they_expect() -> None:
    source = (
        "{{ bos_token }}{{ eos_token }}{% if tools is none %}no tools{% endif %}"
        "{{ messages | tojson }}{{ strftime_now('%Y') | length }}"
        "{% for i in range(5) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}"
        "{% generation %}kept{% endgeneration %}"
    )
    expected = '<s></s>no tools[{"role": "user", "content": "<ü>"}]401kept'
    assert template(source).render([{"role": "user", "content": "<ü>"}]) == expected


def test_no_template_says_what_to_do() -> None:
    for missing in (None, ""):
        with pytest.raises(UnsupportedModelError, match="no chat template; give one"):
            template(missing)


def test_a_template_that_is_not_jinja_names_its_line() -> None:
    with pytest.raises(ModelError, match=r"not valid Jinja: .*\(line 2\)"):
        template("fine\n{% if %}")


def test_a_template_may_refuse_a_conversation() -> None:
    with pytest.raises(ModelError, match="refuses this conversation: roles must alternate"):
        template("{{ raise_exception('roles must alternate') }}").render(HELLO)


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages[0].content.foo.bar }}",
        "{{ 1 / 0 }}",
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ messages.append(1) }}",
        "{% for i in range(10000000) %}{% endfor %}",
        "{% include 'other' %}",
    ],
)
def test_whatever_a_template_does_ends_in_a_model_error(source: str) -> None:
    with pytest.raises(ModelError, match="chat template"):
        template(source).render(HELLO)


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [{"content": "no role"}],
        [{"role": "", "content": "x"}],
        [{"role": "user"}],
        [{"role": "user", "content": 3}],
    ],
)
def test_malformed_messages_are_refused(messages: list[dict[str, object]]) -> None:
    with pytest.raises(ConfigError):
        template(CHATML).render(messages)


TOOLS = [{"type": "function", "function": {"name": "f"}}]


def test_tools_and_variables_reach_a_template_that_knows_them() -> None:
    source = "{{ tools | tojson }} {{ effort }}{% if add_generation_prompt %}!{% endif %}"
    found = template(source)
    assert {"tools", "effort"} <= found.variables
    text = found.render(HELLO, tools=TOOLS, variables={"effort": "high"})
    assert text == '[{"type": "function", "function": {"name": "f"}}] high!'


def test_tools_for_a_template_that_knows_none_are_refused() -> None:
    with pytest.raises(ConfigError, match="knows no tools"):
        template(CHATML).render(HELLO, tools=TOOLS)
    assert template(CHATML).render(HELLO, variables={"unknown": 1})


@pytest.mark.parametrize("name", ["messages", "tools", "enable_thinking", "bos_token"])
def test_variables_do_not_replace_what_a_template_is_given(name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        template(CHATML).render(HELLO, variables={name: "x"})
