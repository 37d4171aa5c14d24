"""Simulated regression error: against the estimator itself, and what the result reports."""

import math
import sys
from dataclasses import dataclass

import numpy as np
import pytest
from scipy import stats
from tolerances import MONTE_CARLO_SIGMAS, TOLERANCE

from fourierkernels import NadarayaWatson
from fourierkernels.kernels import KERNELS
from fourierkernels.simulation import NOISES, RegressionError, as_noise, central_box, draw, mse
from fourierkernels.simulation.noise import StudentNoise
from fourierkernels.theory.densities import (
    DENSITIES,
    REGRESSION_FUNCTIONS,
    Density,
    Gaussian,
    as_density,
)

KERNEL_NAMES = list(KERNELS)


def run(**options: object) -> RegressionError:
    known: dict[str, object] = {
        "density": "gaussian",
        "function": "sine",
        "kernel": "fourier4",
        "n": 60,
        "radius": 4.0,
        "replicates": 5,
        "at": [0.5],
        "rng": np.random.default_rng(3),
    }
    return mse(**{**known, **options})  # type: ignore[arg-type]


def by_estimator(
    density: Density, function: str, noise: str, kernel: str, dim: int, at: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The first replicate of seed 3 by fitting the estimator: bias, variance, error."""
    rng, law, f = np.random.default_rng(3), NOISES[noise], REGRESSION_FUNCTIONS[function]
    x = draw(density, 60, rng, dim=dim)
    signal = f.value(x).sum(axis=1)
    y = signal + law.sample(x, rng)
    model = NadarayaWatson(kernel, radius=4.0, method="reference").fit(x, y)
    weights, truth = model.weights(at), f.value(at).sum(axis=1)
    return (
        weights @ signal - truth,
        np.square(weights) @ law.variance(x),
        model.predict(at) - truth,
    )


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("kernel", KERNEL_NAMES)
def test_a_replicate_is_a_fit_of_the_estimator(kernel: str, dim: int, many: bool) -> None:
    at = np.random.default_rng(0).normal(size=(12 if many else 2, dim))
    found = run(kernel=kernel, dim=dim, at=at, noise="heteroscedastic")
    expected = by_estimator(as_density("gaussian"), "sine", "heteroscedastic", kernel, dim, at)
    for name, row in zip(("bias", "variance", "error"), expected, strict=True):
        worst = np.abs(getattr(found, name)[0] / row - 1.0).max()
        conditioning = 1.0 / np.abs(found.denominator[0]).min()
        assert worst < 100 * conditioning * TOLERANCE["float64"]["fast"], name


@pytest.mark.parametrize("function", list(REGRESSION_FUNCTIONS))
@pytest.mark.parametrize("noise", list(NOISES))
def test_every_function_and_noise_is_simulated(function: str, noise: str) -> None:
    at = np.array([[0.3]])
    found = run(function=function, noise=noise, at=at)
    expected = by_estimator(as_density("gaussian"), function, noise, "fourier4", 1, at)
    np.testing.assert_allclose(found.error[0], expected[2], rtol=1e-9)


@pytest.mark.parametrize("density", list(DENSITIES))
def test_every_density_is_a_design(density: str) -> None:
    found = run(density=density, at=None, kernel="gaussian", n=200)
    assert found.integrated.mean > 0
    assert found.points.shape[1] == as_density(density).dim


def test_blocks_of_replicates_do_not_change_the_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run(replicates=7)
    monkeypatch.setattr(sys.modules["fourierkernels.simulation.mse"], "_PAIRS", 130)
    blocks = run(replicates=7)
    np.testing.assert_allclose(blocks.values, whole.values, rtol=TOLERANCE["float64"]["exact"])


@pytest.mark.parametrize("noise", ["gaussian", "heteroscedastic"])
def test_conditional_means_estimate_the_same_mse_with_a_smaller_error(noise: str) -> None:
    found = run(n=200, replicates=2000, noise=noise)
    gap = np.square(found.error[:, 0]) - found.values[:, 0]  # paired: the same designs
    assert abs(gap.mean()) < MONTE_CARLO_SIGMAS * gap.std() / math.sqrt(len(gap))
    assert found.standard_error[0] < 0.5 * found.plain_standard_error[0]


def test_integrated_error_is_the_mean_over_the_box() -> None:
    (box,) = central_box(Gaussian())
    at = np.linspace(*box, 2001)
    integrated = run(at=None, replicates=3)
    pointwise = run(at=at, replicates=3)
    expected = np.trapezoid(pointwise.mean * Gaussian().pdf(at), at)
    assert integrated.integrated.mean == pytest.approx(expected, rel=1e-5)
    low, high = box
    assert low == pytest.approx(-1.645, abs=0.02)
    assert high == pytest.approx(1.645, abs=0.02)


@dataclass(frozen=True)
class Lattice(Gaussian):
    """A design whose every point is a zero of sin(R(x - 0)), or the point 0.25, by turns."""

    radius: float = 4.0

    def sample(self, n: int, rng: np.random.Generator) -> np.ndarray:
        return np.full(n, math.pi / self.radius if rng.random() < 0.5 else 0.25)


@pytest.mark.parametrize("at", [[0.0], [0.0] * 9])
def test_undefined_replicates_are_counted_and_left_out(at: list[float]) -> None:
    found = run(density=Lattice(), kernel="fourier1", at=at, replicates=40)
    assert 0.2 < found.undefined[0] < 0.8
    assert np.isnan(found.error[:, 0]).mean() == found.undefined[0]
    defined = ~np.isnan(found.bias[:, 0])
    assert np.nanmean(found.bias[:, 0]) == pytest.approx(math.sin(0.5), rel=1e-12)
    assert found.near_zero[0] == found.undefined[0] == (~defined).mean()


def test_nothing_defined_gives_nan_without_a_warning() -> None:
    found = run(
        density=Lattice(radius=4.0),
        kernel="fourier1",
        at=[0.25 - math.pi / 4.0],
        rng=np.random.default_rng(0),
        replicates=2,
        n=2,
    )
    for name in ("mean", "standard_error", "robust", "median"):
        assert getattr(found, name).shape == (1,)
    assert (found.denominator < 1e-10).any()


def test_far_queries_do_not_underflow() -> None:
    """Weights of exp(-10^7) still have ratios: the nearest sample decides."""
    found = run(density="cauchy", kernel="gaussian", at=[1e3], n=5)
    rng = np.random.default_rng(3)
    x = draw(as_density("cauchy"), 5, rng)
    nearest = x[np.argmax(x)]
    assert found.undefined[0] == 0.0
    assert found.bias[0, 0] == pytest.approx(math.sin(2 * nearest[0]) - math.sin(2e3), rel=1e-9)
    assert found.variance[0, 0] == pytest.approx(0.09, rel=1e-7)  # exponents carry eps · 10^7


def test_robust_centre_ignores_a_few_wild_replicates() -> None:
    calm = run(replicates=320)
    values = calm.values.copy()
    values[[5, 100], 0] = 1e9
    wild = RegressionError(
        calm.points, calm.truth, np.sqrt(values), 0 * values, calm.error, calm.denominator
    )
    assert wild.mean[0] > 1e6
    assert wild.robust[0] == pytest.approx(calm.mean[0], rel=0.2)


def test_odd_powers_have_a_heavy_tail_at_small_samples_and_even_powers_do_not() -> None:
    options = {"n": 30, "radius": 6.0, "replicates": 1000}
    odd, even = run(kernel="fourier1", **options), run(kernel="fourier4", **options)
    assert odd.mean[0] > 5 * odd.robust[0]
    assert even.mean[0] < 1.1 * even.robust[0]


@pytest.mark.parametrize("name", list(NOISES))
def test_noise_laws_have_the_moments_they_state(name: str) -> None:
    law, rng = as_noise(name), np.random.default_rng(1)
    points = np.full((200_000, 2), 0.7)
    draws = law.sample(points, rng)
    standard = draws / np.sqrt(law.variance(points))
    assert abs(standard.mean()) < MONTE_CARLO_SIGMAS / math.sqrt(len(points))
    shape = stats.t(law.degrees) if isinstance(law, StudentNoise) else stats.norm()
    inner = np.abs(standard) < 1.0  # Student's t has no fourth moment: compare a probability
    expected = shape.cdf(shape.std()) - shape.cdf(-shape.std())
    assert abs(inner.mean() - expected) < MONTE_CARLO_SIGMAS * inner.std() / math.sqrt(len(inner))


def test_same_seed_gives_the_same_numbers() -> None:
    np.testing.assert_array_equal(run().error, run().error)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 1}, "n must be at least 2, got 1"),
        ({"replicates": 1}, "replicates must be at least 2, got 1"),
        ({"radius": -1.0}, "radius must be positive and finite, got -1.0"),
        ({"radius": [1.0, 2.0]}, "radius must be a number or have shape"),
        ({"dim": 4, "at": None}, "dim must be at most 3, got 4"),
        ({"density": "correlated", "dim": 3}, "dim must be 2 for this density, got 3"),
        ({"at": [[0.0, 1.0]]}, "at must have 1 columns"),
        ({"at": [np.nan]}, "at must be finite, got nan"),
        ({"at": [2.0], "density": "beta"}, r"at must have a positive density, got 0 at \[2.0\]"),
        ({"noise": "loud"}, "noise must be one of gaussian, heteroscedastic, student"),
        ({"noise": -1.0}, "noise must be positive and finite, got -1.0"),
        ({"function": "cosine"}, "function must be one of sine"),
        ({"kernel": "fourier0"}, "power must be at least 1"),
    ],
)
def test_bad_input_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run(**options)


def test_wrong_kinds_are_refused() -> None:
    with pytest.raises(TypeError, match="noise must be a noise law, its name or a number"):
        run(noise=None)
    with pytest.raises(TypeError, match=r"n must be an integer, got 10\.0"):
        run(n=10.0)
    with pytest.raises(ValueError, match="degrees must be finite and greater than 2"):
        type(NOISES["student"])(degrees=2.0)


def test_integrated_error_needs_the_default_points() -> None:
    with pytest.raises(ValueError, match="at must be None for an integrated error, got 1"):
        _ = run().integrated
