"""A kernel sum whose samples are fixed and whose queries come in any number of blocks."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fourierkernels.arrays import FloatArray
from fourierkernels.kernels import Kernel, as_kernel
from fourierkernels.sums.device import check_device
from fourierkernels.sums.parts import check_parts, slopes
from fourierkernels.sums.plan import METHODS, Plan, Problem, Summer, extent, plan_sum
from fourierkernels.sums.result import KernelSums
from fourierkernels.validation import (
    as_real,
    check_finite,
    check_number,
    check_points,
    check_radius,
    check_weights,
)

_RADII = (1e-100, 1e100)
_LARGEST_SPAN = 1e15


class PreparedSum:
    """Samples, weights and responses, checked once and prepared for many blocks of queries.

    What depends on the samples alone is computed once: the type-1 transform of the band-limited
    sum, the tiles of the direct one. Memory is O(n + modes) besides each block.

    Parameters
    ----------
    points, kernel, radius, weights, responses, method, tol
        As for :func:`fourierkernels.sums.kernel_sum`.
    expected : int
        How many queries are expected in all, for the choice of the method.
    device : str
        "cpu", or "cuda" or "cuda:<index>" for sums by the operator of attention, in double
        precision; rows whose denominator is faint are summed again on the CPU.

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
    ) -> None:
        self.device = check_device(device)
        self.kernel = as_kernel(kernel)
        self.points = check_points("points", points)
        n, dim = self.points.shape
        self.radius = _check_range(check_radius(radius, dim))
        self.weights = np.ones(n) if weights is None else check_weights("weights", weights, n)
        self.responses = _as_responses(responses, n)
        self._low, self._high = extent(self.points)
        self.method, self.tol, self.expected = method, check_tolerance(tol), expected
        self._summers: dict[str, Summer] = {}

    def plan(self, queries: FloatArray, *, plain: bool = True) -> Plan:
        """Return the method for these queries; `plain` unless slopes or integrals are summed."""
        return plan_sum(self._problem(queries, plain), self._method())

    def at(
        self, queries: ArrayLike, *, parts: Sequence[str] | None = None, refine: bool = True
    ) -> KernelSums:
        """Return the sums at queries of shape ``(m, dim)``; options as for `kernel_sum`."""
        at = check_points("at", queries, dim=len(self.radius))
        names = check_parts(parts, len(self.radius))
        plain = set(names) == {"value"}
        method = self.plan(at, plain=plain).method
        sums = self._summer(method).at(at, names)
        if not (plain and refine):
            return sums
        rows = self._faint(sums, method)
        return self._summed_exactly(sums, rows, at[rows], names) if len(rows) else sums

    def with_slopes(self, queries: ArrayLike) -> tuple[KernelSums, list[KernelSums]]:
        """Return the sums and, per dimension d, those with shape'(u_d) in place of shape(u_d).

        Rows whose denominator is faint are summed exactly in all of them, so that the derivative
        of a ratio is as good as the ratio.
        """
        at = check_points("at", queries, dim=len(self.radius))
        method = self.plan(at, plain=False).method
        names = [check_parts(None, len(self.radius)), *slopes(len(self.radius))]
        sums = [self._summer(method).at(at, each) for each in names]
        rows = self._faint(sums[0], method)
        if len(rows):
            sums = [
                self._summed_exactly(old, rows, at[rows], each)
                for old, each in zip(sums, names, strict=True)
            ]
        return sums[0], sums[1:]

    def left_out(self, queries: ArrayLike, own: FloatArray, responses: FloatArray) -> KernelSums:
        """Return the sums less a term of each query: leave-one-out if they are the samples.

        Parameters
        ----------
        queries : array of shape (m, dim)
        own : array of shape (m,)
            The term w ∏ shape to leave out of the denominator.
        responses : array of shape (m, k)
            The response that goes with it.
        """
        at = check_points("at", queries, dim=len(self.radius))
        method, names = self.plan(at).method, check_parts(None, len(self.radius))
        sums = self._summer(method).at(at, names).without(own, responses)
        rows = self._faint(sums, method)
        if not len(rows):
            return sums
        exact = self._exact(at[rows], plain=True).at(at[rows], names)
        return sums.replaced(rows, exact.without(own[rows], responses[rows]))

    def _method(self) -> str:
        if self.device == "cpu" or self.method == "torch":
            return self.method
        if self.method != "auto":
            raise ValueError(
                f"method must be 'auto' or 'torch' with device {self.device!r}, got {self.method!r}"
            )
        return "torch"

    def _summer(self, method: str) -> Summer:
        if method not in self._summers:
            samples = self.points, self.weights, self.responses
            used = self.weights > 0  # a point without weight must not set the scale of a row
            if not used.all():
                samples = tuple(array[used] for array in samples)  # type: ignore[assignment]
            where = {"device": self.device} if METHODS[method].on_device else {}
            self._summers[method] = METHODS[method].load()(
                *samples, kernel=self.kernel, radius=self.radius, tol=self.tol, **where
            )
        return self._summers[method]

    def _problem(self, queries: FloatArray, plain: bool) -> Problem:
        n, dim = self.points.shape
        low, high = extent(queries)
        with np.errstate(over="ignore"):
            spans = self.radius * (np.maximum(high, self._high) - np.minimum(low, self._low))
        columns = 1 + self.responses.shape[1]
        m = max(len(queries), self.expected)
        bands = _check_spans(spans)
        return Problem(self.kernel, n, m, dim, columns, bands, self.tol, plain)

    def _faint(self, sums: KernelSums, method: str) -> NDArray[np.intp]:
        """Rows of an inexact sum whose denominator is below its error over √tol."""
        if METHODS[method].exact:
            return np.zeros(0, np.intp)
        return np.flatnonzero(np.abs(sums.denominator) < sums.error / math.sqrt(self.tol))

    def _summed_exactly(
        self, sums: KernelSums, rows: NDArray[np.intp], at: FloatArray, names: tuple[str, ...]
    ) -> KernelSums:
        exact = self._exact(at, plain=set(names) == {"value"})
        return sums.replaced(rows, exact.at(at, names))

    def _exact(self, at: FloatArray, *, plain: bool) -> Summer:
        refused = METHODS["direct"].refusal(self._problem(at, plain))
        return self._summer("reference" if refused else "direct")


def check_tolerance(tol: float) -> float:
    """Return `tol` as a float in [1e-12, 1e-2]."""
    value = check_number("tol", tol)
    if not 1e-12 <= value <= 1e-2:
        raise ValueError(f"tol must be in [1e-12, 1e-2], got {tol}")
    return value


def _check_range(radius: FloatArray) -> FloatArray:
    """Return a radius whose products and squares stay within floating point."""
    bad = radius[(radius < _RADII[0]) | (radius > _RADII[1])]
    if len(bad):
        raise ValueError(
            f"radius must be in [{_RADII[0]:g}, {_RADII[1]:g}], got {bad[0]}; rescale the data"
        )
    return radius


def _check_spans(spans: FloatArray) -> tuple[float, ...]:
    """Return radius times range of the data: beyond 1e15 a phase in float64 has no digit left."""
    if not spans.max() <= _LARGEST_SPAN:
        raise ValueError(
            "radius must be small enough that radius times the range of points and queries is at "
            f"most {_LARGEST_SPAN:g}, got {spans.max():g}"
        )
    return tuple(map(float, spans))


def _as_responses(responses: ArrayLike | None, n: int) -> FloatArray:
    """Return responses as a finite array of shape ``(n, k)``; None becomes k = 0 columns."""
    if responses is None:
        return np.zeros((n, 0))
    array = check_finite("responses", as_real("responses", responses))
    if array.ndim not in {1, 2} or len(array) != n:
        raise ValueError(f"responses must have shape ({n},) or ({n}, k), got {array.shape}")
    return array.reshape(n, -1)
