"""Composite Gauss-Legendre quadrature: nodes and weights on panels that end at the breaks."""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from fourierkernels.arrays import FloatArray

ORDER = 16  # nodes per panel, unless told otherwise


def panels(
    breaks: ArrayLike, *, longest: float | FloatArray = math.inf, order: int = ORDER
) -> tuple[FloatArray, FloatArray]:
    """Return Gauss-Legendre nodes and weights between increasing breaks.

    With 16 nodes a panel, exp(iωt) is integrated to rounding over a length L as long as ωL <= 16.

    Parameters
    ----------
    breaks : array of shape (k,)
        The ends of the range, and between them the points where the integrand is not smooth.
    longest : float or array of shape (k - 1,)
        Panels are cut into equal parts until none is longer; one value, or one per panel.
    order : int
        Nodes per panel.

    Returns
    -------
    nodes, weights : arrays of shape ``(q,)``

    Examples
    --------
    >>> x, weight = panels([-1.0, 0.0, 2.0])
    >>> round(float(weight @ np.abs(x)), 12)
    2.5
    """
    ends = _cut(np.asarray(breaks, float), longest)
    place, share = _legendre(order)
    half = 0.5 * np.diff(ends)
    middle = ends[:-1] + half
    nodes = (middle[:, None] + half[:, None] * place).ravel()
    return nodes, (half[:, None] * share).ravel()


def _cut(breaks: FloatArray, longest: float | FloatArray) -> FloatArray:
    left, length = breaks[:-1], np.diff(breaks)
    cuts = np.maximum(1, np.ceil(length / longest)).astype(int)
    inner = np.concatenate([np.arange(count) for count in cuts])
    starts = np.repeat(left, cuts) + inner * np.repeat(length / cuts, cuts)
    return np.append(starts, breaks[-1])


@lru_cache
def _legendre(order: int) -> tuple[FloatArray, FloatArray]:
    place, share = np.polynomial.legendre.leggauss(order)
    return place, share
