"""Kernel sums on data drawn by hypothesis: any size, scale and dtype, mad values included."""

import math

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.kernels import KERNELS, as_kernel
from fourierkernels.sums import METHODS, PreparedSum, kernel_matrix, kernel_sum

NAMES = [*KERNELS, "fourier9"]
SIZES = st.sampled_from([1, 2, 15, 16, 17, 255, 256, 257, 300])
MAD = [0.0, -0.0, 1.0, -1.0, 1e-300, 1e-9, 1e9, -1e150, 1e300, -1e300, 1.7e308]


def largest_sum(points: FloatArray, at: FloatArray, name: str, radius: FloatArray) -> float:
    """Return the largest sum of the sizes of the terms, at the samples and the queries."""
    matrix, _, exponent = kernel_matrix(
        points, np.vstack([points, at]), kernel=as_kernel(name), radius=radius
    )
    return float((np.abs(matrix).sum(axis=1) * np.ldexp(1.0, exponent)).max())


@pytest.mark.parametrize("method", [name for name in METHODS if name != "reference"])
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=12, deadline=None)
@given(
    n=SIZES,
    m=SIZES,
    dim=st.integers(1, 4),
    dtype=st.sampled_from(["float32", "float64"]),
    log_radius=st.floats(-2.0, 1.0),
    seed=st.integers(0, 2**32 - 1),
    tol=st.sampled_from([1e-12, 1e-8, 1e-4, 1e-2]),
)
@example(n=2, m=300, dim=3, dtype="float64", log_radius=0.75, seed=108, tol=1e-12)
def test_every_method_keeps_the_accuracy_its_plan_promises(
    method: str,
    name: str,
    n: int,
    m: int,
    dim: int,
    dtype: str,
    log_radius: float,
    seed: int,
    tol: float,
) -> None:
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(n, dim)).astype(dtype)
    at = rng.normal(size=(m, dim)).astype(dtype)
    radius = 10.0**log_radius * rng.uniform(0.5, 1.5, dim)
    options = {"kernel": name, "radius": radius}
    try:
        prepared = PreparedSum(points, method=method, tol=tol, **options)
        promised = prepared.plan(at.astype(float)).accuracy
    except ValueError as refusal:
        assume("must be able to do the sum" not in str(refusal))
        raise
    fast = prepared.at(at, refine=False)
    slow = kernel_sum(points, at, method="reference", **options)
    peak = largest_sum(points.astype(float), at.astype(float), name, radius)
    assert promised <= 4 * tol or method == "direct"
    assert np.abs(fast.totals() - slow.totals()).max() <= 2 * promised * peak
    scale = np.ldexp(1.0, slow.exponent - fast.exponent)  # far rows underflow, and none overflows
    gap = np.abs(fast.denominator - slow.denominator * scale)
    assert np.all(gap <= fast.error + slow.error * scale)


@settings(max_examples=150, deadline=None)
@given(
    points=arrays(float, st.tuples(st.integers(1, 5), st.just(1)), elements=st.sampled_from(MAD)),
    at=arrays(float, st.tuples(st.integers(1, 3), st.just(1)), elements=st.sampled_from(MAD)),
    radius=st.sampled_from([1e-300, 1e-9, 1.0, 1e9, 1e300]),
    name=st.sampled_from(NAMES),
    method=st.sampled_from(["auto", *METHODS]),
)
@example(
    points=np.full((2, 1), 1.7e308),
    at=np.full((1, 1), 1.7e308),
    radius=1e-9,
    name="gaussian",
    method="auto",
)
def test_mad_values_give_a_clear_error_or_the_answer(
    points: FloatArray, at: FloatArray, radius: float, name: str, method: str
) -> None:
    """No NaN, no infinity, no warning: sums that agree with the reference, or a refusal."""
    options = {"kernel": name, "radius": radius, "responses": np.arange(len(points))}
    with np.errstate(over="ignore"):
        span = radius * float(np.ptp(np.vstack([points, at]) / 2))
    if not (1e-100 <= radius <= 1e100 and span <= 0.5e15):
        with pytest.raises(ValueError, match=r"^radius must .*got \S+"):
            kernel_sum(points, at, method=method, **options)
        return
    try:
        sums = kernel_sum(points, at, method=method, **options)
    except ValueError as refusal:
        assume("must be able to do the sum" not in str(refusal))
        raise
    slow = kernel_sum(points, at, method="reference", **options)
    totals = sums.totals()
    assert np.isfinite(totals).all()
    both = ~sums.undefined & ~slow.undefined
    np.testing.assert_allclose(totals[both], slow.totals()[both], rtol=1e-6, atol=1e-11)
    ratios = sums.ratios()[~sums.undefined]
    assert np.isfinite(ratios).all()


@pytest.mark.parametrize("method", ["auto", "direct", "reference"])
@pytest.mark.parametrize("name", NAMES)
def test_a_query_a_million_radii_away_is_the_nearest_response_or_undefined(
    method: str, name: str
) -> None:
    sums = kernel_sum(
        [[0.0], [1.0]],
        [[1e6], [-1e6]],
        kernel=name,
        radius=1.0,
        responses=[3.0, 3.0],
        method=method,
    )
    ratios = sums.ratios()[:, 0]
    np.testing.assert_allclose(ratios[~np.isnan(ratios)], 3.0, rtol=1e-6)
    if name == "gaussian":
        assert not np.isnan(ratios).any()  # its logarithm is exact however far


def test_integers_duplicates_and_one_sample_are_ordinary_data() -> None:
    whole = kernel_sum([[1], [2], [2]], [[2]], kernel="fourier4", radius=2)
    split = kernel_sum([[1.0], [2.0]], [[2.0]], kernel="fourier4", radius=2.0, weights=[1.0, 2.0])
    assert whole.totals()[0] == pytest.approx(split.totals()[0], rel=1e-14)
    alone = kernel_sum([[5]], [[5]], kernel="fourier1", radius=3)
    assert alone.totals()[0] == 1.0


def test_points_without_columns_are_refused() -> None:
    with pytest.raises(ValueError, match=r"points must .* got shape \(3, 0\)"):
        kernel_sum(np.zeros((3, 0)), np.zeros((1, 0)), kernel="gaussian", radius=1.0)


@pytest.mark.parametrize("method", ["direct", "direct_float32"])
def test_weights_far_below_those_of_the_padding_are_summed(method: str) -> None:
    """The tiles are padded at the centre of the data, where this query is and no sample."""
    points = np.stack([np.full(128, 10.0), np.full(128, -10.0)])
    sums = kernel_sum(
        points,
        np.zeros((1, 128)),
        kernel="fourier4",
        radius=2.0,
        method=method,
        tol=1e-2,
        responses=[7.0, 1.0],
        refine=False,
    )
    exact = 512 * math.log(abs(math.sin(20.0)) / 20.0) + math.log(2.0)
    assert sums.log_totals()[0] == pytest.approx(exact, rel=1e-6)
    assert sums.ratios()[0, 0] == pytest.approx(4.0, rel=1e-4)


@pytest.mark.parametrize("method", ["auto", "direct", "reference"])
@pytest.mark.parametrize("distance", [1e3, 1e4, 1e5, 1e6])
def test_the_nearest_sample_has_all_the_weight_far_away(method: str, distance: float) -> None:
    """Exponents of these weights go down to -1e13, beyond 32 bits."""
    points, y = np.array([[-3.0, 0.0], [0.0, 0.0], [2.0, 0.0]]), np.array([5.0, 7.0, 1.0])
    at = np.array([[distance, 0.0], [-distance, 0.0]])
    sums = kernel_sum(points, at, kernel="gaussian", radius=4.0, responses=y, method=method)
    np.testing.assert_allclose(sums.ratios()[:, 0], [1.0, 5.0], rtol=1e-12)
