"""Slopes with intervals: coverage, extrapolation, refusals."""

import numpy as np
import pytest

from fourierkernels.theory.slopes import fit_slope, limit_slope, local_slopes


def test_interval_of_the_fitted_slope_covers_the_truth_as_often_as_it_should() -> None:
    """Two standard errors: 95.4 % of 4,000 fits, with a binomial error of 0.3 %."""
    rng = np.random.default_rng(7)
    n = np.geomspace(1e3, 1e6, 6)
    truth, spread = 3.0 * n**-0.8, 0.02 * n**-0.8
    fits = [fit_slope(n, truth + spread * rng.standard_normal(6), spread) for _ in range(4000)]
    share = np.mean([-0.8 in fit for fit in fits])
    assert 0.954 < share < 0.985  # widened by the misfit in about every third fit, never narrowed


def test_points_that_miss_the_line_widen_the_interval() -> None:
    n = np.array([1e3, 1e4, 1e5, 1e6])
    straight = fit_slope(n, n**-0.8, 0.01 * n**-0.8)
    bent = fit_slope(n, n**-0.8 * np.array([1.0, 1.1, 1.1, 1.0]), 0.01 * n**-0.8)
    assert bent.high - bent.low > 3 * (straight.high - straight.low)


def test_precise_points_weigh_more() -> None:
    n = np.array([1e3, 1e4, 1e5])
    errors = np.array([1.0, 0.1, 0.05])
    fit = fit_slope(n, errors, errors * np.array([0.001, 0.001, 1.0]))
    assert fit.value == pytest.approx(-1.0, abs=0.01)


@pytest.mark.parametrize("delta", [0.2, 0.4, 1.0])
def test_power_corrections_are_extrapolated_away(delta: float) -> None:
    n = 10.0 ** np.arange(4, 13)
    slope = limit_slope(n, n**-0.75 * (1 - 0.7 * n**-delta), correction="power")
    assert slope.value == pytest.approx(-0.75, abs=5e-5)
    assert -0.75 in slope


def test_logarithmic_corrections_leave_the_limit_in_the_interval() -> None:
    n = 10.0 ** np.arange(6, 15)
    slope = limit_slope(
        n, (np.sqrt(np.log(n)) - 0.9) / n * np.log(n) ** -0.5, correction="logarithm"
    )
    assert -1.0 in slope
    assert -1.01 not in slope
    assert -0.99 not in slope


def test_the_range_of_a_limit_is_what_the_extrapolation_moved_over() -> None:
    """With n^{-0.02} the limit lies outside of it: nothing there is a confidence."""
    n = 10.0 ** np.arange(6, 15)
    slope = limit_slope(n, n**-0.8 + 3.0 * n**-0.82, correction="power")
    assert slope.least < slope.value < slope.most
    assert -0.8 not in slope
    assert str(slope) == f"{slope.value:.3f} (moved {slope.least:.3f} to {slope.most:.3f})"


def test_local_slopes_of_a_power_are_its_exponent() -> None:
    np.testing.assert_allclose(local_slopes([10, 100, 500], [1.0, 0.1, 0.02]), -1.0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: local_slopes([10, 5], [1.0, 2.0]), "sizes must increase"),
        (lambda: local_slopes([10, 20], [1.0, 0.0]), "errors must be positive and finite, got 0.0"),
        (lambda: local_slopes([10], [1.0]), "sizes must be at least 2 numbers"),
        (
            lambda: fit_slope([1, 2, 3], [1, 1, 1], [1, 1]),
            r"standard_errors must have shape \(3,\)",
        ),
        (
            lambda: limit_slope([1, 2, 3, 4, 5], np.ones(5), correction="power"),
            "sizes must be in geometric progression",
        ),
    ],
)
def test_bad_input_is_refused(call: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()  # type: ignore[operator]
