"""Regression functions: the contract every registered one keeps, and the decay of their spectra."""

import math

import numpy as np
import pytest

from fourierkernels.theory.densities import (
    REGRESSION_FUNCTIONS,
    RegressionFunction,
    additive,
    as_regression_function,
)
from fourierkernels.theory.densities.regression_functions import Break, Bump, Doppler, Power, Sine

AWAY = np.array([-2.3, -0.9, -0.31, 0.27, 0.5, 1.1, 3.7])  # no break of a registered function


@pytest.mark.parametrize("name", REGRESSION_FUNCTIONS)
def test_derivatives_are_those_of_the_value(name: str) -> None:
    f, h = REGRESSION_FUNCTIONS[name], 1e-4
    slope = (f.value(AWAY + h) - f.value(AWAY - h)) / (2 * h)
    curvature = (f.value(AWAY + h) - 2 * f.value(AWAY) + f.value(AWAY - h)) / h**2
    size = 1 + np.abs(f.slope(AWAY)).max() ** 3
    np.testing.assert_allclose(f.slope(AWAY), slope, atol=5e-7 * size)
    np.testing.assert_allclose(f.curvature(AWAY), curvature, atol=5e-6 * size)


@pytest.mark.parametrize("name", REGRESSION_FUNCTIONS)
def test_growth_bounds_the_function_far_out(name: str) -> None:
    f = REGRESSION_FUNCTIONS[name]
    far = np.geomspace(10, 1e6, 30)
    assert np.all(np.abs(f.value(far)) <= 2 * (1 + far) ** f.growth)
    if f.growth > 0:
        assert np.abs(f.value(1e6)) > 1e6 ** (f.growth - 0.1)


@pytest.mark.parametrize("degree", [0, 1, 2, 3])
def test_derivative_of_the_stated_order_jumps_at_the_break(degree: int) -> None:
    """Forward differences of order `degree` on both sides differ by 2 degree!, lower ones agree."""
    f, h = Break(degree, at=0.4), 1e-3
    for order in range(degree + 1):
        sides = [
            np.diff(f.value(0.4 + side * h * np.arange(1, order + 2)), order)[0]
            / (side * h) ** order
            for side in (-1, 1)
        ]
        gap = 2.0 * math.factorial(degree) if order == degree else 0.0
        assert sides[1] - sides[0] == pytest.approx(gap, abs=0.05)
    assert f.smoothness.exponent == degree + 1


def spectrum(function: RegressionFunction, t: np.ndarray) -> np.ndarray:
    """|transform of f · N(0, 1)|: midpoints, with a break always on the boundary of a cell."""
    h = 2**-11
    x = (np.arange(-9 * 2**11, 9 * 2**11) + 0.5) * h
    weighted = function.value(x) * np.exp(-0.5 * x**2) * h
    return np.abs(np.exp(1j * np.outer(t, x)) @ weighted)


@pytest.mark.parametrize("degree", [0, 1, 2])
def test_spectrum_with_a_gaussian_design_falls_at_the_stated_power(degree: int) -> None:
    low, high = spectrum(Break(degree), np.array([20.0, 40.0]))
    assert -math.log2(high / low) == pytest.approx(degree + 1, abs=0.03)


@pytest.mark.parametrize("function", [Sine(), Bump(), Power(1), Power(2)], ids=lambda f: f.name)
def test_smooth_functions_keep_a_gaussian_design_supersmooth_of_order_two(
    function: RegressionFunction,
) -> None:
    """-log|transform|/t grows: faster than exp(-ct) for every c."""
    t = np.array([4.0, 7.9])
    exponents = -np.log(spectrum(function, t)) / t
    assert exponents[1] > 1.1 * exponents[0]


def test_doppler_is_supersmooth_of_order_one_only() -> None:
    """log |f̂p| + width·t grows like √t: neither a power nor a Gaussian."""
    f = Doppler()
    t = np.array([10.0, 20.0, 30.0])
    log = np.log(np.array([spectrum(f, t + shift) for shift in (-1.0, 0.0, 1.0)]).max(axis=0))
    slopes = -np.diff(log) / 10.0
    assert 0.2 * f.width < slopes[0] < slopes[1] < f.width


def test_additive_sums_over_dimensions() -> None:
    points = np.array([[0.1, 0.2, 0.3], [1.0, -1.0, 0.5]])
    np.testing.assert_allclose(additive("sine", points), np.sin(2 * points).sum(axis=1))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: as_regression_function("cosine"), ValueError, "function must be one of sine"),
        (lambda: as_regression_function(3), TypeError, "function must be a regression function"),
        (lambda: Power(3), ValueError, "degree must be 1 or 2, got 3"),
        (lambda: Break(-1), ValueError, "degree must be at least 0, got -1"),
        (lambda: Sine(0.0), ValueError, "frequency must be finite and greater than 0, got 0.0"),
        (lambda: Doppler(width=-1.0), ValueError, "width must be finite and greater than 0"),
    ],
)
def test_bad_input_is_refused(make: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()  # type: ignore[operator]
