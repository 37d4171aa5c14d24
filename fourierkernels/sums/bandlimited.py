"""Band-limited sums: a nonuniform FFT, O((n + m) log) where the direct sum is O(n m).

K̂ has compact support, so K times a smooth window is a short Fourier series on a period just over
twice the range of the data. The window is 1 on all differences that occur, so the series is exact
there although the kernel itself has not decayed ("windowed periodisation"); plain periodisation
would need thousands of periods for l <= 4. The sum is then: type-1 transform of the weights,
times the coefficients, type-2 transform to the queries [barnett2019finufft]_.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.kernels import Kernel
from fourierkernels.sums.coordinates import Box
from fourierkernels.sums.parts import PARTS
from fourierkernels.sums.result import KernelSums
from fourierkernels.sums.series import Series, fourier_series
from fourierkernels.sums.transforms import backward, forward

_EPS = float(np.finfo(float).eps)
_LARGEST_BATCH = 2**27  # bytes of spectra transformed together

Grid = tuple[tuple[float, int], ...]  # period and number of modes, per dimension


class BandlimitedSum:
    """Sums in frequency; arguments as :class:`fourierkernels.sums.SampleSum` passes them.

    The error of every sum is below `tol` (plus the rounding of the phases of high modes) times the
    largest sum; `error` states it. It is absolute: small sums are known to fewer digits.

    The type-1 transform of the samples and the series of the kernel are kept for further blocks of
    queries; `box` contains the samples and all queries.
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
        self._points, self._kernel, self._radius, self._tol = points, kernel, radius, tol
        self._columns = 1 + responses.shape[1]
        self._pairs = _pairs(weights, responses)
        self._heaviest = float(weights.max(initial=0.0))  # the sum at a sample is about as large
        self._spans = box.spans
        self._centre = 0.5 * np.array(box.low) + 0.5 * np.array(box.high)
        self._series: dict[tuple[tuple[str, ...], int], list[Series]] = {}
        self._spectra: dict[Grid, NDArray[np.complex128]] = {}

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
        (grid,) = {tuple((s.period, len(s.coefficients)) for s in each) for each in series}
        if grid not in self._spectra:
            self._spectra[grid] = self.transformed(grid)
        spectrum, phases = self._spectra[grid], self._phases(queries, grid)
        pairs = [spectrum] * len(parts) + [spectrum[:1]] * len(alone)
        results = []
        for rows in _batches([len(each) for each in pairs], spectrum[0].nbytes):
            shaped = [
                pairs[k] * math.prod(np.ix_(*(s.coefficients for s in series[k]))) for k in rows
            ]
            sums = self._evaluated(phases, np.concatenate(shaped))
            for k, each in zip(rows, shaped, strict=True):
                mine, sums = sums[: len(each)], sums[len(each) :]
                columns = self._columns if k < len(parts) else 1
                results.append(self._result(mine, each[0], columns, series[k]))
        return results

    def _evaluated(
        self, phases: list[FloatArray], spectra: NDArray[np.complex128]
    ) -> NDArray[np.complex128]:
        """Return the type-2 transforms of spectra ``(t, *modes)``, shape ``(t, m)``."""
        sums = backward(*phases, spectra, isign=1, **self._options)
        return np.atleast_2d(sums)

    def _result(
        self,
        sums: NDArray[np.complex128],
        spectrum: NDArray[np.complex128],
        columns: int,
        series: list[Series],
    ) -> KernelSums:
        """Return real columns, one in each real or imaginary part, with the error of the first."""
        real = [sums[c // 2].imag if c % 2 else sums[c // 2].real for c in range(columns)]
        responses = np.stack(real[1:], axis=1) if columns > 1 else np.zeros((len(real[0]), 0))
        power = np.square(spectrum.real) + np.square(spectrum.imag)
        peak = math.sqrt(power.sum())  # root mean square of the first column
        accuracy = self._tol + 0.25 * _EPS * sum(len(s.coefficients) for s in series)
        size = accuracy * max(peak, self._heaviest, float(np.abs(real[0]).max()))
        error, exponent = (np.broadcast_to(each, len(real[0])) for each in (size, 0))
        return KernelSums(responses, np.ascontiguousarray(real[0]), error, exponent)

    def _series_of(self, parts: tuple[str, ...], moment: int) -> list[Series]:
        """Return one series per dimension, on the grid that serves moments up to `moment`."""
        key = parts, moment
        if key not in self._series:
            self._series[key] = [
                fourier_series(
                    self._kernel, float(r), float(span), tol=self._tol, part=part, moment=moment
                )
                for r, span, part in zip(self._radius, self._spans, parts, strict=True)
            ]
        return self._series[key]

    def transformed(self, grid: Grid) -> NDArray[np.complex128]:
        """Return the type-1 transform of the samples, shape ``(pairs, *modes)``."""
        modes = tuple(count for _, count in grid)
        phases = self._phases(self._points, grid)
        return np.asarray(
            forward(*phases, self._pairs, modes, isign=-1, **self._options), np.complex128
        )

    def _phases(self, points: FloatArray, grid: Grid) -> list[FloatArray]:
        return [
            (column - middle) * (2.0 * math.pi / period)
            for column, middle, (period, _) in zip(points.T, self._centre, grid, strict=True)
        ]

    @property
    def _options(self) -> dict[str, Any]:
        return {"eps": max(0.1 * self._tol, 1e-14), "real": self._columns == 1}


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


def _pairs(weights: FloatArray, responses: FloatArray) -> NDArray[np.complex128]:
    """Two real columns travel as one complex one: the kernel is real, so they do not mix."""
    pairs = np.zeros((responses.shape[1] // 2 + 1, len(weights)), np.complex128)
    pairs[0].real = weights
    for k, column in enumerate(responses.T, start=1):
        half = pairs[k // 2].imag if k % 2 else pairs[k // 2].real
        np.multiply(column, weights, out=half)
    return pairs
