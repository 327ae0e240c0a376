"""What drafting brings and costs: acceptance, tokens per verify, and both rates.

    python -m benchmarks.speculation [MODEL] [--tokens 128] [--rounds 2] [--cache-mb 4]
                                     [--only TEXT] [--save NAME]

Every cell runs on prose and on text that repeats itself, with all experts in memory and streamed
through a cache of ``--cache-mb``. Plain decoding runs twice a round: the spread of its runs is the
noise floor. "Effective" is what a user sees; "decode" leaves out drafting, as others report it.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from benchmarks import report
from benchmarks.texts import COPY, PROSE
from moestream import EngineConfig, GenerationSummary, Session, SpeculationConfig, StreamingConfig

DRAFTS = (1, 2, 3, 4)
P_MINS = (0.0, 0.4, 0.6, 0.8)
MIN_MATCHES = (3, 5, 8)
WORKLOADS = {"prose": PROSE[:5], "copy": COPY}


@dataclass(frozen=True)
class Cell:
    name: str
    speculation: SpeculationConfig


def cells() -> list[Cell]:
    off = SpeculationConfig()
    found = [Cell("off", off)]
    for draft in DRAFTS:
        for p_min in P_MINS:
            name = f"mtp {draft}" + (f", p-min {p_min:g}" if p_min else "")
            found.append(Cell(name, SpeculationConfig(source="mtp", draft=draft, mtp_p_min=p_min)))
    for match in MIN_MATCHES:
        lookup = SpeculationConfig(source="ngram", draft=3, ngram_min_match=match)
        found.append(Cell(f"ngram 3, match {match}", lookup))
    return [*found, Cell("off again", off)]


def run(
    args: argparse.Namespace, cell: Cell, streamed: bool, prompts: tuple[str, ...]
) -> dict[str, Any]:
    streaming = StreamingConfig(moe_stream=streamed, cache_mb=args.cache_mb if streamed else "auto")
    config = EngineConfig(
        model=args.model,
        n_ctx=1024,
        threads=args.threads,
        streaming=streaming,
        speculation=cell.speculation,
    )
    summaries: list[GenerationSummary] = []
    with Session(config) as session:
        list(session.generate(prompts[0], max_tokens=8))  # first touches
        for prompt in prompts:
            session.reset()
            generation = session.generate(prompt, max_tokens=args.tokens)
            list(generation)
            summaries.append(generation.summary)
    return figures(summaries)


def figures(summaries: list[GenerationSummary]) -> dict[str, Any]:
    tokens = sum(s.decoded_tokens for s in summaries)
    read = sum(s.read_bytes for s in summaries)
    hits, misses = sum(s.hits for s in summaries), sum(s.misses for s in summaries)
    result: dict[str, Any] = {
        "effective": tokens / sum(s.decode_s for s in summaries),
        "decode": tokens / sum(s.wall_s for s in summaries),
        "hit_pct": 100 * hits / (hits + misses) if hits + misses else None,
        "mib_per_token": read / tokens / 2**20,
    }
    speculated = [s.speculation for s in summaries if s.speculation is not None]
    if speculated:
        drafted = sum(s.drafted for s in speculated)
        accepted = sum(s.accepted for s in speculated)
        steps = sum(s.drafted_steps for s in speculated)
        result |= {
            "acceptance_pct": 100 * accepted / drafted if drafted else None,
            "per_verify": 1 + accepted / steps if steps else None,
            "coverage_pct": 100 * steps / sum(s.steps for s in speculated),
            "draft_read_pct": (
                100 * sum(s.draft_read_bytes for s in speculated) / read if read else None
            ),
        }
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("model", nargs="?", default="moestream-nano")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cache-mb", type=int, default=4)
    parser.add_argument("--only", metavar="TEXT", default="", help="cells with this in their name")
    parser.add_argument("--save", metavar="NAME")
    args = parser.parse_args()
    state = report.entry_state()
    chosen = [cell for cell in cells() if args.only in cell.name or cell.name.startswith("off")]
    runs: dict[tuple[str, str, str], list[dict[str, Any]]] = defaultdict(list)
    for number in range(args.rounds):
        for cell in chosen if number % 2 == 0 else reversed(chosen):
            for place in ("resident", "streamed"):
                for workload, prompts in WORKLOADS.items():
                    found = run(args, cell, place == "streamed", prompts)
                    runs[workload, place, cell.name].append(found)
    parts = []
    for workload in WORKLOADS:
        for place in ("resident", "streamed"):
            parts.append(table(workload, place, [cell.name for cell in chosen], runs))
    text = "\n\n".join(parts) + f"\n\n{args.rounds} rounds, medians; {state}"
    raw = {"state": state, "runs": [[*key, values] for key, values in runs.items()]}
    report.publish(args.save or "speculation", text, raw, save=bool(args.save))


def table(
    workload: str,
    place: str,
    names: list[str],
    runs: dict[tuple[str, str, str], list[dict[str, Any]]],
) -> str:
    def of(name: str, key: str) -> list[float]:
        values = [run.get(key) for run in runs[workload, place, name]]
        return [value for value in values if value is not None]

    off = of("off", "effective") + of("off again", "effective")
    base = report.median(off)
    rows: list[list[object]] = []
    for name in names:
        rows.append([name, report.median(of(name, "effective")) / base])
        for key in ("effective", "decode", "acceptance_pct", "per_verify", "coverage_pct",
                    "hit_pct", "mib_per_token", "draft_read_pct"):  # fmt: skip
            values = of(name, key)
            rows[-1].append(report.median(values) if values else "")
    header = [
        "cell", "effective / off", "effective tok/s", "decode tok/s", "accepted %",
        "tokens per verify", "drafted steps %", "hit %", "MiB/token", "of it while drafting %",
    ]  # fmt: skip
    noise = f"noise floor {100 * report.spread(off):.0f} % ({len(off)} runs of plain decoding)"
    return f"### {workload}, {place}: {noise}\n\n" + report.markdown(header, rows)


if __name__ == "__main__":
    main()
