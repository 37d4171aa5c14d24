"""The normal equations of local polynomials, many small systems solved at once.

At a query the polynomial Σ_a β_a ∏_d u_d^{a_d}, u = R(x - x_i), minimises the weighted squares:
Σ_b S_{a+b} β_b = T_a with the moments S of the weights and T of the weighted responses. With signed
kernels the matrix is symmetric but not definite, so nothing is concluded from signs: a system has a
solution where no matrix within the error of this one is singular.
"""

import math
from dataclasses import dataclass, replace
from itertools import starmap

import numpy as np
from numpy.typing import NDArray

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.sums.parts import multi_indices
from fourierkernels.sums.result import MomentSums

_BLOCK = 2**12  # systems eliminated together
_EPS = float(np.finfo(float).eps)


#: The axis of the queries in each array of a fit.
_AXES = {"coefficients": 1, "row": 1, "exponent": 0, "doubt": 0, "direct": 0}


@dataclass(frozen=True)
class LocalFit:
    """Solutions at m queries.

    Attributes
    ----------
    coefficients : array of shape (q, m, k)
        β of each response in units.
    row : array of shape (q, m)
        The first row of the inverse: sample i has the weight w_i shape(u_i) Σ_a row_a u_i^a, up to
        the power of two in `exponent`.
    exponent : integer array of shape (m,)
    doubt : array of shape (m,)
        Bound on the relative change of the solution by the errors of the sums, to first order; from
        1 on, a matrix within them is singular.
    direct : boolean array of shape (m,)
        Where the fit is not from the sums that all queries share, but from its own.
    """

    coefficients: FloatArray
    row: FloatArray
    exponent: NDArray[np.int64]
    doubt: FloatArray
    direct: NDArray[np.bool_]

    @property
    def undefined(self) -> NDArray[np.bool_]:
        """Queries whose system may be singular, shape ``(m,)``."""
        return np.asarray(~(self.doubt < 1.0))

    def replaced(self, rows: NDArray[np.intp], other: "LocalFit") -> "LocalFit":
        """Return a copy whose queries at these places are those of `other`, in order."""
        parts = {}
        for name, axis in _AXES.items():
            values = getattr(self, name).copy()
            np.moveaxis(values, axis, 0)[rows] = np.moveaxis(getattr(other, name), axis, 0)
            parts[name] = values
        return replace(self, **parts)

    def some(self, rows: slice) -> "LocalFit":
        """Return the solutions of a run of queries."""
        coefficients, row = self.coefficients[:, rows], self.row[:, rows]
        return LocalFit(coefficients, row, self.exponent[rows], self.doubt[rows], self.direct[rows])

    def joined(self, *others: "LocalFit") -> "LocalFit":
        """Return the solutions of these queries and then those of the others."""
        if not others:
            return self
        each = (self, *others)
        return LocalFit(
            np.concatenate([fit.coefficients for fit in each], axis=1),
            np.concatenate([fit.row for fit in each], axis=1),
            np.concatenate([fit.exponent for fit in each]),
            np.concatenate([fit.doubt for fit in each]),
            np.concatenate([fit.direct for fit in each]),
        )


def sums_of_powers(dim: int, degree: int) -> NDArray[np.intp]:
    """Return the place of the power a + b in `multi_indices(dim, 2 degree)`, shape ``(q, q)``.

    Examples
    --------
    >>> sums_of_powers(1, 1)
    array([[0, 1],
           [1, 2]])
    """
    places = {power: i for i, power in enumerate(multi_indices(dim, 2 * degree))}
    powers = multi_indices(dim, degree)
    return np.array(
        [[places[tuple(map(sum, zip(a, b, strict=True)))] for b in powers] for a in powers]
    )


def solve(moments: MomentSums, table: NDArray[np.intp]) -> LocalFit:
    """Return the local polynomials from moments up to twice their degree.

    `table` is that of :func:`sums_of_powers`.
    """
    m, k = len(moments.exponent), moments.in_units.shape[2]
    q = len(table)
    coefficients, row, doubt = np.empty((q, m, k)), np.empty((q, m)), np.empty(m)
    with np.errstate(all="ignore"):  # what is singular is found by its doubt
        for start in range(0, m, _BLOCK):
            some = slice(start, start + _BLOCK)
            inverse, doubt[some] = _inverse(
                moments.denominators[:, some][table], moments.errors[:, some][table]
            )
            row[:, some] = inverse[0]
            coefficients[:, some] = sum(
                inverse[:, j, :, None] * moments.in_units[j, some] for j in range(q)
            )
    return LocalFit(coefficients, row, moments.exponent, doubt, np.zeros(m, bool))


def _inverse(matrix: FloatArray, error: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return inverses of symmetric matrices ``(q, q, m)``, and the doubt of each, ``(m,)``.

    Rows and columns are scaled to a diagonal of 1 first. If the sum of each row of |A^-1| E is
    below 1, no matrix A + D with |D| <= E is singular: (A + D) v = 0 would give
    |v| <= |A^-1| E |v|, whose largest entry is smaller than that of |v|.
    """
    q = len(matrix)
    size = np.maximum(np.abs(_diagonal(matrix)), _diagonal(error))
    scale = 1.0 / np.sqrt(np.where(size > 0, size, 1.0))
    both = scale[:, None] * scale
    scaled = matrix * both
    inverse = _eliminated(scaled)
    rounding = 4.0 * q * _EPS * (q > 1)
    spread = (error * both + rounding * np.abs(scaled)).sum(axis=1)
    doubt = sum(np.abs(inverse[:, j]) * spread[j] for j in range(q)).max(axis=0)
    return inverse * both, np.nan_to_num(doubt, nan=math.inf, posinf=math.inf)


def _eliminated(matrix: FloatArray) -> FloatArray:
    """Return inverses ``(q, q, m)`` by elimination with row pivots, all systems in step."""
    q, m = len(matrix), matrix.shape[2]
    if q <= 2:
        return _in_closed_form(matrix)
    work = np.concatenate([matrix, np.zeros((q, q, m))], axis=1)
    for i in range(q):
        work[i, q + i] = 1.0
    for i in range(q):
        pivot = i + np.abs(work[i:, i]).argmax(axis=0)
        swapped = np.flatnonzero(pivot != i)
        if len(swapped):
            upper, lower = work[i][:, swapped], work[pivot[swapped], :, swapped].T
            work[pivot[swapped], :, swapped] = upper.T
            work[i][:, swapped] = lower
        work[i] /= work[i, i].copy()
        for j in range(q):
            if j != i:
                work[j] -= work[j, i].copy() * work[i]
    return work[:, q:]


def _in_closed_form(matrix: FloatArray) -> FloatArray:
    """Return inverses of symmetric matrices ``(q, q, m)``, q at most 2: local lines are many."""
    if len(matrix) == 1:
        return 1.0 / matrix
    (a, b), (_, d) = matrix
    inverse = np.empty(matrix.shape)
    inverse[0, 0], inverse[1, 1] = d, a
    inverse[0, 1] = inverse[1, 0] = -b
    inverse /= a * d - b * b
    return inverse


def _diagonal(matrix: FloatArray) -> FloatArray:
    return np.stack([matrix[i, i] for i in range(len(matrix))])


def quadratic_form(row: FloatArray, moments: FloatArray, table: NDArray[np.intp]) -> FloatArray:
    """Return Σ_ab row_a row_b moments_{a+b}, shape ``(m,)``."""
    places = ((a, b) for a in range(len(table)) for b in range(len(table)))
    return np.asarray(sum(starmap(lambda a, b: row[a] * row[b] * moments[table[a, b]], places)))
