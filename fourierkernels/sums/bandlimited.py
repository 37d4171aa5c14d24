"""Band-limited sums: a nonuniform FFT, O((n + m) log) where the direct sum is O(n m).

K̂ has compact support, so K times a smooth window is a short Fourier series on a period just over
twice the range of the data. The window is 1 on all differences that occur, so the series is exact
there although the kernel itself has not decayed ("windowed periodisation"); plain periodisation
would need thousands of periods for l <= 4. The sum is then: type-1 transform of the weights,
times the coefficients, type-2 transform to the queries [barnett2019finufft]_.
"""

import math
from collections.abc import Sequence
from functools import reduce

import numpy as np

from fourierkernels.foundation.arrays import ComplexArray, FloatArray
from fourierkernels.kernels import Kernel
from fourierkernels.sums.circle import series_of
from fourierkernels.sums.coordinates import Box, Grid, product_axes
from fourierkernels.sums.parts import PARTS
from fourierkernels.sums.result import KernelSums
from fourierkernels.sums.series import Series
from fourierkernels.sums.transforms import axes_pay, backward, forward, on_axes, transform_tolerance

_EPS = float(np.finfo(float).eps)
_LARGEST_BATCH = 2**27  # bytes of spectra transformed together


class BandlimitedSum:
    """Sums in frequency; arguments as :class:`fourierkernels.sums.SampleSum` passes them.

    The error of every sum is below `tol` (plus the rounding of the phases of high modes) times the
    largest sum; `error` states it. It is absolute: small sums are known to fewer digits.

    The type-1 transform of the samples and the series of the kernel are kept for further blocks of
    queries; `box` contains the samples and all queries. On a circle, where `periods` is finite,
    the series of the sum over images is finite and exact, and ends with the band.
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
        periods: FloatArray | None = None,
    ) -> None:
        self._points, self._kernel, self._radius, self._tol = points, kernel, radius, tol
        self._weights, self._responses = weights, responses
        self._columns = 1 + responses.shape[1]
        self._heaviest = float(weights.max(initial=0.0))  # the sum at a sample is about as large
        self._box = box
        self._periods = np.full(len(radius), math.inf) if periods is None else periods
        self._series: dict[tuple[tuple[str, ...], int], list[Series]] = {}
        self._spectra: dict[Grid, ComplexArray] = {}

    def at(self, queries: FloatArray, parts: tuple[str, ...]) -> KernelSums:
        """Return the sums at queries of shape ``(m, dim)`` within the box."""
        return self.at_all(queries, [parts])[0]

    def at_all(
        self,
        queries: FloatArray,
        parts: list[tuple[str, ...]],
        alone: Sequence[tuple[str, ...]] = (),
    ) -> list[KernelSums]:
        """Return the sums of all `parts`, then those of `alone`, which are without responses.

        The samples are transformed once, and the queries sorted once for many series.
        """
        both = [*parts, *alone]
        moment = max(PARTS[part].moment for names in both for part in names)
        series = [self._series_of(names, moment) for names in both]
        (grid,) = {grid_of(each) for each in series}
        if grid not in self._spectra:
            self._spectra[grid] = self.transformed(grid)
        spectrum, columns = self._spectra[grid], len(parts) * [self._columns] + len(alone) * [1]
        results = []
        for rows in _batches(columns, spectrum[0].nbytes):
            shaped = [
                spectrum[: columns[k]] * mode_product([each.coefficients for each in series[k]])
                for k in rows
            ]
            sums = self._evaluated(queries, np.concatenate(shaped), grid)
            for k, each in zip(rows, shaped, strict=True):
                mine, sums = sums[: len(each)], sums[len(each) :]
                results.append(self._result(mine, each[0], grid, both[k]))
        return results

    def _evaluated(self, queries: FloatArray, halves: ComplexArray, grid: Grid) -> FloatArray:
        """Return the sums over modes at the queries, shape ``(t, m)``."""
        product = product_axes(queries)
        if product is None or not axes_pay(product.lengths, halves.shape, self._eps):
            return backward(queries, halves, grid, self._box, eps=self._eps)
        sums = on_axes(product.axes, halves, grid, self._box)
        order = [0, *(1 + d for d in product.order)]
        return sums.transpose(order).reshape(len(halves), -1)

    def _result(
        self, sums: FloatArray, halves: ComplexArray, grid: Grid, parts: tuple[str, ...]
    ) -> KernelSums:
        """Return the columns, with the error of the first, whose modes are given."""
        power = np.square(halves.real) + np.square(halves.imag)
        peak = math.sqrt(2.0 * power.sum() - power[0].sum())  # root mean square over a period
        accuracy = self._tol + 0.25 * _EPS * sum(count for _, count in grid)
        size = accuracy * max(peak, self._heaviest, self._largest(sums[0], halves, parts))
        error, exponent = (np.broadcast_to(each, len(sums[0])) for each in (size, 0))
        responses = np.ascontiguousarray(sums[1:].T)
        return KernelSums(responses, np.ascontiguousarray(sums[0]), error, exponent)

    def _largest(self, sums: FloatArray, halves: ComplexArray, parts: tuple[str, ...]) -> float:
        """Return the largest sum, for which those at the queries stand; faint ones come again."""
        return float(np.abs(sums).max())

    def _series_of(self, parts: tuple[str, ...], moment: int) -> list[Series]:
        """Return one series per dimension, on the grid that serves moments up to `moment`."""
        key = parts, moment
        if key not in self._series:
            self._series[key] = [
                series_of(
                    self._kernel,
                    float(r),
                    float(span),
                    float(period),
                    tol=self._tol,
                    part=part,
                    moment=moment,
                )
                for r, span, period, part in zip(
                    self._radius, self._box.spans, self._periods, parts, strict=True
                )
            ]
        return self._series[key]

    def transformed(self, grid: Grid) -> ComplexArray:
        """Return the modes of weights and weighted responses, as :func:`forward`."""
        return forward(self._points, self._strengths(), grid, self._box, eps=self._eps)

    def _strengths(self) -> FloatArray:
        """Return weights and weighted responses, shape ``(columns, n)``."""
        if self._columns == 1:
            return self._weights[None]
        strengths = np.empty((self._columns, len(self._weights)))
        strengths[0] = self._weights
        np.multiply(self._responses.T, self._weights, out=strengths[1:])
        return strengths

    @property
    def _eps(self) -> float:
        return transform_tolerance(self._tol)


def grid_of(series: list[Series]) -> Grid:
    """Return the period and the number of modes of each dimension."""
    return tuple((each.period, each.coefficients.shape[-1]) for each in series)


def mode_product(coefficients: Sequence[FloatArray | ComplexArray]) -> ComplexArray:
    """Return the products of coefficients of all dimensions at the modes that are kept.

    The mode without a partner, the first of each dimension, is dropped: its coefficient is below
    the accuracy of the series.
    """
    first, *others = coefficients
    kept = [first[len(first) // 2 :], *(each[1:] for each in others)]
    product: ComplexArray = reduce(np.multiply, np.ix_(*kept))
    return product


def _batches(sizes: list[int], nbytes: int) -> list[list[int]]:
    """Cut places into runs whose transforms together hold at most about `_LARGEST_BATCH` bytes."""
    batches: list[list[int]] = []
    held = math.inf
    for place, size in enumerate(sizes):
        if held + size * nbytes > _LARGEST_BATCH:
            batches.append([])
            held = 0.0
        batches[-1].append(place)
        held += size * nbytes
    return batches
