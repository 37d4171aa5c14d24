"""The ids with which the targets of an encoder-decoder begin, as its configuration has them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_GENERATION = "generation_config.json"


def start_ids(model: Any, folder: Path | None) -> tuple[int, ...]:
    """Return what the decoder reads first, then what every output is made to begin with.

    They are named by the generation_config.json of a folder or else by the configuration of the
    model; none is returned for what neither names.

    Raises
    ------
    ValueError
        If the file is no JSON object.
    """
    generation, config = _generation(folder), model.config
    first, forced = (
        generation.get(name, getattr(config, name, None))
        for name in ("decoder_start_token_id", "forced_bos_token_id")
    )
    if not isinstance(first, int):  # none, or one for each text of a batch
        return ()
    return (first,) if forced is None else (first, int(forced))


def _generation(folder: Path | None) -> Mapping[str, Any]:
    """Return what a folder says on generation."""
    file = None if folder is None else folder / _GENERATION
    if file is None or not file.is_file():
        return {}
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file.name} must be a JSON object, got {error}") from error
    if not isinstance(found, dict):
        raise ValueError(f"{file.name} must be a JSON object, got {type(found).__name__}")
    return found
