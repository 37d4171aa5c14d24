"""Rules for rounded and repeated data: near those of the data unrounded, and said so."""

import warnings

import numpy as np
import pytest

from fourierkernels import KernelDensity
from fourierkernels.estimators import GAUSSIAN_RULES, RADIUS_RULES, TiedDataWarning
from fourierkernels.estimators.radius import choose_radius
from fourierkernels.estimators.radius.spectrum import settled
from fourierkernels.kernels import KERNELS, as_kernel

SPECTRAL = ["lscv", "plugin"]


def radius(rule: str, x: np.ndarray, kernel: str, weights: object = None) -> np.ndarray:
    weights = np.ones(len(x)) if weights is None else np.asarray(weights, float)
    return choose_radius(x, weights, as_kernel(kernel), radius=rule, bandwidth=None)


def quietly(rule: str, x: np.ndarray, kernel: str, weights: object = None) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TiedDataWarning)
        return radius(rule, x, kernel, weights)


def normal(n: int, seed: int = 0, dim: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, dim))


def to(step: float, x: np.ndarray) -> np.ndarray:
    return np.round(x / step) * step


@pytest.mark.parametrize(("step", "accuracy"), [(0.5, 0.05), (0.1, 0.03), (0.01, 0.01)])
@pytest.mark.parametrize("kernel", ["gaussian", "fourier1", "fourier2", "fourier4"])
def test_plug_in_radius_of_rounded_data_is_that_of_the_data(
    kernel: str, step: float, accuracy: float
) -> None:
    """In the median of five samples of 400; the plain rule refused all of them."""
    ratios = []
    for seed in range(5):
        x = normal(400, seed)
        with pytest.warns(TiedDataWarning, match=rf"X is rounded to multiples of {step:g} \(col"):
            found = radius("plugin", to(step, x), kernel)
        ratios.append(found[0] / radius("plugin", x, kernel)[0])
    assert np.median(ratios) == pytest.approx(1.0, abs=accuracy)


@pytest.mark.parametrize(("step", "accuracy"), [(0.5, 0.15), (0.1, 0.05), (0.01, 0.01)])
@pytest.mark.parametrize(
    ("rule", "kernel"),
    [("lscv", "gaussian"), ("lscv", "fourier4"), ("improved_sheather_jones", "gaussian")],
)
def test_other_rules_of_rounded_data_are_those_of_the_data(
    rule: str, kernel: str, step: float, accuracy: float
) -> None:
    samples = [normal(400, seed) for seed in range(5)]
    ratios = [quietly(rule, to(step, x), kernel)[0] / radius(rule, x, kernel)[0] for x in samples]
    assert np.median(ratios) == pytest.approx(1.0, abs=accuracy)


@pytest.mark.parametrize("rule", SPECTRAL)
@pytest.mark.parametrize("kernel", KERNELS)
def test_radius_of_coarse_data_is_bounded_by_what_rounding_resolves(rule: str, kernel: str) -> None:
    """Where the rules had no minimum at all: K̂(π/(δR)) is then not far below one half."""
    x = to(1.0, normal(500))
    found = quietly(rule, x, kernel)
    assert 0.3 < found[0] < 3.0 * np.pi


def test_step_is_found_at_any_place_and_scale() -> None:
    x = to(0.01, normal(400))
    for factor, shift in ((1.0, 1e6), (1e-30, 0.0), (3.7, 11.13)):
        data = factor * (x + shift)
        with pytest.warns(TiedDataWarning):
            sample, end = settled(data, np.ones(400), 1.2, "lscv")
        assert sample.scale[0] * np.pi / end[0] == pytest.approx(0.01 * factor, rel=1e-6)


def test_step_need_not_be_the_smallest_gap() -> None:
    x = np.array([0.0, 4.0, 4.0, 10.0, 10.0, 10.0, 20.0])[:, None]
    with pytest.warns(TiedDataWarning, match="multiples of 2 "):
        settled(x, np.ones(7), 1.2, "lscv")


def test_continuous_data_is_left_as_it_is() -> None:
    x = normal(300)
    for data in (x, np.vstack([x, x[:6]])):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            sample, end = settled(data, np.ones(len(data)), 1.2, "lscv")
        assert np.isinf(end).all()
        assert len(sample.points) == len(data)


def test_one_rounded_column_bounds_its_own_frequencies() -> None:
    x = normal(300, dim=2)
    plain = radius("plugin", x, "fourier4")
    x[:, 1] = to(0.5, x[:, 1])
    with pytest.warns(TiedDataWarning, match=r"multiples of 0.5 \(column 1\)"):
        found = radius("plugin", x, "fourier4")
    np.testing.assert_allclose(found, plain, rtol=0.15)


@pytest.mark.parametrize("rule", [*SPECTRAL, "improved_sheather_jones"])
def test_repeated_rows_are_one_sample(rule: str) -> None:
    x = normal(150)
    plain = radius(rule, x, "gaussian")
    with pytest.warns(
        TiedDataWarning, match="300 of 450 repeat another: .* one sample, 150 in all"
    ):
        thrice = radius(rule, np.repeat(x, 3, axis=0), "gaussian")
    np.testing.assert_allclose(thrice, plain, rtol=1e-6)
    with pytest.warns(TiedDataWarning, match="sample_weight counts copies .* one sample, 150 in"):
        weighted = radius(rule, x, "gaussian", np.full(150, 3.0))
    np.testing.assert_allclose(weighted, plain, rtol=1e-6)
    nearly = quietly(rule, x, "gaussian", np.full(150, 3.0001))
    np.testing.assert_allclose(nearly, plain, rtol=1e-3)


@pytest.mark.parametrize("rule", [*RADIUS_RULES, *GAUSSIAN_RULES])
def test_no_rule_refuses_data_of_two_decimals(rule: str) -> None:
    x = to(0.01, normal(400))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TiedDataWarning)
        model = KernelDensity("gaussian", radius=rule).fit(x)
    assert 1.0 < model.radius_[0] < 10.0


def test_the_warning_is_at_the_line_of_the_caller() -> None:
    with pytest.warns(TiedDataWarning) as caught:
        KernelDensity(radius="plugin").fit(to(0.1, normal(400)))
    assert caught[0].filename == __file__
