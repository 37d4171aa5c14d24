"""Rows that coincide: copies of a sample, or independent samples of values that recur.

Equal values alone say nothing: rounded values recur, and so do zeros and the logarithms of whole
numbers. Rows that repeat are copies only if they occur in a way in which independent samples do
not, whatever their distribution (`copies_of_one`):

- If the i-th value is expected λ_i times, about Σ_i e^{-λ_i} λ_i^k / k! values occur k times each.
  k! times these numbers M_k are moments of a measure on λ, so that
  E M_k² <= (1 + 1/k) E M_{k-1} E M_{k+1}: samples that have many pairs have triples. A file of
  which a third was joined twice has pairs and no triples.
- A Poisson number that is not 0 is a multiple of g with a probability of at most 1/√(2g). A file
  that was joined to itself has even multiplicities alone.
- Where two columns are on no lattice, and distinct rows differ in both, values that recur would
  have to recur together; one common value, as a zero in both, can.

Weights say themselves that rows stand for several samples. They are believed where values are
rounded in every column: samples rounded to multiples of δ coincide about as often as they are
neighbours, so that cells beside a cell with two samples have some (`coincide_by_rounding`).
"""

import math

import numpy as np
from numpy.typing import NDArray

from fourierkernels.foundation.arrays import FloatArray

_FINEST = 1e-7  # of the range: a lattice finer than this is none
_DEVIATIONS = 3.0  # standard errors of a share by which ties outnumber neighbours
_CHANCE = 1e-3  # of a common factor of multiplicities that is none of copying
_SURPRISE = 3.5**2  # deviance, in squared standard errors, from which multiplicities are no chance
_MULTIPLICITIES = range(2, 10)
_PLACES = 5  # that recur in two columns at once: fewer may be common values
_MIXING = 0x9E3779B97F4A7C15  # odd, its bits irregular: its multiples name cells


def distinct_places(rows: FloatArray) -> NDArray[np.intp] | None:
    """Return the place of each row among the distinct ones; None if no two rows are equal."""
    ordered = np.sort(rows[:, 0])
    if (ordered[1:] != ordered[:-1]).all():  # one fast sort settles most samples
        return None
    order = np.lexsort(rows.T)
    new = np.any(np.diff(rows[order], axis=0) != 0, axis=1)
    if new.all():
        return None
    place = np.empty(len(rows), np.intp)
    place[order] = np.concatenate([[0], np.cumsum(new)])
    return place


def copied_places(rows: FloatArray) -> NDArray[np.intp] | None:
    """Return which sample each row is a copy of; None if rows are no copies.

    Rows that recur more often than rows are copied are several samples: of a table that was joined
    to itself, a row that occurs six times is three.
    """
    place = distinct_places(rows)
    if place is None:
        return None
    _, first, counts = np.unique(place, return_index=True, return_counts=True)
    size = copies_of_one(rows[first], counts)
    if not size:
        return None
    order = np.argsort(place, kind="stable")
    rank = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    samples = np.empty(len(rows), np.intp)
    samples[order] = np.cumsum(rank % size == 0) - 1
    return samples


def copies_of_one(rows: FloatArray, counts: NDArray[np.intp]) -> int:
    """Return how many equal rows are one sample, at most; 0 if rows are no copies.

    Parameters
    ----------
    rows : array of shape (m, dim)
        Distinct.
    counts : integer array of shape (m,)
        How often each occurs.

    Returns
    -------
    int
        By the signs that the module explains: the common factor of the counts, or else the largest
        of them (up to 10, or in two columns at once any). A few repeated rows of one column may as
        well be samples: 0.
    """
    factor = int(np.gcd.reduce(counts))
    if factor > 1 and (2.0 * factor) ** (-0.5 * (len(counts) - 1)) < _CHANCE:
        return factor  # the sum of the counts fixes one of them
    few = counts[counts <= _MULTIPLICITIES.stop]
    times = np.bincount(few, minlength=_MULTIPLICITIES.stop + 1)
    if any(_deviance(k, *times[k - 1 : k + 2]) > _SURPRISE for k in _MULTIPLICITIES):
        return int(few.max())
    more = counts[counts > 1] - 1
    if len(more) < _PLACES or 2 * more.max() > more.sum():
        return 0
    distinct = [column for column in rows.T if len(np.unique(column)) == len(column)]
    alone = len(distinct) > 1 and sum(not lattice_step(column) for column in distinct) > 1
    return int(counts.max()) if alone else 0


def _deviance(k: int, below: int, here: int, above: int) -> float:
    """Return twice the log-likelihood ratio against E M_k² <= (1 + 1/k) E M_{k-1} E M_{k+1}.

    Of Poisson numbers M. Under the bound the likelihood is largest at (M_{k-1} + t, M_k - 2t,
    M_{k+1} + t), t the smaller root of a quadratic equation.
    """
    bound = 1.0 + 1.0 / k
    rest = float(here) ** 2 - bound * below * above
    if rest <= 0.0:
        return 0.0
    half = 2.0 * here + 0.5 * bound * (below + above)
    t = rest / (half + math.sqrt(half**2 - (4.0 - bound) * rest))
    pairs = ((below, below + t), (here, here - 2.0 * t), (above, above + t))
    return 2.0 * sum(seen * math.log(seen / mean) for seen, mean in pairs if seen)


def coincide_by_rounding(rows: FloatArray, counts: FloatArray) -> bool:
    """Return whether rows have several samples because values are rounded, in every column.

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

    Rounding is that of double precision, or of single precision if this holds all values.
    """
    values = np.unique(column)
    if len(values) < 2:
        return 1.0
    step = _common_step(values, 8 * np.finfo(np.float64).eps)
    with np.errstate(over="ignore", under="ignore"):
        single = bool((values.astype(np.float32) == values).all())
    return step if step or not single else _common_step(values, float(np.finfo(np.float32).eps))


def _common_step(values: FloatArray, accuracy: float) -> float:
    """Return δ by Euclid's algorithm on the gaps between sorted values, or 0.

    Values have errors of `accuracy`, relative to the largest.
    """
    gaps = np.diff(values)
    reach = float(values[-1] - values[0])
    noise = max(1e-3 * _FINEST * reach, accuracy * float(np.abs(values).max()))
    step = float(gaps.min())
    while step > max(_FINEST * reach, 100 * noise):
        step = reach / round(reach / step)  # many steps together tell its length best
        rest = np.abs(gaps - step * np.round(gaps / step))
        if rest.max() <= noise * 2:
            return step
        step = float(rest[rest > 2 * noise].min())
    return 0.0
