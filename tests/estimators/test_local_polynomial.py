"""Local polynomials: what they reproduce, what their weights are, and where they are undefined."""

import itertools
import math
from pathlib import Path

import joblib
import mpmath
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

from fourierkernels import LocalPolynomial, NadarayaWatson
from fourierkernels.estimators import (
    LinearSmoother,
    UndefinedWarning,
    gcv_score,
    local_fits,
    loo_score,
)
from fourierkernels.estimators.weights import WEIGHTINGS
from fourierkernels.kernels import KERNELS, Kernel, as_kernel
from fourierkernels.sums.parts import multi_indices

METHODS = ["reference", "direct", "bandlimited"]
DEGREES = [0, 1, 2, 3]


def data(n: int = 80, dim: int = 1, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (n, dim))
    return x, np.sin(3 * x[:, 0]) + 0.3 * rng.normal(size=n)


def monomials(x: np.ndarray, degree: int) -> np.ndarray:
    return np.column_stack([np.prod(x**a, axis=1) for a in multi_indices(x.shape[1], degree)])


def least_squares(
    x: np.ndarray,
    y: np.ndarray,
    at: np.ndarray,
    *,
    kernel: Kernel,
    radius: float,
    degree: int,
    weights: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients and weight matrix of the local fit, one small system per query."""
    coefficients, rows = [], []
    for query in at:
        u = x - query
        design = monomials(u, degree)
        w = weights * kernel.value(radius * u).prod(axis=1)
        inverse = np.linalg.inv(design.T @ (w[:, None] * design))
        rows.append(inverse[0] @ (design.T * w))
        coefficients.append(inverse @ (design.T @ (w * y)))
    return np.array(coefficients), np.array(rows)


# --- what is reproduced, and by which weights --------------------------------------------------


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("degree", DEGREES)
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_polynomials_of_the_degree_are_reproduced(dim: int, degree: int, name: str) -> None:
    rng = np.random.default_rng(dim)
    x, at = rng.uniform(-1, 1, (90, dim)), rng.uniform(-1, 1, (12, dim))
    coefficients = rng.normal(size=(math.comb(dim + degree, dim), 2))
    model = LocalPolynomial(name, degree=degree, radius=2.0, method="direct")
    fit = model.fit(x, monomials(x, degree) @ coefficients).predict(at)
    np.testing.assert_allclose(fit, monomials(at, degree) @ coefficients, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize(("dim", "degree"), [(1, 1), (1, 3), (2, 1), (2, 2), (3, 1)])
def test_bandlimited_sums_reproduce_polynomials_too(dim: int, degree: int, name: str) -> None:
    rng = np.random.default_rng(dim)
    x, at = rng.uniform(-1, 1, (300, dim)), rng.uniform(-1, 1, (12, dim))
    coefficients = rng.normal(size=math.comb(dim + degree, dim))
    radius = 0.4 if dim == 3 else 2.0
    model = LocalPolynomial(name, degree=degree, radius=radius, method="bandlimited")
    fit = model.fit(x, monomials(x, degree) @ coefficients).predict(at)
    np.testing.assert_allclose(fit, monomials(at, degree) @ coefficients, rtol=0, atol=1e-7)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("degree", DEGREES)
@pytest.mark.parametrize("name", ["gaussian", "fourier1", "fourier2", "fourier4"])
def test_fit_and_weights_are_those_of_weighted_least_squares(
    name: str, degree: int, method: str
) -> None:
    (x, y), at = data(), np.linspace(-0.95, 0.95, 9)[:, None]
    weights = np.random.default_rng(1).uniform(0.0, 2.0, 80)
    model = LocalPolynomial(name, degree=degree, radius=5.0, method=method).fit(x, y, weights)
    options = {"kernel": as_kernel(name), "radius": 5.0, "degree": degree, "weights": weights}
    coefficients, rows = least_squares(x, y, at, **options)
    np.testing.assert_allclose(model.weights(at), rows, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(model.predict(at), coefficients[:, 0], rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(model.predict(at), model.weights(at) @ y, rtol=1e-7, atol=1e-8)
    if degree:
        slope = model.derivative(at, of="polynomial")[:, 0]
        np.testing.assert_allclose(slope, coefficients[:, 1], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", KERNELS)
def test_degree_zero_is_the_nadaraya_watson_regression(name: str, method: str) -> None:
    (x, y), at = data(100, 2), data(9, 2, seed=1)[0]
    plain = NadarayaWatson(name, radius=2.0, method=method).fit(x, y)
    local = LocalPolynomial(name, degree=0, radius=2.0, method=method).fit(x, y)
    np.testing.assert_allclose(local.predict(at), plain.predict(at), rtol=1e-11)
    np.testing.assert_allclose(local.hat_diagonal(), plain.hat_diagonal(), rtol=1e-11)
    np.testing.assert_allclose(local.leave_one_out(), plain.leave_one_out(), rtol=1e-9)


@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize("degree", [1, 2])
def test_fast_paths_are_the_defaults_of_the_contract(degree: int, dim: int) -> None:
    x, y = data(60, dim)
    model = LocalPolynomial("fourier4", degree=degree, radius=2.0, method="direct").fit(x, y)
    at, variances = x[::7], np.linspace(1.0, 2.0, 60)
    for name, arguments in (
        ("fit_at", (at,)),
        ("smooth", (at, np.column_stack([y, y**2]))),
        ("hat_diagonal", ()),
        ("squared_weight_sums", (at, variances)),
        ("leave_one_out", ()),
    ):
        fast, slow = (
            getattr(model, name)(*arguments),
            getattr(LinearSmoother, name)(model, *arguments),
        )
        np.testing.assert_allclose(fast, slow, rtol=1e-7, atol=1e-10, err_msg=name)
    for score in (gcv_score, loo_score):
        expected = score(LinearSmoother.design_fit(model))
        assert score(model.design_fit()) == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["gaussian", "fourier3", "fourier4"])
def test_variances_of_the_fit_are_those_of_its_weights(name: str, method: str) -> None:
    (x, y), at = data(), np.linspace(-0.9, 0.9, 7)[:, None]
    model = LocalPolynomial(name, radius=6.0, method=method).fit(x, y)
    variances = np.linspace(0.0, 2.0, 80)
    expected = np.square(model.weights(at)) @ variances
    np.testing.assert_allclose(model.squared_weight_sums(at, variances), expected, rtol=1e-7)


def test_local_lines_are_those_of_statsmodels_and_scikit_fda() -> None:
    """Golden numbers: statsmodels 0.15.0 and scikit-fda 0.10.1.

    Made by ``KernelReg(y, x, "c", reg_type="ll", bw=[0.4]).fit(at)`` (the fit and the marginal
    effect), ``LocalLinearRegressionHatMatrix(bandwidth=0.4)`` (the same fit to 1e-12), and
    ``KernelReg(y, both, "cc", reg_type="ll", bw=[0.6, 0.5]).fit(corners)``.
    """
    i = np.arange(12.0)
    x, at = np.sqrt(i)[:, None], np.array([[0.0], [0.5], [1.7], [3.0], [3.5]])
    y = np.cos(x[:, 0]) + (i % 3) / 10
    line = LocalPolynomial("gaussian", bandwidth=0.4).fit(x, y)
    fit = [1.000132179298, 0.808786063987, -0.016210290855, -0.844972493949, -0.842548149234]
    slope = [-0.369255167857, -0.408233563634, -0.93481039163, -0.258192386941, 0.022810109001]
    np.testing.assert_allclose(line.predict(at), fit, rtol=0, atol=1e-11)
    np.testing.assert_allclose(line.derivative(at, of="polynomial")[:, 0], slope, atol=1e-11)
    corners = np.array([[0.5, 0.1], [2.0, -0.3], [3.0, 0.5]])
    both = np.column_stack([x, np.cos(3 * i)])
    plane = LocalPolynomial("gaussian", bandwidth=[0.6, 0.5]).fit(both, y)
    fit = [0.79287337419, -0.2763032694, -0.808233023757]
    slopes = [
        [-0.580920754244, -0.04885143001],
        [-0.669115161058, 0.013446120068],
        [-0.286726148603, 0.055715397892],
    ]
    np.testing.assert_allclose(plane.predict(corners), fit, rtol=0, atol=1e-11)
    np.testing.assert_allclose(plane.derivative(corners, of="polynomial"), slopes, atol=1e-11)


# --- digits ------------------------------------------------------------------------------------


def collinear(n: int = 24) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two columns that are nearly one, and queries beside and beyond the samples."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 2))
    x[:, 1] = 0.98 * x[:, 0] + 0.2 * x[:, 1]
    at = np.vstack([0.5 * x[0], [1.2, 0.3], [-2.0, -2.4]])
    return x, np.sin(x[:, 0]) + 0.3 * rng.normal(size=n), at


def with_fifty_digits(
    name: str, degree: int, x: np.ndarray, y: np.ndarray, query: np.ndarray
) -> list[float]:
    """The value and the slopes of the local polynomial, radius 2, by its normal equations."""
    powers = [p for p in itertools.product(range(degree + 1), repeat=2) if sum(p) <= degree]
    powers.sort(key=lambda p: (sum(p), p != (0, 0) and -p[0]))
    with mpmath.workdps(50):
        u = [
            [2 * (mpmath.mpf(a) - mpmath.mpf(b)) for a, b in zip(query, row, strict=True)]
            for row in x
        ]
        shape = {
            "gaussian": lambda t: mpmath.exp(-t * t / 2),
            "fourier3": lambda t: mpmath.sinc(t) ** 3,
        }[name]
        weights = [shape(a) * shape(b) for a, b in u]
        rows = [[a**p * b**q for p, q in powers] for a, b in u]
        size = range(len(powers))
        matrix = mpmath.matrix(len(powers), len(powers))
        right = mpmath.matrix(len(powers), 1)
        for weight, row, response in zip(weights, rows, y, strict=True):
            for i in size:
                right[i] += weight * row[i] * mpmath.mpf(response)
                for j in size:
                    matrix[i, j] += weight * row[i] * row[j]
        found = mpmath.lu_solve(matrix, right)
        return [float(found[0]), float(-2 * found[1]), float(-2 * found[2])]


@pytest.mark.parametrize("name", ["gaussian", "fourier3"])
@pytest.mark.parametrize("method", ["direct", "bandlimited"])
def test_nearly_collinear_columns_keep_their_digits(name: str, method: str) -> None:
    """From moments alone values and slopes had errors of up to 3e-5, or were NaN."""
    x, y, at = collinear()
    exact = np.array([with_fifty_digits(name, 3, x, y, query) for query in at])
    model = LocalPolynomial(name, degree=3, radius=[2.0, 2.0], method=method).fit(x, y)
    np.testing.assert_allclose(model.predict(at), exact[:, 0], rtol=2e-9)
    slopes = model.derivative(at, of="polynomial")
    np.testing.assert_allclose(slopes, exact[:, 1:], rtol=2e-9, atol=2e-9)
    assert model.weights(at) @ y == pytest.approx(exact[:, 0], rel=1e-5)


@pytest.mark.parametrize("name", ["gaussian", "fourier3"])
def test_slopes_of_the_fit_keep_their_digits_where_sums_were_repeated(name: str) -> None:
    """Sums of the slope were not repeated exactly where those of the fit had been."""
    x, y, at = collinear()
    model = LocalPolynomial(name, degree=2, radius=2.0, method="bandlimited").fit(x, y)
    direct = LocalPolynomial(name, degree=2, radius=2.0, method="reference").fit(x, y)
    slopes, step = direct.derivative(at), 1e-4
    np.testing.assert_allclose(model.derivative(at), slopes, rtol=1e-6, atol=1e-7)
    for d in range(2):
        ahead = step * np.eye(2)[d]
        values = [
            [with_fifty_digits(name, 2, x, y, query + k * ahead)[0] for query in at]
            for k in (-2, -1, 1, 2)
        ]
        differences = np.array([1.0, -8.0, 8.0, -1.0]) @ values / (12 * step)
        np.testing.assert_allclose(slopes[:, d], differences, rtol=1e-6, atol=1e-7)


def weights_with_fifty_digits(x: np.ndarray, query: float, degree: int) -> np.ndarray:
    """Weights of samples in the Gaussian local polynomial, radius 4, by its normal equations."""
    with mpmath.workdps(50):
        u = [4 * (mpmath.mpf(query) - mpmath.mpf(each)) for each in x]
        shape = [mpmath.exp(-t * t / 2) for t in u]
        matrix = mpmath.matrix(degree + 1, degree + 1)
        for i, j in itertools.product(range(degree + 1), repeat=2):
            matrix[i, j] = mpmath.fsum(k * t ** (i + j) for k, t in zip(shape, u, strict=True))
        first = mpmath.lu_solve(matrix, mpmath.matrix([1] + [0] * degree))
        terms = (
            k * mpmath.fsum(first[a] * t**a for a in range(degree + 1))
            for k, t in zip(shape, u, strict=True)
        )
        return np.array([float(each) for each in terms])


@pytest.mark.parametrize("method", ["direct", "bandlimited"])
@pytest.mark.parametrize("degree", [1, 2, 3])
def test_weights_and_variances_far_out_keep_their_digits(degree: int, method: str) -> None:
    """Powers of u cancelled there: weights missed by 1e5, and intervals had a width of zero."""
    x = np.random.default_rng(3).normal(size=40)
    y, at = np.cos(2 * x) + 3, [0.3, 2.9, 3.5, 4.0]
    expected = np.array([weights_with_fifty_digits(x, each, degree) for each in at])
    model = LocalPolynomial("gaussian", degree=degree, radius=4.0, method=method)
    model.fit(x[:, None], y)
    queries, noise = np.array(at)[:, None], np.linspace(0.5, 2.0, 40)
    np.testing.assert_allclose(model.weights(queries), expected, rtol=1e-7, atol=1e-7)
    variances = np.square(expected) @ noise
    np.testing.assert_allclose(model.squared_weight_sums(queries, noise), variances, rtol=1e-5)


# --- leaving one out ---------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:sample_weight counts copies")  # which are left out together
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("degree", [1, 2])
def test_leave_one_out_is_refitting_without_the_sample(degree: int, method: str) -> None:
    x, y = data(40)
    weights = np.random.default_rng(1).integers(0, 3, 40)
    options = {"degree": degree, "radius": 4.0, "method": method}
    for weighting in WEIGHTINGS:
        model = LocalPolynomial(**options, weighting=weighting).fit(x, y, weights)
        left = model.leave_one_out()
        for i in range(0, 40, 8):  # the row, however often it occurs
            rest = weights.copy()
            rest[i] = 0
            again = LocalPolynomial(**options).fit(x, y, rest)
            assert left[i] == pytest.approx(again.predict(x[[i]])[0], abs=1e-7)


@pytest.mark.parametrize("method", METHODS)
def test_leave_one_out_of_distant_samples_is_that_of_the_others(method: str) -> None:
    """Pairs eight bandwidths apart: what is left has a share of e^-32, and is a line."""
    x = np.array([[0.0], [8.0], [9.0], [17.0]])
    model = LocalPolynomial("gaussian", radius=1.0, method=method).fit(x, [100.0, 8.0, 9.0, 17.0])
    assert model.leave_one_out()[0] == pytest.approx(0.0, abs=1e-4)


@pytest.mark.parametrize("rule", ["loo", "gcv"])
def test_radius_rules_score_the_local_fit(rule: str) -> None:
    """A line with noise wants no radius from a local line, and one from a local mean."""
    rng = np.random.default_rng(3)
    x = rng.uniform(-1, 1, (150, 1))
    y = 3 * x[:, 0] + 0.2 * rng.normal(size=150)
    line = LocalPolynomial("gaussian", degree=1, radius=rule).fit(x, y).radius_[0]
    mean = LocalPolynomial("gaussian", degree=0, radius=rule).fit(x, y).radius_[0]
    plain = NadarayaWatson("gaussian", radius=rule).fit(x, y).radius_[0]
    assert mean == pytest.approx(plain, rel=1e-6)
    assert line < 0.5 * mean
    score = loo_score if rule == "loo" else gcv_score
    best, other = (
        score(LocalPolynomial("gaussian", radius=r).fit(x, y).design_fit()) for r in (line, mean)
    )
    assert best <= other


# --- derivatives -------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["reference", "bandlimited"])
@pytest.mark.parametrize("name", ["gaussian", "fourier2", "fourier4"])
@pytest.mark.parametrize(("dim", "degree"), [(1, 0), (1, 1), (1, 3), (2, 1)])
def test_derivative_is_the_central_difference_of_the_fit(
    dim: int, degree: int, name: str, method: str
) -> None:
    (x, y), step = data(100, dim), 1e-5
    model = LocalPolynomial(name, degree=degree, radius=2.5, method=method).fit(x, 10 + 3 * y)
    at = 0.7 * data(6, dim, seed=1)[0]
    slope = model.derivative(at)
    for d in range(dim):
        move = step * np.eye(dim)[d]
        central = (model.predict(at + move) - model.predict(at - move)) / (2 * step)
        np.testing.assert_allclose(slope[:, d], central, rtol=1e-5, atol=2e-5)


def test_both_derivatives_are_exact_on_polynomials_and_differ_elsewhere() -> None:
    x, y = data(100, 2)
    at = 0.8 * data(5, 2, seed=1)[0]
    plane = LocalPolynomial(radius=2.0).fit(x, np.column_stack([x @ [2.0, -1.0], y]))
    of_fit, of_polynomial = plane.derivative(at), plane.derivative(at, of="polynomial")
    assert of_fit.shape == of_polynomial.shape == (5, 2, 2)
    for slope in (of_fit, of_polynomial):
        np.testing.assert_allclose(slope[:, 0], [[2.0, -1.0]] * 5, rtol=1e-8)
    assert np.abs(of_fit[:, 1] - of_polynomial[:, 1]).max() > 0.01


# --- scikit-learn ------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_contract_holds_but_for_more_columns_than_samples() -> None:
    """Degree 0 keeps all of it; one check fits 27 samples in 30 dimensions, where no line is."""
    check = "check_sample_weight_equivalence_on_dense_data"
    results = check_estimator(LocalPolynomial(), on_fail=None, expected_failed_checks={check: ""})
    bad = [r["check_name"] for r in results if r["status"] not in {"passed", "skipped", "xfail"}]
    assert bad == []
    (expected,) = [r for r in results if r["status"] == "xfail"]
    assert "degree 1 in 30 dimensions has 31" in str(expected["exception"])


# --- limits, blocks, copies --------------------------------------------------------------------


def test_standard_errors_are_those_of_the_hat_matrix() -> None:
    (x, y), at = data(), np.linspace(-1, 1, 5)[:, None]
    model = LocalPolynomial(degree=2, radius=6.0).fit(x, y)
    hat, limits = model.weights(x), model.interval(at)
    spread = 1 - 2 * np.diag(hat) + np.square(hat).sum(axis=1)
    variance = np.mean(np.square(y - hat @ y) / spread)
    error = np.sqrt(variance * np.square(model.weights(at)).sum(axis=1))
    np.testing.assert_allclose(limits.error, error, rtol=1e-8)
    joint = model.band(at, rng=np.random.default_rng(0), noise="local", undersmooth=1.5)
    assert joint.critical > limits.critical
    sharper = LocalPolynomial(degree=2, radius=9.0).fit(x, y)
    np.testing.assert_allclose(joint.centre, sharper.predict(at), rtol=1e-8)


@pytest.mark.parametrize("columns", [(), (2,)])
def test_blocks_of_any_size_give_what_one_call_gives(
    columns: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = data(2000)
    at = np.linspace(-1, 1, 200)[:, None]
    model = LocalPolynomial(radius=5.0).fit(x, np.resize(y, (2000, *columns)))
    whole = model.predict(at)
    streamed = np.concatenate(list(model.stream(np.array_split(at, 6))))
    np.testing.assert_allclose(streamed, whole, rtol=1e-8, atol=1e-10)
    monkeypatch.setattr(local_fits, "_LEAST_ROWS", 1)
    monkeypatch.setattr(local_fits, "_HELD", 300)
    np.testing.assert_allclose(model.predict(at), whole, rtol=1e-8, atol=1e-10)
    left, slope = model.leave_one_out(), model.derivative(at)
    monkeypatch.undo()
    np.testing.assert_allclose(slope, model.derivative(at), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(left, model.leave_one_out(), rtol=1e-8, atol=1e-10)


def test_a_copy_from_disk_predicts_the_same(tmp_path: Path) -> None:
    x, y = data()
    model = LocalPolynomial(degree=2, radius=4.0).fit(x, y)
    joblib.dump(model, tmp_path / "model.joblib")
    again = joblib.load(tmp_path / "model.joblib")
    np.testing.assert_array_equal(again.predict(x), model.predict(x))


# --- digits ------------------------------------------------------------------------------------


READINGS = {
    "predict": lambda model, at: model.predict(at),
    "leave_one_out": lambda model, at: model.leave_one_out(),
    "derivative": lambda model, at: model.derivative(at),
    "polynomial": lambda model, at: model.derivative(at, of="polynomial"),
}


@pytest.mark.parametrize("method", ["reference", "bandlimited"])
@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize(("shift", "factor"), [(1e6, 1.0), (-1e9, 1e3), (0.0, 1e12), (5.0, -1e-9)])
def test_regression_follows_a_shift_and_a_factor(
    shift: float, factor: float, reading: str, method: str
) -> None:
    """What is left is the rounding of a + b y itself, a few times over."""
    (x, y), at = data(300), np.linspace(-0.9, 0.9, 11)[:, None]
    own, moved = (
        READINGS[reading](LocalPolynomial(radius=8.0, method=method).fit(x, values), at)
        for values in (y, shift + factor * y)
    )
    slope = "predict" not in reading and "leave" not in reading
    offset = 0.0 if slope else shift
    rounding = 1e-14 * (abs(shift) + abs(factor)) + 1e-10 * abs(factor)
    allowed = (100 if slope else 1) * rounding
    np.testing.assert_allclose(moved, offset + factor * own, rtol=0, atol=allowed)


@pytest.mark.parametrize("name", ["gaussian", "fourier4"])
def test_faint_queries_are_as_good_as_exact_ones(name: str) -> None:
    rng = np.random.default_rng(0)
    x = np.append(rng.normal(size=3000), [6.0, 6.3, 6.9, 7.4])[:, None]
    y, at = np.sin(x[:, 0]), np.array([[0.0], [4.5], [6.1], [7.2]])
    fast, slow = (
        LocalPolynomial(name, radius=4.0, method=method).fit(x, y)
        for method in ("bandlimited", "direct")
    )
    np.testing.assert_allclose(fast.predict(at), slow.predict(at), rtol=1e-6)


def test_a_query_far_from_all_samples_extrapolates_the_line() -> None:
    """Small weights do, e^-200 here, until one sample has all but a rounding of them."""
    x, _ = data()
    model = LocalPolynomial("gaussian", radius=20.0).fit(x, 3 * x[:, 0] + 1)
    assert model.predict([[2.0]])[0] == pytest.approx(7.0, abs=1e-6)
    with pytest.warns(UndefinedWarning):
        assert np.isnan(model.predict([[50.0]])).all()


@pytest.mark.parametrize("name", ["gaussian", "fourier3", "fourier4"])
@pytest.mark.parametrize(("dim", "degree", "radius"), [(1, 3, 40.0), (2, 1, 3.0)])
def test_the_operator_of_attention_gives_the_same_fit(
    dim: int, degree: int, radius: float, name: str
) -> None:
    (x, y), at = data(200, dim), 0.9 * data(15, dim, seed=1)[0]
    fast, slow = (
        LocalPolynomial(name, degree=degree, radius=radius, method=method).fit(x, y)
        for method in ("torch", "direct")
    )
    allowed = 1e-5 * np.abs(slow.predict(at)) + 1e-8
    assert np.all(np.abs(fast.predict(at) - slow.predict(at)) <= allowed)
    np.testing.assert_allclose(fast.leave_one_out(), slow.leave_one_out(), rtol=1e-4, atol=1e-6)


# --- where there is no answer ------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["gaussian", "fourier1", "fourier4"])
def test_a_singular_design_is_undefined_and_counted(name: str, method: str) -> None:
    x = np.array([[0.0], [0.0], [0.0], [0.0]])
    model = LocalPolynomial(name, radius=2.0, method=method).fit(x, [1.0, 2.0, 3.0, 4.0])
    with pytest.warns(UndefinedWarning, match="2 of 2 queries have a local design matrix"):
        assert np.isnan(model.predict([[0.0], [0.7]])).all()
    with pytest.warns(UndefinedWarning):
        assert np.isnan(model.weights([[0.3]])).all()


@pytest.mark.parametrize("method", METHODS)
def test_samples_on_a_line_define_no_plane(method: str) -> None:
    t = np.random.default_rng(0).uniform(size=50)
    x = np.column_stack([t, 0.1 + 0.7 * t])
    model = LocalPolynomial(radius=2.0, method=method, undefined="raise").fit(x, t)
    with pytest.raises(ValueError, match="X must lie where the regression is defined: 50 of 50"):
        model.predict(x)
    with pytest.warns(UndefinedWarning, match="50 of 50"):
        assert np.isnan(LocalPolynomial(radius=2.0, method=method).fit(x, t).predict(x)).all()


@pytest.mark.parametrize("method", METHODS)
def test_signs_that_cancel_are_undefined(method: str) -> None:
    """Of sinc at these places the moments are 0, 0 and not 0."""
    x = math.pi * np.array([[-1.0], [1.0], [-2.0], [2.0]])
    model = LocalPolynomial("fourier1", radius=1.0, method=method).fit(x, np.arange(4.0))
    with pytest.warns(UndefinedWarning, match="1 of 1"):
        assert np.isnan(model.predict([[0.0]])).all()


def test_two_samples_are_joined_by_their_line_and_no_parabola() -> None:
    fit = LocalPolynomial("gaussian", degree=1, radius=1.0).fit([[0.0], [1.0]], [0.0, 2.0])
    np.testing.assert_allclose(fit.predict([[0.25], [3.0]]), [0.5, 6.0], rtol=1e-9)
    with pytest.raises(
        ValueError, match="degree 2 in 1 dimensions has 3, got 2 samples of positive weight"
    ):
        LocalPolynomial(degree=2, radius=1.0).fit([[0.0], [1.0], [2.0]], [0.0, 2.0, 1.0], [1, 1, 0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"degree": -1}, "degree must be at least 0, got -1"),
        ({"degree": 4}, "degree must be at most 3, got 4"),
        ({"undefined": "zero"}, "undefined must be one of nan, raise, got 'zero'"),
        ({"method": "direct_float32", "tol": 1e-2}, "'direct_float32' has no moments"),
        ({"device": "tpu"}, "device must be 'cpu', 'cuda' or 'cuda:<index>', got 'tpu'"),
        ({"radius": -1.0}, r"radius must be .*positive.*got -1\.0"),
    ],
)
def test_bad_options_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LocalPolynomial(**{"radius": 2.0, **options}).fit(*data())


def test_slopes_far_from_the_samples_do_not_depend_on_other_queries() -> None:
    """With a far query the sums of slopes are band-limited, where those of the fit are direct."""
    x = np.append(25.0, np.random.default_rng(0).normal(size=1000))[:, None]
    query = np.linspace(-12.0, 26.0, 100)[:, None]
    model = LocalPolynomial("fourier4", radius=8.0).fit(x, np.sin(3 * x[:, 0]))
    together = model.derivative(np.append(query, [[1e7]], axis=0))[:-1]
    expected = clone(model).set_params(method="reference").fit(x, model.responses_)
    np.testing.assert_allclose(together, expected.derivative(query), atol=1e-7)


def test_derivatives_refuse_what_does_not_exist() -> None:
    x, y = data()
    model = LocalPolynomial(degree=0, radius=3.0).fit(x, y)
    with pytest.raises(ValueError, match="degree must be at least 1 for of='polynomial', got 0"):
        model.derivative(x, of="polynomial")
    with pytest.raises(ValueError, match="of must be one of fit, polynomial, got 'line'"):
        model.derivative(x, of="line")


def test_a_fit_that_fails_leaves_the_old_one() -> None:
    x, y = data()
    model = LocalPolynomial(degree=3, radius=3.0).fit(x, y)
    before = model.predict(x)
    with pytest.raises(ValueError, match="degree must leave no more coefficients"):
        model.fit(x[:3], y[:3])
    np.testing.assert_array_equal(model.predict(x), before)
