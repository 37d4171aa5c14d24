"""The curve of a run: losses, gradient norms and rates by step, as a table on disk."""

import csv
import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fourierkernels.train.files import write_text

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


def write_curve(output: Path, history: Iterable[Mapping[str, Any]]) -> None:
    """Write the table, replacing the one of an earlier checkpoint."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(_COLUMNS), lineterminator="\n")
    writer.writeheader()
    writer.writerows(curve_rows(history))
    write_text(output / CURVE_TABLE, text.getvalue())
