"""D4RL as it is distributed, and as the decision transformer's authors prepare it.

The files of D4RL: one HDF5 file for each data set, all steps end to end.

[fu2020d4rl]_; github.com/Farama-Foundation/D4RL, ``d4rl/offline_env.py``. An episode ends where
``terminals`` or ``timeouts`` is set, as the decision transformer's ``download_d4rl_datasets.py``
cuts it; what follows the last end is left out. A file is read a slab at a time, and only the parts
that are needed. Links to other files are not followed.

The pickles of the decision transformer's authors: a list with a dictionary for each episode.

[chen2021decision]_; ``gym/data/download_d4rl_datasets.py`` of github.com/kzl/decision-transformer
writes ``{environment}-{behaviour}-v2.pkl``. A pickle can run code when it is opened; these are not
run (:mod:`~fourierkernels.foundation.plain_pickle`).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fourierkernels.foundation.extras import needed_for
from fourierkernels.foundation.plain_pickle import Array, read_plain_pickle
from fourierkernels.studies.control.environments import ENVIRONMENTS
from fourierkernels.studies.control.episodes import Episodes, check_numbers, checked, join

if TYPE_CHECKING:
    import h5py

_BEHAVIOUR = r"-(?!v\d+$)[a-z0-9].*"


@dataclass(frozen=True)
class Named:
    """The environment of a file, and the name of its data set."""

    environment: str
    corpus: str


def read_name(file: Path) -> Named:
    """Return what a file's name says, as D4RL and the decision transformer's authors write it.

    Raises
    ------
    ValueError
        If it does not begin with an environment.

    Examples
    --------
    >>> read_name(Path("hopper_medium_replay-v2.hdf5"))
    Named(environment='hopper', corpus='hopper-medium-replay-v2')
    >>> read_name(Path("walker2d-medium-v2.pkl")).corpus
    'walker2d-medium-v2'
    """
    corpus = file.name.partition(".")[0].replace("_", "-")
    for name in ENVIRONMENTS:
        if re.fullmatch(re.escape(name) + _BEHAVIOUR, corpus):
            return Named(name, corpus)
    raise ValueError(
        "data must be in a file whose name has its environment and behaviour, as "
        f"hopper-medium-v2.pkl, of {', '.join(ENVIRONMENTS)}, got {file.name}"
    )


SLAB = 65_536  # steps
_PARTS = ("observations", "actions", "rewards")
_FLAGS = ("terminals", "timeouts")


def open_hdf5(file: Path, named: Named) -> Episodes:
    """Return the episodes of a file.

    Raises
    ------
    ValueError
        If the file is damaged, a part is missing, a link, of another length or not numeric, a
        number is not finite, or no episode ends.
    ImportError
        If h5py is missing.
    """
    library = _h5py()
    try:
        with library.File(file, "r") as content:
            parts = {name: _part(library, content, name, file) for name in (*_PARTS, *_FLAGS)}
            steps = len(parts["rewards"])
            for name, part in parts.items():
                if len(part) != steps:
                    raise ValueError(
                        f"{name} must have {steps} steps as the rewards have, "
                        f"got {len(part)} in {file}"
                    )
            ends = np.flatnonzero(_ends(parts, file)) + 1
            used = int(ends[-1]) if len(ends) else 0
            values = {name: _values(name, parts[name], used, file) for name in _PARTS}
    except OSError as error:
        raise ValueError(f"{file} must be a whole HDF5 file, got {error!s:.80}") from error
    if not used:
        raise ValueError(
            f"terminals or timeouts must end an episode, got none in {steps} steps of {file}"
        )
    return checked(
        Episodes(
            named.environment,
            named.corpus,
            str(file),
            values["observations"],
            values["actions"],
            values["rewards"],
            ends.astype(np.int64),
            unfinished=steps - used,
        )
    )


def _h5py() -> Any:
    with needed_for("reading HDF5 files"):
        import h5py
    return h5py


def _part(library: Any, content: "h5py.File", name: str, file: Path) -> Any:
    if name not in content:
        raise ValueError(f"{file} must have {name}, got {', '.join(sorted(content)) or 'nothing'}")
    part = content[name] if isinstance(content.get(name, getlink=True), library.HardLink) else None
    if not isinstance(part, library.Dataset) or part.external or part.is_virtual:
        raise ValueError(f"{name} must be an array in the file itself, got a link in {file}")
    if part.dtype.kind not in "fiub" or not part.ndim:
        raise ValueError(f"{name} must be an array of numbers, got {part.dtype} in {file}")
    return part


def _ends(parts: Mapping[str, "h5py.Dataset"], file: Path) -> NDArray[np.bool_]:
    """Return at which steps an episode ends."""
    found = np.zeros(len(parts["rewards"]), dtype=bool)
    for name in _FLAGS:
        for first in range(0, len(found), SLAB):
            slab = parts[name][first : first + SLAB].reshape(-1)
            if len(slab) != len(found[first : first + SLAB]) or not np.isin(slab, (0, 1)).all():
                raise ValueError(f"{name} must be 0 or 1 at each step, got others in {file}")
            found[first : first + SLAB] |= slab.astype(bool)
    return found


def _values(name: str, part: Any, used: int, file: Path) -> NDArray[np.float32]:
    """Return the first steps of a part in float32."""
    shape = (used,) if name == "rewards" else (used, *part.shape[1:])
    values = np.empty(shape, dtype=np.float32)
    for first in range(0, used, SLAB):
        slab = part[first : min(first + SLAB, used)]
        check_numbers(name, slab, str(file), first)
        flat = slab.reshape(len(slab)) if name == "rewards" and slab.size == len(slab) else slab
        if flat.shape[1:] != shape[1:]:
            raise ValueError(f"{name} must be one number per step, got {part.shape} in {file}")
        values[first : first + len(slab)] = flat
    return values


_FIELDS = ("observations", "actions", "rewards", "terminals")


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
    parts: dict[str, list[NDArray[Any]]] = {name: [] for name in _FIELDS}
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
    missing = [name for name in _FIELDS if name not in found]
    if missing:
        raise ValueError(f"{where} must have {', '.join(_FIELDS)}, got no {', '.join(missing)}")
    own = {}
    for name in _FIELDS:
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
