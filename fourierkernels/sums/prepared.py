"""Kernel sums with checked arguments, for queries in any number of blocks."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import (
    as_real,
    check_finite,
    check_period,
    check_points,
    check_radius,
    check_weights,
)
from fourierkernels.kernels import Kernel, as_kernel
from fourierkernels.sums.parts import check_parts
from fourierkernels.sums.plan import Plan
from fourierkernels.sums.result import KernelSums
from fourierkernels.sums.samples import SampleSum


class PreparedSum:
    """Samples, weights and responses, checked once and prepared for many blocks of queries.

    What depends on the samples alone is computed once: the type-1 transform of the band-limited
    sum, the tiles of the direct one. The samples are copied. Memory is O(n + modes) besides each
    block. A block beyond the range of those before costs a new transform, for a range wider by a
    quarter more.

    Parameters
    ----------
    points, kernel, radius, weights, responses, method, tol
        As for :func:`fourierkernels.sums.kernel_sum`.
    expected : int
        How many queries are expected in all, for the choice of the method.
    device : str
        "cpu", or "cuda" or "cuda:<index>" for sums by the operator of attention, in double
        precision; rows whose denominator is faint are summed again on the CPU.
    period : float or sequence of float or None, optional
        As for :func:`fourierkernels.sums.kernel_sum`.

    Raises
    ------
    ValueError, TypeError
        As :func:`fourierkernels.sums.kernel_sum`.

    Examples
    --------
    >>> prepared = PreparedSum([[0.0], [1.0]], kernel="fourier2", radius=3.0)
    >>> [float(prepared.at([[x]]).totals()[0].round(6)) for x in (0.0, 1.0)]
    [1.002213, 1.002213]
    """

    def __init__(
        self,
        points: ArrayLike,
        *,
        kernel: Kernel | str,
        radius: ArrayLike,
        weights: ArrayLike | None = None,
        responses: ArrayLike | None = None,
        method: str = "auto",
        tol: float = 1e-12,
        expected: int = 1,
        device: str = "cpu",
        period: float | Sequence[float | None] | None = None,
    ) -> None:
        own = np.array(check_points("points", points))
        n, self._dim = own.shape
        self._sum = SampleSum(
            own,
            kernel=as_kernel(kernel),
            radius=check_radius(radius, self._dim),
            weights=np.array(_as_weights(weights, n)),
            responses=np.array(_as_responses(responses, n)),
            method=method,
            tol=tol,
            device=device,
            periods=check_period(period, self._dim),
        ).for_blocks(expected)

    def plan(self, queries: ArrayLike, *, plain: bool = True) -> Plan:
        """Return the method for these queries; `plain` unless slopes or integrals are summed."""
        return self._sum.plan(self._checked(queries), plain=plain)

    def at(
        self, queries: ArrayLike, *, parts: Sequence[str] | None = None, refine: bool = True
    ) -> KernelSums:
        """Return the sums at queries of shape ``(m, dim)``; options as for `kernel_sum`."""
        at, names = self._checked(queries), check_parts(parts, self._dim)
        return self._sum.at(at, parts=names, refine=refine)

    def with_slopes(self, queries: ArrayLike) -> tuple[KernelSums, list[KernelSums]]:
        """Return the sums and, per dimension d, those with shape'(u_d) in place of shape(u_d)."""
        return self._sum.with_slopes(self._checked(queries))

    def left_out(self, queries: ArrayLike, own: FloatArray, owners: NDArray[np.intp]) -> KernelSums:
        """Return the sums at each query without the samples that it owns: leave-one-out.

        Parameters
        ----------
        queries : array of shape (m, dim)
        own : array of shape (m,)
            Σ w ∏ shape over the samples that a query owns; all have its response.
        owners : integer array of shape (n,)
            The query that each sample belongs to.
        """
        return self._sum.left_out(self._checked(queries), own, owners)

    def _checked(self, queries: ArrayLike) -> FloatArray:
        return check_points("at", queries, dim=self._dim)


def _as_weights(weights: ArrayLike | None, n: int) -> FloatArray:
    return np.ones(n) if weights is None else check_weights("weights", weights, n)


def _as_responses(responses: ArrayLike | None, n: int) -> FloatArray:
    """Return responses as a finite array of shape ``(n, k)``; None becomes k = 0 columns."""
    if responses is None:
        return np.zeros((n, 0))
    array = check_finite("responses", as_real("responses", responses))
    if array.ndim not in {1, 2} or len(array) != n:
        raise ValueError(f"responses must have shape ({n},) or ({n}, k), got {array.shape}")
    return array.reshape(n, -1)
