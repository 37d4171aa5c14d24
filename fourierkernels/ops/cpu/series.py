# mypy: allow-untyped-defs, allow-untyped-decorators, disable-error-code="no-untyped-call"
# Numba infers the types of the compiled functions below.
"""Power series of the compiled loops, short in single precision and longer in double."""

import math

import numpy as np
from numba import types
from numba.extending import overload

from fourierkernels.ops.coefficients import LOG_SINC_SLOPE
from fourierkernels.ops.cpu.bits import constant


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
