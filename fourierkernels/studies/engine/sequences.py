"""What studies of labelled or recorded sequences share: how runs read data, padding, the order."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fourierkernels.foundation.files import write_text
from fourierkernels.mixing.registry import MIXERS
from fourierkernels.studies.engine.recipe import Recipe
from fourierkernels.studies.engine.study import Preset


def write_reading(file: Path, reading: Mapping[str, Any]) -> None:
    """Write into the folder of a run how its data are read."""
    write_text(file, json.dumps(reading, indent=2) + "\n")


def check_reading(file: Path, found: Mapping[str, Any], *, items: str, same: str = "") -> None:
    """Refuse data that are read in another way than those of a run.

    Parameters
    ----------
    file : Path
        What :func:`write_reading` has written.
    found : mapping
        How the other data are read.
    items : str
        What the data are: "series", for instance.
    same : str
        What else must be the same, for the message.

    Raises
    ------
    ValueError
        What differs is named.
    """
    try:
        known = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{file} must say how {items} are read, got {error!r}") from error
    wrong = [
        name for name in found if not isinstance(known, dict) or known.get(name) != found[name]
    ]
    if wrong:
        raise ValueError(
            f"data must be read as those of the run in {file.parent}{same}, "
            f"got others: {', '.join(wrong)}"
        )


def evenly_spread(size: int, positions: int | None) -> list[int]:
    """Return so many places of a split, evenly spread; all of them for None.

    Examples
    --------
    >>> evenly_spread(9, 3)
    [0, 4, 8]
    """
    count = size if positions is None else min(positions, size)
    chosen: list[int] = np.linspace(0, size - 1, count).round().astype(int).tolist()
    return chosen


def padded_options(preset: Preset, mixer: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a mixer; one that cannot leave padding out gets zeros in its place."""
    zeros = {} if "zero_padding" not in (MIXERS[mixer].options or {}) else {"zero_padding": True}
    return {**zeros, **preset.mixer_options.get(mixer, {}), **options}


def check_shuffled(recipe: Recipe, items: str) -> None:
    """Refuse a recipe that asks for streams, which texts have."""
    if recipe.order != "shuffled":
        raise ValueError(f"order must be shuffled for {items}, got {recipe.order!r}")
