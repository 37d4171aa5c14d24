"""Data that a conversion to numbers would silently change are refused by name."""

import warnings
from collections.abc import Callable

import numpy as np
import pytest

from fourierkernels import KernelDensity, NadarayaWatson
from fourierkernels.estimators import AdaptiveDensity
from fourierkernels.estimators.checks import validated
from fourierkernels.simulation import mise, mse

X = np.random.default_rng(0).normal(size=(50, 1))
Y = X[:, 0]
DATES = np.arange(50).astype("datetime64[s]")
DURATION = np.timedelta64(1, "h")
MASKED = np.ma.masked_array(Y, mask=Y > 1)
density = KernelDensity("gaussian", radius=2.0).fit(X)
regression = NadarayaWatson(radius=2.0).fit(X, Y)
SEED = r"rng must be a numpy.random.Generator, as numpy.random.default_rng\(0\), got 3"
SIMULATION = {"n": 9, "radius": 1.0, "replicates": 2, "rng": 3}

REFUSED = {
    "dates in X": (
        lambda: KernelDensity().fit(DATES[:, None]),
        "X must be numeric, got datetime64",
    ),
    "dates in y": (lambda: NadarayaWatson().fit(X, DATES), "y must be numeric, got datetime64"),
    "durations in y": (
        lambda: NadarayaWatson().fit(X, DATES - DATES[0]),
        "y must be numeric, got timedelta64",
    ),
    "durations among objects": (
        lambda: KernelDensity().fit(np.array([[DURATION], [2.0 * DURATION]], object)),
        "X must be numeric, got timedelta64 among objects",
    ),
    "complex numbers among objects": (
        lambda: KernelDensity().fit(X, None, np.array([np.complex128(1.0 + 2.0j)] * 50, object)),
        "sample_weight must be numeric, got complex128 among objects",
    ),
    "masked X": (lambda: density.density(MASKED[:, None]), "X must not be masked, got 10 masked"),
    "masked y": (lambda: NadarayaWatson().fit(X, MASKED), "y must not be masked, got 10 masked"),
    "seed for draws": (lambda: density.sample(3, rng=3), SEED),
    "seed for a band": (lambda: regression.band(X, rng=3), SEED),
    "seed for the MISE": (lambda: mise("gaussian", "fourier4", **SIMULATION), SEED),
    "seed for the MSE": (lambda: mse("gaussian", "sine", "fourier4", **SIMULATION), SEED),
    "ends of two lengths": (
        lambda: density.probability([0.0, 1.0], 1.0),
        r"low must be a number or have shape \(1,\), got \(2,\)",
    ),
    "ends of a matrix": (
        lambda: density.probability(0.0, [[1.0]]),
        r"high must be a number or have shape \(1,\), got \(1, 1\)",
    ),
    "bounds that are a number": (
        lambda: KernelDensity(bounds=3).fit(X),
        r"bounds must have a pair \(low, high\) per dimension, 1, got 3",
    ),
    "bounds of a stream that are a number": (
        lambda: KernelDensity(radius=1.0, bounds=3).fit([X]),
        r"bounds must have a pair \(low, high\) per dimension, 1, got 3",
    ),
    "bounds that are text": (
        lambda: KernelDensity(bounds=[("a", "b")]).fit(X),
        r"bounds must have a pair \(low, high\) per dimension, 1, got \[\('a', 'b'\)\]",
    ),
    "a pilot that is a number": (
        lambda: AdaptiveDensity(pilot=3).fit(X),
        "pilot must be a KernelDensity or None, got 3",
    ),
    "a radius that is a truth value": (
        lambda: KernelDensity(radius=True).fit(X),
        "radius must be a number, got True",
    ),
    "a bandwidth that is a truth value": (
        lambda: KernelDensity(bandwidth=np.True_).fit(X),
        "bandwidth must be a number, got np.True_",
    ),
    "ends that are text": (lambda: density.probability("a", 1.0), "low must be numeric, got <U1"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_data_that_are_no_numbers_are_refused_by_name(name: str) -> None:
    call: Callable[[], object]
    call, message = REFUSED[name]
    with pytest.raises((TypeError, ValueError), match=message):
        call()


def test_masked_arrays_without_a_masked_entry_are_arrays() -> None:
    whole = np.ma.masked_array(X, mask=False)
    assert (
        KernelDensity(radius=2.0).fit(whole).density(X)
        == KernelDensity(radius=2.0).fit(X).density(X)
    ).all()


def test_entries_whose_sum_overflows_are_taken_without_a_warning() -> None:
    """As scikit-learn takes them, though arrays that are ready do not go through it."""
    largest = np.full((3, 1), np.finfo(float).max)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(validated(KernelDensity(), largest), largest)
