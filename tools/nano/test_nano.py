"""Checks of the parts that a mistake would hide in (needs pytest and jinja2; not part of CI)."""

from __future__ import annotations

import jinja2
import torch
import torch.nn.functional as F

import chat
from config import ModelConfig
from corpus import is_held_out
from data import Windows
from model import NanoModel, delta_rule_chunked, delta_rule_recurrent
from optimizer import orthogonalize
from schedule import Schedule
from tune_head import run_chain


def test_chunked_delta_rule_equals_the_recurrence() -> None:
    torch.manual_seed(0)
    shape = (2, 4, 96)
    q, k = (F.normalize(torch.randn(*shape, 16), dim=-1) for _ in range(2))
    v = torch.randn(*shape, 8)
    decay, beta = -torch.rand(shape) * 0.3, torch.rand(shape)
    expected = delta_rule_recurrent(q, k, v, decay, beta)
    actual = delta_rule_chunked(q, k, v, decay, beta, chunk=32)
    torch.testing.assert_close(actual, expected, atol=1e-6, rtol=1e-5)


def test_first_chain_step_is_the_plain_head() -> None:
    torch.manual_seed(0)
    model = NanoModel(ModelConfig(block_count=3))
    windows = torch.randint(0, 1024, (2, 65))
    divergences, agreements, _ = run_chain(model, windows)
    assert len(divergences) == len(agreements) == 3
    assert all(bool(torch.isfinite(d)) for d in divergences)


def test_no_row_sees_the_future() -> None:
    torch.manual_seed(0)
    model = NanoModel(ModelConfig(block_count=3))
    tokens = torch.randint(0, 1024, (1, 64))
    changed = tokens.clone()
    changed[0, 40:] = 5
    with torch.no_grad():
        before, after = model.trunk(tokens)[1], model.trunk(changed)[1]
    torch.testing.assert_close(before[:, :40], after[:, :40], atol=1e-5, rtol=1e-4)


def test_template_renders_what_was_trained_on() -> None:
    template = jinja2.Environment().from_string(chat.CHAT_TEMPLATE)
    messages = [
        {"role": "system", "content": "Answer briefly."},
        {"role": "user", "content": "Hello"},
    ]
    prompt = template.render(messages=messages, add_generation_prompt=True, enable_thinking=False)
    trained = chat.render([("Hello", "Hello!")], "Answer briefly.")
    assert trained == prompt + "Hello!<|im_end|>\n"


def test_split_is_stable() -> None:
    held_out = [f"wordnet.noun.{i}" for i in range(4000) if is_held_out(f"wordnet.noun.{i}")]
    assert 60 < len(held_out) < 140
    assert is_held_out("tom-sawyer.20")


def test_windows_cover_an_epoch_without_repeats() -> None:
    windows = Windows(torch.arange(4000), length=9, batch=4, seed=1)
    firsts = [int(row[0]) for step in range(windows.steps_per_epoch) for row in windows.at(step)]
    assert len(set(firsts)) == len(firsts)
    assert torch.equal(windows.at(3), Windows(torch.arange(4000), 9, 4, 1).at(3))


def test_schedule_has_three_phases() -> None:
    schedule = Schedule(peak=1.0, warmup_steps=10, decay_steps=100)
    assert schedule.rate(0) == 0.1
    assert schedule.rate(10**6) == 1.0
    schedule.decay_start = 50
    assert schedule.rate(100) < schedule.rate(60) < 1.0
    assert schedule.finished(150)


def test_orthogonalized_update_has_singular_values_near_one() -> None:
    torch.manual_seed(0)
    values = torch.linalg.svdvals(orthogonalize(torch.randn(192, 384)))
    assert 0.6 < float(values.min()) <= float(values.max()) < 1.4
