"""Sums with outliers: band-limited in a box and pair by pair beyond, as accurate as promised."""

import numpy as np
import pytest

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.kernels import as_kernel
from fourierkernels.kernels.phi_kernel import PhiKernel
from fourierkernels.sums import PreparedSum, kernel_sum, planning
from fourierkernels.sums.coordinates import centring_limit
from fourierkernels.sums.planning import looked_at
from fourierkernels.sums.samples import SampleSum

N, M = 400, 60


def data(kind: str, dim: int, n: int, seed: int) -> FloatArray:
    rng = np.random.default_rng([seed, dim])
    normal = rng.normal(size=(n, dim))
    if kind == "cauchy":
        return rng.standard_cauchy((n, dim))
    if kind == "outlier":
        normal[n // 2] = 1e6
    if kind == "one place":
        return np.full((n, dim), 0.1)
    if kind == "clusters":
        normal[n // 2 :] += 1e5
    return normal


KINDS = ["normal", "cauchy", "outlier", "one place", "clusters"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("name", ["gaussian", "fourier1", "fourier4"])
@pytest.mark.parametrize("tol", [1e-12, 1e-5])
def test_split_sums_are_within_their_stated_error(
    kind: str, dim: int, name: str, tol: float
) -> None:
    points, at = data(kind, dim, N, 0), data(kind, dim, M, 1)
    rng = np.random.default_rng(2)
    weights = rng.integers(0, 3, N).astype(float)
    y = rng.normal(size=N)
    options = {"kernel": name, "radius": 0.6, "weights": weights, "responses": y}
    # Half of the data a long way off leaves no box that is small enough.
    method = "auto" if kind == "clusters" else "split"
    fast = kernel_sum(points, at, method=method, tol=tol, refine=False, **options)
    slow = kernel_sum(points, at, method="reference", **options)
    scale = np.ldexp(1.0, slow.exponent - fast.exponent)
    gap = np.abs(fast.denominator - slow.denominator * scale)
    assert np.all(gap <= fast.error + slow.error * scale)
    peak = kernel_sum(points, points, method="reference", **options).totals().max()
    assert np.abs(fast.totals() - slow.totals()).max() <= tol * peak
    top = np.ldexp(slow.numerator, slow.exponent[:, None])
    found = np.ldexp(fast.numerator, fast.exponent[:, None])
    assert np.abs(found - top).max() <= 4 * tol * peak


@pytest.mark.parametrize("part", ["slope", "cumulative"])
@pytest.mark.parametrize("kind", ["cauchy", "outlier"])
def test_split_slopes_and_integrals_agree_with_the_reference(part: str, kind: str) -> None:
    points, at = data(kind, 1, N, 0), data(kind, 1, M, 1)
    options = {"kernel": "fourier4", "radius": 1.5, "parts": [part]}
    fast = kernel_sum(points, at, method="split", **options).totals()
    slow = kernel_sum(points, at, method="reference", **options).totals()
    np.testing.assert_allclose(fast, slow, atol=1e-10 * np.abs(slow).max())


def test_kernels_without_compiled_loops_are_split_too() -> None:
    points, at = data("outlier", 1, N, 0), data("cauchy", 1, M, 1)
    options = {"kernel": PhiKernel(lambda z: z**4), "radius": 1.5}
    fast = kernel_sum(points, at, method="split", **options).totals()
    slow = kernel_sum(points, at, method="reference", **options).totals()
    np.testing.assert_allclose(fast, slow, atol=1e-11 * np.abs(slow).max())


@pytest.mark.parametrize("dim", [1, 2])
def test_the_plan_splits_where_one_outlier_stretches_the_grid(dim: int) -> None:
    points = data("outlier", dim, 30_000, 0)
    prepared = PreparedSum(points, kernel="fourier4", radius=4.0)
    assert prepared.plan(points).method == "split"
    without = np.delete(points, len(points) // 2, axis=0)
    assert PreparedSum(without, kernel="fourier4", radius=4.0).plan(without).method == "bandlimited"


def test_answers_do_not_depend_on_earlier_blocks() -> None:
    points, at = data("cauchy", 1, 3000, 0), data("cauchy", 1, 300, 1)
    options = {"kernel": "fourier4", "radius": 2.0, "method": "split"}
    prepared = PreparedSum(points, **options)
    blocks = [prepared.at(block).totals() for block in np.array_split(np.sort(at, axis=0), 4)]
    whole = kernel_sum(points, np.sort(at, axis=0), **options).totals()
    np.testing.assert_allclose(np.concatenate(blocks), whole, atol=1e-11 * whole.max())


@pytest.mark.parametrize("method", ["bandlimited", "reference"])
def test_arrays_may_be_overwritten_once_a_sum_is_prepared(method: str) -> None:
    points, at = data("normal", 1, 200, 0), data("normal", 1, 20, 1)
    given = {"weights": np.linspace(0.5, 1.5, 200), "responses": np.sin(points)}
    options = {"kernel": "fourier4", "radius": 2.0, "method": method}
    expected = kernel_sum(points, 4.0 * at, **given, **options)
    prepared = PreparedSum(points, **given, **options)
    prepared.at(at)
    for array in (points, *given.values()):
        array *= 0.5
    found = prepared.at(4.0 * at)
    np.testing.assert_allclose(found.ratios(), expected.ratios(), rtol=1e-6)


def test_a_sum_without_blocks_repeats_itself_exactly() -> None:
    points, at = data("cauchy", 2, 500, 0), data("normal", 2, 50, 1)
    options = {"weights": np.ones(500), "responses": np.zeros((500, 0)), "method": "split"}
    kept = SampleSum(points, kernel=as_kernel("fourier4"), radius=np.full(2, 2.0), **options)
    first = kept.at(at).totals()
    kept.at(10.0 * at)
    np.testing.assert_array_equal(kept.at(at).totals(), first)


@pytest.mark.parametrize("name", ["gaussian", "fourier1", "fourier4"])
@pytest.mark.parametrize("dim", [1, 3])
def test_direct_sums_reach_the_tolerance_far_from_the_middle(name: str, dim: int) -> None:
    """Two clusters and one sample at 1e14: a single centre would leave one of them no digit."""
    rng = np.random.default_rng(5)
    points = rng.normal(size=(200, dim))
    points[150:] += 1e9
    points[-1] = 1e14
    at = np.vstack([points[:20], points[150:]])
    prepared = PreparedSum(points, kernel=name, radius=1.5, method="direct")
    accuracy = prepared.plan(at).accuracy
    assert accuracy <= 2e-12
    slow = kernel_sum(points, at, kernel=name, radius=1.5, method="reference").totals()
    peak = np.abs(slow).max()
    assert np.abs(prepared.at(at).totals() - slow).max() <= accuracy * peak


def test_the_promise_of_direct_sums_does_not_depend_on_where_samples_lie() -> None:
    at = np.zeros((3, 1))
    near = PreparedSum([[0.0], [1.0]], kernel="fourier4", radius=1.0, method="direct")
    far = PreparedSum([[0.0], [1e14]], kernel="fourier4", radius=1.0, method="direct")
    assert near.plan(at).accuracy < far.plan(at).accuracy <= 2e-12
    assert 0.5 < centring_limit(near._sum.kernel, 1, 1e-12) / 562.9 < 2.0


def test_the_plan_prefers_methods_that_reach_the_tolerance() -> None:
    points = np.vstack([np.zeros((50, 2)), np.full((1, 2), 1e13)])
    plan = PreparedSum(points, kernel="fourier4", radius=1.0).plan(points)
    assert plan.accuracy <= 4e-12


def fitted(kind: str, dim: int, **options: object) -> SampleSum:
    points = data(kind, dim, 2000, 0)
    given = {"weights": np.ones(2000), "responses": np.zeros((2000, 0)), "tol": 1e-9} | options
    return SampleSum(points, kernel=as_kernel("fourier4"), radius=np.full(dim, 4.0), **given)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dim", [1, 2])
def test_kept_methods_are_those_of_the_plan_in_any_order(kind: str, dim: int) -> None:
    kept, rng = fitted(kind, dim), np.random.default_rng(3)
    inside = data(kind, dim, 5000, 0)
    for m in rng.permutation([1, 2, 50, 200, 700, 2000, 5000, 1, 2, 50, 200, 700, 2000, 5000]):
        for queries in (inside[:m], 3.0 * data("normal", dim, m, 1)):
            expected = fitted(kind, dim).plan(queries).method
            assert kept._method_for(queries, plain=True) == expected


def test_a_plan_is_made_once_for_a_number_and_range_of_queries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept, made = fitted("normal", 1), []
    plan_sum = planning.plan_sum
    monkeypatch.setattr(planning, "plan_sum", lambda *asked: made.append(1) or plan_sum(*asked))
    points = data("normal", 1, 2000, 0)
    for queries in (points[:7], points[7:14], points[:50], points[50:100]):
        kept.at(queries)
    assert len(made) == 2
    kept.at(100.0 * points[:7])  # beyond the samples
    assert len(made) == 3
    for degree in (2, 4, 2, 4):
        kept.moments(points[:7], degree, with_responses=1)
    assert len(made) == 5


def test_queries_looked_at_spread_over_every_axis_of_a_grid() -> None:
    """Every 64th of 64 x 64 x 64 places has one and the same last coordinate."""
    axis = np.linspace(-1.0, 1.0, 64)
    places = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), axis=-1).reshape(-1, 3)
    for column in looked_at(places).T:
        assert len(np.unique(column)) == 64
        assert abs(np.quantile(column, 0.25) + 0.5) < 0.05
