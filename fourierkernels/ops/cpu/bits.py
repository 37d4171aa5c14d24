# mypy: allow-untyped-defs, allow-untyped-decorators, disable-error-code="no-untyped-call"
# Numba calls the functions below with its own types and code builders.
"""Reading and writing the bits of floats in compiled code, single or double precision alike.

A product of many factors is kept as a mantissa in [1, 2) and a binary exponent, so that it never
underflows. These functions compile to a few integer instructions that vectorise; `math.frexp` and
`math.ldexp` do not. What has no exponent to take out keeps its value: zeros, subnormal numbers,
infinities and NaN.
"""

from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload


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
