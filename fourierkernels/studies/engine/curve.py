"""The curve of a run: losses, gradient norms and rates by step, as a table on disk."""

import csv
import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fourierkernels.foundation.files import write_text
from fourierkernels.studies.engine.recipe import Recipe

CURVE_TABLE = "curve.csv"
OF_TEST = "test_"
_VALIDATED, _OWN_LOSS = "eval_", "eval_loss"
# Column -> what the Trainer calls it; what else an objective validates has a column valid_NAME, or
# NAME if it is of the test.
_COLUMNS = {
    "step": "step",
    "loss": "loss",
    "grad_norm": "grad_norm",
    "learning_rate": "learning_rate",
    "valid_loss": _OWN_LOSS,
}


def curve_rows(history: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return one row per step of the history that the Trainer keeps."""
    rows: dict[int, dict[str, Any]] = {}
    entries = [entry for entry in history if "loss" in entry or _OWN_LOSS in entry]
    columns = _columns(entries)
    for entry in entries:
        row = rows.setdefault(entry["step"], dict.fromkeys(columns, ""))
        row |= {ours: entry[theirs] for ours, theirs in columns.items() if theirs in entry}
    return [rows[step] for step in sorted(rows)]


def is_over(recipe: Recipe, step: int, history: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether all updates are made, or the last validations were without progress."""
    if step >= recipe.steps:
        return True
    losses = [entry[_OWN_LOSS] for entry in history if _OWN_LOSS in entry]
    if recipe.patience is None or not losses:
        return False
    return len(losses) - 1 - losses.index(min(losses)) >= recipe.patience


def write_curve(output: Path, history: Iterable[Mapping[str, Any]]) -> None:
    """Write the table, replacing the one of an earlier checkpoint."""
    text = io.StringIO()
    rows = curve_rows(history)
    columns = list(rows[0]) if rows else list(_COLUMNS)
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(output / CURVE_TABLE, text.getvalue())


def _columns(entries: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the columns, and what the Trainer calls them, for all that was validated."""
    names = (name for entry in entries for name in entry if name.startswith(_VALIDATED))
    return _COLUMNS | {_column(name.removeprefix(_VALIDATED)): name for name in names}


def _column(name: str) -> str:
    return name if name.startswith(OF_TEST) else f"valid_{name}"
