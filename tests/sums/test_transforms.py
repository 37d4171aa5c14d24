"""Transforms on large grids, threads and windows: against plain transforms and direct sums."""

import math
import subprocess
import sys

import numpy as np
import pytest

from fourierkernels.kernels import FourierKernel
from fourierkernels.sums import kernel_sum, transforms
from fourierkernels.sums.series import fourier_series, ramp_band, window
from fourierkernels.sums.transforms import (
    backward,
    forward,
    loop_threads,
    oversampling,
    transform_threads,
)

MODES = [(40,), (12, 20), (8, 10, 14)]


def phases(dim: int, count: int, seed: int = 0) -> list[np.ndarray]:
    return list(np.random.default_rng(seed).uniform(-3.0, 3.0, (dim, count)))


def waves(at: list[np.ndarray], modes: tuple[int, ...]) -> np.ndarray:
    """exp(i k·x), shape ``(points, *modes)``."""
    ks = np.meshgrid(*(np.arange(-(m // 2), m // 2) for m in modes), indexing="ij")
    angle = sum(np.multiply.outer(x, k) for x, k in zip(at, ks, strict=True))
    return np.exp(1j * angle)


@pytest.mark.parametrize("modes", MODES, ids=len)
@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("real", [False, True])
def test_type_1_is_the_sum_of_its_terms(
    modes: tuple[int, ...], large: bool, real: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(transforms._LARGE, len(modes), 1 if large else 10**9)
    at = phases(len(modes), 9)
    strengths = np.random.default_rng(1).normal(size=(1, 9)) + (0j if real else 1j)
    found = forward(*at, strengths, modes, isign=-1, eps=1e-12, real=real)
    exact = np.tensordot(strengths, waves(at, modes).conj(), 1)
    np.testing.assert_allclose(found.reshape(exact.shape), exact, atol=1e-11)


@pytest.mark.parametrize("modes", MODES, ids=len)
@pytest.mark.parametrize("large", [False, True])
def test_type_2_of_conjugate_modes_is_the_real_sum(
    modes: tuple[int, ...], large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(transforms._LARGE, len(modes), 1 if large else 10**9)
    samples, at = phases(len(modes), 5), phases(len(modes), 11, seed=2)
    spectrum = waves(samples, modes).conj().sum(axis=0)[None]
    for axis in range(len(modes)):  # a mode without its partner would not be real
        np.moveaxis(spectrum, axis + 1, 0)[0] = 0.0
    found = backward(*at, spectrum, isign=1, eps=1e-12, real=True)
    exact = np.tensordot(waves(at, modes), spectrum[0], len(modes))
    np.testing.assert_allclose(found[0], exact, atol=1e-11 * math.prod(modes))


def test_a_coarse_grid_keeps_the_tolerance_of_a_fine_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both columns and one column alone, on the grid that large sums take."""
    monkeypatch.setattr(transforms, "_LARGE", dict.fromkeys((1, 2, 3), 1))
    rng = np.random.default_rng(3)
    points, at, y = rng.normal(size=(50, 2)), rng.normal(size=(40, 2)), rng.normal(size=50)
    for tol in (1e-12, 1e-9, 1e-6, 1e-3):
        for responses in (None, y):
            options = {"kernel": "fourier4", "radius": 3.0, "responses": responses}
            fast = kernel_sum(points, at, method="bandlimited", tol=tol, refine=False, **options)
            slow = kernel_sum(points, at, method="reference", **options).totals()
            assert np.all(np.abs(fast.totals() - slow) <= fast.error)


@pytest.mark.parametrize("eps", [1e-13, 1e-10, 1e-7, 1e-3])
def test_oversampling_lies_where_finufft_takes_it(eps: float) -> None:
    assert oversampling((8, 8, 8), eps) == 2.0
    assert 1.25 <= oversampling((128, 128, 128), eps) <= 2.0


@pytest.mark.parametrize("tol", [1e-16, 1e-13, 1e-7, 1e-3])
def test_window_is_one_then_falls_to_zero(tol: float) -> None:
    u = np.linspace(-1.0, 2.0, 601)
    values = window(u, tol)
    assert np.all(values[u <= 0] == 1.0)
    assert np.all(values[u >= 1] == 0.0)
    assert np.all(np.diff(values) <= 1e-15)
    np.testing.assert_allclose(values + window(1.0 - u, tol), 1.0, atol=1e-14)


@pytest.mark.parametrize("tol", [1e-12, 1e-7, 1e-3])
def test_ramp_ends_in_frequency_where_its_band_says(tol: float) -> None:
    """The spectrum of the window's ramps, sampled finely, beyond the band it is said to have."""
    size, period = 4096, 8.0
    x = period / size * (np.arange(size) - size // 2)
    spectrum = np.abs(np.fft.fftshift(np.fft.fft(window(np.abs(x) - 1.0, tol)))) / size
    frequency = 2.0 * math.pi / period * np.abs(np.arange(size) - size // 2)
    assert spectrum[frequency > ramp_band(tol)].max() < tol


def test_windows_take_fewer_modes_than_error_functions_did() -> None:
    """212 modes at band times reach 157, where a ramp ½ erfc took 262 [measured]."""
    series = fourier_series(FourierKernel(4), 1.0, 157.0 / 4.0, tol=1e-12)
    assert len(series.coefficients) <= 216


_THREADS = """
import sys
import numpy as np
from fourierkernels.sums.transforms import loop_threads, transform_threads
print(loop_threads(), transform_threads(), "numba" in sys.modules)
import numba
numba.set_num_threads(1)
print(loop_threads(), transform_threads())
"""


def test_threads_are_those_given_to_numba_and_to_openmp() -> None:
    environment = {"NUMBA_NUM_THREADS": "3", "OMP_NUM_THREADS": "2", "PATH": ""}
    environment["PYTHONPATH"] = ":".join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", _THREADS],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    assert done.stdout.split("\n")[:2] == ["3 2 False", "1 1"]
    assert loop_threads() >= transform_threads() >= 1
