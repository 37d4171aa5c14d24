"""Sums of monomials times the shape: series, compiled loops and the reference agree."""

import math

import numpy as np
import pytest
from sum_problems import KERNEL_NAMES, TOL, problem

from fourierkernels import PhiKernel
from fourierkernels.kernels import Kernel, as_kernel
from fourierkernels.ops.cpu import kernel_sums, moment_sums
from fourierkernels.sums import PARTS, SampleSum, bandlimited, kernel_sum
from fourierkernels.sums.parts import moment_parts, multi_indices
from fourierkernels.sums.result import MomentSums

MOMENTS = [part for part, row in PARTS.items() if row.moment]


def prepared(
    dim: int,
    kernel: Kernel | str = "fourier4",
    *,
    method: str,
    radius: float = 2.0,
    n: int = 200,
    weights: np.ndarray | None = None,
) -> SampleSum:
    points, _, y = problem(n, 1, dim)
    return SampleSum(
        points,
        kernel=as_kernel(kernel),
        radius=np.full(dim, radius),
        weights=np.ones(n) if weights is None else weights,
        responses=y,
        method=method,
        tol=TOL.get(method, 1e-12),
    )


def unscaled(sums: MomentSums) -> tuple[np.ndarray, np.ndarray]:
    scale = np.ldexp(1.0, sums.exponent)
    return sums.denominators * scale, sums.in_units * scale[:, None]


@pytest.mark.parametrize("name", KERNEL_NAMES)
@pytest.mark.parametrize("power", [1, 2, 5])
def test_moments_are_sums_of_powers_times_the_shape(name: str, power: int) -> None:
    points, at, _ = problem(50, 9, 1)
    u = 1.7 * (at - points.T)
    kernel = as_kernel(name)
    expected = (u**power * kernel.value(u) * kernel.constant).sum(axis=1)
    sums = kernel_sum(points, at, kernel=name, radius=1.7, parts=[f"moment{power}"])
    np.testing.assert_allclose(sums.totals(), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", KERNEL_NAMES)
@pytest.mark.parametrize("power", [1, 4])
def test_slopes_of_moments_are_their_central_differences(name: str, power: int) -> None:
    points, at, _ = problem(50, 9, 1)
    at[0] = points[0]  # u = 0 among them
    options = {"kernel": name, "radius": 1.7, "method": "reference"}
    step = 1e-5
    slope = kernel_sum(points, at, parts=[f"slope_of_moment{power}"], **options).totals()
    ahead, behind = (
        kernel_sum(points, at + move, parts=[f"moment{power}"], **options).totals()
        for move in (step, -step)
    )
    size = np.abs(slope).max()
    np.testing.assert_allclose(slope, (ahead - behind) / (2 * step * 1.7), atol=2e-8 * size)


@pytest.mark.parametrize("part", MOMENTS)
@pytest.mark.parametrize("name", ["gaussian", "fourier1", "fourier4"])
@pytest.mark.parametrize("radius", [0.5, 300.0])
def test_bandlimited_moments_are_within_their_stated_error(
    part: str, name: str, radius: float
) -> None:
    points, at, y = problem(200, 40, 1)
    options = {"kernel": name, "radius": radius, "responses": y, "parts": [part]}
    fast = kernel_sum(points, at, method="bandlimited", **options)
    slow = kernel_sum(points, at, method="reference", **options)
    assert np.all(np.abs(fast.totals() - slow.totals()) <= fast.error)
    assert fast.error[0] <= 1e-7 * np.abs(slow.totals()).max()


@pytest.mark.parametrize("method", ["direct", "bandlimited", "torch"])
@pytest.mark.parametrize("name", ["gaussian", "fourier1", "fourier4"])
@pytest.mark.parametrize(("dim", "degree"), [(1, 6), (2, 4), (3, 2)])
def test_all_moments_at_once_are_those_of_the_reference(
    dim: int, degree: int, name: str, method: str
) -> None:
    _, at, _ = problem(200, 20, dim)
    options, radius = {"with_responses": degree // 2}, 0.2 if dim == 3 else 2.0
    fast, slow = (
        prepared(dim, name, method=each, radius=radius).moments(at, degree, **options)
        for each in (method, "reference")
    )
    assert len(fast.denominators) == math.comb(dim + degree, dim)
    assert fast.in_units.shape == (math.comb(dim + degree // 2, dim), 20, 2)
    for mine, other in zip(unscaled(fast), unscaled(slow), strict=True):
        size = np.abs(other).max(axis=tuple(range(1, other.ndim)), keepdims=True)
        assert np.all(np.abs(mine - other) <= 1e-9 * size)
    gap = np.abs(unscaled(fast)[0] - unscaled(slow)[0])
    stated = (np.ldexp(fast.errors, fast.exponent), np.ldexp(slow.errors, slow.exponent))
    assert np.all(gap <= stated[0] + stated[1])


def test_compiled_moments_sum_the_weights_of_any_dimension() -> None:
    dim, at = 6, problem(200, 20, 6)[1]
    weights = np.random.default_rng(1).integers(0, 3, 200).astype(float)
    fast, slow = (
        prepared(dim, "fourier2", method=each, radius=0.8, weights=weights).moments(
            at, 2, with_responses=1
        )
        for each in ("direct", "reference")
    )
    for mine, other in zip(unscaled(fast), unscaled(slow), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-9, atol=1e-12 * np.abs(other).max())


def test_one_transform_of_the_samples_serves_all_moments(monkeypatch: pytest.MonkeyPatch) -> None:
    forward = bandlimited.forward
    calls: list[int] = []

    def counted(x: np.ndarray, *rest: object, **options: object) -> object:
        calls.append(len(x))
        return forward(x, *rest, **options)

    monkeypatch.setattr(bandlimited, "forward", counted)
    sums, at = prepared(1, method="bandlimited"), np.linspace(-1, 1, 30)[:, None]
    sums.moments(at, 6, with_responses=3)
    sums.moments(at, 6, with_responses=3, slope_in=0)
    sums.at(at, refine=False)
    assert calls == [200]


def test_batches_of_transforms_change_no_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    at = problem(200, 20, 2)[1]
    whole = prepared(2, method="bandlimited").moments(at, 4, with_responses=2)
    monkeypatch.setattr(bandlimited, "_LARGEST_BATCH", 1)
    cut = prepared(2, method="bandlimited").moments(at, 4, with_responses=2)
    np.testing.assert_allclose(cut.denominators, whole.denominators, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(cut.in_units, whole.in_units, rtol=1e-12, atol=1e-13)


def test_single_precision_refuses_moments() -> None:
    sums = prepared(1, method="direct_float32")
    with pytest.raises(ValueError, match="'direct_float32' has no moments"):
        sums.moments(np.zeros((1, 1)), 2, with_responses=1)


def test_monomials_about_a_distant_centre_state_what_they_lose() -> None:
    """Radius times range is 600 here: u^4 is a difference of terms of 1e11."""
    at = problem(200, 20, 1)[1]
    fast, slow = (
        prepared(1, "gaussian", method=each, radius=100.0).moments(at, 4, with_responses=2)
        for each in ("torch", "reference")
    )
    scale = np.ldexp(1.0, fast.exponent - slow.exponent)
    gap = np.abs(fast.denominators * scale - slow.denominators)
    assert np.all(gap <= fast.errors * scale + slow.errors)


def test_moments_of_a_kernel_that_is_not_compiled_come_from_the_reference() -> None:
    kernel = PhiKernel(lambda z: z**4)
    at = problem(200, 20, 1)[1]
    exact = prepared(1, kernel, method="auto").moments(at, 2, with_responses=1, exactly=True)
    own = prepared(1, "fourier4", method="direct").moments(at, 2, with_responses=1)
    np.testing.assert_allclose(unscaled(exact)[0], unscaled(own)[0], rtol=1e-9, atol=1e-9)


def test_monomials_are_listed_by_degree() -> None:
    assert multi_indices(2, 2) == [(0, 0), (1, 0), (0, 1), (2, 0), (1, 1), (0, 2)]
    assert moment_parts((0, 3, 1), slope_in=0) == ("slope", "moment3", "moment1")


def test_one_thread_and_several_have_the_same_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few pairs stay on one thread: to wake others takes longer than the sums."""
    kept, at = prepared(2, method="direct"), problem(1, 9, 2)[1]
    few = kept.moments(at, 2, with_responses=1)
    monkeypatch.setattr(kernel_sums, "_SERIAL_BELOW", 0.0)
    ran = []
    parallel = moment_sums._sum_in_parallel
    monkeypatch.setattr(
        moment_sums, "_sum_in_parallel", lambda *given: ran.append(1) or parallel(*given)
    )
    many = kept.moments(at, 2, with_responses=1)
    assert ran
    for one, other in zip(unscaled(few), unscaled(many), strict=True):
        # Compiled apart, they may add in another order.
        np.testing.assert_allclose(one, other, rtol=0, atol=4 * np.spacing(np.abs(one).max()))
