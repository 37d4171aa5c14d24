"""Monte Carlo against exact theory, for every density and kernel."""

import math
import sys
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from tolerances import MONTE_CARLO_SIGMAS

from fourierkernels import KernelDensity
from fourierkernels.kernels import KERNELS
from fourierkernels.simulation import draw, ise, mise
from fourierkernels.sums.spectrum import direct_transform
from fourierkernels.theory import IseCurve, optimal_radius
from fourierkernels.theory import mise as exact_mise
from fourierkernels.theory.densities import DENSITIES

N, REPLICATES = 50, 60


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("density", DENSITIES)
def test_exact_error_agrees_with_monte_carlo(density: str, kernel: str) -> None:
    """Within 4 standard errors at the best radius; the seeds are fixed, so this never flickers."""
    radius = optimal_radius(density, kernel, n=N)
    rng = np.random.default_rng([sum(map(ord, density)), sum(map(ord, kernel))])
    simulated = mise(density, kernel, n=N, radius=radius, replicates=REPLICATES, rng=rng)
    exact = exact_mise(density, kernel, n=N, radius=radius).total
    assert abs(simulated.mean - exact) < MONTE_CARLO_SIGMAS * simulated.standard_error
    assert simulated.standard_error < 0.25 * exact  # so that the comparison can fail


@pytest.mark.parametrize("dim", [2, 3])
def test_exact_error_of_products_agrees_with_monte_carlo(dim: int) -> None:
    radius = optimal_radius("laplace", "fourier4", n=N, dim=dim)
    simulated = mise(
        "laplace",
        "fourier4",
        n=N,
        radius=radius,
        replicates=20,
        rng=np.random.default_rng(dim),
        dim=dim,
    )
    exact = exact_mise("laplace", "fourier4", n=N, radius=radius, dim=dim).total
    assert abs(simulated.mean - exact) < MONTE_CARLO_SIGMAS * simulated.standard_error


@pytest.mark.parametrize(("dim", "n", "replicates"), [(1, 50_000, 8), (2, 60, 24), (3, 40, 16)])
def test_simulated_error_of_the_cauchy_density_is_the_exact_one(
    dim: int, n: int, replicates: int
) -> None:
    """Far points of a sample that no grid resolves; fifty thousand samples took hours."""
    radius = optimal_radius("cauchy", "fourier4", n=n, dim=dim)
    rng = np.random.default_rng([dim, n])
    options = {"n": n, "radius": radius, "dim": dim}
    simulated = mise("cauchy", "fourier4", replicates=replicates, rng=rng, **options)
    exact = exact_mise("cauchy", "fourier4", **options).total
    assert not simulated.resolved.all()
    assert abs(simulated.mean - exact) < MONTE_CARLO_SIGMAS * simulated.standard_error
    assert simulated.standard_error < 0.25 * exact


def test_only_far_points_are_summed_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The box was about the middle of the range: an outlier put every other point out of it."""
    summed = []

    def counted(points: np.ndarray, *rest: Any) -> np.ndarray:
        summed.append(len(points))
        return direct_transform(points, *rest)

    monkeypatch.setattr(sys.modules[IseCurve.__module__], "direct_transform", counted)
    sample = np.vstack([draw(DENSITIES["gaussian"], 400, np.random.default_rng(0)), [[1e6]]])
    options = {"largest": 3.0, "most": 2**12}
    curve = IseCurve("gaussian", "fourier4", sample, clip=True, **options)
    assert (summed, curve.resolved) == ([1], False)
    sample[-1] = 200.0
    near = IseCurve("gaussian", "fourier4", sample, **options)
    assert curve(3.0) == pytest.approx(near(3.0), rel=0.02)  # as far from all the others


@lru_cache
def grid() -> np.ndarray:
    return np.arange(-400.0, 400.0, 0.1).reshape(-1, 1)


@pytest.mark.parametrize("kernel", KERNELS)
def test_frequency_integral_is_the_error_on_a_grid_in_space(kernel: str) -> None:
    """An independent way: the estimator on a fine grid against the pdf, sample by sample."""
    sample = draw(DENSITIES["mw8"], 40, np.random.default_rng(0))
    radius = 3.0
    estimate = KernelDensity(kernel, radius=radius).fit(sample).density(grid())
    gap = estimate - DENSITIES["mw8"].pdf(grid()[:, 0])
    in_space = 0.1 * float(gap @ gap)
    if kernel == "fourier1":  # beyond the grid: |φ(R)|² / (2π² x²), twice
        in_space += abs(np.exp(1j * radius * sample).mean()) ** 2 / (math.pi**2 * 400.0)
    assert ise("mw8", kernel, sample, radius=radius) == pytest.approx(in_space, rel=1e-5)


@pytest.mark.parametrize("shift", [0.0, 40.0])
@pytest.mark.parametrize("outlier", [0.0, 150.0])
def test_ise_resolves_the_range_of_the_sample(shift: float, outlier: float) -> None:
    """Shifted samples and far points make φ_n oscillate faster than the density does."""
    sample = np.vstack([draw(DENSITIES["gaussian"], 80, np.random.default_rng(0)), [[outlier]]])
    model = KernelDensity("fourier4", radius=2.0).fit(sample + shift)
    gap = model.density(grid()) - DENSITIES["gaussian"].pdf(grid()[:, 0])
    assert model.ise("gaussian") == pytest.approx(0.1 * float(gap @ gap), rel=1e-6)


def test_same_seed_gives_the_same_numbers() -> None:
    runs = [
        mise("gamma", "fourier2", n=20, radius=2.0, replicates=5, rng=np.random.default_rng(4))
        for _ in range(2)
    ]
    np.testing.assert_array_equal(runs[0].values, runs[1].values)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"replicates": 1}, "replicates must be at least 2, got 1"),
        ({"n": 0}, "n must be at least 1, got 0"),
        ({"dim": 4}, "dim must be at most 3"),
        ({"radius": -1.0}, "radius must be positive and finite, got -1.0"),
    ],
)
def test_bad_input_is_refused(options: dict[str, float], message: str) -> None:
    known: dict[str, float] = {"n": 10, "radius": 1.0, "replicates": 5}
    with pytest.raises(ValueError, match=message):
        mise("gaussian", "fourier1", rng=np.random.default_rng(0), **{**known, **options})  # type: ignore[arg-type]
