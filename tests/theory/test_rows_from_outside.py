"""A kernel, density, response and noise defined outside the package work everywhere."""

import math
import sys
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import ArrayLike
from scipy.integrate import quad
from tolerances import MONTE_CARLO_SIGMAS

from fourierkernels import KernelDensity, NadarayaWatson, cli, simulation
from fourierkernels.foundation.arrays import ComplexArray, FloatArray
from fourierkernels.kernels import KERNELS, FourierKernel, Kernel, as_kernel
from fourierkernels.simulation.sweep import Sweep, run_sweep, summarise
from fourierkernels.theorems import verify
from fourierkernels.theory import (
    mise,
    optimal_radius,
    regression_at_radius,
    sharp_rate,
    sharp_regression_rate,
    symbolic,
)
from fourierkernels.theory.densities import (
    DENSITIES,
    REGRESSION_FUNCTIONS,
    Density,
    RegressionFunction,
    Smoothness,
    as_density,
    as_regression_function,
)
from fourierkernels.theory.densities.contract import Power
from fourierkernels.theory.symbolic.spectra import SPECTRA, Spectrum


@dataclass(frozen=True)
class Triangular:
    """half-width - |x| over its square: three kinks, and p̂ = sinc²(half_width t / 2)."""

    half_width: float = 1.0

    dim = 1
    smoothness = Smoothness("ordinary_smooth", 2.0)
    spectral_range = math.inf

    @property
    def breaks(self) -> tuple[float, ...]:
        return (-self.half_width, 0.0, self.half_width)

    @property
    def roughness(self) -> float:
        return 2.0 / (3.0 * self.half_width)

    @property
    def spectral_scale(self) -> float:
        return 2.0 / self.half_width

    @property
    def spectral_span(self) -> float:
        return 2.0 * self.half_width

    def pdf(self, x: ArrayLike) -> FloatArray:
        return np.maximum(self.half_width - np.abs(np.asarray(x, float)), 0.0) / self.half_width**2

    def cf(self, t: ArrayLike) -> ComplexArray:
        return np.sinc(np.asarray(t, float) * self.half_width / (2.0 * math.pi)) ** 2 + 0j

    def power(self, t: ArrayLike) -> Power:
        root = np.sinc(np.asarray(t, float) * self.half_width / (2.0 * math.pi))
        u = 0.5 * self.half_width * np.asarray(t, float)
        series = u**2 / 6 - u**4 / 120 + u**6 / 5040
        missing = np.where(np.abs(u) < 0.1, series, 1.0 - root)
        return Power(root**4, missing * (1.0 + root) * (1.0 + root**2))

    def spectral_tail(self, t: float) -> float:
        kernel = FourierKernel(4)
        beyond = 1.0 - float(kernel.cumulative(0.5 * self.half_width * t))
        return 2.0 * kernel.constant * beyond / (math.pi * self.half_width)

    def sample(self, n: int, rng: np.random.Generator) -> FloatArray:
        return rng.triangular(-self.half_width, 0.0, self.half_width, n)


@dataclass(frozen=True)
class WideKernel:
    """N(0, 4) as a kernel: at twice the radius it is the Gaussian kernel."""

    name = "wide"
    constant = 2.0 * math.sqrt(2.0 * math.pi)
    order = 2.0
    second_moment = 4.0
    roughness = 0.25 / math.sqrt(math.pi)
    support = math.inf
    cutoff = 4.3
    knots = (4.3,)
    nonnegative = True

    def value(self, u: ArrayLike) -> FloatArray:
        return 0.5 * KERNELS["gaussian"].value(0.5 * np.asarray(u, float))

    def transform(self, s: ArrayLike) -> FloatArray:
        return KERNELS["gaussian"].transform(2.0 * np.asarray(s, float))

    def gap(self, s: ArrayLike) -> FloatArray:
        return KERNELS["gaussian"].gap(2.0 * np.asarray(s, float))

    def log_shape(self, u: ArrayLike) -> tuple[FloatArray, FloatArray]:
        return KERNELS["gaussian"].log_shape(0.5 * np.asarray(u, float))

    def noise(self, u: ArrayLike, u_error: ArrayLike) -> FloatArray:
        halves = (0.5 * np.asarray(u, float), 0.5 * np.asarray(u_error, float))
        return KERNELS["gaussian"].noise(*halves)

    def log_slope(self, u: ArrayLike) -> tuple[FloatArray, FloatArray]:
        log, sign = KERNELS["gaussian"].log_slope(0.5 * np.asarray(u, float))
        return log - math.log(2.0), sign

    def cumulative(self, u: ArrayLike) -> FloatArray:
        return KERNELS["gaussian"].cumulative(0.5 * np.asarray(u, float))

    @property
    def squared(self) -> tuple[Kernel, float]:
        return self, math.sqrt(2.0)

    def sample(self, n: int, rng: np.random.Generator) -> FloatArray:
        return 2.0 * rng.standard_normal(n)


@dataclass(frozen=True)
class Tent:
    """max(0, 1 - |x - at|): three kinks, none of them at 0."""

    at: float = 0.25

    name = "tent"
    kind = "kink"
    smoothness = Smoothness("ordinary_smooth", 2.0)
    growth = 0.0

    @property
    def breaks(self) -> tuple[float, ...]:
        return (self.at - 1.0, self.at, self.at + 1.0)

    def value(self, x: ArrayLike) -> FloatArray:
        return np.maximum(1.0 - np.abs(np.asarray(x, float) - self.at), 0.0)

    def slope(self, x: ArrayLike) -> FloatArray:
        z = np.asarray(x, float) - self.at
        return np.where(np.abs(z) < 1.0, -np.sign(z), 0.0)

    def curvature(self, x: ArrayLike) -> FloatArray:
        return np.zeros(np.shape(x))


@dataclass(frozen=True)
class UniformNoise:
    """Uniform on (-half, half)."""

    half: float = 0.3

    name = "uniform"

    def variance(self, points: FloatArray) -> FloatArray:
        return np.full(points.shape[:-1], self.half**2 / 3.0)

    def sample(self, points: FloatArray, rng: np.random.Generator) -> FloatArray:
        return rng.uniform(-self.half, self.half, len(points))


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put one row into each registry, as the contributing guide says."""
    monkeypatch.setitem(DENSITIES, "triangular", Triangular())
    monkeypatch.setitem(KERNELS, "wide", WideKernel())
    monkeypatch.setitem(REGRESSION_FUNCTIONS, "tent", Tent())
    monkeypatch.setitem(simulation.NOISES, "uniform", UniformNoise())


def test_names_reach_the_rows() -> None:
    assert isinstance(as_density("triangular"), Density)
    assert as_density("triangular(2.5)") == Triangular(2.5)
    assert isinstance(as_kernel("wide"), Kernel)
    assert isinstance(as_regression_function("tent"), RegressionFunction)
    with pytest.raises(ValueError, match=r"triangular.*got 'trapezoidal'"):
        as_density("trapezoidal")
    with pytest.raises(ValueError, match="density must be a family with its numbers"):
        as_density("triangular(1, 2)")


def test_estimators_take_the_kernel_by_name() -> None:
    rng = np.random.default_rng(0)
    x, at = rng.normal(size=(300, 1)), np.linspace(-2, 2, 9)[:, None]
    y = np.sin(2.0 * x[:, 0])
    mine = KernelDensity(kernel="wide", radius=6.0).fit(x)
    theirs = KernelDensity(kernel="gaussian", radius=3.0).fit(x)
    np.testing.assert_allclose(mine.density(at), theirs.density(at), rtol=1e-11)
    fits = [
        NadarayaWatson(kernel=kernel, radius=radius).fit(x, y).predict(at)
        for kernel, radius in (("wide", 6.0), ("gaussian", 3.0))
    ]
    np.testing.assert_allclose(*fits, rtol=1e-11)


def test_density_draws_by_the_sampler_of_the_kernel() -> None:
    x = np.random.default_rng(0).normal(size=(300, 2))
    mine, theirs = (
        KernelDensity(kernel=kernel, radius=radius).fit(x).sample(50, rng=np.random.default_rng(3))
        for kernel, radius in (("wide", 6.0), ("gaussian", 3.0))
    )
    np.testing.assert_allclose(mine, theirs, rtol=1e-12)


def test_exact_error_takes_the_kernel_by_name() -> None:
    mine = mise("laplace", "wide", n=500, radius=5.0)
    theirs = mise("laplace", "gaussian", n=500, radius=2.5)
    assert mine.total == pytest.approx(theirs.total, rel=1e-12)
    radius = optimal_radius("gaussian", "gaussian", n=500)
    assert optimal_radius("gaussian", "wide", n=500) == pytest.approx(2.0 * radius, rel=1e-6)


def test_joint_densities_take_the_kernel_where_the_gaussian_has_a_closed_form() -> None:
    mine = mise("correlated", "wide", n=500, radius=4.0)
    theirs = mise("correlated", "gaussian", n=500, radius=2.0)
    assert mine.bias2 == pytest.approx(theirs.bias2, rel=1e-9)
    assert mine.variance == pytest.approx(theirs.variance, rel=1e-9)


@pytest.mark.parametrize("kernel", ["wide", "fourier1", "fourier4"])
def test_exact_error_of_the_density_is_that_of_the_simulation(kernel: str) -> None:
    exact = mise("triangular", kernel, n=200, radius=6.0)
    found = simulation.mise(
        "triangular", kernel, n=200, radius=6.0, replicates=400, rng=np.random.default_rng(1)
    )
    assert abs(found.mean - exact.total) < MONTE_CARLO_SIGMAS * found.standard_error


@pytest.mark.parametrize("kernel", ["wide", "fourier3"])
def test_regression_error_sees_every_break(kernel: str) -> None:
    """Adaptive quadrature, cut at the kinks of the density and of the function."""
    p, f, k = Triangular().pdf, Tent().value, as_kernel(kernel).value
    x, radius, noise = 0.1, 4.0, 0.3
    ends = sorted({*Triangular().breaks, *(b for b in Tent().breaks if abs(b) < 1.0), x})

    def integral(g: object) -> float:
        return sum(quad(g, a, b, epsabs=1e-13)[0] for a, b in pairwise(ends))  # type: ignore[arg-type]

    def shape(y: float) -> float:
        return float(radius * k(radius * (x - y)))

    mass = integral(lambda y: shape(y) * p(y))
    bias = integral(lambda y: shape(y) * p(y) * (f(y) - f(x))) / mass
    second = integral(lambda y: shape(y) ** 2 * p(y) * (noise**2 + (f(y) - f(x) - bias) ** 2))
    terms = regression_at_radius(
        "triangular", "tent", kernel, n=100, radius=radius, at=[[x]], noise_variance=noise**2
    )
    assert terms.bias[0] == pytest.approx(bias, rel=1e-9)
    assert terms.variance[0] == pytest.approx(second / mass**2 / 100, rel=1e-9)


def test_simulated_regression_agrees_with_the_computed_error() -> None:
    setting = {"n": 5_000, "radius": 12.0, "at": [[0.1]]}
    found = simulation.mse(
        "triangular",
        "tent",
        "wide",
        noise=0.3,
        replicates=300,
        rng=np.random.default_rng(2),
        **setting,  # type: ignore[arg-type]
    )
    exact = regression_at_radius(
        "triangular",
        "tent",
        "wide",
        noise_variance=0.09,
        **setting,  # type: ignore[arg-type]
    ).total[0]
    next_order = 12.0 / 5_000 * exact  # relative R/n
    assert abs(found.mean[0] - exact) < MONTE_CARLO_SIGMAS * found.standard_error[0] + next_order


def test_rates_and_theorems_know_the_rows() -> None:
    assert str(sharp_rate("triangular", "wide")) == "n^-3/4"
    assert str(sharp_regression_rate("triangular", "tent", "fourier1")) == "n^-4/5"
    found = verify("density limited by smoothness", "triangular", "wide", simulate=False)
    assert found.verdict == "holds and sharp"
    found = verify("1", "gaussian", "wide")
    assert "the kernel is wide" in found.reason


def test_formulas_say_what_they_do_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"density must have .*SPECTRA.*got Triangular\("):
        symbolic.asymptotics("triangular", "fourier4")
    with pytest.raises(ValueError, match="kernel must be a power of sinc or the Gaussian"):
        symbolic.asymptotics("gaussian", "wide")
    gaussian = SPECTRA[type(as_density("gaussian"))](as_density("gaussian"))
    monkeypatch.setitem(SPECTRA, Triangular, lambda _: Spectrum(gaussian.power, 0, gaussian.beta))
    assert symbolic.asymptotics("triangular", "fourier4").exponent == pytest.approx(0.8)


def test_a_sweep_runs_over_the_rows(tmp_path: object) -> None:
    axes = {"densities": ("triangular",), "kernels": ("wide",), "sizes": (100,), "replicates": 10}
    sweep = Sweep(**axes, task="regression", function="tent", noise="uniform")  # type: ignore[arg-type]
    (row,) = summarise(run_sweep(sweep, f"{tmp_path}/results.jsonl"))
    assert row.mean > 0


def shown(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> str:
    monkeypatch.setattr(sys, "argv", ["fourierkernels", *arguments])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 0
    return capsys.readouterr().out


def test_commands_know_the_rows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = shown(
        ["rates", "--density", "triangular", "--power", "4", "--largest", "3"], monkeypatch, capsys
    )
    assert "triangular, D = 1" in table
    assert "n^-3/4" in table
    by_name = ["rates", "--kernel", "wide", "--no-control", "--largest", "3"]
    table = shown(by_name, monkeypatch, capsys)
    assert "wide" in table
    assert "fourier" not in table
    setting = ["--density", "triangular", "--kernel", "wide", "--no-simulate"]
    table = shown(["theorems", "density limited by smoothness", *setting], monkeypatch, capsys)
    assert "triangular, wide," in table
    assert "holds and sharp" in table
