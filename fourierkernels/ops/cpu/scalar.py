# mypy: allow-untyped-defs, allow-untyped-decorators, disable-error-code="no-untyped-call"
# Numba calls the functions below with its own types and code builders.
"""Scalar functions of the compiled loops, in both precisions.

A product of many factors is kept as a mantissa in [1, 2) and a binary exponent, so that it never
underflows. Reading and writing the bits compiles to a few integer instructions that vectorise;
`math.frexp` and `math.ldexp` do not. What has no exponent to take out keeps its value: zeros,
subnormal numbers, infinities and NaN. Power series are short in single precision and longer in
double.
"""

import math
from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

from fourierkernels.ops.shapes import LOG_SINC_SLOPE


class _Format(NamedTuple):
    """An IEEE 754 format: bits in all, bits of the fraction, and the exponent's bias."""

    width: int
    fraction: int
    bias: int


_FORMATS = {types.float32: _Format(32, 23, 127), types.float64: _Format(64, 52, 1023)}
_LLVM_FLOATS = {32: ir.FloatType(), 64: ir.DoubleType()}


@intrinsic
def exponent(typing_context, x):
    """Binary exponent of x as int32; 0 for what is its own mantissa."""
    form = _FORMATS[x]

    def generate(context, builder, signature, arguments):
        stored = _stored_exponent(builder, arguments[0], form)
        unbiased = builder.sub(stored, ir.Constant(stored.type, form.bias))
        normal = _is_normal(builder, stored, form)
        value = builder.select(normal, unbiased, ir.Constant(stored.type, 0))
        return value if form.width == 32 else builder.trunc(value, ir.IntType(32))

    return types.int32(x), generate


@intrinsic
def mantissa(typing_context, x):
    """Return x / 2**exponent(x): the sign kept, size in [1, 2) for normal numbers."""
    form = _FORMATS[x]

    def generate(context, builder, signature, arguments):
        stored = _stored_exponent(builder, arguments[0], form)
        integer = stored.type
        bits = builder.bitcast(arguments[0], integer)
        field = ((1 << (form.width - 1 - form.fraction)) - 1) << form.fraction
        kept = builder.and_(bits, ir.Constant(integer, ~field))
        scaled = builder.or_(kept, ir.Constant(integer, form.bias << form.fraction))
        value = builder.select(_is_normal(builder, stored, form), scaled, bits)
        return builder.bitcast(value, _LLVM_FLOATS[form.width])

    return x(x), generate


@intrinsic
def power_of_two(typing_context, n, like):
    """2**n in the precision of `like`, for int32 n; 0 where that is beyond its normal range.

    Products that are exactly zero have any exponent: zero times this must be zero.
    """
    form = _FORMATS[like]

    def generate(context, builder, signature, arguments):
        integer = ir.IntType(form.width)
        n = arguments[0] if form.width == 32 else builder.sext(arguments[0], integer)
        stored = builder.add(n, ir.Constant(integer, form.bias))
        field = builder.shl(stored, ir.Constant(integer, form.fraction))
        normal = _is_normal(builder, stored, form)
        value = builder.select(normal, field, ir.Constant(integer, 0))
        return builder.bitcast(value, _LLVM_FLOATS[form.width])

    return like(types.int32, like), generate


@intrinsic
def magnitude(typing_context, x):
    """Return the bits of abs(x), integers in the order of the numbers; NaN is the largest.

    Their maximum compiles to vectors, which that of floating-point numbers does not.
    """
    form = _FORMATS[x]

    def generate(context, builder, signature, arguments):
        integer = ir.IntType(form.width)
        bits = builder.bitcast(arguments[0], integer)
        return builder.and_(bits, ir.Constant(integer, (1 << (form.width - 1)) - 1))

    return types.Integer.from_bitwidth(form.width)(x), generate


@intrinsic
def from_magnitude(typing_context, bits, like):
    """Return the number of such bits in the precision of `like`."""

    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], _LLVM_FLOATS[_FORMATS[like].width])

    return like(bits, like), generate


def _stored_exponent(builder, x, form):
    integer = ir.IntType(form.width)
    field = (1 << (form.width - 1 - form.fraction)) - 1
    shifted = builder.lshr(builder.bitcast(x, integer), ir.Constant(integer, form.fraction))
    return builder.and_(shifted, ir.Constant(integer, field))


def _is_normal(builder, stored, form):
    """Test 0 < stored < its largest value at once: 0 wraps around."""
    below = builder.sub(stored, ir.Constant(stored.type, 1))
    return builder.icmp_unsigned("<", below, ir.Constant(stored.type, 2 * form.bias))


def constant(value, like):
    """Return `value` in the precision of `like`: a bare literal would widen float32 to float64."""
    return type(like)(value)


@overload(constant, inline="always")
def _constant(value, like):
    if like == types.float32:
        return lambda value, like: np.float32(value)
    return lambda value, like: np.float64(value)


def sinc_series(y):
    """sin(x)/x for y = x² < 1/16, to rounding."""


@overload(sinc_series, inline="always")
def _sinc_series(y):
    if y == types.float32:
        return lambda y: np.float32(1.0) + y * (np.float32(-1 / 6) + y * np.float32(1 / 120))
    return lambda y: (
        1.0 + y * (-1 / 6 + y * (1 / 120 + y * (-1 / 5040 + y * (1 / 362880 - y / 39916800))))
    )


def exp_series(x):
    """exp(x) for |x| <= ln(2)/2, to rounding."""


@overload(exp_series, inline="always")
def _exp_series(x):
    terms = 7 if x == types.float32 else 13
    coefficients = tuple(1.0 / math.factorial(k) for k in range(terms, -1, -1))

    def series(x):
        p = constant(0.0, x)
        for coefficient in coefficients:
            p = p * x + constant(coefficient, x)
        return p

    return series


def slope_series(y):
    """(1/x - cot x)/x for y = x² < 1/4, to rounding."""


@overload(slope_series, inline="always")
def _slope_series(y):
    terms = 4 if y == types.float32 else len(LOG_SINC_SLOPE)
    last, coefficients = LOG_SINC_SLOPE[terms - 1], LOG_SINC_SLOPE[terms - 2 :: -1]

    def series(y):
        p = constant(last, y)
        for coefficient in coefficients:
            p = p * y + constant(coefficient, y)
        return p

    return series


def guard(x):
    """Keep the slope finite at a zero of the sine, where its weight is zero; inside an addition."""


@overload(guard, inline="always")
def _guard(x):
    # Rounding loses it where s·x is not 0; c·x over it is finite up to |x| = 3e8, 1e108 in double.
    if x == types.float32:
        return lambda x: np.float32(1e-30)
    return lambda x: 1e-200


def far_limit(x):
    """Distance up to which quotients of four sines and four distances are normal numbers.

    2^62 is left for sines below 1, 2^-15.5 each.
    """


@overload(far_limit, inline="always")
def _far_limit(x):
    if x == types.float32:
        return lambda x: np.float32(2.0**16)
    return lambda x: 2.0**240
