"""The pickles of the decision transformer's authors: a list with a dictionary for each episode.

[chen2021decision]_; ``gym/data/download_d4rl_datasets.py`` of github.com/kzl/decision-transformer
writes ``{environment}-{behaviour}-v2.pkl``. A pickle can run code when it is opened; these are not
run (:mod:`~fourierkernels.studies.control.plain_pickle`).
"""

from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from fourierkernels.studies.control.episodes import Episodes, check_numbers, checked, join
from fourierkernels.studies.control.names import Named
from fourierkernels.studies.control.plain_pickle import Array, read_plain_pickle

_PARTS = ("observations", "actions", "rewards", "terminals")


def open_pickle(file: Path, named: Named) -> Episodes:
    """Return the episodes of a pickle.

    Raises
    ------
    ValueError
        If it is damaged, has anything in it but arrays of numbers, is no list of episodes, or
        an episode lacks a part, or its parts are of unequal length.
    """
    found = read_plain_pickle(file)
    if not isinstance(found, list) or not found:
        raise ValueError(f"{file} must have a list of episodes, got {type(found).__name__}")
    parts: dict[str, list[NDArray[Any]]] = {name: [] for name in _PARTS}
    for place in range(len(found)):
        own = _episode(found[place], f"episode {place} of {file}")
        found[place] = None  # next states, which are not needed, go
        for name, values in own.items():
            parts[name].append(values)
    try:
        joined = join(parts)
    except ValueError as error:
        raise ValueError(f"{file} must have episodes of one shape, got {error!s:.80}") from error
    return checked(Episodes(named.environment, named.corpus, str(file), **joined))


def _episode(found: Any, where: str) -> dict[str, NDArray[Any]]:
    """Return the arrays of an episode."""
    if not isinstance(found, dict):
        raise ValueError(f"{where} must be a dictionary, got {type(found).__name__}")
    missing = [name for name in _PARTS if name not in found]
    if missing:
        raise ValueError(f"{where} must have {', '.join(_PARTS)}, got no {', '.join(missing)}")
    own = {}
    for name in _PARTS:
        part = found[name]
        values = part.values if isinstance(part, Array) else None
        if values is None or not values.ndim:
            raise ValueError(f"{name} must be an array, got {type(part).__name__} in {where}")
        own[name] = values
    steps = len(own["observations"])
    for name, values in own.items():
        if len(values) != steps or not steps:
            raise ValueError(
                f"{name} must have as many steps as the observations, {steps} and at least one, "
                f"got {len(values)} in {where}"
            )
        check_numbers(name, values, where)
    return own
