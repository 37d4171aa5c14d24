"""Sums of all monomials up to a degree at once: what the normal equations of a local fit take."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.sums.result import KernelSums, Units


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
