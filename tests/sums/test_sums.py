"""Kernel sums: the reference against a double loop, every fast path against the reference."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from several_threads import THREADS, printed_by
from sum_problems import KERNEL_NAMES, TOL, problem
from tolerances import TOLERANCE

from fourierkernels.kernels import KERNELS, FourierKernel, GaussianKernel, Kernel
from fourierkernels.kernels.phi_kernel import PhiKernel
from fourierkernels.sums import METHODS, KernelSums, kernel_sum, plan_sum
from fourierkernels.sums.problem import Problem
from fourierkernels.sums.series import Series, fourier_series

FAST = TOLERANCE["float64"]["fast"]
FAST_METHODS = [name for name in METHODS if name != "reference"]
ANY_DIMENSION = [name for name in METHODS if name not in {"bandlimited", "split"}]


def relative_gap(sums: KernelSums, other: KernelSums) -> float:
    """Largest difference of denominators, relative to the larger of the two."""
    scale = np.ldexp(1.0, sums.exponent - other.exponent)
    gap = np.abs(sums.denominator * scale - other.denominator)
    return float((gap / np.abs(other.denominator)).max())


@pytest.mark.parametrize("method", ["direct", "direct_float32"])
@pytest.mark.parametrize("name", ["gaussian", "fourier4", "fourier64"])
@pytest.mark.parametrize("size", [1e-46, 1e-200, 1e37, 1e39, 1e295])
def test_weights_of_any_size_are_summed_in_either_precision(
    method: str, name: str, size: float
) -> None:
    points, at, y = problem(30, 9, 2)
    at = 0.3 * at
    found, plain = (
        kernel_sum(
            points,
            at,
            kernel=name,
            radius=0.5,
            weights=np.full(30, weight),
            responses=y,
            method=method,
            tol=1e-2,
            refine=False,
        )
        for weight in (size, 1.0)
    )
    np.testing.assert_allclose(found.log_totals() - plain.log_totals(), np.log(size), rtol=1e-5)
    np.testing.assert_allclose(found.ratios(), plain.ratios(), rtol=1e-4)


@pytest.mark.parametrize("name", KERNEL_NAMES)
def test_reference_is_the_sum_over_pairs(name: str) -> None:
    points, at, y = problem(7, 3, 2)
    sums = kernel_sum(points, at, kernel=name, radius=1.5, responses=y, method="reference")
    kernel = KERNELS.get(name) or FourierKernel(9)
    for j, query in enumerate(at):
        w = [
            math.prod(float(kernel.value(1.5 * (q - x))) for q, x in zip(query, p, strict=True))
            for p in points
        ]
        scale = kernel.constant**2
        assert sums.totals()[j] == pytest.approx(scale * math.fsum(w), rel=1e-11)
        top = scale * math.fsum(w_i * y_i for w_i, y_i in zip(w, y[:, 1], strict=True))
        assert sums.numerator[j, 1] * 2.0 ** sums.exponent[j] == pytest.approx(top, rel=1e-10)


@pytest.mark.parametrize("name", KERNEL_NAMES)
@pytest.mark.parametrize(
    ("method", "dim"),
    [
        (method, dim)
        for method in FAST_METHODS
        for dim in (1, 2, 3, 7, 64)
        if dim <= 3 or method in ANY_DIMENSION
    ],
)
def test_fast_path_agrees_with_the_reference(method: str, name: str, dim: int) -> None:
    """Within the sum of both stated errors, for sizes off the tiles and per-dimension radii."""
    points, at, y = problem(300, 37, dim)
    weights = np.random.default_rng(1).random(300)
    options = {"kernel": name, "radius": np.linspace(0.7, 2.5, dim), "weights": weights}
    fast = kernel_sum(
        points, at, responses=y, method=method, refine=False, tol=TOL[method], **options
    )
    slow = kernel_sum(points, at, responses=y, method="reference", **options)
    scale = np.ldexp(1.0, fast.exponent - slow.exponent)
    gap = np.abs(fast.denominator * scale - slow.denominator)
    assert np.all(gap <= fast.error * scale + slow.error)
    if KERNELS.get(name, FourierKernel(9)).nonnegative and dim <= 7 and method == "direct":
        assert relative_gap(fast, slow) < FAST
        np.testing.assert_allclose(fast.ratios(), slow.ratios(), rtol=1e-9, atol=FAST)


@pytest.mark.parametrize("method", ANY_DIMENSION)
@pytest.mark.parametrize("name", ["gaussian", "fourier4"])
def test_nothing_underflows_in_128_dimensions(method: str, name: str) -> None:
    points, at, y = problem(50, 5, 128)
    sums = kernel_sum(
        points, at, kernel=name, radius=6.0, responses=y, method=method, tol=TOL[method]
    )
    assert np.all(sums.log_totals() < -745)  # far below the least positive double
    assert np.all(np.isfinite(sums.log_totals()))
    assert np.all(sums.totals() == 0)
    assert np.all(np.abs(sums.ratios()) <= np.abs(y).max() * (1 + 1e-12))


@pytest.mark.parametrize("method", METHODS)
def test_far_queries_of_the_gaussian_give_the_nearest_response(method: str) -> None:
    points = np.linspace(-1, 1, 10).reshape(-1, 1)
    sums = kernel_sum(
        points,
        [[5.0], [-50.0]],
        kernel="gaussian",
        radius=10.0,
        responses=np.arange(10.0),
        method=method,
        tol=TOL[method],
    )
    np.testing.assert_allclose(sums.ratios()[:, 0], [9.0, 0.0], atol=TOL[method])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("power", [1, 2, 4])
def test_a_query_at_a_common_zero_of_all_sincs_is_undefined(method: str, power: int) -> None:
    """Samples and query on one lattice of spacing π/R: every weight is rounding noise."""
    radius = 3.0
    lattice = (math.pi / radius * np.arange(30.0)).reshape(-1, 1)
    sums = kernel_sum(
        lattice[:10],
        lattice[25:26],
        kernel=f"fourier{power}",
        radius=radius,
        responses=np.arange(10.0),
        method=method,
        tol=TOL[method],
    )
    assert sums.undefined.all()
    assert np.isnan(sums.ratios()).all()


@pytest.mark.parametrize("method", METHODS)
def test_a_signed_denominator_that_cancels_is_undefined(method: str) -> None:
    """Two samples whose sinc weights are equal and opposite at the query."""
    u = 4.493409457909064  # the minimum of sinc; find v with sinc(v) = -sinc(u) on its first slope
    low, high = 1.0, math.pi
    for _ in range(80):
        middle = 0.5 * (low + high)
        low, high = (
            (middle, high) if math.sin(middle) / middle > 0.21723362821122166 else (low, middle)
        )
    sums = kernel_sum(
        [[u], [-low]],
        [[0.0]],
        kernel="fourier1",
        radius=1.0,
        responses=[1.0, 2.0],
        method=method,
        tol=TOL[method],
    )
    assert abs(sums.denominator[0]) < 1e-14
    assert sums.undefined.all()


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("method", METHODS)
def test_coincident_points_have_weight_one(method: str, name: str) -> None:
    points = np.random.default_rng(0).normal(size=(1, 3))
    sums = kernel_sum(points, points, kernel=name, radius=2.0, method=method, tol=TOL[method])
    assert sums.totals()[0] == pytest.approx(1.0, rel=FAST)


@pytest.mark.parametrize("method", METHODS)
def test_points_without_weight_change_nothing(method: str) -> None:
    points, at, y = problem(60, 9, 2)
    weights = np.ones(60)
    weights[::3] = 0
    options = {"kernel": "fourier4", "radius": 2.0, "method": method, "tol": TOL[method]}
    zeroed = kernel_sum(points, at, weights=weights, responses=y, **options)
    kept = weights > 0
    removed = kernel_sum(points[kept], at, responses=y[kept], **options)
    np.testing.assert_array_equal(zeroed.totals(), removed.totals())


_ANY_THREADS = """
import numba
from numpy.random import default_rng
from fourierkernels.sums import kernel_sum
rng = default_rng(0)
points, at, y = (rng.normal(size=size) for size in ((1000, 3), (2000, 3), (1000, 2)))
options = {"kernel": "fourier4", "radius": 2.0, "responses": y, "method": "direct"}
found = []
for threads in (1, numba.config.NUMBA_NUM_THREADS):
    numba.set_num_threads(threads)
    found.append(kernel_sum(points, at, **options))
one, many = found
print(threads, (one.numerator == many.numerator).all(), (one.denominator == many.denominator).all())
"""


def test_results_do_not_depend_on_the_number_of_threads() -> None:
    assert printed_by(_ANY_THREADS) == [str(THREADS), "True", "True"]


def test_inputs_are_not_written_to() -> None:
    points, at, y = problem(20, 5, 2)
    copies = points.copy(), at.copy(), y.copy()
    kernel_sum(points, at, kernel="fourier2", radius=1.0, responses=y)
    for array, copy in zip((points, at, y), copies, strict=True):
        np.testing.assert_array_equal(array, copy)


@pytest.mark.parametrize("method", [name for name in METHODS if TOL[name] == 1e-12])
@settings(max_examples=25, deadline=None)
@given(
    shift=st.floats(-1e3, 1e3),
    scale=st.floats(0.1, 10.0),
    dim=st.integers(1, 3),
    name=st.sampled_from(["gaussian", "fourier2", "fourier4"]),
)
def test_sums_are_invariant_to_shift_and_to_scale_against_radius(
    method: str, shift: float, scale: float, dim: int, name: str
) -> None:
    points, at, _ = problem(20, 4, dim)
    plain = kernel_sum(points, at, kernel=name, radius=1.3, method=method)
    moved = kernel_sum(
        points * scale + shift, at * scale + shift, kernel=name, radius=1.3 / scale, method=method
    )
    assert relative_gap(moved, plain) < 1e-8  # the inputs themselves were rounded by the shift


@settings(max_examples=25, deadline=None)
@given(permutation=st.permutations(range(12)), name=st.sampled_from(KERNEL_NAMES))
def test_order_of_the_points_does_not_matter(permutation: list[int], name: str) -> None:
    points, at, y = problem(12, 3, 2)
    plain = kernel_sum(points, at, kernel=name, radius=1.1, responses=y)
    mixed = kernel_sum(points[permutation], at, kernel=name, radius=1.1, responses=y[permutation])
    np.testing.assert_allclose(mixed.totals(), plain.totals(), rtol=1e-9, atol=1e-12)


# --- the band-limited path -------------------------------------------------------------------


@pytest.mark.parametrize("tol", [1e-12, 1e-9, 1e-6, 1e-3])
@pytest.mark.parametrize("name", KERNEL_NAMES)
@pytest.mark.parametrize(("dim", "radius"), [(1, 0.01), (1, 5.0), (1, 300.0), (2, 6.0), (3, 0.7)])
def test_bandlimited_sums_keep_their_tolerance(
    tol: float, name: str, dim: int, radius: float
) -> None:
    points, at, y = problem(400, 60, dim)
    options = {"kernel": name, "radius": radius, "responses": y}
    fast = kernel_sum(points, at, method="bandlimited", tol=tol, refine=False, **options)
    slow = kernel_sum(points, at, method="direct", **options)
    peak = np.abs(kernel_sum(points, points, kernel=name, radius=radius).totals()).max()
    assert np.abs(fast.totals() - slow.totals()).max() <= 2 * tol * peak
    top = np.abs(kernel_sum(points, points, **options).numerator).max()
    unscaled = slow.numerator * np.ldexp(1.0, slow.exponent)[:, None]
    assert np.abs(fast.numerator - unscaled).max() <= 4 * tol * max(peak, top)


@pytest.mark.parametrize("name", ["fourier1", "fourier2", "fourier4", "gaussian"])
def test_windowed_periodisation_is_exact_where_plain_periodisation_is_not(name: str) -> None:
    """Specification, section 2: plain periodisation does not reach 1e-12 for l <= 4."""
    radius, reach = 5.0, 7.3
    kernel = KERNELS[name]
    x = np.linspace(-reach, reach, 501)
    exact = kernel.value(radius * x) * kernel.constant

    def evaluate(series: Series) -> np.ndarray:
        half = len(series.coefficients) // 2
        k = 2 * math.pi / series.period * np.arange(-half, half)
        return (np.exp(1j * np.outer(x, k)) @ series.coefficients).real

    windowed = fourier_series(kernel, radius, reach, tol=1e-13)
    assert np.abs(evaluate(windowed) - exact).max() < 1e-13
    k = np.arange(-3000, 3000)
    spacing = 2 * math.pi / (8 * reach)
    plain = Series(
        8 * reach,
        kernel.transform(k * spacing / radius) * kernel.constant * spacing / (2 * math.pi * radius),
    )
    plain_error = np.abs(evaluate(plain) - exact).max()
    assert plain_error > 1e-10 if name != "gaussian" else plain_error < 1e-12


@pytest.mark.parametrize("name", ["gaussian", "fourier1", "fourier2", "fourier3", "fourier4"])
@pytest.mark.parametrize("dim", [1, 2])
def test_no_wrong_finite_ratio_far_from_the_data(name: str, dim: int) -> None:
    """Where the band-limited sums are noise, the rows are summed directly or left undefined."""
    points, _, y = problem(500, 1, dim)
    at = np.vstack([np.full((1, dim), x) for x in (0.0, 4.0, 7.0, 20.0, 90.0)])
    options = {"kernel": name, "radius": 3.0, "responses": y}
    fast = kernel_sum(points, at, method="bandlimited", **options).ratios()
    slow = kernel_sum(points, at, method="reference", **options)
    both = ~np.isnan(fast[:, 0]) & ~slow.undefined
    np.testing.assert_allclose(fast[both], slow.ratios()[both], rtol=1e-5, atol=1e-6)
    assert both.sum() >= 3


def test_plan_takes_the_direct_sum_for_few_pairs_and_the_transform_for_many() -> None:
    def chosen(n: int, dim: int, kernel: Kernel) -> str:
        asked = Problem(kernel, n, n, dim, 1, (20.0,) * dim, 1e-12)
        return plan_sum(asked).method

    assert chosen(100, 1, GaussianKernel()) == "direct"
    assert chosen(10**6, 1, GaussianKernel()) == "bandlimited"
    assert chosen(10**6, 2, FourierKernel(4)) == "bandlimited"
    assert chosen(10**4, 8, FourierKernel(4)) == "direct"
    assert chosen(10**2, 8, PhiKernel(lambda z: z**2)) == "reference"
    assert chosen(10**6, 1, PhiKernel(lambda z: z**2)) == "bandlimited"


def test_plan_refuses_a_radius_whose_phases_lose_the_tolerance() -> None:
    asked = Problem(FourierKernel(4), 10, 10, 1, 1, (1e6,), 1e-12)
    with pytest.raises(ValueError, match=r"'bandlimited' reaches .* at this radius"):
        plan_sum(asked, "bandlimited")
    assert plan_sum(asked).method == "direct"


def case(**changed: object) -> Callable[[], KernelSums]:
    options: dict[str, object] = {"kernel": "fourier4", "radius": 1.0}
    arrays = {"points": [[0.0], [1.0]], "at": [[0.5]]}
    arrays.update({key: changed.pop(key) for key in list(changed) if key in arrays})  # type: ignore[misc]
    return lambda: kernel_sum(arrays["points"], arrays["at"], **{**options, **changed})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("run", "error", "message"),
    [
        (case(points=[[math.nan]]), ValueError, r"points must be finite, got nan at index"),
        (case(at=[[math.inf]]), ValueError, r"at must be finite, got inf at index \(0, 0\)"),
        (case(points=np.zeros((0, 1))), ValueError, "points must not be empty, got shape"),
        (case(points=[0.0, 1.0]), ValueError, r"points must be two-dimensional.*got shape \(2,\)"),
        (case(at=[[0.0, 1.0]]), ValueError, r"at must have 1 columns, got shape \(1, 2\)"),
        (case(points=[["a"]]), TypeError, "points must be numeric"),
        (case(points=[[1j]]), ValueError, "points must be real"),
        (case(radius=0.0), ValueError, "radius must be positive and finite, got 0.0"),
        (case(radius=-1.0), ValueError, "radius must be positive and finite, got -1.0"),
        (case(radius=math.nan), ValueError, "radius must be positive and finite, got nan"),
        (case(radius=math.inf), ValueError, "radius must be positive and finite, got inf"),
        (case(radius=[1.0, 2.0]), ValueError, r"radius must be a number or have shape \(1,\)"),
        (case(weights=[1.0]), ValueError, r"weights must have shape \(2,\), got shape \(1,\)"),
        (case(weights=[1.0, -1.0]), ValueError, "weights must be non-negative and not all zero"),
        (case(weights=[0.0, 0.0]), ValueError, "weights must be non-negative and not all zero"),
        (case(responses=[1.0]), ValueError, r"responses must have shape \(2,\) or \(2, k\)"),
        (case(responses=[1.0, math.nan]), ValueError, "responses must be finite, got nan"),
        (case(tol=1e-20), ValueError, r"tol must be in \[1e-12, 1e-2\], got 1e-20"),
        (case(parts=["slope", "value"]), ValueError, r"parts must have one name per dimension, 1"),
        (case(parts=["curl"]), ValueError, "parts must be one of value, slope, .*got 'curl'"),
        (
            case(parts=["slope"], method="direct"),
            ValueError,
            "method must be able to do the sum: 'direct' has no compiled slopes",
        ),
        (case(method="fast"), ValueError, "method must be one of auto, .*got 'fast'"),
        (
            case(kernel=PhiKernel(lambda z: z**2), method="direct"),
            ValueError,
            "method must be able to do the sum: 'direct' has no compiled form of kernel phi",
        ),
    ],
)
def test_bad_input_is_refused(
    run: Callable[[], KernelSums], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        run()
