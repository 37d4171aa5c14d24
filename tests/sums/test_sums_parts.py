"""Kernel sums with slopes and integrals, in blocks of queries, and without a term."""

import numpy as np
import pytest
from sum_problems import KERNEL_NAMES, TOL, problem
from tolerances import TOLERANCE

from fourierkernels.sums import METHODS, PARTS, KernelSums, PreparedSum, bandlimited, kernel_sum
from fourierkernels.sums.parts import slopes

FAST = TOLERANCE["float64"]["fast"]
# Of sums of 39 terms, each at most about 6 in size.
ROUNDING = {name: 2e-5 if name == "direct_float32" else 1e-10 for name in METHODS}
PLAIN = [part for part, row in PARTS.items() if part != "value" and not row.moment]
CALCULUS = [name for name in METHODS if not name.startswith(("direct", "torch"))]


def unscaled(sums: KernelSums) -> np.ndarray:
    return (
        np.column_stack([sums.denominator, sums.numerator]) * np.ldexp(1.0, sums.exponent)[:, None]
    )


@pytest.mark.parametrize("method", CALCULUS)
@pytest.mark.parametrize("name", KERNEL_NAMES)
@pytest.mark.parametrize("dim", [1, 2])
def test_slopes_are_the_central_differences_of_the_sums(method: str, name: str, dim: int) -> None:
    points, at, y = problem(50, 9, dim)
    radius, step = np.linspace(1.5, 2.5, dim), 1e-5
    options = {"kernel": name, "radius": radius, "responses": y}
    slope = kernel_sum(points, at, parts=slopes(dim)[-1], method=method, **options)
    ahead, behind = at.copy(), at.copy()
    ahead[:, -1] += step
    behind[:, -1] -= step
    change = unscaled(kernel_sum(points, ahead, method="reference", **options))
    change -= unscaled(kernel_sum(points, behind, method="reference", **options))
    np.testing.assert_allclose(unscaled(slope), change / (2 * step * radius[-1]), atol=2e-8)


@pytest.mark.parametrize("part", PLAIN)  # of moments: test_moments
@pytest.mark.parametrize("name", KERNEL_NAMES)
@pytest.mark.parametrize(("dim", "radius"), [(1, 0.01), (1, 5.0), (1, 300.0), (2, 4.0), (3, 0.3)])
def test_bandlimited_parts_agree_with_the_reference(
    part: str, name: str, dim: int, radius: float
) -> None:
    points, at, y = problem(200, 40, dim)
    options = {"kernel": name, "radius": radius, "responses": y, "parts": (part,) * dim}
    fast = kernel_sum(points, at, method="bandlimited", **options)
    slow = kernel_sum(points, at, method="reference", **options)
    size = np.abs(unscaled(slow)).max()
    assert np.abs(unscaled(fast) - unscaled(slow)).max() <= 200 * FAST * size
    assert np.all(np.abs(fast.denominator - slow.totals()) <= 20 * fast.error)


@pytest.mark.parametrize("name", KERNEL_NAMES)
def test_slope_of_the_integral_is_the_sum(name: str) -> None:
    points, at, _ = problem(50, 9, 1)
    options = {"kernel": name, "radius": 2.0, "method": "bandlimited"}
    step = 1e-5
    change = kernel_sum(points, at + step, parts=["cumulative"], **options).totals()
    change -= kernel_sum(points, at - step, parts=["cumulative"], **options).totals()
    plain = kernel_sum(points, at, **options).totals()
    np.testing.assert_allclose(change / (2 * step * 2.0), plain, atol=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_blocks_of_queries_give_what_one_call_gives(method: str) -> None:
    points, at, y = problem(300, 50, 2)
    options = {
        "kernel": "fourier4",
        "radius": 2.0,
        "responses": y,
        "method": method,
        "tol": TOL[method],
    }
    prepared = PreparedSum(points, **options)
    blocks = [prepared.at(block).ratios() for block in np.array_split(3 * at, 5)]
    whole = kernel_sum(points, 3 * at, **options).ratios()
    np.testing.assert_allclose(np.concatenate(blocks), whole, rtol=1e-6, atol=1e-8)


def test_samples_are_transformed_once_for_all_blocks_within_their_range(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forward = bandlimited.forward
    calls: list[int] = []

    def counted(x: np.ndarray, *rest: object, **options: object) -> object:
        calls.append(len(x))
        return forward(x, *rest, **options)

    monkeypatch.setattr(bandlimited, "forward", counted)
    points, _, y = problem(500, 1, 1)
    prepared = PreparedSum(points, kernel="fourier4", radius=5.0, responses=y, method="bandlimited")
    inside = np.linspace(points.min(), points.max(), 40).reshape(-1, 1)
    for block in np.array_split(inside, 8):
        prepared.at(block, refine=False)
        prepared.with_slopes(block)
    assert calls == [500]
    for end in np.linspace(points.max(), 2 * points.max(), 50):  # the range grows by quarters
        prepared.at([[end]], refine=False)
    assert len(calls) <= 6


def test_a_block_far_away_leaves_the_other_blocks_to_the_transform() -> None:
    points, at, _ = problem(2000, 5000, 1)
    prepared = PreparedSum(points, kernel="gaussian", radius=5.0, expected=10_000)
    assert prepared.plan(at).method == "bandlimited"
    assert prepared.plan(np.array([[1e9]])).method == "direct"
    prepared.at(at)
    far = prepared.at([[1e9]])
    assert far.totals()[0] == 0
    np.testing.assert_allclose(prepared.at(at[:5]).totals(), prepared.at(at).totals()[:5])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", KERNEL_NAMES)
def test_sums_left_out_are_those_without_the_sample(method: str, name: str) -> None:
    points, _, y = problem(40, 1, 2)
    weights = np.random.default_rng(4).integers(0, 3, 40).astype(float)
    options = {"kernel": name, "radius": 1.2, "method": method, "tol": TOL[method]}
    prepared = PreparedSum(points, weights=weights, responses=y, **options)
    left = prepared.left_out(points, weights, np.arange(40))
    for i in (0, 7, 39):
        rest = np.delete(np.arange(40), i)
        sums = kernel_sum(
            points[rest],
            points[[i]],
            weights=weights[rest],
            responses=y[rest],
            kernel=name,
            radius=1.2,
            method="reference",
        )
        np.testing.assert_allclose(unscaled(left)[i], unscaled(sums)[0], atol=ROUNDING[method])
