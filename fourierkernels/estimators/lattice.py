"""Rows that coincide: repeated rows, or independent samples of rounded values.

Samples of continuous values never coincide: equal rows are one sample that was copied. Values that
were rounded do, also if they were rounded to several numbers of digits, or transformed since. Two
signs tell: neighbouring gaps between distinct values, which are as unlike as two exponential
variables for continuous values and often equal for rounded ones; and decimal digits, so few that so
many samples of them coincide. Where all columns are rounded, rows may
coincide about as often as the ties in each column let independent columns coincide. A table that
was joined to itself has far more equal rows. In one rounded column nothing tells copies from
coincidences, which are then what is assumed.
"""

import numpy as np
from numpy.typing import NDArray

from fourierkernels.foundation.arrays import FloatArray

_FINEST = 1e-7  # of the range: a lattice finer than this is none
_ALIKE = 0.9  # ratio of two gaps that count as equal
_CHANCE = 1.0 - 2.0 * _ALIKE / (1.0 + _ALIKE)  # of that between exponential variables
_DEVIATIONS = 4.0  # standard errors above that chance from which values are rounded
_FEW = 12  # gaps that say nothing on their distribution
_OFTEN = 3.0  # rows for each of few values that are no lattice: more are no copies
_MORE, _PAIRS = 10.0, 5.0  # more equal pairs than so many times those expected, and so many more
_DIGITS = range(-3, 13)  # decimals looked for, in values below 10^12 of their unit


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
        False if a column is not rounded, and if of several columns far more pairs of rows are equal
        than by the ties of each column.
    """
    everything = 0.5 * float(counts.sum()) ** 2
    expected = everything
    for column in rows.T:
        values, place = np.unique(column, return_inverse=True)
        often = np.bincount(place.ravel(), weights=counts).astype(np.float64)
        if not _is_rounded(values, often):
            return False
        expected *= _equal_pairs(often) / everything
    return rows.shape[1] == 1 or _equal_pairs(counts) <= _MORE * expected + _PAIRS


def _equal_pairs(counts: FloatArray) -> float:
    return 0.5 * float((counts * np.maximum(counts - 1.0, 0.0)).sum())


def _is_rounded(values: FloatArray, counts: FloatArray) -> bool:
    """Return whether distinct values in order, with how often each occurs, look rounded."""
    gaps = np.diff(values)
    if len(gaps) < _FEW:
        return lattice_step(values) > 0 or counts.sum() > _OFTEN * len(values)
    ratios = np.minimum(gaps[1:], gaps[:-1]) / np.maximum(gaps[1:], gaps[:-1])
    spread = np.sqrt(_CHANCE * (1.0 - _CHANCE) / len(ratios))
    if (ratios > _ALIKE).mean() > _CHANCE + _DEVIATIONS * spread:
        return True
    shares = np.minimum(_decimal_units(values) / (values[-1] - values[0]), 1.0)
    expected = 0.5 * float(counts @ shares) * float(counts.sum())
    return 0.0 < _equal_pairs(counts) <= _MORE * expected


def _decimal_units(values: FloatArray) -> FloatArray:
    """Return the unit of the last decimal digit of each value; infinite of 0, 0 of many digits."""
    units = np.where(values == 0.0, np.inf, 0.0)
    for decimals in _DIGITS:
        scaled = values * 10.0**decimals
        whole = np.abs(scaled - np.round(scaled)) <= 8 * np.finfo(float).eps * np.abs(scaled)
        units[whole & (units == 0.0) & (np.abs(scaled) < 1e12)] = 10.0**-decimals
    return units


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
