"""Corrected bias of regressions: twicing written out, its order, and what refuses it."""

import numpy as np
import pytest

from fourierkernels import NadarayaWatson
from fourierkernels.estimators import LinearSmoother, UndefinedWarning
from fourierkernels.estimators.inference import bias
from fourierkernels.kernels import as_kernel

KERNELS = ["gaussian", "fourier2", "fourier4"]


class LocalLine(LinearSmoother):
    """Weighted straight line through the neighbours of each query; NaN beyond 3."""

    def weight_rows(self, queries: np.ndarray) -> np.ndarray:
        rows = []
        for query in queries:
            gap = self.points_[:, 0] - query
            weights = self.weights_ * np.exp(-0.5 * np.square(gap / 0.5))
            design = np.column_stack([np.ones(len(gap)), gap])
            inverse = np.linalg.inv(design.T @ (weights[:, None] * design))
            rows.append(inverse[0] @ (design.T * weights) + (0.0 if query < 3 else np.nan))
        return np.array(rows)


def data(n: int = 80, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(-2, 2, (n, 1)), axis=0)
    return x, np.sin(2 * x[:, 0]) + 0.3 * rng.normal(size=n)


AT = np.linspace(-1.8, 1.8, 7)[:, None]
SMOOTHERS = [LocalLine(), *(NadarayaWatson(name, radius=4.0) for name in KERNELS)]
SMOOTHERS.append(NadarayaWatson(radius=4.0, bounds=[(-2.0, 2.0)]))


@pytest.mark.parametrize("model", SMOOTHERS, ids=repr)
@pytest.mark.parametrize("noise", ["constant", "local"])
def test_corrected_limits_are_those_of_twice_the_weights_less_their_square(
    model: LinearSmoother, noise: str
) -> None:
    x, y = data()
    plain = model.fit(x, y).interval(x, noise=noise)
    twice = 2 * model.weights(AT) - model.weights(AT) @ model.weights(x)
    variances = np.linalg.solve(np.square(model.weights(x)), np.square(plain.error))
    limits = model.interval(AT, noise=noise, bias="corrected")
    np.testing.assert_allclose(limits.centre, twice @ y, rtol=1e-9)
    np.testing.assert_allclose(limits.error, np.sqrt(np.square(twice) @ variances), rtol=1e-4)
    np.testing.assert_allclose(twice.sum(axis=1), 1.0, rtol=1e-9)


@pytest.mark.parametrize("model", SMOOTHERS, ids=repr)
def test_corrected_band_is_the_bootstrap_written_out(model: LinearSmoother) -> None:
    x, y = data()
    limits = model.fit(x, y).band(AT, rng=np.random.default_rng(5), replicates=40, bias="corrected")
    draws = np.random.default_rng(5).standard_normal((80, 40))
    twice = 2 * model.weights(AT) - model.weights(AT) @ model.weights(x)
    size = np.sqrt(np.square(twice).sum(axis=1))
    highest = np.abs(twice @ draws / size[:, None]).max(axis=0)
    assert limits.critical == pytest.approx(np.quantile(highest, 0.95, method="higher"), rel=1e-8)


@pytest.mark.parametrize("name", KERNELS)
def test_what_is_left_of_a_wave_is_the_square_of_what_was_lost(name: str) -> None:
    """On an even design S multiplies a wave by K̂(ω/R), twicing by 1 - (1 - K̂)²."""
    x = np.linspace(-240, 240, 24_001)[:, None]  # tails of l = 2 are long
    model = NadarayaWatson(name, radius=4.0).fit(x, np.cos(2 * x[:, 0]))
    lost = 1.0 - float(as_kernel(name).transform(0.5))
    fit = model.bias_corrected().fit_at(np.array([[0.0]]))[0]
    assert lost > 0.05
    assert fit == pytest.approx(1.0 - lost**2, abs=2e-4)


@pytest.mark.parametrize("bounds", [None, [(-2.0, 2.0)]])
def test_adjoint_of_the_kernel_regression_is_that_of_its_weights(bounds: object) -> None:
    x, y = data()
    weights = np.random.default_rng(1).uniform(size=80) * (np.arange(80) % 5 > 0)
    model = NadarayaWatson("fourier2", radius=4.0, bounds=bounds).fit(x, y, weights)
    columns = np.random.default_rng(2).normal(size=(80, 3)) * (weights > 0)[:, None]
    fast, slow = model.adjoint(columns), LinearSmoother.adjoint(model, columns)
    np.testing.assert_allclose(fast, slow, rtol=1e-9, atol=1e-14)
    np.testing.assert_allclose(slow, model.weights(x).T @ columns, rtol=1e-9, atol=1e-14)


def test_weights_in_blocks_are_those_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    model = NadarayaWatson(radius=4.0).fit(*data())
    whole = model.interval(AT, bias="corrected").error
    monkeypatch.setattr(bias, "_BLOCK", 200)
    np.testing.assert_allclose(model.interval(AT, bias="corrected").error, whole, rtol=1e-12)


def test_a_sample_without_weight_changes_no_corrected_limits() -> None:
    x, y = data()
    far, wild = np.append(x, [[1e9]], axis=0), np.append(y, 1e9)
    mine = NadarayaWatson("gaussian", radius=4.0).fit(far, wild, np.append(np.ones(80), 0.0))
    other = NadarayaWatson("gaussian", radius=4.0).fit(x, y)
    with pytest.warns(UndefinedWarning, match="1 of 81"):  # that sample itself
        limits = mine.interval(AT, bias="corrected")
    np.testing.assert_allclose(limits.low, other.interval(AT, bias="corrected").low, rtol=1e-8)


def test_corrected_limits_in_three_dimensions_and_at_undefined_queries() -> None:
    x = np.random.default_rng(0).uniform(size=(100, 3))
    model = NadarayaWatson("fourier4", radius=6.0, bounds=3 * [(0, 1)]).fit(x, x.sum(axis=1))
    with pytest.warns(UndefinedWarning):
        limits = model.interval([[0.5] * 3, [2.0] * 3], bias="corrected")
    assert limits.centre[0] == pytest.approx(1.5, abs=0.05)
    assert np.isnan([limits.low[1], limits.high[1]]).all()


def test_undersmoothing_and_correction_combine() -> None:
    x, y = data()
    mine = NadarayaWatson(radius=4.0).fit(x, y).interval(AT, undersmooth=1.5, bias="corrected")
    other = NadarayaWatson(radius=6.0).fit(x, y).interval(AT, bias="corrected")
    np.testing.assert_allclose(mine.low, other.low, rtol=1e-10)


def test_what_has_no_leading_term_or_no_fit_is_refused() -> None:
    x, y = data()
    with pytest.raises(ValueError, match="bias must be one of ignore, corrected, got 'robust'"):
        NadarayaWatson(radius=4.0).fit(x, y).interval(AT, bias="robust")
    sinc = NadarayaWatson("fourier1", radius=4.0).fit(x, y)
    for ask in (sinc.interval, sinc.band):
        options = {"rng": np.random.default_rng(0)} if ask.__name__ == "band" else {}
        with pytest.raises(ValueError, match="bias must be 'ignore' for kernel fourier1, whose"):
            ask(AT, bias="corrected", **options)
    line = LocalLine().fit(np.append(x, [[3.5]], axis=0), np.append(y, 1.0))
    with pytest.raises(ValueError, match="defined at every sample to correct its bias, got 1 sam"):
        line.interval(AT, bias="corrected")


def test_corrected_intervals_cover_the_function_where_plain_ones_do_not() -> None:
    """At a peak, 200 samples: a share of 0.95 is known to 0.03."""
    rng = np.random.default_rng(3)
    x = np.linspace(-2, 2, 100)[:, None]
    covered = {"ignore": 0, "corrected": 0}
    for _ in range(200):
        y = np.sin(3 * x[:, 0]) + 0.3 * rng.normal(size=100)
        model = NadarayaWatson("gaussian", radius=4.5).fit(x, y)
        for bias_rule in covered:
            limits = model.interval([[np.pi / 6]], bias=bias_rule)
            covered[bias_rule] += bool(limits.low[0] <= 1.0 <= limits.high[0])
    assert covered["ignore"] < 0.6 * 200
    assert covered["corrected"] > 0.9 * 200
