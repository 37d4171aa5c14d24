"""Silverman's test: its critical bandwidth, its p-value, and what it refuses."""

import numpy as np
import pytest
from scipy import stats

from fourierkernels import KernelDensity
from fourierkernels.estimators.modes import (
    critical_bandwidth,
    modes,
    number_of_modes,
    silverman_test,
)
from fourierkernels.estimators.modes.silverman import _factor, share_interval

X = np.random.default_rng(0).normal(size=120)
TWO = np.concatenate([X[:60] - 2.0, X[60:] + 2.0])


def test_number_of_modes_is_that_of_the_estimate() -> None:
    for bandwidth in (0.05, 0.1, 0.2, 0.4, 0.8):
        model = KernelDensity("gaussian", bandwidth=bandwidth).fit(X[:, None])
        assert number_of_modes(X, bandwidth) == len(modes(model, floor=0.0))


def test_number_of_modes_never_grows_with_the_bandwidth() -> None:
    """Of the Gaussian only [silverman1981using]_."""
    counts = [number_of_modes(X, h) for h in np.geomspace(0.02, 2.0, 60)]
    assert np.all(np.diff(counts) <= 0)
    assert counts[0] > 30
    assert counts[-1] == 1


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_critical_bandwidth_is_where_the_number_changes(count: int) -> None:
    bandwidth = critical_bandwidth(X, count)
    assert number_of_modes(X, bandwidth) <= count < number_of_modes(X, bandwidth * (1 - 2e-5))


def test_critical_bandwidth_of_two_samples_is_half_their_distance() -> None:
    assert critical_bandwidth([3.0, 7.0]) == pytest.approx(2.0, rel=1e-5)
    assert critical_bandwidth([[3e9], [7e9]]) == pytest.approx(2e9, rel=1e-5)


def test_modes_in_an_interval_are_those_of_the_estimate_there() -> None:
    model = KernelDensity("gaussian", bandwidth=0.1).fit(X[:, None])
    place = modes(model, floor=0.0).points[:, 0]
    for within in ((-1.0, 1.0), (0.0, 5.0), (place.min() + 0.01, 0.3)):
        expected = np.sum((place >= within[0]) & (place <= within[1]))
        assert number_of_modes(X, 0.1, within=within) == expected


def test_two_normals_are_told_from_one() -> None:
    rng = np.random.default_rng(1)
    one = silverman_test(X, rng=rng, replicates=99)
    two = silverman_test(TWO, rng=rng, replicates=99)
    enough = silverman_test(TWO, 2, rng=rng, replicates=99)
    assert one.p_value > 0.1
    assert two.p_value < 0.05 < enough.p_value
    assert two.interval[0] <= two.p_value <= two.interval[1]
    assert two.bandwidth == critical_bandwidth(TWO)


def test_replicates_keep_mean_and_variance_of_the_sample() -> None:
    from fourierkernels.estimators.modes.silverman import Values, _draw

    rng, values = np.random.default_rng(2), Values.alike(X)
    drawn = np.array([_draw(values, 0.8, float(X.var()), rng) for _ in range(3000)])
    assert drawn.var() == pytest.approx(X.var(), rel=0.02)
    assert drawn.mean() == pytest.approx(X.mean(), abs=0.01)


def test_interval_of_the_share_is_the_exact_binomial_one() -> None:
    for count, total in ((0, 50), (3, 50), (50, 50)):
        expected = stats.binomtest(count, total).proportion_ci(0.95, "exact")
        np.testing.assert_allclose(share_interval(count, total), expected, rtol=1e-9)


def test_calibration_is_published() -> None:
    """λ_0.05 = 1.13 [hall2001calibration]_."""
    assert _factor(0.05, 1, (-1.0, 1.0)) == pytest.approx(1.13, abs=0.005)


def test_calibration_lowers_the_p_value() -> None:
    within = (-1.5, 1.5)
    plain = silverman_test(X, rng=np.random.default_rng(3), replicates=99, within=within)
    rng = np.random.default_rng(3)
    calibrated = silverman_test(X, rng=rng, replicates=99, within=within, calibrate=0.05)
    assert calibrated.p_value < plain.p_value


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"x": [[1.0, 2.0]]}, "x must have shape"),
        ({"x": []}, "x must have shape"),
        ({"x": [1.0, np.nan]}, "x must be finite"),
        ({"x": [1.0, 1.0]}, "x must have more distinct values than modes, 1, got 1"),
        ({"x": X, "modes": 0}, "modes must be at least 1"),
        ({"x": X, "replicates": 5}, "replicates must be at least 20"),
        ({"x": X, "within": (1.0, 1.0)}, "within must be an increasing pair"),
        ({"x": X, "within": (0.0, 1.0, 2.0)}, "within must be an increasing pair"),
        ({"x": X, "calibrate": 0.05}, "calibrate must go with modes=1 and an interval"),
        ({"x": X, "calibrate": 0.7, "within": (-1, 1)}, "calibrate must be a level of at most 0.5"),
        ({"x": [0.0, 1.0], "within": (5.0, 6.0)}, "modes, 1, got 0 in"),
    ],
)
def test_what_cannot_be_tested_is_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        silverman_test(**arguments, rng=np.random.default_rng(0))


def test_a_seed_is_no_generator() -> None:
    with pytest.raises(TypeError, match=r"rng must be a numpy\.random\.Generator"):
        silverman_test(X, rng=0)
