"""Densities: the contract every registered density keeps."""

import math

import numpy as np
import pytest
from scipy import special, stats
from scipy.integrate import quad

from fourierkernels.theory.densities import (
    DENSITIES,
    Beta,
    CorrelatedGaussian,
    Density,
    Gamma,
    GaussianMixture,
    HasSpectralTail,
    Laplace,
    Stable,
    as_density,
    marron_wand,
)
from fourierkernels.theory.densities.panels import panels

LINE = {name: density for name, density in DENSITIES.items() if density.dim == 1}
MORE = {"beta(3, 5)": Beta(3, 5), "beta(1, 1)": Beta(1, 1), "gamma(1.5)": Gamma(1.5, 0.7)}
CONTRACT = {**LINE, **MORE}
RANGE = {"cauchy": 1e4}  # half-width that holds all but a negligible part


@pytest.fixture(params=CONTRACT, ids=str)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def grid(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre panels that grow away from the structure near 0; ends of supports on edges."""
    reach = RANGE.get(name, 60.0)
    fine = np.concatenate([np.linspace(0, 4, 1601), np.geomspace(4, reach, 400)[1:]])
    breaks = np.concatenate([-fine[:0:-1], fine])
    nodes, weights = np.polynomial.legendre.leggauss(8)
    half = 0.5 * np.diff(breaks)
    x = (breaks[:-1] + half)[:, None] + half[:, None] * nodes
    return x.ravel(), (half[:, None] * weights).ravel()


def test_density_satisfies_the_protocol(name: str) -> None:
    assert isinstance(CONTRACT[name], Density)


def test_density_integrates_to_one(name: str) -> None:
    x, weight = grid(name)
    assert weight @ CONTRACT[name].pdf(x) == pytest.approx(
        1.0, abs=1e-3 if name == "cauchy" else 1e-6
    )


@pytest.mark.parametrize("name", [name for name in LINE if name != "cauchy"])
def test_density_is_smooth_between_its_breaks(name: str) -> None:
    """Panels that end at the breaks integrate it to rounding, whether they are short or not."""
    density = CONTRACT[name]
    assert list(density.breaks) == sorted(density.breaks)
    ends = np.unique([-60.0, *density.breaks, 60.0])
    coarse, fine = (panels(ends, longest=length) for length in (0.03, 0.017))
    assert coarse[1] @ density.pdf(coarse[0]) == pytest.approx(1.0, abs=1e-12)
    assert fine[1] @ density.pdf(fine[0]) == pytest.approx(1.0, abs=1e-12)


def test_roughness_is_the_integral_of_the_square(name: str) -> None:
    x, weight = grid(name)
    density = CONTRACT[name]
    assert weight @ density.pdf(x) ** 2 == pytest.approx(density.roughness, rel=1e-6)


@pytest.mark.parametrize("t", [0.0, 0.5, 2.0, 11.0, -2.0])
def test_cf_is_the_fourier_transform_of_the_pdf(name: str, t: float) -> None:
    x, weight = grid(name)
    density = CONTRACT[name]
    expected = weight @ (density.pdf(x) * np.exp(1j * t * x))
    assert complex(density.cf(t)) == pytest.approx(expected, abs=2e-4 if name == "cauchy" else 1e-6)


def test_samples_follow_the_density(name: str) -> None:
    """Kolmogorov-Smirnov distance of 20,000 draws, at the 1e-4 level."""
    density, n = CONTRACT[name], 20_000
    x, weight = grid(name)
    order = np.argsort(x)
    cdf = np.cumsum(weight[order] * density.pdf(x[order]))
    sample = np.sort(density.sample(n, np.random.default_rng(7)))
    model = np.interp(sample, x[order], cdf)
    distance = np.abs(model - (np.arange(n) + 0.5) / n).max()
    assert distance < stats.kstwobign.isf(1e-4) / math.sqrt(n) + 1e-3


def test_sampler_is_reproducible_by_its_generator(name: str) -> None:
    density = CONTRACT[name]
    first, second = (density.sample(5, np.random.default_rng(3)) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_cf_decays_as_the_smoothness_class_says(name: str) -> None:
    density = CONTRACT[name]
    smooth = density.smoothness
    if smooth.kind == "ordinary_smooth":
        t = np.linspace(50.0, 3000.0, 20_001)
        envelope = np.abs(density.cf(t)) * (1 + t**smooth.exponent)
        late, early = envelope[t > 1500].max(), envelope[t < 1500].max()
        assert 0.5 < late / early < 2.0  # t^β |p̂| has a level: β is neither larger nor smaller
    else:
        early, late = (smooth_exponent(density, part) for part in (0.6, 0.95))
        assert 0.75 < late / early < 1.33  # a wrong order would give a factor of 1.6


def smooth_exponent(density: Density, part: float) -> float:
    """-log of the envelope of |p̂| over t^α, in a window at a part of the spectral range."""
    t = density.spectral_range * np.linspace(part - 0.03, part, 2001)
    level = float(np.log(np.abs(density.cf(t))).max())
    return -level / float(t[0]) ** density.smoothness.exponent


def test_spectral_range_and_tail_hold(name: str) -> None:
    density = CONTRACT[name]
    assert math.isinf(density.spectral_range) == isinstance(density, HasSpectralTail)
    if math.isfinite(density.spectral_range):
        t = density.spectral_range * np.linspace(1.0, 2.0, 100)
        assert np.all(np.square(np.abs(density.cf(t))) < 1e-30)
    if isinstance(density, HasSpectralTail):
        for start, end in ((0.0, 3.0), (1.5, 80.0), (70.0, 200.0)):
            part = density.spectral_tail(start) - density.spectral_tail(end)
            expected = (
                quad(lambda t: np.abs(density.cf(t)) ** 2, start, end, limit=500)[0] / math.pi
            )
            assert part == pytest.approx(expected, rel=1e-8)


def test_spectral_tail_from_zero_is_the_roughness() -> None:
    for density in (Laplace(1.0, 2.0), Gamma(3.0, 0.5), Gamma(0.8), Beta(), Beta(2.5, 1.2)):
        assert density.spectral_tail(0.0) == pytest.approx(density.roughness, rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("a", "b"),
    [(0.501, 3.0), (0.51, 0.6), (172.0, 2.0), (300.0, 8.0), (2400.0, 1.0), (0.9, 2400.0)],
)
def test_beta_keeps_its_energy_with_rough_ends_and_large_parameters(a: float, b: float) -> None:
    """Slow power tails (|p̂|² ~ t^{-1.002}) in closed form; no factor overflows."""
    density = Beta(a, b)
    assert density.spectral_tail(0.0) == pytest.approx(density.roughness, rel=1e-9)


def test_faded_power_of_beta_has_the_energy_of_the_waving_one() -> None:
    density = Beta(0.8, 1.7)
    start, end = density._far_from, density.far_field
    t, weight = panels([start, end], longest=8.0)
    fades = weight @ density.faded_power(t).kept / math.pi + density.faded_tail(end)
    waves = weight @ density.power(t).kept / math.pi + density.spectral_tail(end)
    assert fades == pytest.approx(waves, rel=1e-13)
    assert density.faded_tail(1e9) == pytest.approx(density.spectral_tail(1e9), rel=1e-5)


@pytest.mark.parametrize(
    ("a", "b"), [(2.0, 5.0), (2.5, 3.3), (10.0, 12.0), (0.7, 5.0), (20.0, 25.0), (300.0, 300.0)]
)
def test_beta_cf_agrees_with_the_confluent_hypergeometric_function(a: float, b: float) -> None:
    mpmath = pytest.importorskip("mpmath")
    for t in (0.5, 10.0, 59.0, 61.0, 600.0, 3000.0):
        exact = complex(mpmath.hyp1f1(a, a + b, 1j * t))
        assert abs(complex(Beta(a, b).cf(t)) - exact) < 1e-13


def test_marron_wand_mixtures_have_unit_weight_and_the_published_sizes() -> None:
    """Component counts of Marron and Wand (1992), Table 1."""
    counts = [1, 3, 8, 2, 2, 2, 2, 2, 3, 6, 9, 6, 8, 6, 6]
    assert [len(marron_wand(i).weights) for i in range(1, 16)] == counts
    assert all(
        math.fsum(marron_wand(i).weights) == pytest.approx(1, abs=1e-15) for i in range(1, 16)
    )


@pytest.mark.parametrize("dim", [2, 3])
def test_correlated_gaussian_agrees_with_scipy(dim: int) -> None:
    density = CorrelatedGaussian(0.6, dim)
    x = np.random.default_rng(0).normal(size=(20, dim))
    peer = stats.multivariate_normal(np.zeros(dim), density.covariance)
    np.testing.assert_allclose(density.pdf(x), peer.pdf(x), rtol=1e-12)
    sample = density.sample(200_000, np.random.default_rng(1))
    np.testing.assert_allclose(np.cov(sample.T), density.covariance, atol=0.02)
    t = np.array([0.3, -0.5, 0.2])[:dim]
    assert np.exp(1j * sample @ t).mean() == pytest.approx(complex(density.cf(t)), abs=0.01)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: marron_wand(16), "number must be in 1..15, got 16"),
        (lambda: Beta(-1.0, 2.0), "a must be finite and greater than 0, got -1.0"),
        (lambda: Beta(2.0, 1e5), "a · b must be at most 2500 unless both are at least 20"),
        (lambda: Laplace(scale=math.nan), "scale must be finite and greater than 0, got nan"),
        (lambda: GaussianMixture((0.5,), (0.0,), (1.0,)), "weights must sum to 1, got 0.5"),
        (lambda: GaussianMixture((1.0,), (0.0, 1.0), (1.0,)), "one equal, positive length"),
        (lambda: GaussianMixture(1.0, 0.0, 1.0), "weights must be a sequence of numbers, got 1.0"),  # type: ignore[arg-type]
        (lambda: CorrelatedGaussian(1.0), r"correlation must be in \(-1, 1\), got 1.0"),
        (lambda: as_density("laplacian"), "density must be one of gaussian, .*got 'laplacian'"),
        (lambda: as_density("beta(1)x"), "'x' is too much"),
        (
            lambda: as_density("beta(two)"),
            r"density must be a family with its numbers.*beta\(two\)",
        ),
    ],
)
def test_bad_density_is_refused(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()  # type: ignore[operator]


def test_a_mixture_of_lists_or_arrays_is_that_of_tuples() -> None:
    plain = GaussianMixture((0.25, 0.75), (-2.0, 1.0), (0.5, 1.0))
    for make in (list, np.array):
        other = GaussianMixture(make([0.25, 0.75]), make([-2, 1]), make([0.5, 1.0]))
        assert other == plain
        assert hash(other) == hash(plain)  # by which optima are kept


def test_an_incomplete_density_is_refused_with_what_it_lacks() -> None:
    class Half:
        dim = 1

    with pytest.raises(
        TypeError, match=r"density must be a density .* which lacks breaks, cf, pdf"
    ):
        as_density(Half())  # type: ignore[arg-type]


# --- stable densities, outside the registry: their tails need grids of their own -----------------


def test_a_stable_density_of_index_one_half_is_its_closed_form() -> None:
    """By Fresnel integrals C and S, with z = 1/(4x)."""
    x = np.array([0.01, 0.1, 1.0, 10.0, 1e3, 1e6])
    sine, cosine = special.fresnel(np.sqrt(0.5 / (np.pi * x)))
    z = 0.25 / x
    closed = (np.cos(z) * (0.5 - cosine) + np.sin(z) * (0.5 - sine)) / (
        x**1.5 * math.sqrt(math.tau)
    )
    np.testing.assert_allclose(Stable(0.5).pdf(x), closed, rtol=1e-10)
    np.testing.assert_allclose(Stable(0.5, 3.0).pdf(3.0 * x), closed / 3.0, rtol=1e-10)


@pytest.mark.parametrize("alpha", [0.2, 0.7, 0.9])
def test_a_stable_density_is_that_of_scipy(alpha: float) -> None:
    x = np.array([-3.0, 0.5, 40.0])
    np.testing.assert_allclose(Stable(alpha).pdf(x), stats.levy_stable.pdf(x, alpha, 0), rtol=1e-9)
    density = Stable(alpha, 2.0)
    assert isinstance(density, Density)
    assert density.pdf(0.0) == pytest.approx(math.gamma(1 + 1 / alpha) / (2 * np.pi), rel=1e-11)
    energy = quad(lambda w: math.exp(-2.0 * w) * w ** (1 / alpha - 1), 0.0, math.inf)[0] / alpha
    assert density.roughness == pytest.approx(energy / (2.0 * np.pi), rel=1e-8)


def test_samples_of_a_stable_density_have_its_median_of_sizes() -> None:
    """P(|X| < m) at the median m of 40,000 draws, by quadrature: 1/2 to four standard errors."""
    density = Stable(0.5)
    m = float(np.median(np.abs(density.sample(40_000, np.random.default_rng(8)))))
    y, weight = panels(np.linspace(-60.0, math.log(m), 121))
    share = 2.0 * weight @ (np.exp(y) * density.pdf(np.exp(y)))
    assert share == pytest.approx(0.5, abs=4 * 0.5 / math.sqrt(40_000))


def test_an_index_out_of_range_is_refused() -> None:
    with pytest.raises(ValueError, match=r"alpha must be from 0\.2 to 0\.9, got 1"):
        Stable(1.0)
