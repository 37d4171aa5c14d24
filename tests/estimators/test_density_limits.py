"""Intervals and bands of densities: the variance of a mean, its images, its corrected bias."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from fourierkernels import KernelDensity, NadarayaWatson
from fourierkernels.estimators.inference import density_limits
from fourierkernels.kernels import as_kernel

AT = np.linspace(0.0, 2.0, 9)[:, None]
WEIGHTS = {
    "none": None,
    "shares": np.random.default_rng(1).uniform(size=60) * (np.arange(60) % 4 > 0),
    "counts": np.random.default_rng(2).integers(0, 4, 60),
}


def sample(n: int = 60) -> np.ndarray:
    return np.random.default_rng(0).uniform(0.0, 2.0, (n, 1))


def kernels(model: KernelDensity, x: np.ndarray, factor: float = 1.0) -> np.ndarray:
    """Each sample's own density at the queries, ``(m, n)``, by an estimate from it alone."""
    rows = []
    for point in x:
        alone = KernelDensity(
            model.kernel_, radius=factor * model.radius_, bounds=model.bounds, method="reference"
        )
        rows.append(alone.fit(point[None, :]).density(AT))
    return np.array(rows).T


@pytest.mark.parametrize("name", ["gaussian", "fourier1", "fourier2", "fourier4"])
@pytest.mark.parametrize("bounds", [None, [(0.0, 2.0)]])
def test_variance_is_that_of_a_mean_of_kernels(name: str, bounds: object) -> None:
    x = sample()
    model = KernelDensity(name, radius=4.0, bounds=bounds).fit(x)
    limits, each = model.interval(AT, level=0.9), kernels(model, x)
    np.testing.assert_allclose(limits.centre, each.mean(axis=1), rtol=1e-9)
    np.testing.assert_allclose(limits.error, each.std(axis=1, ddof=1) / np.sqrt(60), rtol=1e-8)
    width = 2 * 1.6448536269514722 * limits.error
    np.testing.assert_allclose(limits.high - limits.low, width, rtol=1e-9)


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("correct", ["ignore", "corrected"])
def test_weights_enter_the_variance_as_shares_or_as_repetitions(weights: str, correct: str) -> None:
    x, given = sample(), WEIGHTS[weights]
    if weights == "counts":  # of rounded values: others are one sample however often they occur
        x = np.linspace(0.05, 1.82, 60)[:, None]
    weighting = "importance" if weights == "shares" else "frequency"
    model = KernelDensity("fourier4", radius=4.0, weighting=weighting).fit(x, None, given)
    each = kernels(model, x)
    if correct == "corrected":
        each = 2 * each - kernels(model, x, 1 / np.sqrt(2))
    w = np.ones(60) if given is None else given
    centre = each @ w / w.sum()
    spread = np.square(each - centre[:, None])
    if weights == "shares":
        size = w.sum() ** 2 / np.square(w).sum()
        variance = spread @ np.square(w / w.sum()) * size / (size - 1)
    else:
        variance = spread @ w / w.sum() / (w.sum() - 1)
    limits = model.interval(AT, bias=correct)
    np.testing.assert_allclose(limits.centre, centre, rtol=1e-9)
    np.testing.assert_allclose(limits.error, np.sqrt(variance), rtol=1e-8)


def test_whole_number_weights_are_repetitions() -> None:
    x, counts = np.round(sample(), 1), WEIGHTS["counts"]
    mine = KernelDensity(radius=4.0).fit(x, None, counts).interval(AT, bias="corrected")
    other = KernelDensity(radius=4.0).fit(np.repeat(x, counts, axis=0))
    np.testing.assert_allclose(mine.low, other.interval(AT, bias="corrected").low, rtol=1e-9)


@pytest.mark.parametrize("bounds", [None, [(0.0, 2.0)]])
def test_band_is_the_bootstrap_written_out(bounds: object) -> None:
    x = sample()
    model = KernelDensity("fourier2", radius=4.0, bounds=bounds).fit(x)
    limits = model.band(AT, rng=np.random.default_rng(5), replicates=40, bias="corrected")
    each = 2 * kernels(model, x) - kernels(model, x, 0.5)
    gaps = each - each.mean(axis=1, keepdims=True)
    deviations = gaps @ np.random.default_rng(5).standard_normal((60, 40))
    highest = np.abs(deviations / np.sqrt(np.square(gaps).sum(axis=1))[:, None]).max(axis=0)
    assert limits.critical == pytest.approx(np.quantile(highest, 0.95, method="higher"), rel=1e-8)


def test_corrected_estimate_of_fejer_is_the_flat_topped_kernel() -> None:
    """2 K_R - K_{R/2} of l = 2 has the transform 1 up to R and 0 from 2R."""
    x, radius = sample(), 4.0
    limits = KernelDensity("fourier2", radius=radius).fit(x).interval(AT, bias="corrected")
    u = radius * (AT - x.T)
    expected = radius * (np.cos(u) - np.cos(2 * u)) / (np.pi * np.square(u))
    np.testing.assert_allclose(limits.centre, expected.mean(axis=1), rtol=1e-8)


def test_corrected_estimate_of_the_gaussian_smooths_the_estimate_once_more() -> None:
    x = sample()
    model = KernelDensity("gaussian", radius=4.0).fit(x)
    grid = np.linspace(-4, 6, 4001)[:, None]
    again = KernelDensity("gaussian", radius=4.0).fit(grid, None, model.density(grid))
    expected = 2 * model.density(AT) - again.density(AT)
    np.testing.assert_allclose(model.interval(AT, bias="corrected").centre, expected, rtol=1e-9)


def test_a_query_out_of_bounds_has_no_density_and_no_error() -> None:
    limits = KernelDensity(radius=4.0, bounds=[(0, 2)]).fit(sample()).interval([[-0.1], [1.0]])
    assert (limits.low[0], limits.high[0]) == (0.0, 0.0)
    assert limits.error[1] > 0


def test_limits_in_three_dimensions_and_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).normal(size=(500, 3))
    model = KernelDensity("gaussian").fit(x)
    at = np.zeros((5, 3)) + np.linspace(0, 1, 5)[:, None]
    whole = model.interval(at, bias="corrected")
    monkeypatch.setattr(density_limits, "_BLOCK", 700)
    np.testing.assert_allclose(model.interval(at, bias="corrected").error, whole.error, rtol=1e-12)
    assert whole.low[0] < (2 * np.pi) ** -1.5 < whole.high[0]


def test_undersmoothed_limits_are_those_of_a_larger_radius() -> None:
    mine = KernelDensity(radius=4.0).fit(sample()).interval(AT, undersmooth=1.5)
    np.testing.assert_allclose(
        mine.low, KernelDensity(radius=6.0).fit(sample()).interval(AT).low, rtol=1e-12
    )


def test_equal_samples_leave_no_variance() -> None:
    model = KernelDensity("gaussian", radius=1.0).fit(np.ones((20, 1)))
    assert not model.interval(AT).error.any()
    with pytest.raises(ValueError, match="X must have a query with a positive standard error"):
        model.band(AT, rng=np.random.default_rng(0))


def test_what_cannot_have_limits_is_refused() -> None:
    model = KernelDensity(radius=4.0).fit(sample())
    with pytest.raises(ValueError, match=r"level must be between 0 and 1, got 1\.5"):
        model.interval(AT, level=1.5)
    with pytest.raises(ValueError, match="bias must be one of ignore, corrected, got 'x'"):
        model.interval(AT, bias="x")
    with pytest.raises(ValueError, match="undersmooth must be finite and greater than 0"):
        model.interval(AT, undersmooth=-1.0)
    with pytest.raises(ValueError, match="replicates must be at least 20, got 3"):
        model.band(AT, rng=np.random.default_rng(0), replicates=3)
    with pytest.raises(TypeError, match=r"rng must be a numpy\.random\.Generator"):
        model.band(AT, rng=0)
    with pytest.raises(ValueError, match="bias must be 'ignore' for kernel fourier1"):
        KernelDensity("fourier1", radius=4.0).fit(sample()).interval(AT, bias="corrected")
    for x, weights in (([[0.0]], None), ([[0.0], [1.0]], [0.3, 0.0])):
        single = KernelDensity(radius=4.0, weighting="importance").fit(x, None, weights)
        with pytest.raises(ValueError, match="must leave an effective size above 1 for limits"):
            single.interval(AT)
    with pytest.raises(NotFittedError):
        KernelDensity().interval(AT)


@pytest.mark.parametrize("name", ["gaussian", "fourier2", "fourier4"])
def test_corrected_intervals_cover_the_density_where_plain_ones_do_not(name: str) -> None:
    """At the mode of N(0, 1), 200 samples of 300 at seven tenths of the reference radius."""
    rng, covered = np.random.default_rng(4), {"ignore": 0, "corrected": 0}
    for _ in range(200):
        model = KernelDensity(name).fit(rng.normal(size=(300, 1)))
        for rule in covered:
            limits = model.interval([[0.0]], bias=rule, undersmooth=0.7)
            covered[rule] += bool(limits.low[0] <= (2 * np.pi) ** -0.5 <= limits.high[0])
    assert covered["ignore"] < 0.7 * 200
    assert covered["corrected"] > 0.87 * 200


@pytest.mark.parametrize("name", ["order12", "order16"])
def test_limits_of_kernels_whose_square_has_a_high_degree(name: str) -> None:
    """φ² has powers up to 48 and 64; they were refused, without a word on order or limits."""
    rng = np.random.default_rng(0)
    x, at = rng.normal(size=(80, 1)), np.linspace(-1.0, 1.0, 5)[:, None]
    kernels = as_kernel(name).value(at - x.T)
    spread = np.sqrt(kernels.var(axis=1) / 79)
    error = KernelDensity(name, radius=1.0).fit(x).interval(at).error
    np.testing.assert_allclose(error, spread, rtol=1e-10)
    rows = kernels / kernels.sum(axis=1, keepdims=True)
    model = NadarayaWatson(name, radius=1.0).fit(x, rng.normal(size=80))
    ratio = model.interval(at).error / np.sqrt(np.square(rows).sum(axis=1))
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-9)
