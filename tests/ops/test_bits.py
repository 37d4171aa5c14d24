"""Reading and writing exponents in compiled code, against frexp and ldexp."""

import numpy as np
import pytest
from numba import njit

from fourierkernels.ops.cpu.scalar import exponent, mantissa, power_of_two

DTYPES = [np.float32, np.float64]


@njit
def split(x, exponents, mantissas):  # type: ignore[no-untyped-def]
    for i in range(len(x)):
        exponents[i], mantissas[i] = exponent(x[i]), mantissa(x[i])


@njit
def powers(n, like):  # type: ignore[no-untyped-def]
    out = np.empty(len(n), like.dtype)
    for i in range(len(n)):
        out[i] = power_of_two(n[i], like[0])
    return out


@pytest.mark.parametrize("dtype", DTYPES)
def test_mantissa_and_exponent_are_those_of_frexp(dtype: type[np.floating]) -> None:
    rng = np.random.default_rng(0)
    x = (rng.normal(size=500) * 2.0 ** rng.integers(-100, 100, 500)).astype(dtype)
    exponents, mantissas = np.empty(500, np.int32), np.empty(500, dtype)
    split(x, exponents, mantissas)
    fraction, power = np.frexp(x)
    np.testing.assert_array_equal(mantissas, 2 * fraction)
    np.testing.assert_array_equal(exponents, power - 1)


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_has_no_exponent_to_take_out_is_its_own_mantissa(dtype: type[np.floating]) -> None:
    """Above all NaN and infinity: their exponent field must not be overwritten."""
    x = np.array([0.0, -0.0, 0.5 * np.finfo(dtype).tiny, np.inf, -np.inf, np.nan, -np.nan], dtype)
    exponents, mantissas = np.empty(len(x), np.int32), np.empty(len(x), dtype)
    split(x, exponents, mantissas)
    assert not exponents.any()
    np.testing.assert_array_equal(mantissas, x)


@pytest.mark.parametrize("dtype", DTYPES)
def test_powers_of_two_are_exact_or_zero_and_never_infinite(dtype: type[np.floating]) -> None:
    """Pairs without weight may have any exponent; zero times their scale must be zero."""
    info = np.finfo(dtype)
    n = np.arange(-5000, 5000, dtype=np.int32)
    found = powers(n, np.zeros(1, dtype))
    normal = (n >= info.minexp) & (n < info.maxexp)
    np.testing.assert_array_equal(found[normal], np.ldexp(dtype(1), n[normal]))
    assert not found[~normal].any()
