"""Composite Gauss-Legendre quadrature: nodes and weights on panels that end at the breaks."""

import math
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from fourierkernels.foundation.arrays import FloatArray

ORDER = 16  # nodes per panel, unless told otherwise
_NO_POWERS: Mapping[float, float] = MappingProxyType({})


def panels(
    breaks: ArrayLike,
    *,
    longest: float | FloatArray = math.inf,
    order: int = ORDER,
    powers: Mapping[float, float] = _NO_POWERS,
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
    powers : mapping
        Breaks e where the integrand is |x - e|^q times a smooth function, and their q > -1: the
        panels that end there have the nodes of Gauss-Jacobi.

    Returns
    -------
    nodes, weights : arrays of shape ``(q,)``

    Examples
    --------
    >>> x, weight = panels([-1.0, 0.0, 2.0])
    >>> round(float(weight @ np.abs(x)), 12)
    2.5
    >>> x, weight = panels([0.0, 1.0], powers={0.0: -0.5})
    >>> round(float(weight @ (np.cos(x) / np.sqrt(x))), 12)
    1.809048475801
    """
    ends = _cut(np.asarray(breaks, float), longest, least=2 if len(powers) > 1 else 1)
    place, share = _legendre(order)
    half = 0.5 * np.diff(ends)
    middle = ends[:-1] + half
    nodes, weights = middle[:, None] + half[:, None] * place, half[:, None] * share
    for end, power in powers.items():
        place, share = _jacobi(order, power)  # the power is at -1
        for side, panel in ((1, ends[:-1] == end), (-1, ends[1:] == end)):
            nodes[panel] = end + side * half[panel, None] * (1.0 + place)
            weights[panel] = half[panel, None] * share
    return nodes.ravel(), weights.ravel()


def _cut(breaks: FloatArray, longest: float | FloatArray, *, least: int) -> FloatArray:
    left, length = breaks[:-1], np.diff(breaks)
    cuts = np.maximum(least, np.ceil(length / longest)).astype(int)
    inner = np.concatenate([np.arange(count) for count in cuts])
    starts = np.repeat(left, cuts) + inner * np.repeat(length / cuts, cuts)
    return np.append(starts, breaks[-1])


@lru_cache
def _legendre(order: int) -> tuple[FloatArray, FloatArray]:
    place, share = np.polynomial.legendre.leggauss(order)
    return place, share


@lru_cache
def _jacobi(order: int, power: float) -> tuple[FloatArray, FloatArray]:
    """Return nodes on [-1, 1] and weights for functions (1 + z)^power g(z), g smooth."""
    place, share = special.roots_jacobi(order, 0.0, power)
    return place, np.asarray(share * (1.0 + place) ** -power)
