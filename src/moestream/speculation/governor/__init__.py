"""Speculation that decides for itself, from measured costs and learned acceptance. Pure."""

from moestream.speculation.governor.explanation import GovernorSummary
from moestream.speculation.governor.governor import Governor
from moestream.speculation.governor.records import Plan, Reason, Source, StepRecord

__all__ = ["Governor", "GovernorSummary", "Plan", "Reason", "Source", "StepRecord"]
