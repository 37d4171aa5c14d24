"""Direct sums: every pair, any dimension, in double or single precision; see `ops.kernel_sums`."""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.kernels import Kernel
from fourierkernels.ops.cpu.kernel_sums import Queries, Samples, sum_pairs
from fourierkernels.ops.cpu.moment_sums import Monomials, sum_moments
from fourierkernels.ops.cpu.pairs import sines, tiles
from fourierkernels.sums.coordinates import centring_limit, middle
from fourierkernels.sums.parts import PARTS
from fourierkernels.sums.problem import compiled_shape
from fourierkernels.sums.reference import ReferenceSum
from fourierkernels.sums.result import KernelSums, rounding_of_sum

_HALF_LOG2_E = 0.5 / math.log(2.0)
_FAR = 5e8  # of -log2 of a weight: half of where its exponent is cut off
_LEAST_EXPONENT = -(2.0**62)
_FEW = 4  # queries that the reference sums sooner than the sines of all samples are computed


class DirectSum:
    """Sums over all pairs, exact up to rounding for any `tol`; `SampleSum` passes arguments."""

    dtype: ClassVar[type[np.floating]] = np.float64

    def __init__(
        self,
        points: FloatArray,
        weights: FloatArray,
        responses: FloatArray,
        *,
        kernel: Kernel,
        radius: FloatArray,
        tol: float = 0.0,
        centre: FloatArray | None = None,
    ) -> None:
        self._radius = radius
        self._shape = compiled_shape(kernel)
        # Small arguments of sin; an outlier must not cost the others their digits.
        self._centre: FloatArray = middle(points) if centre is None else centre
        samples = radius * (points - self._centre)
        self._samples, self._span = samples, np.abs(samples).max(axis=0)
        self._reach = float(self._span.max())
        self._eps = float(np.finfo(self.dtype).eps)
        self._rounding = 4 * self._eps + rounding_of_sum(len(points))
        # In units of the largest, a power of two: neither precision holds all weights of float64.
        self._unit = int(np.frexp(weights.max())[1]) - 1
        weights = np.ldexp(weights, -self._unit)
        columns = [weights, *(column * weights for column in responses.T)]
        rows = tiles(self._coordinates(samples), self.dtype)
        self._tiles = Samples(rows, tiles(columns, self.dtype))

    def at(self, queries: FloatArray, parts: tuple[str, ...]) -> KernelSums:
        """Return the sums of shapes, or of moments, at queries of shape ``(m, dim)``."""
        if any(part != "value" for part in parts):
            return self.at_all(queries, [parts])[0]
        return self._values_at(queries)

    def _values_at(self, queries: FloatArray) -> KernelSums:
        """Return the sums of shapes at queries of shape ``(m, dim)``."""
        return self._at_scaled(self._scaled(queries))

    def _at_scaled(self, queries: FloatArray) -> KernelSums:
        laid_out, base = self._laid_out(queries)
        sums = sum_pairs(laid_out, self._tiles, self._shape, self.dtype(self._rounding))
        exponent = self._exponent(sums.exponent, base)
        return KernelSums(sums.numerator, sums.denominator, sums.error, exponent)

    def at_all(
        self,
        queries: FloatArray,
        parts: list[tuple[str, ...]],
        alone: Sequence[tuple[str, ...]] = (),
    ) -> list[KernelSums]:
        """Return the sums of moments, then those of `alone`, which are without responses.

        The weights of all pairs are computed once.
        """
        laid_out, base = self._laid_out(self._scaled(queries))
        powers = [tuple(PARTS[part].moment for part in names) for names in [*parts, *alone]]
        listed, places = _monomials(powers)
        sums = sum_moments(
            laid_out,
            self._tiles,
            self._shape,
            listed,
            with_responses=max(places[: len(parts)]) + 1,
            rounding=self._rounding,
        )
        exponent = self._exponent(sums.exponent, base)
        none = np.zeros((len(queries), 0))
        return [
            KernelSums(
                sums.numerator[:, a] if k < len(parts) else none,
                sums.denominator[:, a],
                sums.error[:, a],
                exponent,
            )
            for k, a in enumerate(places)
        ]

    def _scaled(self, queries: FloatArray) -> FloatArray:
        """Return u = R (q - c), shape ``(m, dim)``."""
        return self._radius * (queries - self._centre)

    def _laid_out(self, queries: FloatArray) -> tuple[Queries, FloatArray]:
        """Return scaled queries as the loops read them, and what is added to their exponents."""
        base = self._bases(queries)
        reach = 2 * self._eps * (1.0 + np.abs(queries).max(axis=1) + self._reach)  # error of u
        rows = np.column_stack(self._coordinates(queries)).astype(self.dtype)
        return Queries(rows, base.astype(self.dtype), reach.astype(self.dtype)), base

    def _exponent(self, exponent: NDArray[np.int64], base: FloatArray) -> NDArray[np.int64]:
        return np.maximum(exponent + self._unit - base, _LEAST_EXPONENT).astype(np.int64)

    def _bases(self, queries: FloatArray) -> FloatArray:
        """Return -log2 of the largest Gaussian weight where exponents would overflow, else 0."""
        bases = np.zeros(len(queries))
        if not self._shape.gaussian:
            return bases
        farthest = np.square(np.abs(queries) + self._span).sum(axis=1)
        far = np.flatnonzero(_HALF_LOG2_E * farthest > _FAR)
        if len(far):
            nearest = cKDTree(self._samples).query(queries[far])[0]
            bases[far] = np.floor(_HALF_LOG2_E * np.square(nearest))
        return bases

    def _coordinates(self, x: FloatArray) -> list[FloatArray]:
        return list(x.T) if self._shape.gaussian else sines(x)


class SinglePrecisionSum(DirectSum):
    """The same in single precision: about twice as fast, errors of a few 1e-7 times the span."""

    dtype = np.float32


def _monomials(wanted: list[tuple[int, ...]]) -> tuple[Monomials, list[int]]:
    """Return the wanted monomials and those they are built from, and the places of the wanted."""
    listed = {(0,) * len(wanted[0]): 0}
    parents, coordinates = [0], [0]

    def place(powers: tuple[int, ...]) -> int:
        if powers not in listed:
            d = next(d for d, a in enumerate(powers) if a)
            parents.append(place((*powers[:d], powers[d] - 1, *powers[d + 1 :])))
            coordinates.append(d)
            listed[powers] = len(listed)
        return listed[powers]

    places = [place(powers) for powers in wanted]
    return Monomials(np.array(parents), np.array(coordinates)), places


class CentredSum(DirectSum):
    """Direct sums with further centres where queries are too far from the middle for `tol`.

    Arguments are as `SampleSum` passes them; the middle is the lower median unless it is given.
    Each further centre serves the queries of one cell and costs a pass over the samples; cells of
    a few queries go to the reference.
    """

    def __init__(
        self,
        points: FloatArray,
        weights: FloatArray,
        responses: FloatArray,
        *,
        kernel: Kernel,
        radius: FloatArray,
        tol: float = 1e-12,
        centre: FloatArray | None = None,
    ) -> None:
        options: dict[str, Any] = {"kernel": kernel, "radius": radius}
        super().__init__(points, weights, responses, **options, tol=tol, centre=centre)
        self._again = partial(DirectSum, points, weights, responses, **options)
        self._reference = ReferenceSum(points, weights, responses, **options)
        self._limit = centring_limit(kernel, len(radius), tol)

    def _values_at(self, queries: FloatArray) -> KernelSums:
        scaled = self._scaled(queries)
        is_far = self._is_far(np.abs(scaled))
        if not is_far.any():
            return self._at_scaled(scaled)
        near, far = np.flatnonzero(~is_far), np.flatnonzero(is_far)
        pieces = [(near, self._at_scaled(scaled[near]))] if len(near) else []
        cells = np.floor(scaled[far] / self._limit)
        _, which, counts = np.unique(cells, axis=0, return_inverse=True, return_counts=True)
        which = which.ravel()
        few = far[counts[which] < _FEW]
        if len(few):
            pieces.append((few, self._reference.at(queries[few], ("value",) * len(self._radius))))
        for cell in np.flatnonzero(counts >= _FEW):
            rows = far[which == cell]
            around = self._again(centre=queries[rows[0]])
            pieces.append((rows, around._values_at(queries[rows])))
        return KernelSums.joined(pieces)

    def _is_far(self, size: FloatArray) -> NDArray[np.bool_]:
        """Return which queries are beyond the limit and not far beyond all samples too.

        At twice the samples' distance from the centre |q| is at most 2|u|.
        """
        doubtful = (size > self._limit) & (size < 2.0 * self._span)
        return np.asarray(doubtful.any(axis=1))
