"""Band-limited sums in which each sample has a radius of its own, R times a factor λ_i.

∏_d shape(λ R_d u_d) is a function of λ too, and one without high frequencies: shape(λ v) is a mean
of waves exp(iλvs) over |s| up to the cutoff of the kernel. So the factors are cut into intervals,
and on each the function is a polynomial through q Chebyshev nodes. A sample counts at the nodes of
its interval, with the Lagrange polynomials at its factor as weights: sums with one radius each.
Their modes are added before they are evaluated, once. How a wave errs is known from its phase over
an interval, so intervals are as long as the accuracy allows, and the cheapest q is taken. Where the
kernel has decayed at all factors of an interval, waves need not be followed.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special
from scipy.optimize import brentq

from fourierkernels.foundation.arrays import ComplexArray, FloatArray, IntArray
from fourierkernels.kernels import GaussianKernel, Kernel
from fourierkernels.sums.bandlimited import BandlimitedSum, grid_of, mode_product
from fourierkernels.sums.coordinates import Box, Grid
from fourierkernels.sums.parts import PARTS
from fourierkernels.sums.result import KernelSums
from fourierkernels.sums.series import series_table
from fourierkernels.sums.transforms import choice, forward

_SAFETY = 0.01  # of tol: the share of the polynomials in the error
_NODES = (8, 12, 16, 24, 32, 40, 48, 64, 80)  # that an interval may have
_MOST_RUNGS = 10_000  # intervals: beyond, there is no plan
_RUNG = 6e-8  # seconds of a node and a mode, for its series
_LARGEST_BATCH = 2**27  # bytes of modes that are held at once


class Ladder(NamedTuple):
    """Intervals of factors, from the highest on.

    Attributes
    ----------
    nodes : int
        In an interval, unless it has fewer samples.
    starts : integer array of shape (k + 1,)
        Interval j has the sorted factors from ``starts[j + 1]`` up to ``starts[j]``.
    seconds : float
        What the sum over all nodes is estimated to take.
    """

    nodes: int
    starts: IntArray
    seconds: float


def ladder_of(
    factors: FloatArray,
    kernel: Kernel,
    spans: FloatArray,
    tol: float,
    *,
    modes: tuple[float, ...],
    columns: int,
) -> Ladder | None:
    """Return the cheapest ladder for these factors; None if it has too many intervals.

    Parameters
    ----------
    factors : array of shape (n,)
        Sorted.
    spans : array of shape (dim,)
        R_d times the largest difference of a query and a sample.
    modes : tuple of dim floats
        Of sums with the largest radius.
    columns : int
        Sums per query.
    """
    best = None
    for nodes in _NODES:
        starts = _starts(factors, kernel, spans, _SAFETY * tol, nodes)
        if starts is not None:
            seconds = _seconds(-np.diff(starts), nodes, modes, columns, 0.1 * tol)
            if best is None or seconds < best.seconds:
                best = Ladder(nodes, starts, seconds)
    return best


def _starts(
    factors: FloatArray, kernel: Kernel, spans: FloatArray, tol: float, nodes: int
) -> IntArray | None:
    """Return where intervals start among sorted factors, as long as so many nodes allow."""
    phase = _largest_phase(nodes, tol)
    length = 2.0 * phase / (kernel.cutoff * float(spans.sum()) or 1.0)
    share = 2.0 * phase / (kernel.cutoff * len(spans) * decayed(kernel, tol))
    starts = [len(factors)]
    while starts[-1] and len(starts) < _MOST_RUNGS:
        high = float(factors[starts[-1] - 1])
        low = min(high - length, high / (1.0 + share))
        starts.append(int(np.searchsorted(factors, low)))
    return None if starts[-1] else np.array(starts)


def _seconds(
    counts: IntArray, nodes: int, modes: tuple[float, ...], columns: int, eps: float
) -> float:
    """Return the seconds of all transforms to modes, and of the series of each node."""
    used = np.minimum(counts, nodes)
    transforms = sum(
        choice(modes, int(n), columns * int(q), eps).seconds
        for n, q in zip(counts, used, strict=True)
    )
    products = 4e-9 * columns * math.prod(modes)
    return float(transforms + used.sum() * (_RUNG * sum(modes) + products))


@lru_cache
def _largest_phase(nodes: int, tol: float) -> float:
    """Return θ up to which so many nodes take exp(iθx), |x| <= 1, to `tol`.

    Its Chebyshev coefficients are 2 i^k J_k(θ); interpolation errs by at most twice what it leaves
    out.
    """
    degrees = np.arange(nodes, nodes + 40)  # where θ is found, those beyond are below 1e-20

    def excess(phase: float) -> float:
        return float(4.0 * np.abs(special.jv(degrees, phase)).sum() - tol)

    return float(brentq(excess, 0.0, float(nodes), xtol=1e-3)) - 1e-3  # on the side that keeps tol


def decayed(kernel: Kernel, tol: float) -> float:
    """Return u from which on the shape, and what its integral lacks, are below `tol`."""
    if isinstance(kernel, GaussianKernel):
        return math.sqrt(2.0 * math.log(1.0 / tol))
    power = float(getattr(kernel, "lowest_power", 1))
    return tol ** (-1.0 / (power - 1.0)) if power > 1 else math.inf


def factor_powers(factors: FloatArray, parts: Sequence[str]) -> FloatArray:
    """Return λ_i to the power with which the radius scales these parts, shape ``(n,)``."""
    return np.asarray(factors ** sum(PARTS[part].radius_power for part in parts))


class LadderSum(BandlimitedSum):
    """Band-limited sums of λ_i^p ∏_d g_d(λ_i R_d(x_d - x_id)), p as of :func:`factor_powers`.

    Parameters
    ----------
    points, weights, responses, kernel, radius, box, tol
        As for :class:`fourierkernels.sums.bandlimited.BandlimitedSum`, the samples by factor.
    factors : array of shape (n,)
        Sorted.
    ladder : Ladder
    """

    def __init__(
        self,
        points: FloatArray,
        weights: FloatArray,
        responses: FloatArray,
        *,
        factors: FloatArray,
        ladder: Ladder,
        kernel: Kernel,
        radius: FloatArray,
        box: Box,
        tol: float,
    ) -> None:
        super().__init__(points, weights, responses, kernel=kernel, radius=radius, box=box, tol=tol)
        self._factors, self._ladder = factors, ladder
        self._modes: dict[tuple[str, ...], tuple[Grid, ComplexArray]] = {}

    def at_all(
        self,
        queries: FloatArray,
        parts: list[tuple[str, ...]],
        alone: Sequence[tuple[str, ...]] = (),
    ) -> list[KernelSums]:
        """Return the sums of all `parts`, then those of `alone`, which are without responses."""
        sums = [self._sums(queries, names, self._columns) for names in parts]
        return sums + [self._sums(queries, names, 1) for names in alone]

    def _sums(self, queries: FloatArray, names: tuple[str, ...], columns: int) -> KernelSums:
        if names not in self._modes:
            self._modes[names] = self._added(names)
        grid, modes = self._modes[names]
        some = modes[:columns]
        scaled = self._weights * factor_powers(self._factors, names)
        self._heaviest = float(scaled.max(initial=0.0))
        return self._result(self._evaluated(queries, some, grid), some[0], grid, names)

    def _added(self, names: tuple[str, ...]) -> tuple[Grid, ComplexArray]:
        """Return the modes of the whole sum, added over the nodes of all intervals."""
        grid = self._tables(self._factors[-1:], names)[0]
        strengths = self._strengths() * factor_powers(self._factors, names)
        total: ComplexArray = np.zeros((self._columns, *kept_modes(grid)), np.complex128)
        for stop, start in pairwise(self._ladder.starts):
            rows = slice(start, stop)
            nodes, basis = lagrange(self._factors[rows], self._ladder.nodes)
            inner_grid, tables = self._tables(nodes, names)
            inner = total[_within(inner_grid, grid)]
            for some in _batches(len(nodes), inner.nbytes):
                shares = (basis[some, None] * strengths[:, rows]).reshape(-1, stop - start)
                spectra = forward(self._points[rows], shares, inner_grid, self._box, eps=self._eps)
                each = spectra.reshape(-1, *inner.shape)
                for place, spectrum in zip(range(len(nodes))[some], each, strict=True):
                    inner += spectrum * mode_product([table[place] for table in tables])
        return grid, total

    def _tables(
        self, nodes: FloatArray, names: tuple[str, ...]
    ) -> tuple[Grid, list[NDArray[np.float64] | NDArray[np.complex128]]]:
        """Return the grid for nodes ``(q,)``, and coefficients ``(q, modes)`` per dimension."""
        tables = [
            series_table(
                self._kernel,
                nodes * r,
                float(span),
                among=(float(self._factors[0] * r), float(self._factors[-1] * r)),
                tol=self._tol,
                part=part,
            )
            for r, span, part in zip(self._radius, self._box.spans, names, strict=True)
        ]
        return grid_of(tables), [table.coefficients for table in tables]


def kept_modes(grid: Grid) -> tuple[int, ...]:
    """Return the shape of the modes that :func:`forward` keeps, of one column."""
    first, *others = (count for _, count in grid)
    return first // 2, *(count - 1 for count in others)


def _within(inner: Grid, grid: Grid) -> tuple[slice, ...]:
    """Return where the modes of a grid are among those of one with more, of all columns."""
    first, *others = zip(kept_modes(inner), kept_modes(grid), strict=True)
    middle = [slice((all_ - some) // 2, (all_ + some) // 2) for some, all_ in others]
    return slice(None), slice(first[0]), *middle


def _batches(nodes: int, nbytes: int) -> list[slice]:
    """Cut nodes into runs whose modes together hold about `_LARGEST_BATCH` bytes."""
    size = max(1, _LARGEST_BATCH // nbytes)
    return [slice(first, first + size) for first in range(0, nodes, size)]


def lagrange(factors: FloatArray, nodes: int) -> tuple[FloatArray, FloatArray]:
    """Return nodes in the range of factors ``(n,)``, and the Lagrange polynomials ``(q, n)`` there.

    Chebyshev nodes and the second barycentric formula; few factors are their own nodes.

    Examples
    --------
    >>> at, basis = lagrange(np.linspace(1.0, 2.0, 50), 8)
    >>> bool(np.allclose(at**5 @ basis, np.linspace(1.0, 2.0, 50) ** 5))
    True
    """
    distinct, place = np.unique(factors, return_inverse=True)
    if len(distinct) <= nodes:
        return distinct, np.asarray(np.arange(len(distinct))[:, None] == place, np.float64)
    angles = np.pi * (np.arange(nodes) + 0.5) / nodes
    middle, half = 0.5 * (distinct[-1] + distinct[0]), 0.5 * (distinct[-1] - distinct[0])
    at = middle + half * np.cos(angles)
    gaps = factors - at[:, None]
    hit = gaps == 0.0
    terms = (np.sin(angles) * (-1.0) ** np.arange(nodes))[:, None] / np.where(hit, 1.0, gaps)
    return at, np.where(hit.any(axis=0), 1.0 * hit, terms / terms.sum(axis=0))
