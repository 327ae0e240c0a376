"""Worlds to drive the governor through: pure, seeded, and priced by what was measured here.

A world is a text of ``n`` tokens in which everything that an arm cannot change is laid down
beforehand: for each token the truth about the head (the probability that it would guess it, at each
depth of a chain, and what it says about that), the truth about lookup (how much matches here, and
whether what followed follows again), and what decodes and drafts cost there. All arms, the
governor included, cross the same text with the same luck.

How it is scored
----------------

A world is a law (costs, changes, how good the head is and how honest) and *luck*: which drafts are
right, what the head says of each, which steps a clock or a disk makes longer. Every figure is an
expectation over luck, estimated from several runs of the same law. No policy that ever drafts can
bound the luck itself: in any world 256 drafts in a row may all be rejected. Steps count at what
they are expected to cost; the governor only ever sees noisy clocks.

*Against fixed arms and against switching.* The mean time to cross the same tokens along the paths
really taken, from the governor's 100th step on. The best arm is the best in hindsight; the
switching policy takes the best arm of each segment in hindsight, for nothing.

*Against off, over any 256 tokens.* A step at token ``s`` that takes ``c`` and is expected, by the
world's own probabilities for exactly the drafts that were verified, to confirm ``e`` tokens, loses
``c - e * off(s)``. For every stretch of 256 tokens of the text, the mean over luck of what the
steps that begin in it lose is held against what plain decoding takes for it. The worst stretch is
the figure. The worst stretch of any single run, which has the luck in it, is given beside it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from moestream.speculation.governor import Governor, StepRecord

__all__ = [
    "NAMED",
    "Arm",
    "Law",
    "Score",
    "World",
    "build",
    "cross",
    "named_law",
    "random_law",
    "score",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Arm = tuple[str, int]

WINDOW: Final = 256
WARM_UP_STEPS: Final = 100
LEAST_MATCH: Final = 3
LONGEST_MATCH: Final = 32
_MIB: Final = 2**20


@dataclass(frozen=True)
class Regime:
    """What holds for a stretch of text.

    Attributes:
        tokens: its length.
        head: mean logit of the head's truth at depth one.
        spread: standard deviation of it from token to token.
        fade: logits lost with each further depth.
        copies: whether the text repeats what stood before.
        match_rate: chance that a match begins at a token where none is.
        match_truth: probability that what followed a short match follows again, in prose.
        compute_ms: a plain decode without its reads.
        stall: waiting for bytes in a plain decode, relative to that.
        shared: experts that neighbouring tokens have in common.
    """

    tokens: int
    head: float = 1.0
    spread: float = 1.2
    fade: float = 0.2
    copies: bool = False
    match_rate: float = 0.06
    match_truth: float = 0.35
    compute_ms: float = 250.0
    stall: float = 0.0
    shared: float = 0.36


@dataclass(frozen=True)
class Shape:
    """What holds for a whole world.

    Attributes:
        regimes: one after the other.
        rows: relative compute of 1, 2, ... rows.
        draft: cost of the head's first guess, relative to a plain decode's compute.
        draft_more: of each further one.
        hidden: share of the compute time behind which reads hide.
        slope: of what the head says against the truth, in logits; 0 says nothing.
        bias: logits that it claims too much.
        blur: standard deviation of what it says.
        compute_noise: relative, of a decode's compute.
        bytes_noise: relative, of its reads.
        spikes: chance that a step takes several times its compute.
        warm_up: MiB start at this multiple of their level and come down within ``warm_tokens``.
        bursts: how often a disk slows down for twenty tokens, per token; and by how much.
    """

    regimes: tuple[Regime, ...]
    rows: tuple[float, ...] = (1.0, 1.6, 2.2, 2.5, 3.1, 3.7, 4.4, 5.0, 5.6)
    draft: float = 0.2
    draft_more: float = 0.16
    hidden: float = 0.0
    slope: float = 1.0
    bias: float = 0.0
    blur: float = 0.5
    compute_noise: float = 0.08
    bytes_noise: float = 0.35
    spikes: float = 0.01
    warm_up: float = 1.0
    warm_tokens: float = 150.0
    bursts: float = 0.0
    burst_factor: float = 5.0


@dataclass(frozen=True)
class Law:
    """A world before any luck."""

    name: str
    shape: Shape
    width: int

    def draw(self, luck: int) -> World:
        """Lay it down."""
        return build(self.name, self.shape, width=self.width, seed=luck)


@dataclass(frozen=True)
class World:
    """A text, laid down."""

    name: str
    width: int
    n: int
    bounds: tuple[int, ...]
    head_p: Floats  # [n, width]: truth at token j, depth k
    head_says: Floats
    head_run: Ints  # [n]: drafts confirmed from position s on, at most width
    match: Ints  # [n]: tokens that match at position s
    match_p: Floats  # [n, width]: truth of the k-th lookup draft from position s
    match_run: Ints
    decode: Floats  # [n, width + 1]: expected ms by rows
    waits: Floats  # part of it
    reads: Floats  # MiB
    drafting: Floats  # [n, width]: expected ms by drafts of the head
    noise: Floats  # [n, 3]: factors on compute, reads, drafting
    seed: int


@dataclass(frozen=True)
class Crossing:
    """A way through: by steps, where each began, and what it took."""

    start: Ints
    tokens: Ints
    expected: Floats
    ms: Floats

    def time_at(self, position: float) -> float:
        """When a token was reached, between steps in proportion."""
        ends = np.concatenate([[0], self.start + self.tokens])
        return float(np.interp(position, ends, np.concatenate([[0.0], np.cumsum(self.ms)])))


@dataclass(frozen=True)
class Score:
    """How the governor did in a world. Ratios of rates; 1 is equal, more is faster.

    Attributes:
        world: its name.
        against_off: over the whole text.
        against_best: after the warm-up, against the best fixed arm.
        best: that arm.
        against_switching: likewise, against the best arm of each segment.
        worst_window: against off, over the worst 256 tokens.
        worst_window_at: where it begins.
        worst_single: the same for the unluckiest of the runs.
        probe_share: of the time, by the governor's own account.
        shares: of its steps by arm.
        runs: how many there were.
    """

    world: str
    against_off: float
    against_best: float
    best: Arm
    against_switching: float
    worst_window: float
    worst_window_at: int
    worst_single: float
    probe_share: float
    shares: dict[tuple[str, int], float]
    runs: int


def build(name: str, shape: Shape, *, width: int, seed: int) -> World:
    """Lay a world down."""
    rng = np.random.default_rng(seed)
    regimes = shape.regimes
    lengths = [regime.tokens for regime in regimes]
    n = sum(lengths)
    which = np.repeat(np.arange(len(regimes)), lengths)

    def of(attribute: str) -> Floats:
        return np.array([float(getattr(r, attribute)) for r in regimes])[which]

    depth = np.arange(width)
    latent = of("head") + of("spread") * rng.standard_normal(n)
    logit = latent[:, None] - of("fade")[:, None] * depth
    head_p = _sigmoid(logit)
    says = shape.slope * logit + shape.bias + shape.blur * rng.standard_normal((n, width))
    luck = rng.random(n)
    right = luck[:, None] < head_p
    head_run = np.zeros(n, np.int64)
    chain = np.zeros((n, width))
    for k in range(width):
        inside = np.arange(n) + 1 + k < n
        token = np.minimum(np.arange(n) + 1 + k, n - 1)
        head_run += (head_run == k) & inside & right[token, k]
        chain[:, k] = np.where(inside, head_p[token, k], 0.0)
    says_from = np.take_along_axis(
        _sigmoid(says), np.minimum(np.arange(n)[:, None] + 1 + depth, n - 1), axis=0
    )
    match, match_p, match_run = _lookups(rng, regimes, which, width)

    factor = 1.0 + (shape.warm_up - 1.0) * np.exp(-np.arange(n) / shape.warm_tokens)
    slow = np.ones(n)
    for at in np.flatnonzero(rng.random(n) < shape.bursts):
        slow[at : at + 20] = shape.burst_factor
    rows = np.asarray(shape.rows[: width + 1])
    compute = of("compute_ms")[:, None] * rows
    extra_rows = 1.0 + (1.0 - of("shared"))[:, None] * np.arange(width + 1)
    # The level of a plain step's stall is what the regime says, once warm, whatever is hidden.
    asked = (of("stall") + shape.hidden * (of("stall") > 0)) * of("compute_ms") * factor
    waits = np.maximum(asked[:, None] * slow[:, None] * extra_rows - shape.hidden * compute, 0.0)
    reads = asked[:, None] * extra_rows * 0.5  # 0.5 MiB per ms: a disk of 500 MiB/s
    drafts = shape.draft + shape.draft_more * depth
    spikes = np.where(rng.random(n) < shape.spikes, rng.uniform(2.0, 6.0, n), 1.0)
    noise = np.stack(
        [
            _lognormal(rng, shape.compute_noise, n) * spikes,
            _lognormal(rng, shape.bytes_noise, n),
            _lognormal(rng, 0.1, n),
        ],
        axis=1,
    )
    return World(
        name=name, width=width, n=n, bounds=tuple(np.cumsum([0, *lengths]).tolist()),
        head_p=chain, head_says=says_from, head_run=head_run, match=match, match_p=match_p,
        match_run=match_run, decode=compute + waits, waits=waits, reads=reads,
        drafting=of("compute_ms")[:, None] * drafts, noise=noise, seed=seed,
    )  # fmt: skip


def _lookups(
    rng: np.random.Generator, regimes: tuple[Regime, ...], which: Ints, width: int
) -> tuple[Ints, Floats, Ints]:
    n = len(which)
    luck, begins = rng.random(n), rng.random(n)

    def truth(token: int, length: int) -> float:
        regime = regimes[which[token]]
        if regime.copies:
            return 0.97
        return min(regime.match_truth + 0.03 * (length - LEAST_MATCH), 0.6)

    match, hit = np.zeros(n, np.int64), np.zeros(n, bool)
    waiting = 0
    for j in range(1, n):
        before = int(match[j - 1])
        if before and luck[j] < truth(j, before):
            hit[j] = True
            match[j] = min(before + 1, LONGEST_MATCH)
        elif regimes[which[j]].copies:
            # A copy is found again after a few tokens.
            waiting = waiting + 1 if not before else 1
            match[j] = LEAST_MATCH if waiting >= LEAST_MATCH else 0
        else:
            waiting = 0
            match[j] = LEAST_MATCH if begins[j] < regimes[which[j]].match_rate else 0
    match_p, run = np.zeros((n, width)), np.zeros(n, np.int64)
    for s in np.flatnonzero(match).tolist():
        for k in range(width):
            token = s + 1 + k
            if token >= n:
                break
            match_p[s, k] = truth(token, min(int(match[s]) + k, LONGEST_MATCH))
            run[s] += run[s] == k and bool(hit[token])
    return match, match_p, run


def cross_fixed(world: World, arm: Arm) -> Crossing:
    """Cross with one arm in every step."""
    source, width = arm
    start: list[int] = []
    verified: list[int] = []
    tokens: list[int] = []
    s = 0
    while s < world.n - 1:
        rows = width
        if source == "off" or (source == "ngram" and not world.match[s]):
            rows = 0
        run = world.head_run if source == "mtp" else world.match_run
        got = 1 + min(rows, int(run[s]))
        start.append(s)
        verified.append(rows)
        tokens.append(got)
        s += got
    at, rows_at = np.array(start), np.array(verified)
    ms = world.decode[at, rows_at].copy()
    if source == "mtp":
        ms += world.drafting[at, width - 1]
    return Crossing(at, np.array(tokens), np.array(tokens, np.float64), ms)


def cross(world: World, governor: Governor, *, until: int | None = None) -> Crossing:
    """Cross as the governor decides."""
    start: list[int] = []
    got: list[int] = []
    expected: list[float] = []
    took: list[float] = []
    s, end = 0, world.n - 1 if until is None else until
    while s < end:
        match = int(world.match[s])
        plan = governor.plan(match if "ngram" in governor.sources else 0)
        drafted = 0
        says: tuple[float, ...] = ()
        if plan.source == "mtp":
            said, cumulative = [], 1.0
            while True:
                confidence = float(world.head_says[s, drafted])
                drafted += 1
                said.append(confidence)
                cumulative *= confidence
                if not governor.keep_drafting(drafted, cumulative):
                    break
            says = tuple(said)
        elif plan.source == "ngram":
            drafted = plan.width
        verified = governor.cut(drafted)
        run = int((world.match_run if plan.source == "ngram" else world.head_run)[s])
        accepted = min(verified, run) if plan.source else 0
        agreed = run > verified if accepted == verified and verified < drafted else None
        truth = world.match_p if plan.source == "ngram" else world.head_p
        wait, decode = world.waits[s, verified], world.decode[s, verified]
        draft = world.drafting[s, drafted - 1] if plan.source == "mtp" else 0.0
        noise = world.noise[s]
        governor.observe(
            StepRecord(
                source=plan.source, drafted=drafted, verified=verified, accepted=accepted,
                tokens=1 + accepted, agreed=agreed,
                compute_ms=float((decode - wait) * noise[0]),
                stall_ms=float(wait * noise[1]),
                read_bytes=int(world.reads[s, verified] * noise[1] * _MIB),
                draft_ms=float(draft * noise[2]) if draft else 0.002 * drafted,
                confidences=says, ngram_match=match,
                ngram_agreed=bool(world.match_run[s] > 0) if match else None,
            )
        )  # fmt: skip
        start.append(s)
        got.append(1 + accepted)
        expected.append(1.0 + float(np.cumprod(truth[s, :verified]).sum()))
        took.append(float(decode + draft))
        s += 1 + accepted
    return Crossing(np.array(start), np.array(got), np.array(expected), np.array(took))


def arms(world: World, sources: frozenset[str]) -> list[Arm]:
    """Every fixed arm."""
    found: list[Arm] = [("off", 0)]
    return found + [(name, w) for name in sorted(sources) for w in range(1, world.width + 1)]


def score(law: Law, *, runs: int, sources: tuple[str, ...] = ("ngram", "mtp")) -> Score:
    """Let governors cross a world with different luck, and hold them against every arm."""
    worlds = [law.draw(luck) for luck in range(runs)]
    governors = [Governor(sources, law.width) for _ in worlds]
    ours = [cross(world, governor) for world, governor in zip(worlds, governors, strict=True)]
    fixed = {
        arm: [cross_fixed(world, arm) for world in worlds]
        for arm in arms(worlds[0], frozenset(sources))
    }
    last = worlds[0].n - 1.0 - law.width
    warm = float(np.mean([way.start[min(WARM_UP_STEPS, len(way.start) - 1)] for way in ours]))
    cuts = [warm, *(b for b in worlds[0].bounds if warm < b < last), last]

    def time(ways: list[Crossing], a: float, b: float) -> float:
        return sum(way.time_at(b) - way.time_at(a) for way in ways)

    best = min(fixed, key=lambda arm: time(fixed[arm], warm, last))
    after = time(ours, warm, last)
    switching = sum(min(time(ways, a, b) for ways in fixed.values()) for a, b in pairwise(cuts))
    lost = np.array([_lost(world, way) for world, way in zip(worlds, ours, strict=True)])
    off = np.mean([world.decode[:, 0] for world in worlds], axis=0)
    worst, at = worst_window(lost.mean(axis=0), off)
    summaries = [governor.explain() for governor in governors]
    shares: Counter[tuple[str, int]] = Counter()
    for summary in summaries:
        for key, share in summary.share.items():
            shares[key] += share / runs
    return Score(
        world=law.name,
        against_off=time(fixed["off", 0], 0, last) / time(ours, 0, last),
        against_best=time(fixed[best], warm, last) / after,
        best=best,
        against_switching=switching / after,
        worst_window=worst,
        worst_window_at=at,
        worst_single=min(worst_window(one, off)[0] for one in lost),
        probe_share=float(np.mean([summary.probe_share for summary in summaries])),
        shares=dict(shares),
        runs=runs,
    )


def _lost(world: World, way: Crossing) -> Floats:
    """Time lost against plain decoding, by the token at which a step began."""
    lost = np.zeros(world.n)
    lost[way.start] = way.ms - way.expected * world.decode[way.start, 0]
    return lost


def worst_window(lost: Floats, off: Floats) -> tuple[float, int]:
    """The lowest rate against plain decoding over 256 tokens, and where that begins."""
    window = min(WINDOW, len(off))
    plain = np.convolve(off, np.ones(window), "valid")
    ratio = plain / (plain + np.convolve(lost, np.ones(window), "valid"))
    return float(ratio.min()), int(ratio.argmin())


def _sigmoid(x: Floats) -> Floats:
    return np.asarray(1.0 / (1.0 + np.exp(-x)), np.float64)


def _lognormal(rng: np.random.Generator, spread: float, n: int) -> Floats:
    """Factors with mean one and this relative spread."""
    s2 = np.log1p(spread * spread)
    return np.asarray(np.exp(rng.standard_normal(n) * np.sqrt(s2) - s2 / 2), np.float64)


_NANO = (1.0, 1.69, 2.5, 3.4, 4.2, 5.0, 5.8, 6.6, 7.4)
_FLAT = (1.0, 1.15, 1.3, 1.45, 1.6, 1.75, 1.9, 2.05, 2.2)


def _segments(*regimes: Regime) -> tuple[Regime, ...]:
    return regimes


#: The worlds of the table, at full length.
NAMED: Final[dict[str, Shape]] = {
    # The embedded model: a draft costs more than a decode.
    "resident, dear drafts": Shape(
        (Regime(2000, head=0.6, compute_ms=0.56),), rows=_NANO, draft=1.1, draft_more=0.9
    ),
    # 20.95 GB, all in memory: 90 % accepted at width 1, 73 % at width 3.
    "resident giant": Shape((Regime(2000, head=2.6, fade=0.5),)),
    "resident, cheap rows": Shape((Regime(2000, head=1.2),), rows=_FLAT, draft=0.08,
                                  draft_more=0.06),
    "disk-bound, poor head": Shape((Regime(2000, head=0.0, stall=1.5),), hidden=0.3),
    "disk-bound, good head": Shape((Regime(2000, head=3.0, stall=1.5, shared=0.6),), rows=_FLAT),
    "cold to warm": Shape(
        _segments(*[Regime(250, head=2.2, stall=0.1, shared=0.2) for _ in range(8)]),
        rows=_FLAT, draft=0.1, draft_more=0.1, warm_up=30.0, warm_tokens=200.0,
    ),
    "acceptance falls": Shape(
        _segments(Regime(1000, head=2.5), Regime(1000, head=-1.5)), rows=_FLAT,
    ),
    "acceptance rises": Shape(
        _segments(Regime(1000, head=-1.5), Regime(1000, head=2.5)), rows=_FLAT,
    ),
    "acceptance falls, unsaid": Shape(
        _segments(Regime(1000, head=2.5), Regime(1000, head=-1.5)), rows=_FLAT, slope=0.0,
        bias=2.0,
    ),
    "copying inside prose": Shape(
        _segments(*[r for _ in range(4) for r in
                    (Regime(350, head=0.5), Regime(150, head=2.0, copies=True))]),
    ),
    "head worse than it claims": Shape(
        (Regime(2000, head=-0.8),), slope=0.7, bias=2.5, rows=_FLAT, draft=0.1, draft_more=0.08,
    ),
    "cost spikes": Shape(
        (Regime(2000, head=2.0, stall=0.4),), rows=_FLAT, spikes=0.05, bursts=0.004,
    ),
}  # fmt: skip


def named_law(name: str, *, width: int = 4) -> Law:
    """One of :data:`NAMED`."""
    return Law(name, NAMED[name], width)


def random_law(seed: int, *, tokens: int = 1500) -> Law:
    """Any world: every number drawn, from one to three regimes."""
    rng = np.random.default_rng([seed, 6])

    def between(low: float, high: float) -> float:
        return float(rng.uniform(low, high))

    def scaled(low: float, high: float) -> float:
        return float(np.exp(rng.uniform(np.log(low), np.log(high))))

    width = int(rng.integers(2, 9))
    slope = between(0.08, 0.8)
    wiggle = 1.0 + 0.06 * rng.standard_normal(9)
    rows = np.maximum.accumulate(np.maximum((1.0 + slope * np.arange(9)) * wiggle, 1.0))
    rows[0] = 1.0
    compute_ms = scaled(0.5, 300.0)
    count = int(rng.integers(1, 4))
    stall = 0.0 if rng.random() < 0.4 else scaled(0.05, 4.0)
    regimes = []
    for _ in range(count):
        if rng.random() < 0.3:
            stall = 0.0 if stall == 0.0 else scaled(0.05, 4.0)
        regimes.append(
            Regime(
                max(tokens // count, 1),
                head=between(-2.5, 3.5), spread=between(0.2, 2.0), fade=between(0.0, 0.8),
                copies=rng.random() < 0.2, match_rate=between(0.0, 0.15),
                match_truth=between(0.1, 0.5), compute_ms=compute_ms, stall=stall,
                shared=between(0.1, 0.8),
            )
        )  # fmt: skip
    shape = Shape(
        tuple(regimes), rows=tuple(rows.tolist()), draft=scaled(0.03, 0.8),
        draft_more=scaled(0.03, 0.5), hidden=0.0 if rng.random() < 0.5 else between(0.0, 0.8),
        slope=0.0 if rng.random() < 0.2 else between(0.3, 1.3), bias=between(-1.0, 2.5),
        blur=between(0.1, 1.5), compute_noise=scaled(0.03, 0.25), bytes_noise=between(0.1, 0.6),
        spikes=between(0.0, 0.05), warm_up=1.0 if rng.random() < 0.6 else scaled(2.0, 20.0),
        warm_tokens=between(50.0, 400.0), bursts=0.0 if rng.random() < 0.7 else between(0, 0.006),
        burst_factor=between(2.0, 8.0),
    )  # fmt: skip
    return Law(f"random {seed}", shape, width)
