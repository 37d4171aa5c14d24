"""How far from the centre of its coordinates a query of a direct sum may lie.

A difference u of a query and a sample, both scaled and relative to a centre, carries the rounding
of the two coordinates: δu <= ε(|u| + 2|q|), q the query's. For the kernels that are compiled
(Gaussian and powers of the sinc) |u shape'(u)| < 1.1 and |shape'| < 0.6 √l, so a term at a query
with |q| <= limit errs by less than ε(4 + 4 √l limit) per dimension, times its weight. How far the
samples lie from the centre does not matter; nor |q| does where |u| is at least half of it.
"""

import math

import numpy as np

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.kernels import Kernel

_EPS = float(np.finfo(float).eps)
_LOOKED_AT = 4096  # rows whose median stands for that of all


def middle(rows: FloatArray) -> FloatArray:
    """Return a centre that outliers do not move: the lower median of each column, ``(n, k)``.

    Of long columns it is the median of every so-manieth row.
    """
    some = rows[:: -(-len(rows) // _LOOKED_AT) or 1]
    return np.asarray(np.quantile(some, 0.5, axis=0, method="lower"))


def steepness(kernel: Kernel) -> float:
    """Return √l for the power l of a sinc, 1 for the Gaussian: |d shape/du| <= 0.6 of it."""
    return math.sqrt(getattr(kernel, "power", 1))


def centring_limit(kernel: Kernel, dim: int, tol: float) -> float:
    """Return the largest scaled coordinate of a query at which a direct sum reaches `tol`."""
    return tol / (4.0 * _EPS * steepness(kernel) * dim)


def count_cells(scaled: FloatArray, limit: float, m: int) -> int:
    """Return about how many centres m queries take, from some of them, ``(s, dim)`` and scaled."""
    if scaled.max() - scaled.min() <= limit:
        return 1
    cells = len(np.unique(np.floor(scaled / limit), axis=0))
    return cells if 2 * cells < len(scaled) else math.ceil(cells * m / len(scaled))
