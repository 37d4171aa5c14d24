"""Kernel sums in which each sample has a radius of its own: R times its factor λ_i.

Σ_i w_i y_i λ_i^D ∏_d shape(λ_i R_d(x_d - x_id)): the kernel of each sample keeps its integral. Sums
of slopes and integrals have the power of λ_i that their R has.
"""

import copy
from dataclasses import replace
from typing import Any, cast

import numpy as np

from fourierkernels.foundation.arrays import FloatArray, IntArray
from fourierkernels.kernels import GaussianKernel, Kernel
from fourierkernels.sums.coordinates import Box, Frame
from fourierkernels.sums.ladder import Ladder, LadderSum, factor_powers, ladder_of
from fourierkernels.sums.plan import METHODS, Plan, Summer
from fourierkernels.sums.problem import Problem
from fourierkernels.sums.reference import ReferenceSum, kernel_matrix
from fourierkernels.sums.result import KernelSums
from fourierkernels.sums.samples import SampleSum

#: Methods that can sum with factors.
FACTOR_METHODS = ("auto", "bandlimited", "reference")


def radii_of(radius: FloatArray, factors: FloatArray | None) -> FloatArray:
    """Return the radius of each sample, ``(dim, n)``; R itself if all have that one."""
    return radius if factors is None else radius[:, None] * factors


def shape_matrix(
    frame: Frame,
    points: FloatArray,
    at: FloatArray,
    *,
    kernel: Kernel,
    factors: FloatArray | None = None,
) -> tuple[FloatArray, IntArray]:
    """Return the matrix of λ_i^D ∏ shape, ``(m, n)``, over 2^exponent, and the exponents ``(m,)``.

    As :func:`fourierkernels.sums.kernel_matrix` in the coordinates of a frame, with a factor
    ``(n,)`` of each point, or none; factors are for lines and a vector R only.
    """
    matrix, _, exponent = kernel_matrix(
        frame.placed(points),
        frame.placed(at),
        kernel=kernel,
        radius=radii_of(frame.radius, factors),
        periods=frame.periods,
    )
    return matrix if factors is None else matrix * factors ** len(frame.radius), exponent


def sample_sum(
    points: FloatArray,
    *,
    factors: FloatArray | None = None,
    device: str = "cpu",
    periods: FloatArray | None = None,
    **options: Any,
) -> SampleSum:
    """Return the sum over these samples, each with its factor on the radius if there are any.

    Parameters
    ----------
    factors : array of shape (n,), optional
        As for :class:`FactorSum`, which then does the sum, on lines and on the CPU.
    device, periods, options
        As for :class:`fourierkernels.sums.SampleSum`.
    """
    if factors is None:
        return SampleSum(points, device=device, periods=periods, **options)
    return FactorSum(points, factors=factors, **options)


class FactorSum(SampleSum):
    """Samples, each with a factor on the radius, prepared once for any queries.

    Parameters
    ----------
    points, kernel, radius, weights, responses, method, tol, expected
        As for :class:`fourierkernels.sums.SampleSum`, on lines and on the CPU.
    factors : array of shape (n,)
        Positive.

    Raises
    ------
    ValueError
        As `SampleSum`; for a method that has no sums with factors, or cannot do this one.
    """

    def __init__(
        self, points: FloatArray, *, factors: FloatArray, method: str = "auto", **options: Any
    ) -> None:
        if method not in FACTOR_METHODS:
            known = ", ".join(FACTOR_METHODS)
            raise ValueError(f"method must be one of {known} with a radius each, got {method!r}")
        super().__init__(points, method=method, **options)
        order = np.argsort(factors[self._used_places], kind="stable")
        self._used_places = self._used_places[order]
        self._used = tuple(np.ascontiguousarray(array[order]) for array in self._used)
        self._factors = factors[self._used_places]
        self._ladders: dict[Box, Ladder | None] = {}

    def plan(self, queries: FloatArray, *, plain: bool = True) -> Plan:
        """Return the method for these queries.

        Raises
        ------
        ValueError
            If the method is named and cannot do the sum.
        """
        return self._planned(self._frame.placed(queries))

    def _planned(self, queries: FloatArray) -> Plan:
        """Return the plan for queries in the coordinates of the frame."""
        problem = self._problem(queries)
        pairs = METHODS["reference"]
        slow = Plan("reference", pairs.seconds(problem), pairs.accuracy(problem))
        if self.method == "reference":
            return slow
        ladder, row = self._ladder(queries), METHODS["bandlimited"]
        refusal = row.refusal(problem) or ("" if ladder else "would need too many radii")
        if refusal or ladder is None:
            if self.method == "auto":
                return slow
            raise ValueError(f"method must be able to do the sum: {self.method!r} {refusal}")
        seconds = ladder.seconds + row.seconds(replace(problem, n=1))
        fast = Plan("bandlimited", seconds, row.accuracy(problem))
        return min(fast, slow if self.method == "auto" else fast, key=lambda plan: plan.seconds)

    def _problem(self, queries: FloatArray) -> Problem:
        """Return the facts of a sum with the largest radius."""
        problem, largest = self._planner.problem(queries, plain=True), self._factors[-1]
        extra = 0.0
        if isinstance(self.kernel, GaussianKernel):  # whose period serves the smallest
            # 8 is 1.05 times the width in `Problem.modes` at the least tol, 1e-12.
            extra = 8.0 * (largest / self._factors[0] - 1.0)
        return replace(problem, bands=tuple(largest * band + extra for band in problem.bands))

    def _box(self, queries: FloatArray) -> Box:
        """Return the range that a band-limited sum must cover."""
        return cast("Box", self._planner.box_of(METHODS["bandlimited"], queries))

    def _ladder(self, queries: FloatArray) -> Ladder | None:
        box = self._box(queries)
        if box not in self._ladders:
            self._ladders[box] = ladder_of(
                self._factors,
                self.kernel,
                self.radius * box.spans,
                self.tol,
                modes=self._problem(queries).modes,
                columns=1 + self.responses.shape[1],
            )
        return self._ladders[box]

    def _method_for(self, queries: FloatArray, *, plain: bool) -> str:
        return self._planned(queries).method

    def _summer(self, method: str, queries: FloatArray) -> Summer:
        if method == "reference":
            return self._reference
        box, ladder = self._box(queries), cast("Ladder", self._ladder(queries))
        summer = self._summers.get((method, box))
        if summer is None:
            self._drop_ranges(method)
            summer = self._summers[method, box] = self._laddered(box, ladder)
        return summer

    def _laddered(self, box: Box, ladder: Ladder) -> LadderSum:
        points, weights, responses = self._used
        return LadderSum(
            points,
            weights,
            responses,
            factors=self._factors,
            ladder=ladder,
            kernel=self.kernel,
            radius=self.radius,
            box=box,
            tol=self.tol,
        )

    @property
    def _reference(self) -> "FactorReference":
        return FactorReference(
            *self._used, factors=self._factors, kernel=self.kernel, radius=self.radius
        )

    def _exactly(self, at: FloatArray, names: tuple[str, ...]) -> KernelSums:
        return self._summed("reference", at, names)


class FactorReference(ReferenceSum):
    """Sums over all pairs, obvious and slow: the reference with a radius of each sample."""

    def __init__(
        self,
        points: FloatArray,
        weights: FloatArray,
        responses: FloatArray,
        *,
        factors: FloatArray,
        kernel: Kernel,
        radius: FloatArray,
    ) -> None:
        each = radii_of(radius, factors)
        super().__init__(points, weights, responses, kernel=kernel, radius=each)
        self._factors = factors

    def _block(self, queries: FloatArray, parts: tuple[str, ...], left_out: Any = None) -> Any:
        scaled = copy.copy(self)
        scaled._weights = self._weights * factor_powers(self._factors, parts)
        return ReferenceSum._block(scaled, queries, parts, left_out)
