"""The result of a kernel sum."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.sums.coordinates import middle

_EPS = float(np.finfo(float).eps)


@dataclass(frozen=True)
class Units:
    """A centre and a scale for each column of responses: y = centre + scale z.

    Attributes
    ----------
    centre, scale : arrays of shape (k,), or numbers for all columns
        Of shape (m, k) for sums whose rows have units of their own.
    """

    centre: FloatArray | float = 0.0
    scale: FloatArray | float = 1.0

    @classmethod
    def of(cls, responses: FloatArray) -> "Units":
        """Return units in which the responses ``(n, k)`` are below 2 in size.

        A column that lies far from zero for its spread is centred at its median. Another is not:
        a sum over small responses would lose its digits to others that are large. Scales are
        powers of two, which round nothing.
        """
        if not responses.shape[1]:
            return cls(np.zeros(0), np.ones(0))
        centre = middle(responses)
        size = _largest(responses)
        with np.errstate(over="ignore"):
            spread = _largest(responses - centre)
        centred = spread < 0.5 * size
        largest = np.where(centred, spread, size)
        scale = np.ldexp(1.0, np.frexp(largest)[1] - 1)
        return cls(np.where(centred, centre, 0.0), np.where(largest > 0, scale, 1.0))

    def removed(self, responses: FloatArray) -> FloatArray:
        """Return z of responses whose last axis is the columns."""
        return np.asarray((responses - self.centre) / self.scale)

    def equal(self, other: "Units") -> bool:
        """Return whether both are the same numbers."""
        centres = np.array_equal(self.centre, other.centre)
        return centres and np.array_equal(self.scale, other.scale)

    def taken(self, rows: NDArray[np.intp]) -> "Units":
        """Return the units of these rows."""
        if np.ndim(self.centre) < 2:
            return self
        return Units(np.asarray(self.centre)[rows], np.asarray(self.scale)[rows])

    def restored(self, sums: FloatArray, weights: FloatArray | float) -> FloatArray:
        """Return Σ w y from Σ w z and Σ w; y from z with a weight of 1."""
        restored: FloatArray = self.scale * sums
        restored += self.centre * weights
        return restored


def rounding_of_sum(count: int) -> float:
    """Return the rounding of a sum of so many terms, relative to Σ |term|.

    Errors of independent terms grow as the root of their number; 8 is a margin, not a bound.
    """
    return 8 * _EPS * math.sqrt(count)


@dataclass(frozen=True)
class KernelSums:
    """Weighted kernel sums at m queries, scaled by a power of two each so that none underflows.

    The sums are of the kernel's shape (1 at 0 for the kernels of this package):
    Σ_i w_i y_i ∏_d shape(R_d(x_d - x_id)) = ``numerator · 2**exponent``, likewise `denominator`
    without the responses y. The responses are summed in units of their columns, so that neither a
    large mean nor a large neighbour costs digits: y = units.centre + units.scale z.

    Attributes
    ----------
    in_units : array of shape (m, k)
        Σ_i w_i z_i ∏ shape, one column per response; k = 0 if there are none.
    denominator : array of shape (m,)
    error : array of shape (m,)
        Bound on the error of `denominator`, in the same scale.
    exponent : integer array of shape (m,)
    units : Units
        By default z = y.
    """

    in_units: FloatArray
    denominator: FloatArray
    error: FloatArray
    exponent: NDArray[np.int64]
    units: Units = field(default_factory=Units)

    @property
    def numerator(self) -> FloatArray:
        """Σ_i w_i y_i ∏ shape, shape ``(m, k)``."""
        return self.units.restored(self.in_units, self.denominator[:, None])

    def faint(self, tol: float) -> NDArray[np.bool_]:
        """Return the rows to sum again exactly, shape ``(m,)``: denominator below error over √tol.

        The error of an inexact sum is about tol times the largest; in the other rows a ratio has
        half of its digits or more, √tol.
        """
        return np.asarray(np.abs(self.denominator) < self.error / math.sqrt(tol))

    def replaced(self, rows: NDArray[np.intp], other: "KernelSums") -> "KernelSums":
        """Return a copy whose rows at these places are those of `other`, in order."""
        parts = {}
        for name in ("in_units", "denominator", "error", "exponent"):
            values = getattr(self, name).copy()
            values[rows] = getattr(other, name)
            parts[name] = values
        return replace(self, **parts)

    def taken(self, rows: NDArray[np.intp]) -> "KernelSums":
        """Return the sums at these rows, in this order; a row may be taken more than once."""
        parts = self.in_units[rows], self.denominator[rows], self.error[rows], self.exponent[rows]
        return KernelSums(*parts, self.units.taken(rows))

    @classmethod
    def joined(cls, pieces: "Sequence[tuple[NDArray[np.intp], KernelSums]]") -> "KernelSums":
        """Return the sums at all queries from those at some rows each."""
        m, first = sum(len(rows) for rows, _ in pieces), pieces[0][1]
        shape = m, first.in_units.shape[1]
        units = first.units
        if not all(piece.units.equal(units) for _, piece in pieces):
            units = Units(np.empty(shape), np.empty(shape))
            for rows, piece in pieces:
                np.asarray(units.centre)[rows] = piece.units.centre
                np.asarray(units.scale)[rows] = piece.units.scale
        sums = cls(
            np.empty(shape),
            np.empty(m),
            np.empty(m),
            np.empty(m, np.int64),
            units,
        )
        for rows, piece in pieces:
            for name in ("in_units", "denominator", "error", "exponent"):
                getattr(sums, name)[rows] = getattr(piece, name)
        return sums

    def without(self, own: FloatArray, responses: FloatArray) -> "KernelSums":
        """Return the sums less a term of each query: leave-one-out at the samples themselves.

        Parameters
        ----------
        own : array of shape (m,)
            The term w ∏ shape of the denominator, unscaled.
        responses : array of shape (m, k)
            In the units of the sums.
        """
        term = np.ldexp(own, -self.exponent)
        rounding = 4 * np.finfo(float).eps * (np.abs(self.denominator) + np.abs(term))
        return replace(
            self,
            in_units=self.in_units - term[:, None] * responses,
            denominator=self.denominator - term,
            error=self.error + rounding,
        )

    @property
    def undefined(self) -> NDArray[np.bool_]:
        """Queries whose denominator is within its own error of zero, shape ``(m,)``."""
        return np.asarray(~(np.abs(self.denominator) > self.error))

    def totals(self) -> FloatArray:
        """Σ_i w_i ∏ shape, unscaled, shape ``(m,)``; tiny sums underflow to 0 here."""
        if not self.exponent.any():
            return self.denominator
        return np.ldexp(self.denominator, self.exponent)

    def log_totals(self) -> FloatArray:
        """Return log Σ_i w_i ∏ shape, without underflow; NaN where the sum is negative."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.log(self.denominator) + self.exponent * np.log(2.0))

    def ratios(self) -> FloatArray:
        """Numerator over denominator, shape ``(m, k)``; NaN where that is undefined."""
        ratio = self.units.restored(self.ratios_in_units(), 1.0)
        ratio[self.undefined] = np.nan
        return ratio

    def ratios_in_units(self) -> FloatArray:
        """Ratios of z, shape ``(m, k)``, which mean nothing where they are undefined."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(self.in_units / self.denominator[:, None])


def _largest(x: FloatArray) -> FloatArray:
    """Return the largest size in each column, without a copy of the sizes."""
    return np.asarray(np.maximum(x.max(axis=0), -x.min(axis=0)))


@dataclass(frozen=True)
class MomentSums:
    """Σ_i w_i ∏_d u_d^{a_d} shape(u_d) for many powers a, u = R(x - x_i), scaled as `KernelSums`.

    Attributes
    ----------
    denominators, errors : arrays of shape (a, m)
        One row per power, those of low degree first; the errors are bounds.
    in_units : array of shape (t, m, k)
        The sums with responses, in units, of the first t powers.
    exponent : integer array of shape (m,)
        One for all sums of a query.
    units : Units
    exact : bool
        Whether every sum is as accurate as its own terms allow.
    """

    denominators: FloatArray
    errors: FloatArray
    in_units: FloatArray
    exponent: NDArray[np.int64]
    units: Units
    exact: bool

    @classmethod
    def joined(cls, sums: list[KernelSums], solved: int, *, exact: bool) -> "MomentSums":
        """Join sums of one set of queries, the first of them the plain one."""
        first = sums[0].exponent
        shifts = [each.exponent - first if each.exponent is not first else None for each in sums]
        with np.errstate(over="ignore"):
            return cls(
                np.stack(list(map(_shifted, (s.denominator for s in sums), shifts))),
                _stacked_errors([s.error for s in sums], shifts),
                np.stack(list(map(_shifted, (s.in_units for s in sums[:solved]), shifts))),
                first,
                sums[0].units,
                exact,
            )

    def replaced(self, rows: NDArray[np.intp], other: "MomentSums") -> "MomentSums":
        """Return a copy whose queries at these places are those of `other`, in order."""
        parts = {}
        for name, axis in (("denominators", 1), ("errors", 1), ("in_units", 1), ("exponent", 0)):
            values = getattr(self, name).copy()
            np.moveaxis(values, axis, 0)[rows] = np.moveaxis(getattr(other, name), axis, 0)
            parts[name] = values
        return replace(self, **parts)

    def without(self, own: FloatArray, responses: FloatArray) -> "MomentSums":
        """Return the sums less a sample at each query: there u = 0, so only the plain sums change.

        Parameters
        ----------
        own : array of shape (m,)
            Its term w ∏ shape(0), unscaled.
        responses : array of shape (m, k)
            In the units of the sums.
        """
        term = np.ldexp(own, -self.exponent)
        size = np.abs(self.denominators[0]) + np.abs(term)
        denominators, errors, in_units = (
            each.copy() for each in (self.denominators, self.errors, self.in_units)
        )
        denominators[0] -= term
        errors[0] += 4 * np.finfo(float).eps * size
        in_units[0] -= term[:, None] * responses
        return replace(self, denominators=denominators, errors=errors, in_units=in_units)


def _stacked_errors(errors: list[FloatArray], shifts: list[NDArray[np.int64] | None]) -> FloatArray:
    """Stack errors; those of one number for all queries, as of band-limited sums, take no room."""
    if any(each.strides != (0,) for each in errors):
        return np.stack(list(map(_shifted, errors, shifts)))
    column = np.array([[each[0]] for each in errors])
    return np.broadcast_to(column, (len(errors), len(errors[0])))


def _shifted(values: FloatArray, shift: NDArray[np.int64] | None) -> FloatArray:
    if shift is None or not shift.any():
        return values
    return np.ldexp(values, shift.reshape(-1, *[1] * (values.ndim - 1)))
