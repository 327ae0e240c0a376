"""What is believed of costs and of acceptance, learned step by step, and kept between sessions."""

from __future__ import annotations

from collections.abc import Collection

from moestream.speculation.governor.calibration import HeadCalibration, bin_of
from moestream.speculation.governor.costs import CostCurve, CostModel
from moestream.speculation.governor.persistence import Knowledge, decode, encode
from moestream.speculation.governor.records import Source, StepRecord
from moestream.speculation.governor.survival import MatchSurvival

__all__ = ["Beliefs"]

_LONGEST_MATCH = 63


class Beliefs:
    """Costs of a step, survival of lookups, survival of the head's drafts."""

    def __init__(self, sources: Collection[str], width: int) -> None:
        """Nothing learned yet."""
        self.sources = frozenset(sources)
        self.width = width
        self.costs = CostModel(width)
        self.matches = MatchSurvival()
        self.head = HeadCalibration(width)
        #: How often so many tokens matched.
        self.match_lengths = [0] * (_LONGEST_MATCH + 1)
        #: Counts up whenever a survival that was asked for may be another one now.
        self.changes = 0

    def learn(self, record: StepRecord) -> float:
        """Learn from a step; how surprising its decode was, in standard deviations."""
        surprise = self.costs.observe(record)
        hits, missed = record.accepted, record.accepted < record.verified
        if not missed and record.agreed is not None and record.verified < record.drafted:
            hits, missed = hits + record.agreed, not record.agreed
        if record.source == "mtp" and record.drafted:
            bins = [bin_of(c) for c in record.confidences[: record.drafted]]
            bins += [bin_of(float("nan"))] * (record.drafted - len(bins))
            self.head.observe(bins, hits, missed)
            self.changes += 1
        if record.ngram_match > 0 and "ngram" in self.sources:
            self.match_lengths[min(record.ngram_match, _LONGEST_MATCH)] += 1
            if record.source == "ngram" and record.drafted:
                self.matches.observe(record.ngram_match, hits, missed)
                self.changes += 1
            elif record.ngram_agreed is not None:
                agreed = record.ngram_agreed
                self.matches.observe(record.ngram_match, int(agreed), not agreed)
                self.changes += 1
        self.changes += self.head.age(record.tokens)
        return surprise

    def start_conversation(self) -> None:
        """Another text begins: costs stay what they are, acceptance may not."""
        self.matches.start_over()
        self.head.start_over()
        self.changes += 1

    def acceptance(self, source: Source) -> float:
        """Probability that the first draft is confirmed, typically."""
        if source == "mtp":
            return float(self.head.typical()[0])
        often = max(range(len(self.match_lengths)), key=self.match_lengths.__getitem__)
        return self.matches.chain(often or 3, 1)[0]

    def save(self, key: str) -> str:
        """As text; ``key`` names model, machine and threads."""
        return encode(self._knowledge(), key=key, width=self.width)

    def restore(self, text: str, key: str) -> str | None:
        """Begin with what was saved; why not, if it cannot be used. Never fails."""
        found = decode(text, key=key, width=self.width, like=self._knowledge(every=True))
        if isinstance(found, str):
            return found
        for name, curve in self._curves().items():
            if name in found.curves:
                curve.load(*found.curves[name])
        self.costs.invalidate()
        self.head.load(*found.head)
        self.matches.load(found.matches)
        self.changes += 1
        return None

    def _curves(self) -> dict[str, CostCurve]:
        costs = self.costs
        return {
            "compute": costs.compute,
            "bytes": costs.bytes,
            "price": costs.price,
            "mtp": costs.drafting["mtp"],
            "ngram": costs.drafting["ngram"],
        }

    def _knowledge(self, *, every: bool = False) -> Knowledge:
        curves = {
            name: tuple(map(tuple, curve.save()))
            for name, curve in self._curves().items()
            if curve.seen or every
        }
        return Knowledge(
            curves=curves,
            head=tuple(map(tuple, self.head.save())),
            matches=tuple(map(tuple, self.matches.save())),
        )
