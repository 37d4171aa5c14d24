"""Ties, from rounded data or repeated rows, in rules based on the spectrum.

Values rounded to multiples of δ are ties of independent samples, and their characteristic function
has the period 2π/δ: what lies beyond π/δ is a copy that says nothing about the density. Rules look
at frequencies up to π/δ, which limits the radius to what the rounding resolves.

Rows that repeat without such a lattice (a bootstrap sample, a table joined twice) are the same
sample: they are merged, each with its joint weight, and count as (Σw)²/Σw² samples.
"""

import math

import numpy as np

from fourierkernels.estimators.checks import warn_at_the_caller
from fourierkernels.estimators.radius.sample import Sample, standardise
from fourierkernels.foundation.arrays import FloatArray

_FINEST = 1e-7  # of the range: a lattice finer than this is none


class TiedDataWarning(UserWarning):
    """A radius rule has met rounded or repeated data; the message says what it made of them."""


def settled(
    points: FloatArray, weights: FloatArray, most: float, rule: str
) -> tuple[Sample, FloatArray]:
    """Return the sample in standard form, and the frequencies up to which it may be looked at.

    Warns if a sample has, itself among them, `most` copies or more on average, be it in one
    rounded column.

    Returns
    -------
    sample : Sample
    end : array of shape (dim,)
        π/δ of rounded columns, infinite for others.

    Raises
    ------
    ValueError
        If a column does not vary.
    """
    sample = standardise(points, weights)
    quanta = np.array([_quantum(column) for column in points[weights > 0].T])
    rounded = np.flatnonzero(quanta > 0)
    tied = [d for d in rounded if _column(sample, int(d)).copies() >= most]
    if tied:
        steps = ", ".join(f"{quanta[d]:.6g} (column {d})" for d in tied)
        _warn(
            f"X is rounded to multiples of {steps}: radius={rule!r} looks at frequencies that this "
            "resolves, up to π over the step"
        )
    if len(rounded) < len(quanta) and sample.copies() >= most:
        sample = _merged(sample, rule)
    with np.errstate(divide="ignore"):
        return sample, math.pi * sample.scale / quanta


def _column(sample: Sample, d: int) -> Sample:
    return Sample(sample.points[:, [d]], sample.weights, sample.size, sample.scale[[d]])


def _merged(sample: Sample, rule: str) -> Sample:
    """Return the sample whose equal rows are one, and warn of it."""
    points, place = np.unique(sample.points, axis=0, return_inverse=True)
    shares = np.bincount(place.ravel(), weights=sample.weights).astype(np.float64)
    size = float(1.0 / (shares @ shares))
    _warn(
        f"X has repeated rows, {sample.copies():.3g} copies of a sample on average: "
        f"radius={rule!r} takes equal rows for one sample, {size:.6g} in all instead of "
        f"{sample.size:.6g}"
    )
    return Sample(points, shares, size, sample.scale)


def _warn(message: str) -> None:
    warn_at_the_caller(message, TiedDataWarning)


def _quantum(column: FloatArray) -> float:
    """Return δ if tied values are all a multiple of δ apart, to rounding; 0 if there is none.

    By Euclid's algorithm on the gaps between neighbours.
    """
    values = np.unique(column)
    if len(values) == len(column) or len(values) < 2:
        return 0.0
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
