"""Sums that are band-limited in a box and direct beyond: a few outliers must not stretch the grid.

The samples in the box are summed by their modes at the queries in the box. All other pairs are
summed one by one: those with a sample outside, and all samples at a query outside.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.kernels import Kernel
from fourierkernels.sums.bandlimited import BandlimitedSum
from fourierkernels.sums.coordinates import Box
from fourierkernels.sums.direct import CentredSum
from fourierkernels.sums.problem import compiled_refusal
from fourierkernels.sums.reference import ReferenceSum
from fourierkernels.sums.result import KernelSums

_Pairwise = CentredSum | ReferenceSum


class SplitSum:
    """Sums over the samples in a box by their modes, over the others pair by pair.

    Arguments are as :class:`fourierkernels.sums.SampleSum` passes them; `box` contains at least one
    sample, and queries may lie anywhere. The error is that of the band-limited sum in the box,
    relative to the largest sum there, and that of the pairs.
    """

    def __init__(
        self,
        points: FloatArray,
        weights: FloatArray,
        responses: FloatArray,
        *,
        kernel: Kernel,
        radius: FloatArray,
        box: Box,
        tol: float = 1e-12,
    ) -> None:
        self._kernel, self._radius, self._tol, self._box = kernel, radius, tol, box
        self._compiled = not compiled_refusal(kernel)
        inside = box.holds(points)
        self._inner, self._outer = (
            tuple(array[mask] for array in (points, weights, responses))
            for mask in (inside, ~inside)
        )
        self._bulk = BandlimitedSum(*self._inner, kernel=kernel, radius=radius, box=box, tol=tol)
        self._pairwise: dict[tuple[bool, bool], _Pairwise] = {}

    def at(self, queries: FloatArray, parts: tuple[str, ...]) -> KernelSums:
        """Return the sums at queries of shape ``(m, dim)``."""
        inside = self._box.holds(queries)
        pieces = []
        if inside.any():
            rows = np.flatnonzero(inside)
            pieces.append((rows, self._bulk.at(queries[rows], parts)))
        if not inside.all():
            rows = np.flatnonzero(~inside)
            pieces.append((rows, self._pairs(parts, outer=False).at(queries[rows], parts)))
        sums = KernelSums.joined(pieces)
        if not len(self._outer[0]):
            return sums
        return _added(sums, self._pairs(parts, outer=True).at(queries, parts))

    def _pairs(self, parts: tuple[str, ...], *, outer: bool) -> _Pairwise:
        """Return sums over pairs with the samples outside or inside, prepared on first use."""
        compiled = self._compiled and set(parts) == {"value"}
        pairwise = self._pairwise.get((outer, compiled))
        if pairwise is None:
            pairwise = self._prepared(self._outer if outer else self._inner, compiled=compiled)
            self._pairwise[outer, compiled] = pairwise
        return pairwise

    def _prepared(self, samples: tuple[FloatArray, ...], *, compiled: bool) -> _Pairwise:
        points, weights, responses = samples
        options: dict[str, Any] = {"kernel": self._kernel, "radius": self._radius}
        if not compiled:
            return ReferenceSum(points, weights, responses, **options)
        return CentredSum(
            points, weights, responses, **options, tol=self._tol, centre=self._box.centre
        )


def _added(one: KernelSums, other: KernelSums) -> KernelSums:
    """Return the sums of both at the same queries, in the higher of their scales."""
    exponent = np.maximum(one.exponent, other.exponent)
    scales = [np.ldexp(1.0, _shift(each.exponent - exponent)) for each in (one, other)]
    near, far = scales
    return KernelSums(
        one.in_units * near[:, None] + other.in_units * far[:, None],
        one.denominator * near + other.denominator * far,
        one.error * near + other.error * far,
        exponent,
    )


def _shift(exponent: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.maximum(exponent, -2000)  # ldexp takes 32 bits; far below, it is zero
