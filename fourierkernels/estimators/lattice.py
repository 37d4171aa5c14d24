"""Rows that coincide: repeated rows, or independent samples of rounded values.

Samples of continuous values never coincide: equal rows are one sample that was copied. Values
rounded to multiples of δ do coincide, and then about as often as they are neighbours: where a cell
of the lattice has two samples, cells beside it have some. A table whose columns are all rounded and
that was joined to itself has equal rows whose neighbouring cells are empty.
"""

import numpy as np
from numpy.typing import NDArray

from fourierkernels.foundation.arrays import FloatArray

_FINEST = 1e-7  # of the range: a lattice finer than this is none
_DEVIATIONS = 3.0  # standard errors of a share by which ties outnumber neighbours
_MIXING = 0x9E3779B97F4A7C15  # odd, its bits irregular: its multiples name cells


def distinct_places(rows: FloatArray) -> NDArray[np.intp] | None:
    """Return the place of each row among the distinct ones; None if no two rows are equal."""
    if (np.diff(np.sort(rows[:, 0])) > 0).all():  # one fast sort settles most samples
        return None
    order = np.lexsort(rows.T)
    new = np.any(np.diff(rows[order], axis=0) != 0, axis=1)
    if new.all():
        return None
    place = np.empty(len(rows), np.intp)
    place[order] = np.concatenate([[0], np.cumsum(new)])
    return place


def coincide_by_rounding(rows: FloatArray, counts: FloatArray) -> bool:
    """Return whether rows coincide because their values are rounded, in every column.

    Parameters
    ----------
    rows : array of shape (m, dim)
        Distinct.
    counts : array of shape (m,)
        How often each occurs.

    Returns
    -------
    bool
        False if a column is not on a lattice, and if there are more cells of the lattice with
        several samples than cells with a neighbour, by three standard errors.
    """
    steps = np.array([lattice_step(column) for column in rows.T])
    if not steps.all():
        return False
    cells = np.round((rows - rows.min(axis=0)) / steps).astype(np.int64).view(np.uint64)
    factors = np.array([pow(_MIXING, d + 1, 2**64) for d in range(len(steps))], np.uint64)
    names = (cells * factors).sum(axis=1, dtype=np.uint64)
    beside = np.zeros(len(names), bool)
    for factor in factors:
        beside |= np.isin(names + factor, names) | np.isin(names - factor, names)
    excess = float((counts > 1.0).mean() - beside.mean())
    return bool(excess <= _DEVIATIONS / np.sqrt(len(rows)))


def lattice_step(column: FloatArray) -> float:
    """Return δ if all values are a multiple of δ apart, to rounding; 0 if there is none.

    By Euclid's algorithm on the gaps between neighbours.
    """
    values = np.unique(column)
    if len(values) < 2:
        return 1.0
    gaps = np.diff(values)
    reach = float(values[-1] - values[0])
    noise = max(1e-3 * _FINEST * reach, 8 * np.finfo(float).eps * float(np.abs(column).max()))
    step = float(gaps.min())
    while step > max(_FINEST * reach, 100 * noise):
        step = reach / round(reach / step)  # many steps together tell its length best
        rest = np.abs(gaps - step * np.round(gaps / step))
        if rest.max() <= noise * 2:
            return step
        step = float(rest[rest > 2 * noise].min())
    return 0.0
