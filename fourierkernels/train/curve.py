"""The curve of a run: losses, gradient norms and rates by step, as a table on disk."""

import csv
import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fourierkernels.train.files import write_text
from fourierkernels.train.recipe import Recipe

CURVE_TABLE = "curve.csv"
# Column -> what the Trainer calls it.
_COLUMNS = {
    "step": "step",
    "loss": "loss",
    "grad_norm": "grad_norm",
    "learning_rate": "learning_rate",
    "valid_loss": "eval_loss",
}


def curve_rows(history: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return one row per step of the history that the Trainer keeps."""
    rows: dict[int, dict[str, Any]] = {}
    for entry in history:
        if "loss" in entry or "eval_loss" in entry:
            row = rows.setdefault(entry["step"], dict.fromkeys(_COLUMNS, ""))
            found = {ours: entry[theirs] for ours, theirs in _COLUMNS.items() if theirs in entry}
            row |= found
    return [rows[step] for step in sorted(rows)]


def is_over(recipe: Recipe, step: int, history: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether all updates are made, or the last validations were without progress."""
    if step >= recipe.steps:
        return True
    losses = [entry["eval_loss"] for entry in history if "eval_loss" in entry]
    if recipe.patience is None or not losses:
        return False
    return len(losses) - 1 - losses.index(min(losses)) >= recipe.patience


def write_curve(output: Path, history: Iterable[Mapping[str, Any]]) -> None:
    """Write the table, replacing the one of an earlier checkpoint."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(_COLUMNS), lineterminator="\n")
    writer.writeheader()
    writer.writerows(curve_rows(history))
    write_text(output / CURVE_TABLE, text.getvalue())
