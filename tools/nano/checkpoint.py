"""Checkpoints that a kill at any moment cannot damage, and the loss curve beside them."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import Any

import torch

from config import ModelConfig
from model import NanoModel


def save_atomically(data: dict[str, Any], path: Path) -> None:
    """Write beside ``path``, flush to disk, then rename."""
    temporary = path.with_suffix(path.suffix + ".tmp")
    with temporary.open("wb") as file:
        torch.save(data, file)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def load_model(path: Path) -> NanoModel:
    """The model of a checkpoint."""
    data = torch.load(path, weights_only=True)
    model = NanoModel(ModelConfig.from_dict(data["config"]))
    model.load_state_dict(data["model"])
    return model


class Curve:
    """A CSV file of one row per report; on resume, rows after the checkpoint are dropped."""

    def __init__(self, path: Path, columns: tuple[str, ...], resume_step: int) -> None:
        self.path, self.columns = path, columns
        kept: list[dict[str, str]] = []
        if path.exists() and resume_step:
            with path.open(newline="") as file:
                kept = [row for row in csv.DictReader(file) if int(row["step"]) <= resume_step]
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, columns)
            writer.writeheader()
            writer.writerows(kept)

    def add(self, **values: object) -> None:
        """Append a row."""
        with self.path.open("a", newline="") as file:
            csv.DictWriter(file, self.columns).writerow(values)
