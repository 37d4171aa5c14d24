"""Folder of a training run: the files that training writes for other commands."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SETUP = "study.json"
BEST = "model.safetensors"
VOCABULARY = "vocabulary.txt"
ARENA = "arena.json"  # task, tokens and classes
IDS = "test.ids"
SUBWORDS = "bpe.json"
PIECES = "spiece.model"  # subwords of a masked language model
SERIES = "series.json"  # classes, channels and what standardises them
EPISODES = "control.json"  # the environment, and what normalises states and returns
CLASSES = "classes.txt"
PREPROCESSING = "preprocessor_config.json"
RESULTS = "results"  # .json and .csv


def find_run(path: Path) -> Path | None:
    """Return the folder of the run that a folder or file belongs to, itself or one above it.

    Examples
    --------
    >>> find_run(Path("nowhere/model.safetensors")) is None
    True
    """
    places = (path, path.parent, path.parent.parent)
    return next((place for place in places if (place / SETUP).is_file()), None)


def weights_file(path: Path) -> Path:
    """Return a file of weights as it is, or that in the folder of a run or of its checkpoint.

    Raises
    ------
    ValueError
        If there is none.

    Examples
    --------
    >>> weights_file(Path("nowhere"))
    Traceback (most recent call last):
        ...
    ValueError: checkpoint must have model.safetensors, the best model, which a run writes at its \
end (train --resume goes on), got nowhere without
    """
    file = path if path.is_file() else path / BEST
    if not file.is_file():
        raise ValueError(
            f"checkpoint must have {BEST}, the best model, which a run writes at its end "
            f"(train --resume goes on), got {path} without"
        )
    return file


def read_results(folder: Path) -> Mapping[str, Any]:
    """Return what the results of a run name beside its numbers; nothing if it has none yet.

    Raises
    ------
    ValueError
        If they are damaged.

    Examples
    --------
    >>> dict(read_results(Path("nowhere")))
    {}
    """
    file = folder / f"{RESULTS}.json"
    if not file.is_file():
        return {}
    try:
        config = json.loads(file.read_text(encoding="utf-8"))["config"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{file} must hold the results of a run, got {error!r}") from error
    if not isinstance(config, dict):
        raise ValueError(f"{file} must hold the results of a run, got another file")
    return config
