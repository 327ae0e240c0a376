"""Options of self-speculative decoding, for every verb that opens or plans a session."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from moestream.cli.declare import option
from moestream.config import DraftSourceName, SpeculationConfig
from moestream.errors import ConfigError
from moestream.settings import HELP

__all__ = ["SpeculationOptions"]

PANEL = "Self-speculative decoding (off by default)"
BENCHMARK_PANEL = "For benchmarks only"

_DEFAULT = SpeculationConfig()


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeculationOptions:
    """What :class:`moestream.SpeculationConfig` holds."""

    mtp: Annotated[
        bool,
        option(
            "--mtp/--no-mtp",
            help=HELP["mtp"],
            panel=PANEL,
        ),
    ] = False
    ngram: Annotated[
        bool,
        option(
            "--ngram/--no-ngram",
            help=HELP["ngram"],
            panel=PANEL,
        ),
    ] = False
    draft: Annotated[
        int | None,
        option(
            "--draft",
            metavar="N",
            help=HELP["draft"],
            panel=PANEL,
            show_default=False,
        ),
    ] = None
    mtp_p_min: Annotated[
        float | None,
        option(
            "--mtp-p-min",
            metavar="F",
            help=HELP["mtp_p_min"],
            panel=PANEL,
            show_default=False,
        ),
    ] = None
    ngram_min_match: Annotated[
        int | None,
        option(
            "--ngram-min-match",
            metavar="N",
            help=HELP["ngram_min_match"],
            panel=PANEL,
            show_default=False,
        ),
    ] = None
    synthetic_acceptance: Annotated[
        float | None,
        option(
            "--synthetic-acceptance",
            metavar="F",
            help="Confirm each draft with this probability, whatever the model says: maps what "
            "speculation costs. The text is not the model's.",
            panel=BENCHMARK_PANEL,
            show_default=False,
        ),
    ] = None

    def config(self) -> SpeculationConfig:
        """The speculation configuration; contradictions raise ``ConfigError``."""
        if self.mtp and self.ngram:
            raise ConfigError("--mtp and --ngram exclude each other; choose one draft source")
        source: DraftSourceName = "mtp" if self.mtp else "ngram" if self.ngram else "none"
        for name, value, needed in (
            ("--draft", self.draft, ("mtp", "ngram")),
            ("--mtp-p-min", self.mtp_p_min, ("mtp",)),
            ("--ngram-min-match", self.ngram_min_match, ("ngram",)),
            ("--synthetic-acceptance", self.synthetic_acceptance, ("mtp", "ngram")),
        ):
            if value is not None and source not in needed:
                flags = " or ".join(f"--{name}" for name in needed)
                raise ConfigError(f"{name} has no effect without {flags}; add it, or drop {name}")
        default = _DEFAULT
        return SpeculationConfig(
            source=source,
            draft=default.draft if self.draft is None else self.draft,
            mtp_p_min=default.mtp_p_min if self.mtp_p_min is None else self.mtp_p_min,
            ngram_min_match=(
                default.ngram_min_match if self.ngram_min_match is None else self.ngram_min_match
            ),
            synthetic_acceptance=self.synthetic_acceptance,
        )
