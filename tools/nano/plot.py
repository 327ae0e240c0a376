"""Draw ``loss_curve.png`` from the CSV files of the trainings, those of a kind one after another.

python plot.py --trunk loss_curve.csv loss_curve_2.csv --head head_curve.csv --out loss_curve.png
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt


def read_curve(paths: list[Path], column: str) -> tuple[list[float], list[float]]:
    """Million tokens and the column, where it has a value."""
    tokens: list[float] = []
    values: list[float] = []
    before = 0.0
    for path in paths:
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
        tokens += [before + int(row["tokens"]) / 1e6 for row in rows if row[column]]
        values += [float(row[column]) for row in rows if row[column]]
        before += int(rows[-1]["tokens"]) / 1e6
    return tokens, values


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--trunk", type=Path, nargs="+", required=True)
    parser.add_argument("--head", type=Path, nargs="+", required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 4), dpi=110)
    left.plot(*read_curve(arguments.trunk, "train_loss"), label="training", linewidth=1)
    left.plot(*read_curve(arguments.trunk, "held_out_loss"), "o-", label="held out", markersize=3)
    left.set(xlabel="million tokens", ylabel="nats a token", title="trunk", ylim=(2, 5))
    left.legend()
    middle.plot(*read_curve(arguments.trunk, "head_agreement"), "o-", markersize=3)
    middle.set(xlabel="million tokens", title="head agrees with trunk, joint training")
    for draft in (1, 2, 3):
        curve = read_curve(arguments.head, f"agreement_{draft}")
        right.plot(*curve, "o-", label=f"draft {draft}", markersize=3)
    right.set(xlabel="million tokens", title="the same, head tuning alone")
    right.legend()
    for axes in (left, middle, right):
        axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(arguments.out)


if __name__ == "__main__":
    main()
