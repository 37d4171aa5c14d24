"""Nonuniform transforms of finufft as kernel sums need them, small or on large grids.

On a large grid the time is that of the FFT. The oversampled grid is then as coarse as the widest
spreading kernel allows, threads share the work, and a transform of real strengths takes half of the
modes: those of the others are their conjugates [barnett2019finufft]_.
"""

import math
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import finufft
import numpy as np
from numpy.typing import NDArray

from fourierkernels.foundation.arrays import ComplexArray, FloatArray

Transform = Callable[..., ComplexArray]

_FORWARD: dict[int, Transform] = {1: finufft.nufft1d1, 2: finufft.nufft2d1, 3: finufft.nufft3d1}
_BACKWARD: dict[int, Transform] = {1: finufft.nufft1d2, 2: finufft.nufft2d2, 3: finufft.nufft3d2}
_LARGE = {1: 2**21, 2: 2**18, 3: 2**16}  # modes from which on the FFT takes most of the time
_WIDEST = 15.5  # grid points to which finufft spreads a point at most, less rounding up
_SHARE = 0.2  # of the accuracy: a coarse grid errs at single points by more than on average


def is_large(modes: Sequence[float]) -> bool:
    """Return whether the grid of so many modes per dimension is large."""
    return math.prod(modes) >= _LARGE[len(modes)]


def oversampling(modes: Sequence[float], eps: float) -> float:
    """Return the grid over the modes, per dimension; between 1.25 and 2.

    A point spread to w cells keeps log(1/eps) = π w √(1 - 1/σ) at oversampling σ.
    """
    if not is_large(modes):
        return 2.0
    share = math.log(1.0 / (_SHARE * eps)) / (math.pi * _WIDEST)
    return max(1.25, 1.0 / (1.0 - share * share))


def forward(*arguments: Any, isign: int, eps: float, real: bool) -> ComplexArray:
    """Return Σ_j c_j exp(±i k·x_j) at modes -M/2 <= k < M/2, type 1; shape ``(t, *modes)``.

    Parameters
    ----------
    *arguments
        Phases of shape ``(n,)``, one array per dimension; strengths of shape ``(t, n)``; numbers
        of modes, even, one per dimension.
    isign : {-1, 1}
    eps : float
        Accuracy relative to Σ |c_j|.
    real : bool
        Whether all strengths are real.
    """
    *phases, strengths, modes = arguments
    transform, options = _FORWARD[len(modes)], _options(modes, eps)
    if not (real and is_large(modes)):
        return np.asarray(transform(*phases, strengths, modes, isign=isign, **options))
    half = modes[0] // 2 + 1  # modes 0, 1, ..., M/2
    others = (2 * (count // 2) + 1 for count in modes[1:])  # each with its mirror
    turned = strengths * _turn(phases[0], isign * (half // 2))
    found = transform(*phases, turned, (half, *others), isign=isign, **options)
    return _mirrored(found, modes)


def backward(*arguments: Any, isign: int, eps: float, real: bool) -> ComplexArray:
    """Return Σ_k f_k exp(±i k·x_j) at queries, type 2; shape ``(t, m)``.

    Parameters
    ----------
    *arguments
        Phases of shape ``(m,)``, one array per dimension; modes f of shape ``(t, *modes)``.
    isign, eps
        As for :func:`forward`.
    real : bool
        Whether the sums are real, so that modes are conjugates in pairs; a mode -M/2, whose
        partner is missing, is left out then.
    """
    *phases, spectra = arguments
    modes = spectra.shape[1:]
    transform, options = _BACKWARD[len(modes)], _options(modes, eps)
    if not (real and is_large(modes)):
        return np.atleast_2d(transform(*phases, spectra, isign=isign, **options))
    half = modes[0] // 2  # modes 0, 1, ..., M/2 - 1
    kept = 2.0 * spectra[:, half:]
    kept[:, 0] *= 0.5
    found = np.atleast_2d(transform(*phases, kept, isign=isign, **options))
    found *= _turn(phases[0], isign * (half // 2))
    found.imag = 0.0
    return found


def _turn(phase: FloatArray, mode: int) -> ComplexArray:
    return np.asarray(np.exp((1j * mode) * phase))


def _mirrored(half: ComplexArray, modes: tuple[int, ...]) -> ComplexArray:
    """Return all modes from those with k_0 = 0, ..., M/2 and |k_d| <= M/2, real strengths."""
    middle = modes[0] // 2
    inner = tuple(slice(0, count) for count in modes[1:])
    mirror = tuple(slice(None, 0, -1) for _ in modes[1:])
    full: NDArray[np.complex128] = np.empty((len(half), *modes), np.complex128)
    full[:, middle:] = half[(slice(None), slice(0, middle), *inner)]
    np.conjugate(half[(slice(None), slice(None, 0, -1), *mirror)], out=full[:, :middle])
    return full


def _options(modes: Sequence[int], eps: float) -> dict[str, Any]:
    # Below about 1e6 points the threads of finufft mostly wait for each other.
    if not is_large(modes):
        return {"eps": eps, "nthreads": 1}
    return {
        "eps": _SHARE * eps,
        "nthreads": transform_threads(),
        "upsampfac": oversampling(modes, eps),
    }


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
