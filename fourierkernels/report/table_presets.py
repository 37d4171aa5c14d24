"""Presets of the heads command that measure what a published table shows.

To add another, add a row to :data:`TABLES`. A preset fills options that were not given, no more.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from fourierkernels.checkpoints import TextFile, find_checkpoint, read_texts


@dataclass(frozen=True)
class TablePreset:
    """Options that measure what a table shows.

    Attributes
    ----------
    options : mapping
        By the parameter of the command.
    splits : tuple of str
        Texts that the table has columns for.
    description : str
        The table.
    """

    name: str
    options: Mapping[str, Any]
    splits: tuple[str, ...]
    description: str


TABLES = {
    row.name: row
    for row in (
        TablePreset(
            "fourierformer-table",
            {"metrics": ["frobenius"], "context": 256, "spread": "pairs-texts"},
            ("train", "test"),
            "nguyen2022fourierformer, table 6 (3 on arXiv), as we read it",
        ),
    )
}


def split_presets(names: Collection[str]) -> tuple[str | None, TablePreset | None]:
    """Return the preset of a model, which is any other name, and that of a table.

    Raises
    ------
    ValueError
        If there are two of a kind.
    """
    tables = [name for name in names if name in TABLES]
    models = [name for name in names if name not in TABLES]
    for kind in (tables, models):
        if len(kind) > 1:
            raise ValueError(
                "preset must be one of a model and one of a table at most, "
                f"got {' and '.join(kind)}"
            )
    table = TABLES[tables[0]] if tables else None
    return (models[0] if models else None), table


def filled(
    options: Mapping[str, Any], table: TablePreset | None, *, given: Collection[str]
) -> dict[str, Any]:
    """Return options with those of a table in place of defaults.

    Parameters
    ----------
    given : collection of str
        Options that were given: they stay as they are.
    """
    new = {} if table is None else table.options
    return {**options, **{name: value for name, value in new.items() if name not in given}}


def own_splits(checkpoint: str, table: TablePreset) -> dict[str, TextFile]:
    """Return the token ids that a checkpoint brings for the splits of a table."""
    files = find_checkpoint(checkpoint)
    found = {split: files.own_ids(split) for split in table.splits}
    return {
        split: read_texts(path)
        for split, path in found.items()
        if path is not None and path.is_file()
    }
