"""The scalar mathematics of the CUDA kernels, compiled for the host, against exact values."""

import ctypes
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import torch
from host_kernels import host_scalars, needs_compiler
from numpy.typing import NDArray

from fourierkernels.ops.dropout import philox

pytestmark = needs_compiler
DTYPES = {"float32": np.float32, "float64": np.float64}
UNIT = {name: float(np.finfo(dtype).eps) / 2 for name, dtype in DTYPES.items()}
PAIRS = 200_000


def pointer(array: NDArray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def sine_cosine(name: str, x: NDArray) -> tuple[NDArray, NDArray]:
    s, c = (np.empty(len(x), DTYPES[name]) for _ in range(2))
    x = x.astype(DTYPES[name])
    run = getattr(host_scalars(), f"sincos_{name}")
    run(pointer(x), pointer(s), pointer(c), ctypes.c_long(len(x)))
    return s, c


def sinc_and_slope(name: str, u: NDArray, v: NDArray) -> tuple[NDArray, NDArray]:
    z, t = (np.empty(len(u), DTYPES[name]) for _ in range(2))
    run = getattr(host_scalars(), f"pairs_{name}")
    run(pointer(u), pointer(v), pointer(z), pointer(t), ctypes.c_long(len(u)))
    return z, t


def product(name: str, factors: NDArray, power: int, bias: float = 0.0) -> tuple[float, int]:
    real = {"float32": ctypes.c_float, "float64": ctypes.c_double}[name]
    m, e = real(), ctypes.c_int()
    run = getattr(host_scalars(), f"product_{name}")
    run(
        pointer(factors),
        ctypes.c_long(len(factors)),
        power,
        real(bias),
        ctypes.byref(m),
        ctypes.byref(e),
    )
    return m.value, e.value


def pairs(name: str, spread: float, seed: int = 0) -> tuple[NDArray, NDArray]:
    """Half of the pairs anywhere within `spread`, half within 1 of each other."""
    rng = np.random.default_rng(seed)
    u = rng.uniform(-spread, spread, PAIRS)
    v = np.where(rng.random(PAIRS) < 0.5, u + rng.uniform(-1, 1, PAIRS), rng.permutation(u))
    return u.astype(DTYPES[name]), v.astype(DTYPES[name])


def difference(u: NDArray, v: NDArray) -> NDArray:
    return u.astype(np.longdouble) - v.astype(np.longdouble)


def exact_sinc(x: NDArray) -> NDArray:
    return np.where(x == 0, 1, np.sin(x) / np.where(x == 0, 1, x))


def exact_slope(x: NDArray) -> NDArray:
    """Cot x - 1/x in extended precision, by its series where the difference cancels."""
    small = np.abs(x) < 0.05
    safe = np.where(small | (np.sin(x) == 0), 1.0, x)
    series = -x / 3 * (1 + x**2 / 15 + 2 * x**4 / 315 + x**6 / 1575 + 2 * x**8 / 31185)
    return np.where(small, series, 1 / np.tan(safe) - 1 / safe)


@pytest.mark.parametrize("scale", [1.0, 1e2, 1e4, 1e6, 9e8, 1e12])
def test_sine_and_cosine_are_correct_to_two_units_in_the_last_place(scale: float) -> None:
    x = np.random.default_rng(1).uniform(-scale, scale, 2000)
    s, c = sine_cosine("float64", x)
    with mpmath.workdps(50):
        exact = [(mpmath.sin(each), mpmath.cos(each)) for each in map(mpmath.mpf, x)]
        errors = [
            (abs(a - p) / abs(p), abs(b - q) / abs(q))
            for a, b, (p, q) in zip(s.tolist(), c.tolist(), exact, strict=True)
        ]
    assert max(map(max, errors)) < 4 * UNIT["float64"]


def test_sine_keeps_its_digits_at_multiples_of_half_pi() -> None:
    x = np.arange(1, 1000) * (math.pi / 2)
    s, c = sine_cosine("float64", x)
    with mpmath.workdps(50):
        for n, (value, a, b) in enumerate(zip(x.tolist(), s.tolist(), c.tolist(), strict=True), 1):
            small = mpmath.sin(value) if n % 2 == 0 else mpmath.cos(value)
            assert abs((a if n % 2 == 0 else b) - small) < 4 * UNIT["float64"] * abs(small)


@pytest.mark.parametrize("scale", [1.0, 30.0, 1e3, 8191.0, 1e5, 1e9])
def test_float32_sines_and_cosines_err_by_at_most_0_6_units_in_the_last_place(scale: float) -> None:
    x = np.random.default_rng(2).uniform(-scale, scale, 500_000).astype(np.float32)
    exact = np.sin(x.astype(np.longdouble)), np.cos(x.astype(np.longdouble))
    for value, true in zip(sine_cosine("float32", x), exact, strict=True):
        assert (np.abs(value - true) <= 0.6 * units(true)).all()


def test_float32_sines_keep_their_digits_at_multiples_of_half_pi() -> None:
    """The nearest float32 to each multiple: what is left of it is 4e-9 at the least."""
    multiples = (np.arange(1, 5200) * (np.longdouble(math.pi) / 2)).astype(np.float32)
    x = np.concatenate([multiples, np.nextafter(multiples, np.float32(0))])
    s, c = sine_cosine("float32", x)
    exact = [(mpmath.sin(each), mpmath.cos(each)) for each in x.tolist()]
    for value, true in zip((s, c), np.array(exact, dtype=float).T, strict=True):
        assert (np.abs(value - true) <= 0.6 * units(true)).all()


def units(exact: NDArray) -> NDArray:
    """Distance of float32 numbers around those given."""
    return np.ldexp(1.0, np.frexp(exact.astype(float))[1] - 24)


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("spread", [1.0, 30.0, 1000.0])
def test_sinc_of_a_difference_errs_by_a_few_units(name: str, spread: float) -> None:
    """Measured for float32: 4.0e-7 over two million pairs within 30."""
    u, v = pairs(name, spread)
    z, _ = sinc_and_slope(name, u, v)
    assert np.abs(z - exact_sinc(difference(u, v))).max() < 10 * UNIT[name]


@pytest.mark.parametrize("name", DTYPES)
def test_sinc_keeps_its_relative_digits_near_zero(name: str) -> None:
    u, _ = pairs(name, 30.0)
    v = (u + np.random.default_rng(3).uniform(-0.25, 0.25, PAIRS)).astype(DTYPES[name])
    z, _ = sinc_and_slope(name, u, v)
    assert np.abs(z / exact_sinc(difference(u, v)) - 1).max() < 3 * UNIT[name]


@pytest.mark.parametrize("name", DTYPES)
def test_slope_times_squared_sinc_errs_by_a_few_units(name: str) -> None:
    """What a gradient needs is z^l t with l >= 2; t alone has poles. Measured: 1.6e-6."""
    u, v = pairs(name, 30.0)
    z, t = sinc_and_slope(name, u, v)
    x = difference(u, v)
    exact = exact_sinc(x) ** 2 * exact_slope(x)
    assert np.abs(z.astype(np.longdouble) ** 2 * t - exact).max() < 30 * UNIT[name]


@pytest.mark.parametrize("name", DTYPES)
def test_coincident_points_have_sinc_one_and_slope_zero(name: str) -> None:
    u, _ = pairs(name, 1e4)
    z, t = sinc_and_slope(name, u, u)
    assert (z == 1).all()
    assert (t == 0).all()


@pytest.mark.parametrize("name", DTYPES)
def test_at_zeros_of_the_sine_all_is_finite_and_first_power_has_its_derivative(name: str) -> None:
    """d/dx sinc = cos x / x at x = k pi, although t is there 1/0 and sinc 0."""
    k = np.arange(1, 300)
    u = (k * math.pi).astype(DTYPES[name])
    z, t = sinc_and_slope(name, u, np.zeros_like(u))
    assert np.isfinite(z).all()
    assert np.isfinite(t).all()
    np.testing.assert_allclose(z * t, (-1.0) ** k / u, rtol=5e-3 if name == "float32" else 1e-9)


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("power", [1, 2, 3, 4, 6, 7, 16, 17, 33])
def test_products_of_many_factors_neither_underflow_nor_lose_digits(name: str, power: int) -> None:
    factors = np.random.default_rng(4).uniform(-1, 1, 256).astype(DTYPES[name]) ** 3
    significand, exponent = product(name, factors, power)
    exact = math.prod(map(Fraction, factors.tolist())) ** power
    value = Fraction(significand) * Fraction(2) ** exponent
    assert 1 <= abs(significand) < 2 ** (power if power <= 16 else 1)
    assert abs(value / exact - 1) < 2 * power * len(factors) * UNIT[name]
    assert abs(exact) < Fraction(np.finfo(DTYPES[name]).tiny.item()) or power == 1


@pytest.mark.parametrize("name", DTYPES)
def test_a_zero_factor_makes_the_product_zero(name: str) -> None:
    factors = np.array([0.5, 0.0, 2.0], DTYPES[name])
    significand, exponent = product(name, factors, 4)
    assert significand == 0
    assert exponent < -(2**29)


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("bias", [-12345.678, -1.0, 0.0, 0.3, 88.0, 5e3])
def test_an_additive_mask_multiplies_by_its_exponential(name: str, bias: float) -> None:
    bias = DTYPES[name](bias).item()
    significand, exponent = product(name, np.ones(1, DTYPES[name]), 2, bias)
    with mpmath.workdps(40):
        relative = mpmath.mpf(significand) * mpmath.mpf(2) ** exponent / mpmath.exp(bias) - 1
    assert abs(relative) < 4 * UNIT[name] + abs(bias) * UNIT[name] ** 2 * 4


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("bias", [math.inf, math.nan])
def test_masks_without_a_number_give_none(name: str, bias: float) -> None:
    assert math.isnan(product(name, np.ones(1, DTYPES[name]), 2, bias)[0])


def test_random_words_are_those_of_the_reference() -> None:
    """And so those published for Philox4x32-10, which the reference is tested against."""
    rng = np.random.default_rng(5)
    counters = rng.integers(0, 2**32, (100, 4), dtype=np.uint32)
    seeds = rng.integers(-(2**63), 2**63, 100)
    words = np.empty_like(counters)
    host_scalars().philox_words(
        pointer(counters), pointer(seeds), pointer(words), ctypes.c_long(100)
    )
    parts = tuple(torch.from_numpy(counters.astype(np.int64)).unbind(1))
    seed = torch.from_numpy(seeds)
    expected = torch.stack(philox(parts, (seed & 0xFFFFFFFF, seed >> 32)), dim=1)
    assert np.array_equal(words, expected.numpy())


@pytest.mark.parametrize("name", DTYPES)
def test_masks_of_minus_infinity_remove_and_huge_ones_stay_in_order(name: str) -> None:
    one = np.ones(1, DTYPES[name])
    assert product(name, one, 2, -math.inf)[0] == 0
    lowest = product(name, one, 2, -1e38)
    assert lowest[0] == 1
    assert product(name, one, 2, -math.inf)[1] < lowest[1] < product(name, one, 2, -1e6)[1]


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_masks_beyond_exponents_keep_of_a_score_what_their_sum_keeps(
    name: str, sign: float
) -> None:
    factor = np.array([-0.3], DTYPES[name])
    for power, size in ((1, 1e30), (3, 1e9), (30, 1e11)):
        bias = DTYPES[name](sign * size)
        score = DTYPES[name](power * math.log(0.3))
        significand, exponent = product(name, factor, power, bias.item())
        rank = product(name, np.ones(1, DTYPES[name]), 1, bias.item())[1]
        kept = significand * 2.0 ** (exponent - rank)
        expected = (-1) ** power * math.exp(float((score + bias) - bias))
        assert abs(kept / expected - 1) < 8 * UNIT[name] * max(1.0, abs(score))
    assert product(name, factor * 0, 2, sign * 1e30)[0] == 0


@pytest.mark.parametrize("name", DTYPES)
def test_exponents_of_masks_are_in_their_order_and_far_apart(name: str) -> None:
    sizes = np.geomspace(1e8, 3e38, 1500)  # neighbours are a twentieth apart
    assert sizes[1] / sizes[0] > 1 + 1 / 32
    given = np.concatenate([-sizes[::-1], [0.0], sizes])
    found = [product(name, np.ones(1, DTYPES[name]), 2, bias)[1] for bias in given]
    assert np.diff(found).min() >= 2**14
    assert max(map(abs, found)) < 2**30 - 2**27


@pytest.mark.parametrize("name", DTYPES)
def test_powers_of_two_are_exact_and_zero_below_the_normal_numbers(name: str) -> None:
    run = getattr(host_scalars(), f"two_to_{name}")
    run.restype = {"float32": ctypes.c_float, "float64": ctypes.c_double}[name]
    lowest, highest = np.finfo(DTYPES[name]).minexp, np.finfo(DTYPES[name]).maxexp - 1
    for n in range(lowest, highest + 1):
        assert run(n) == 2.0**n
    assert run(lowest - 1) == run(-(2**30)) == 0
