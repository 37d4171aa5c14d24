"""The result of a kernel sum."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fourierkernels.arrays import FloatArray


@dataclass(frozen=True)
class KernelSums:
    """Weighted kernel sums at m queries, scaled by a power of two each so that none underflows.

    The sums are of the kernel's shape (1 at 0 for the kernels of this package):
    Σ_i w_i y_i ∏_d shape(R_d(x_d - x_id)) = ``numerator · 2**exponent``, likewise `denominator`
    without the responses y.

    Attributes
    ----------
    numerator : array of shape (m, k)
        One column per response; k = 0 if there are none.
    denominator : array of shape (m,)
    error : array of shape (m,)
        Bound on the error of `denominator`, in the same scale.
    exponent : integer array of shape (m,)
    """

    numerator: FloatArray
    denominator: FloatArray
    error: FloatArray
    exponent: NDArray[np.int64]

    def replaced(self, rows: NDArray[np.intp], other: "KernelSums") -> "KernelSums":
        """Return a copy whose rows at these places are those of `other`, in order."""
        parts = []
        for name in ("numerator", "denominator", "error", "exponent"):
            values = getattr(self, name).copy()
            values[rows] = getattr(other, name)
            parts.append(values)
        return KernelSums(*parts)

    def without(self, own: FloatArray, responses: FloatArray) -> "KernelSums":
        """Return the sums less a term of each query: leave-one-out at the samples themselves.

        Parameters
        ----------
        own : array of shape (m,)
            The term w ∏ shape of the denominator, unscaled.
        responses : array of shape (m, k)
        """
        term = np.ldexp(own, -self.exponent)
        rounding = 4 * np.finfo(float).eps * (np.abs(self.denominator) + np.abs(term))
        return KernelSums(
            self.numerator - term[:, None] * responses,
            self.denominator - term,
            self.error + rounding,
            self.exponent,
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
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = self.numerator / self.denominator[:, None]
        ratio[self.undefined] = np.nan
        return ratio
