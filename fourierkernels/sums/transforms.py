"""Transforms of real strengths between points and Fourier modes, and how they are chosen.

Sums over modes are real where modes are conjugates in pairs, so that half of them is kept: modes
0 <= k_0 < M_0/2 and |k_d| < M_d/2. The two ways to them are those of
:mod:`fourierkernels.sums.lattices`.
"""

import math
import os
import sys
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import fft

from fourierkernels.foundation.arrays import ComplexArray, FloatArray
from fourierkernels.sums.coordinates import Box, Grid

if TYPE_CHECKING:
    from fourierkernels.sums.lattices import Way

_WIDTHS = range(3, 17)  # cells of a window
_OVERSAMPLING = (1.25, 2.5)
_MARGIN = 4.0  # times the estimate, below which the errors of windows stay
_LARGE = 2**18  # cells from which on threads share an FFT
_DEGREES = 8
# Seconds; see `plan`.
_WINDOW, _ROW, _COLUMN = 9e-9, 2.8e-9, 2e-9  # of a point in a dimension, a row of it, a column
_CELL = 6e-9  # of a cell in an FFT
_MOMENTS, _MOMENT_CELL = 1e-9, 6e-8  # of a point, once and per column, and of a cell
_WAVE, _PRODUCT = 2e-8, 2e-10  # of a wave at a place of an axis, and of a product with it


class Choice(NamedTuple):
    """A way to the modes: the width of a window, 0 for moments; cells per period; seconds."""

    width: int
    sizes: tuple[int, ...]
    seconds: float


def forward(
    points: FloatArray, strengths: FloatArray, grid: Grid, box: Box, *, eps: float
) -> ComplexArray:
    """Return Σ_j c_j exp(-i ω_k·(x_j - centre of the box)), shape ``(t, M_0/2, M_1 - 1, ...)``.

    Parameters
    ----------
    points : array of shape (n, dim)
    strengths : array of shape (t, n)
    grid : Grid
        ω_k has the components 2π k_d / period_d.
    box : Box
        Contains all points.
    eps : float
        Accuracy relative to Σ |c_j|.
    """
    way = _way(len(points), len(strengths), grid, box, eps)
    return way.forward(points, strengths)


def backward(
    points: FloatArray, halves: ComplexArray, grid: Grid, box: Box, *, eps: float
) -> FloatArray:
    """Return Σ_k f_k exp(i ω_k·(x_j - centre of the box)) at queries ``(m, dim)``, real.

    Parameters
    ----------
    halves : array of shape (t, M_0/2, M_1 - 1, ...)
        f at the modes that :func:`forward` returns; the others are their conjugates.
    points, grid, box
        As for :func:`forward`.
    eps : float
        Accuracy relative to Σ |f_k|.

    Returns
    -------
    array of shape (t, m)
    """
    way = _way(len(points), len(halves), grid, box, eps)
    return way.backward(points, halves)


def on_axes(axes: Sequence[FloatArray], halves: ComplexArray, grid: Grid, box: Box) -> FloatArray:
    """Return the sums of :func:`backward` where coordinates of the axes meet, to rounding.

    Dimensions are summed in turn, by products of matrices; shape ``(t, *lengths)``.
    """
    phases = [
        2.0 * math.pi / period * (axis - middle)
        for axis, (period, _), middle in zip(axes, grid, box.centre, strict=True)
    ]
    values = halves
    for d in range(len(axes) - 1, 0, -1):
        highest = halves.shape[d + 1] // 2
        waves = _waves(phases[d], np.arange(-float(highest), highest + 1))
        values = np.moveaxis(np.tensordot(values, waves, axes=(d + 1, 1)), -1, d + 1)
    waves = 2.0 * _waves(phases[0], np.arange(float(halves.shape[1])))
    waves[:, 0] = 1.0
    real = np.tensordot(waves.real, values.real, axes=(1, 1))
    real -= np.tensordot(waves.imag, values.imag, axes=(1, 1))
    return np.ascontiguousarray(np.moveaxis(real, 0, 1))


def largest_on_lattice(halves: ComplexArray) -> float:
    """Return the largest size of a sum over modes at as many places as it has modes.

    Parameters
    ----------
    halves : array of shape (M_0/2, M_1 - 1, ...)
        The modes that are kept.
    """
    ordered = fft.ifftshift(np.moveaxis(halves, 0, -1), axes=range(halves.ndim - 1))
    shape = *ordered.shape[:-1], 2 * ordered.shape[-1]
    return float(np.abs(fft.irfftn(ordered, shape, norm="forward")).max())


def axes_pay(lengths: tuple[int, ...], shape: tuple[int, ...], eps: float) -> bool:
    """Return whether :func:`on_axes` takes less time than :func:`backward` at all the points.

    Parameters
    ----------
    lengths : tuple of dim ints
        Of the axes.
    shape : tuple
        Of the modes that are kept, ``(t, M_0/2, M_1 - 1, ...)``.
    eps : float
        Of :func:`backward`.
    """
    columns, *kept = shape
    products, waves, done = 0, 0, columns * math.prod(kept)
    for length, count in zip(reversed(lengths), reversed(kept), strict=True):
        products += length * done
        waves += length * count
        done = done // count * length
    modes = (2.0 * kept[0], *(count + 1.0 for count in kept[1:]))
    seconds = choice(modes, math.prod(lengths), columns, eps).seconds
    return _WAVE * waves + _PRODUCT * products < seconds


def _waves(phases: FloatArray, modes: FloatArray) -> ComplexArray:
    return np.asarray(np.exp(1j * np.multiply.outer(phases, modes)))


def _way(count: int, columns: int, grid: Grid, box: Box, eps: float) -> "Way":
    from fourierkernels.sums.lattices import Moments, Windows  # numba loads when there are points

    modes = tuple(number for _, number in grid)
    width, sizes, _ = choice(modes, count, columns, eps)
    if not width:
        return Moments(grid, box, cells=sizes[0])
    threads = transform_threads() if math.prod(sizes) >= _LARGE else 1
    return Windows(grid, box, width=width, sizes=sizes, threads=threads)


def transform_tolerance(tol: float) -> float:
    """Return the accuracy of transforms in a sum to `tol`: a tenth, the series may take the rest.

    Not below what rounding leaves; tolerances that users give do not come so low.
    """
    return max(0.1 * tol, 1e-14)


@lru_cache(maxsize=1024)
def choice(modes: tuple[float, ...], count: int, columns: int, eps: float) -> Choice:
    """Return the cheapest way for so many points, columns and modes per dimension."""
    return min(ways(modes, count, columns, eps), key=lambda way: way.seconds)


def ways(modes: tuple[float, ...], count: int, columns: int, eps: float) -> list[Choice]:
    """Return all ways, moments last."""
    choices = [
        _windows(modes, width, oversampling, count, columns)
        for width in _WIDTHS
        if (oversampling := _oversampling(width, eps)) <= _OVERSAMPLING[1]
    ]
    if len(modes) == 1:
        choices.append(_moments(modes[0], count, columns, eps))
    return choices


def _oversampling(width: int, eps: float) -> float:
    """Return the cells over the modes, per dimension, at which a window of this width reaches eps.

    A window of w cells keeps log(1/eps) = π w √(1 - 1/σ) at oversampling σ.
    """
    share = math.log(_MARGIN / eps) / (math.pi * width)
    return math.inf if share >= 1.0 else max(_OVERSAMPLING[0], 1.0 / (1.0 - share * share))


def _windows(
    modes: tuple[float, ...], width: int, oversampling: float, count: int, columns: int
) -> Choice:
    dim, vectors = len(modes), math.ceil(width / 8)
    sizes = tuple(_good_size(oversampling * number) for number in modes)
    row = _ROW * 0.5 * vectors * width ** (dim - 1) + _COLUMN
    points = count * (_WINDOW * 0.5 * (1 + vectors) * dim + columns * row)
    return Choice(width, sizes, points + columns * _CELL * math.prod(sizes))


def _moments(modes: float, count: int, columns: int, eps: float) -> Choice:
    """Return cells so narrow that polynomials of degree 7 take exp(ikx) to `eps` there.

    From values at Chebyshev's eight nodes, they err by at most 2 (θ/2)^8 / 8!, θ = π modes / (2
    cells).
    """
    theta = 2.0 * (0.5 * eps * math.factorial(_DEGREES)) ** (1.0 / _DEGREES)
    cells = _good_size(max(modes, 0.5 * math.pi * modes / theta))
    points = count * _MOMENTS * (1 + columns)
    return Choice(0, (cells,), points + columns * _MOMENT_CELL * cells)


def _good_size(least: float) -> int:
    """Return an even number of cells of which FFTs are fast."""
    return 2 * int(fft.next_fast_len(math.ceil(0.5 * least), real=True))


# ---- threads -----------------------------------------------------------------------------------


def loop_threads() -> int:
    """Return how many threads numba's loops have been given, by default one per core allowed.

    numba would start its threads to tell, after which a process can no longer be forked safely.

    Examples
    --------
    >>> loop_threads() >= 1
    True
    """
    loaded = sys.modules.get("numba.np.ufunc.parallel")
    if loaded is not None and loaded._is_initialized:
        return int(loaded.get_num_threads())
    return _number("NUMBA_NUM_THREADS") or _cores()


def transform_threads() -> int:
    """Return how many threads a transform may use: what both numba and OpenMP allow."""
    return min(loop_threads(), _number("OMP_NUM_THREADS") or _cores())


def _number(variable: str) -> int:
    """Return a positive number of the environment, the first of a list; 0 if there is none."""
    first = os.environ.get(variable, "").partition(",")[0].strip()
    return int(first) if first.isdecimal() else 0


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
