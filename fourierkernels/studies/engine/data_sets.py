"""One row for all tables of data sets: where to get a set, how it lies on disk, how it is opened.

A study names its table; the command line, its help and the tests read the rows.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

Opened = TypeVar("Opened", covariant=True)
_HELD_OUT = 10  # one training example in so many is for validation where no file says which
_SPLIT_SEED = 0  # of the draw of these, the same for every run


def _never(folder: Path) -> bool:
    return False


@dataclass(frozen=True, kw_only=True)
class DataSet(Generic[Opened]):
    """One row of a table of data sets.

    Attributes
    ----------
    title : str
        What the data are.
    source : str
        Where to get them.
    layout : str
        How they lie on disk.
    open : callable
        From a folder, and what else the table's reader knows, to the data; it raises ValueError for
        what is missing, truncated or foreign. A set that needs no folder ignores it.
    recognises : callable
        Whether a folder has the files of this set.
    needs_folder : bool
        Whether it lies in a folder that has to be named.
    """

    title: str
    source: str
    layout: str
    open: Callable[..., Opened]
    recognises: Callable[[Path], bool] = _never
    needs_folder: bool = True


class Need(NamedTuple):
    """Data that something reads from disk.

    Attributes
    ----------
    name : str
        Of the set, or of its folder.
    file : str
        That tells it from others of the same layout, if anything does.
    layout, source : str
        What is expected there, and where to get it.
    place : str or None
        Where it has been found.
    """

    name: str
    file: str
    layout: str
    source: str
    place: str | None


def refuse_missing(needs: Iterable[Need], folder: Path | None) -> None:
    """Refuse to begin while data are missing.

    Raises
    ------
    ValueError
        Naming all that are, what is expected, and where it is had.
    """
    missing = [need for need in needs if need.place is None]
    if missing:
        wanted = "; ".join(
            f"{n.name}, {', '.join(files)} ({n.layout}; from {n.source})".replace(",  (", " (")
            for n, files in by_set(missing).items()
        )
        looked = "no folder" if folder is None else f"none in {folder} nor two folders below"
        raise ValueError(f"data must be a folder with {wanted}: --data FOLDER, got {looked}")


def by_set(needs: Iterable[Need]) -> dict[Need, list[str]]:
    """Return the files that are read of each set, by a need without file and place."""
    found: dict[Need, dict[str, None]] = {}
    for need in needs:
        found.setdefault(need._replace(file="", place=None), {})[need.file] = None
    return {need: list(files) for need, files in found.items()}


def below(folder: Path, pattern: str = "") -> Iterator[Path]:
    """Yield what matches a pattern in a folder and in those of two levels below, or these."""
    for level in ("", "*/", "*/*/"):
        found = folder.glob(f"{level}{pattern}") if level or pattern else [folder]
        yield from sorted(path for path in found if pattern or path.is_dir())


def find_row(rows: Mapping[str, DataSet[Any]], data: str | Path) -> tuple[str, Path]:
    """Return the name of the row that reads some data, and their place.

    Parameters
    ----------
    rows : mapping of str to DataSet
        The first one that recognises a folder reads it.
    data : str or Path
        A folder, or the name of a row that needs none.

    Raises
    ------
    ValueError
        If there is no such folder, or no row knows its files.
    """
    place = Path(data)
    if str(data) in rows and not rows[str(data)].needs_folder:
        return str(data), place
    if not place.is_dir():
        free = [name for name, row in rows.items() if not row.needs_folder]
        rule = f"a folder or one of {', '.join(free)}" if free else "a folder"
        raise ValueError(f"data must be {rule}, got {data}")
    for name, row in rows.items():
        if row.recognises(place):
            return name, place
    layouts = "; ".join(f"{name}: {row.layout}" for name, row in rows.items())
    names = sorted(path.name for path in place.iterdir())[:5]
    raise ValueError(
        f"data must be a folder that a reader knows ({layouts}), "
        f"got {place} with {', '.join(names) or 'nothing in it'}"
    )


def held_out(n: int, parts: int = 1) -> list[NDArray[np.int64]]:
    """Return the places of the training examples, and of `parts` tenths that are held out.

    Parameters
    ----------
    n : int
        Examples in all.
    """
    drawn = np.random.default_rng(_SPLIT_SEED).permutation(n)
    size = max(n // _HELD_OUT, 1)
    rest, *held = np.split(drawn, [n - (parts - i) * size for i in range(parts)])
    return [np.sort(places) for places in (rest, *held)]


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
