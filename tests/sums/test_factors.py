"""Sums in which each sample has a radius of its own equal the plain double loop."""

import math
from typing import Any

import numpy as np
import pytest

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.kernels import as_kernel
from fourierkernels.sums import kernel_sum
from fourierkernels.sums.factors import FactorSum
from fourierkernels.sums.ladder import ladder_of, lagrange
from fourierkernels.sums.parts import PARTS

RADIUS = {1: 2.0, 2: 1.2, 3: 0.5}


def data(dim: int, *, spread: float = 0.5) -> dict[str, FloatArray]:
    rng = np.random.default_rng([dim, 5])
    points = rng.normal(size=(200, dim))
    factors = np.exp(spread * (0.5 * dim - 0.5 * np.square(points).sum(axis=1)))
    return {
        "points": points,
        "factors": factors,
        "weights": rng.integers(0, 3, 200).astype(float),
        "responses": rng.normal(size=(200, 2)) + 10.0,
        "radius": RADIUS[dim] * np.linspace(1.0, 1.3, dim),
    }


def plain_sum(
    at: FloatArray, d: dict[str, FloatArray], name: str, parts: tuple[str, ...]
) -> tuple[FloatArray, FloatArray]:
    """Return Σ w λ^p ∏ g(λ R (x - x_i)), and with responses, one sample at a time."""
    kernel, total, columns = as_kernel(name), np.zeros(len(at)), np.zeros((len(at), 2))
    names = "points", "weights", "responses", "factors"
    for x, w, y, own in zip(*(d[name] for name in names), strict=True):
        term = np.full(len(at), w)
        for k, part in enumerate(parts):
            log, sign = PARTS[part].log(kernel, own * d["radius"][k] * (at[:, k] - x[k]))
            term *= own ** PARTS[part].radius_power * sign * np.exp(log)
        total += term
        columns += term[:, None] * y
    return total, columns


def factor_sum(d: dict[str, FloatArray], name: str, **options: Any) -> FactorSum:
    named: dict[str, Any] = {k: d[k] for k in ("weights", "responses", "radius", "factors")}
    return FactorSum(d["points"], kernel=as_kernel(name), **named, **options)


@pytest.mark.parametrize("method", ["bandlimited", "reference"])
@pytest.mark.parametrize("tol", [1e-12, 1e-6])
@pytest.mark.parametrize("name", ["gaussian", "fourier1", "fourier2", "fourier4", "fourier5"])
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_sums_with_factors_equal_the_double_loop(
    dim: int, name: str, tol: float, method: str
) -> None:
    if dim == 3 and (tol < 1e-9 or name in ("gaussian", "fourier5")):
        pytest.skip("seconds each; the same code")
    d = data(dim)
    at = np.random.default_rng(9).normal(size=(60, dim))
    names = ("value",) * dim
    sums = factor_sum(d, name, method=method, tol=tol).at(at, refine=False)
    total, columns = plain_sum(at, d, name, names)
    largest = np.abs(plain_sum(d["points"], d, name, names)[0]).max()
    assert np.abs(sums.totals() - total).max() <= tol * largest
    assert (np.abs(sums.totals() - total) <= np.ldexp(sums.error, sums.exponent)).all()
    found = np.ldexp(sums.numerator, sums.exponent[:, None])
    assert np.abs(found - columns).max() <= 12 * tol * largest  # responses are near 10


@pytest.mark.parametrize("name", ["gaussian", "fourier2", "fourier4"])
@pytest.mark.parametrize("parts", [("slope",), ("cumulative",), ("slope", "value")])
def test_slopes_and_integrals_have_the_power_of_their_radius(
    parts: tuple[str, ...], name: str
) -> None:
    d = data(len(parts))
    at = np.random.default_rng(9).normal(size=(60, len(parts)))
    sums = factor_sum(d, name, method="bandlimited").at(at, parts=parts)
    total, _ = plain_sum(at, d, name, parts)
    scale = np.abs(plain_sum(d["points"], d, name, parts)[0]).max()
    assert np.abs(sums.totals() - total).max() <= 1e-12 * scale


@pytest.mark.parametrize("name", ["gaussian", "fourier1", "fourier4"])
def test_factors_of_one_change_nothing(name: str) -> None:
    d = data(2) | {"factors": np.ones(200)}
    at = np.random.default_rng(9).normal(size=(60, 2))
    options: dict[str, Any] = {k: d[k] for k in ("weights", "responses", "radius")}
    fixed = kernel_sum(d["points"], at, kernel=name, **options)
    mine = factor_sum(d, name, method="bandlimited").at(at)
    np.testing.assert_allclose(mine.totals(), fixed.totals(), atol=1e-11 * fixed.totals().max())


def test_factors_over_seven_powers_of_e_keep_the_tolerance() -> None:
    d = data(1)
    d["factors"] = np.exp(np.random.default_rng(3).uniform(-5.0, 2.0, 200))
    at = np.random.default_rng(9).normal(size=(60, 1))
    for name in ("gaussian", "fourier4"):
        total, _ = plain_sum(at, d, name, ("value",))
        sums = factor_sum(d, name, method="bandlimited").at(at, refine=False)
        assert np.abs(sums.totals() - total).max() <= 1e-12 * np.abs(total).max()


@pytest.mark.parametrize("method", ["bandlimited", "reference"])
def test_a_sample_left_out_is_left_out(method: str) -> None:
    d = data(1)
    sums = factor_sum(d, "fourier4", method=method)
    own = d["weights"] * d["factors"]
    left = sums.left_out(d["points"], own, np.arange(200))
    for i in (0, 7, 199):
        without = d | {"weights": np.where(np.arange(200) == i, 0.0, d["weights"])}
        total, columns = plain_sum(d["points"][i : i + 1], without, "fourier4", ("value",))
        assert math.isclose(left.totals()[i], total[0], rel_tol=1e-9)
        assert left.ratios()[i] == pytest.approx(columns[0] / total[0], rel=1e-8)


def test_faint_rows_keep_their_digits() -> None:
    d = data(1)
    at = np.array([[9.0], [30.0]])
    total, _ = plain_sum(at, d, "gaussian", ("value",))
    sums = factor_sum(d, "gaussian", method="bandlimited").at(at)
    assert np.log(total) == pytest.approx(sums.log_totals(), rel=1e-9)


def test_a_sum_that_is_not_band_limited_is_refused_or_done_pair_by_pair() -> None:
    d = data(1)
    d["points"][0] = 1e9
    assert factor_sum(d, "fourier4").plan(d["points"]).method == "reference"
    with pytest.raises(ValueError, match="method must be able to do the sum: 'bandlimited'"):
        factor_sum(d, "fourier4", method="bandlimited").plan(d["points"])
    with pytest.raises(ValueError, match="must be one of auto, bandlimited, reference"):
        factor_sum(d, "fourier4", method="direct")


def test_each_factor_lies_in_one_interval() -> None:
    factors = np.sort(np.exp(np.random.default_rng(0).normal(size=5000)))
    ladder = ladder_of(
        factors, as_kernel("fourier4"), np.array([30.0]), 1e-12, modes=(200.0,), columns=1
    )
    assert ladder is not None
    assert ladder.starts[0] == 5000
    assert ladder.starts[-1] == 0
    assert (np.diff(ladder.starts) < 0).all()


def test_polynomials_through_the_nodes_are_exact_at_every_factor() -> None:
    factors = np.append(np.linspace(0.5, 3.0, 101), 0.5)
    at, basis = lagrange(factors, 12)
    assert at**11 @ basis == pytest.approx(factors**11, rel=1e-12)
    few, own = lagrange(np.array([2.0, 1.0, 2.0]), 12)
    assert few.tolist() == [1.0, 2.0]
    assert own.tolist() == [[0.0, 1.0, 0.0], [1.0, 0.0, 1.0]]
