"""Verified text is exact: equal to greedy decoding in rows of two, whoever drafts."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from moestream import Session, SpeculationConfig, StreamingConfig
from moestream.engine.events import SpeculationSummary
from moestream.llama.batch import HiddenRows, TokenArray
from moestream.speculation.lookup import NgramDraft
from moestream.speculation.mtp import MtpDraft
from moestream.speculation.synthetic import FilledDraft
from tests.conftest import ModelMaker
from tests.engine.helpers import RESIDENT, assert_same_bits, open_session, record, tokens_of
from tests.engine.sources import Adversary, Mixed, Oracle, exact_greedy, open_speculating
from tests.fixtures import FIXTURE_ARCHS, NEXTN_ARCHS

PROMPT = [(37 * i) % 450 + 20 for i in range(37)]
STREAMED = StreamingConfig(moe_stream=True, cache_mb=64)


def speculate(session: Session, n: int) -> tuple[list[int], SpeculationSummary]:
    generation = session.generate(PROMPT, max_tokens=n)
    tokens = tokens_of(list(generation))
    summary = generation.summary.speculation
    assert summary is not None
    return tokens, summary


def width(n: int, source: str = "ngram") -> SpeculationConfig:
    return SpeculationConfig(source=source, draft=n)  # type: ignore[arg-type]


@pytest.mark.parametrize("draft", [1, 3, 6])
@pytest.mark.parametrize("arch", FIXTURE_ARCHS)
def test_drafts_that_are_always_right_confirm_whole_groups(
    arch: str, draft: int, tiny: ModelMaker
) -> None:
    model = tiny(arch)
    exact = exact_greedy(model, PROMPT, 50)
    with open_speculating(
        model, source=Oracle(len(PROMPT), exact), speculation=width(draft)
    ) as session:
        tokens, summary = speculate(session, len(exact))
    assert tokens == exact
    # The first token comes from the prompt; the last group is cut by the end of the text.
    assert summary.steps == -(-(len(exact) - 1) // (draft + 1))
    assert summary.accepted == summary.drafted == len(exact) - 1 - summary.steps


@pytest.mark.parametrize("draft", [1, 3, 6])
@pytest.mark.parametrize("arch", FIXTURE_ARCHS)
def test_drafts_that_are_always_wrong_confirm_one_token(
    arch: str, draft: int, tiny: ModelMaker
) -> None:
    model = tiny(arch)
    exact = exact_greedy(model, PROMPT, 40)
    with open_speculating(
        model, source=Adversary(len(PROMPT), exact), speculation=width(draft)
    ) as session:
        tokens, summary = speculate(session, len(exact))
    assert tokens == exact
    assert summary.steps == len(exact) - 1
    assert summary.accepted == 0
    assert summary.drafted_steps >= summary.steps - 1


# Not qwen3next: llama.cpp keeps no snapshots of its state, so a rejected draft is undone by
# decoding the kept rows again, one row perhaps, and that is another kernel.
@pytest.mark.parametrize("arch", ["qwen35moe", "qwen3moe"])
def test_two_thousand_steps_of_random_drafts(arch: str, tiny: ModelMaker) -> None:
    model = tiny(arch)
    prompt, steps, text = PROMPT, 0, 0
    with open_speculating(model, speculation=width(5), n_ctx=256) as session:
        while steps < 2000:
            exact = exact_greedy(model, prompt, 200, n_ctx=256)
            session._opened.loop.source = Mixed(len(prompt), exact, widest=5, seed=steps)
            session.reset()
            generation = session.generate(prompt, max_tokens=200)
            assert tokens_of(list(generation)) == exact
            summary = generation.summary.speculation
            assert summary is not None
            steps += max(summary.steps, 1)
            # Another text each time: some models soon say the end.
            text += 1
            prompt = [(token * 7 + text) % 450 + 20 for token in PROMPT]


@pytest.mark.parametrize("streaming", [RESIDENT, STREAMED], ids=["resident", "streamed"])
@pytest.mark.parametrize("arch", NEXTN_ARCHS)
def test_the_head_drafts_and_the_text_is_exact(
    arch: str, streaming: StreamingConfig, tiny: ModelMaker
) -> None:
    model = tiny(arch, nextn=1)
    exact = exact_greedy(model, PROMPT, 80)
    accepted = []
    for draft in (1, 3, 5):
        with open_speculating(model, streaming, speculation=width(draft, "mtp")) as session:
            tokens, summary = speculate(session, len(exact))
        assert tokens == exact
        assert summary.drafted >= summary.drafted_steps > 0
        accepted.append(summary.accepted)
    # With random weights the head is often wrong, but made to be right often enough.
    assert sum(accepted) > 0


class NeverAlone(NgramDraft):
    """Drafts something wrong rather than nothing, so that no step is one of a single row."""

    def propose(self, confirmed: int, width: int) -> Sequence[int]:
        return super().propose(confirmed, width) or [400]


@pytest.mark.parametrize("arch", FIXTURE_ARCHS)
def test_lookup_gives_the_exact_text(arch: str, tiny: ModelMaker) -> None:
    model = tiny(arch)
    exact = exact_greedy(model, PROMPT, 80)
    source = NeverAlone(min_match=1, max_match=8)
    with open_speculating(model, source=source, speculation=width(4)) as session:
        tokens, summary = speculate(session, len(exact))
    assert tokens == exact
    assert summary.drafted > 0


@pytest.mark.parametrize("arch", FIXTURE_ARCHS)
def test_where_nothing_matches_the_logits_are_those_of_plain_decoding(
    arch: str, tiny: ModelMaker
) -> None:
    model = tiny(arch)
    never = SpeculationConfig(source="ngram", draft=4, ngram_min_match=30, ngram_max_match=30)
    with open_session(model) as plain, open_speculating(model, speculation=never, n_ctx=256) as s:
        expected = record(plain, PROMPT, 25)
        assert_same_bits(record(s, PROMPT, 25), expected)
        assert s.last_summary is not None
        assert s.last_summary.speculation is not None
        assert s.last_summary.speculation.drafted_steps == 0


def test_a_head_that_is_never_sure_enough_decodes_plainly(tiny: ModelMaker) -> None:
    model = tiny("qwen35moe")
    unsure = SpeculationConfig(source="mtp", draft=3, mtp_p_min=1.0)
    with open_session(model) as plain, open_speculating(model, speculation=unsure, n_ctx=256) as s:
        expected = record(plain, PROMPT, 25)
        assert_same_bits(record(s, PROMPT, 25), expected)
        assert s.last_summary is not None
        assert s.last_summary.speculation is not None
        assert s.last_summary.speculation.drafted_steps == 0


class EachAtOnce(MtpDraft):
    """Evaluates every true row by itself, as soon as it is known."""

    def observe(self, position: int, tokens: TokenArray, hidden: HiddenRows | None) -> None:
        assert hidden is not None
        for row in range(len(tokens)):
            super().observe(position + row, tokens[row : row + 1], hidden[row : row + 1])
            if self._pending:
                self._place(prefill=False)


@pytest.mark.parametrize("arch", NEXTN_ARCHS)
def test_rows_that_were_kept_waiting_change_no_draft(arch: str, tiny: ModelMaker) -> None:
    """True rows are evaluated together with the next draft's first row, or each at once."""
    model = tiny(arch, nextn=1, expert_type="F16")
    forced = SpeculationConfig(source="mtp", draft=4, synthetic_acceptance=0.7)
    proposals = []
    for kind in (MtpDraft, EachAtOnce):
        with open_speculating(model, speculation=forced) as session:
            filled = session._opened.loop.source
            assert isinstance(filled, FilledDraft)
            plain = filled._source
            assert isinstance(plain, MtpDraft)
            source = kind(plain._context, plain._evaluate)
            seen: list[tuple[int, ...]] = []
            proposals.append(seen)
            session._opened.loop.source = Watched(source, seen)
            for start in range(4):
                session.reset()
                list(session.generate(PROMPT[start:], max_tokens=30))
    assert len(proposals[0]) > 10
    assert proposals[0] == proposals[1]


class Watched:
    """Writes down what a source proposes."""

    needs_hidden = True

    def __init__(self, source: MtpDraft, seen: list[tuple[int, ...]]) -> None:
        self.observe, self.rewind = source.observe, source.rewind
        self._source, self._seen = source, seen

    def propose(self, confirmed: int, width: int) -> Sequence[int]:
        self._seen.append(tuple(self._source.propose(confirmed, width)))
        return self._seen[-1]


def test_streaming_changes_no_bit_of_a_speculated_run(tiny: ModelMaker) -> None:
    model = tiny("qwen35moe", expert_type="Q4_K")
    tight = StreamingConfig(moe_stream=True, cache_mb=0)
    runs = []
    for streaming in (RESIDENT, STREAMED, tight):
        with open_speculating(model, streaming, speculation=width(3, "mtp")) as session:
            runs.append(record(session, PROMPT, 40))
    assert_same_bits(runs[1], runs[0])
    assert_same_bits(runs[2], runs[0])


def test_forced_acceptance_is_forced_and_labelled() -> None:
    for source in ("mtp", "ngram"):
        forced = SpeculationConfig(source=source, draft=3, synthetic_acceptance=1.0)  # type: ignore[arg-type]
        with open_speculating("moestream-nano", speculation=forced) as session:
            _, summary = speculate(session, 41)
            assert summary.synthetic
            assert summary.drafted > 0
            # Nothing is rejected; at most the last group is cut by the end of the text.
            assert summary.drafted - summary.accepted < 3


@pytest.mark.parametrize("prompt", ["Tom looked at the old house and", "In the beginning God"])
def test_the_trained_head_is_right_often_and_the_text_is_exact(prompt: str) -> None:
    with open_session("moestream-nano") as session:
        tokens = session.tokenize(prompt)
    exact = exact_greedy("moestream-nano", tokens, 100)
    for draft in (1, 2, 3, 6):
        with open_speculating("moestream-nano", speculation=width(draft, "mtp")) as session:
            generation = session.generate(tokens, max_tokens=len(exact))
            assert tokens_of(list(generation)) == exact
            summary = generation.summary.speculation
            assert summary is not None
            # Each chained draft starts from the last one's hidden state: none falls off.
            for offered, accepted in zip(summary.offered_at, summary.accepted_at, strict=True):
                assert offered < 10 or accepted / offered > 0.3
