# mypy: allow-untyped-defs, allow-untyped-decorators, disable-error-code="no-untyped-call"
# Numba calls the functions below with its own types and code builders.
"""Real values spread from points to a lattice, and gathered from it, in vectors of eight.

A point touches `width` rows of each leading dimension and `lanes` neighbours of the last, with
weights that are piecewise polynomials of its place in a cell. The compiler would keep these loops
scalar, because it cannot tell that a lattice and its weights do not overlap; so the innermost two
are written as vectors, which every processor has, if in halves or quarters.

The loops take one thread each: points add to the same cells, and a lattice for each thread would be
added up in another order with another number of them. They release Python's lock, so that callers'
threads run side by side; only the FFTs between them have threads of their own.
"""

from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from fourierkernels.foundation.arrays import FloatArray, IntArray
from fourierkernels.ops.cpu.compiling import entry, inner

LANES = 8  # of a vector
DEGREES = 8  # coefficients of a polynomial
_MOST = 16  # lanes of a row
_DIMS = 3
# Points on a line whose cells are found together, by vectors: any number whose cells stay in the
# cache (64 to 4,096 took the same time).
_BLOCK = 256

_VECTOR = ir.VectorType(ir.DoubleType(), LANES)
_INDEX = ir.IntType(64)


class Lattice(NamedTuple):
    """Where points lie on a lattice, and the weights of their neighbours.

    Attributes
    ----------
    centre, scale, shift : arrays of shape (dim,)
        From a coordinate x to its place in cells, (x - centre) · scale + shift, not negative.
    strides : integer array of shape (dim,)
        From cell to cell, in numbers.
    column : int
        From column to column.
    width : int
        Rows that a point touches in each dimension but the last.
    lanes : int
        Neighbours in the last dimension, 8 or 16.
    parts : int
        Equal parts of a cell with polynomials of their own.
    table : array of shape (parts · 8 · lanes,)
        Coefficients of the weights, in s from -1 to 1 over the part, low degrees first.
    """

    centre: FloatArray
    scale: FloatArray
    shift: FloatArray
    strides: IntArray
    column: int
    width: int
    lanes: int
    parts: int
    table: FloatArray


@entry(nogil=True, error_model="numpy")
def spread(points, strengths, lattice, values):
    """Add the strengths ``(t, n)`` of points ``(n, dim)`` to the values of a lattice, flat."""
    weights = np.ones(_DIMS * _MOST)
    rows, planes = _rows(points.shape[1], lattice.width)
    for i in range(len(points)):
        start = _weigh(i, points, lattice, weights)
        for column in range(len(strengths)):
            at, strength = start + column * lattice.column, strengths[column, i]
            for plane in range(planes):
                factor = strength * weights[plane]
                if lattice.lanes > LANES:
                    _add_two(values, at, _row_stride(lattice), weights, rows, factor)
                else:
                    _add_one(values, at, _row_stride(lattice), weights, rows, factor)
                at += lattice.strides[0]


@entry(nogil=True, error_model="numpy")
def gather(points, lattice, values, sums):
    """Write weighted sums of the values about points ``(m, dim)`` into `sums`, ``(t, m)``."""
    weights = np.ones(_DIMS * _MOST)
    rows, planes = _rows(points.shape[1], lattice.width)
    for i in range(len(points)):
        start = _weigh(i, points, lattice, weights)
        for column in range(len(sums)):
            at, total = start + column * lattice.column, 0.0
            for plane in range(planes):
                if lattice.lanes > LANES:
                    part = _sum_two(values, at, _row_stride(lattice), weights, rows)
                else:
                    part = _sum_one(values, at, _row_stride(lattice), weights, rows)
                total += weights[plane] * part
                at += lattice.strides[0]
            sums[column, i] = total


@entry(nogil=True, error_model="numpy")
def add_moments(points, strengths, line, moments):
    """Add c s^a of strengths c ``(t, n)`` of points ``(n, 1)`` to moments ``(cells, t, 8)``, flat.

    `line` is the centre, scale and shift of a :class:`Lattice`; s from -1 to 1 is a point's place.
    """
    x, row = points.reshape(-1), DEGREES * len(strengths)
    starts, places = np.empty(_BLOCK, np.int64), np.empty(_BLOCK)
    for first in range(0, len(x), _BLOCK):
        count = _place(x[first : first + _BLOCK], line, row, starts, places)
        for column in range(len(strengths)):
            some = strengths[column, first : first + count]
            for k in range(count):
                _add_powers(moments, starts[k] + DEGREES * column, places[k], some[k])


# Terms of one point, in any order: no flag has a say in which order points are added up above.
@entry(nogil=True, error_model="numpy", fastmath={"contract", "nsz", "reassoc"})
def sum_polynomials(points, line, coefficients, sums):
    """Write Σ_a b_a s^a at points ``(m, 1)`` into `sums`, b ``(cells, t, 8)``, flat, of a cell."""
    x, row = points.reshape(-1), DEGREES * len(sums)
    starts, places = np.empty(_BLOCK, np.int64), np.empty(_BLOCK)
    for first in range(0, len(x), _BLOCK):
        count = _place(x[first : first + _BLOCK], line, row, starts, places)
        for column in range(len(sums)):
            some = sums[column, first : first + count]
            for k in range(count):
                at, s = starts[k] + DEGREES * column, places[k]
                b = coefficients[at : at + DEGREES]
                s2 = s * s
                low = (b[0] + b[1] * s) + s2 * (b[2] + b[3] * s)
                high = (b[4] + b[5] * s) + s2 * (b[6] + b[7] * s)
                some[k] = low + s2 * s2 * high


@inner(error_model="numpy")
def _place(x, line, row, starts, places):
    """Fill the starts of the cells of coordinates, and their places there; return how many."""
    centre, scale, shift = line
    for k in range(len(x)):
        place = (x[k] - centre) * scale + shift
        cell = int(place)
        starts[k] = row * cell
        places[k] = 2.0 * (place - cell) - 1.0
    return len(x)


@inner(error_model="numpy")
def _rows(dim, width):
    """Return how many rows and planes a point touches; dimensions that are not there have one."""
    return (width if dim > 1 else 1), (width if dim > 2 else 1)


@inner(error_model="numpy")
def _row_stride(lattice):
    return lattice.strides[max(len(lattice.strides) - 2, 0)]


@inner(error_model="numpy")
def _weigh(i, points, lattice, weights):
    """Fill the weights of a point, 16 per dimension, the last of three last; return its cell."""
    dim, lanes, at = points.shape[1], lattice.lanes, 0
    for d in range(dim):
        place = (points[i, d] - lattice.centre[d]) * lattice.scale[d] + lattice.shift[d]
        cell = int(place)
        inside = (place - cell) * lattice.parts
        part = int(inside)
        s, first = 2.0 * (inside - part) - 1.0, part * DEGREES * lanes
        to = (_DIMS - dim + d) * _MOST
        for k in range(0, lanes, LANES):
            _polynomials(weights, to + k, s, lattice.table, first + k, lanes)
        at += cell * lattice.strides[d]
    return at


# ---- vectors -------------------------------------------------------------------------------------


def _pointer(context, builder, kind, array, index):
    data = context.make_array(kind)(context, builder, array).data
    return builder.gep(data, [index])


def _vector_at(context, builder, kind, array, index):
    return builder.bitcast(_pointer(context, builder, kind, array, index), _VECTOR.as_pointer())


def _load(builder, place):
    vector = builder.load(place)
    vector.align = 8  # that of a number: a window begins at any cell, not at whole vectors
    return vector


def _store(builder, vector, place):
    builder.store(vector, place).align = 8


def _all_lanes(builder, number):
    empty = ir.Constant(_VECTOR, ir.Undefined)
    one = builder.insert_element(empty, number, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    return builder.shuffle_vector(one, empty, zeros)


def _multiply_add(builder, a, b, c):
    # One rounding where the processor has such an instruction, else two: the last bit may differ.
    return builder.fadd(builder.fmul(a, b, flags=["contract"]), c, flags=["contract"])


def _lane_sum(builder, vector):
    """Add halves to halves, always in the same order."""
    for width in (4, 2, 1):
        ends = (list(range(width)), list(range(width, 2 * width)))
        kind, rest = ir.VectorType(ir.IntType(32), width), ir.Constant(vector.type, ir.Undefined)
        low, high = (builder.shuffle_vector(vector, rest, ir.Constant(kind, e)) for e in ends)
        vector = builder.fadd(low, high)
    return builder.extract_element(vector, ir.Constant(ir.IntType(32), 0))


def _offset(builder, index, k):
    return builder.add(index, ir.Constant(_INDEX, LANES * k))


@intrinsic
def _polynomials(typing_context, out, to, s, table, first, stride):
    """Eight polynomials at s, by Horner's rule; coefficients of one degree lie together."""

    def generate(context, builder, signature, arguments):
        out, to, s, table, first, stride = arguments
        kind, argument, places = signature.args[3], _all_lanes(builder, s), [first]
        for _ in range(DEGREES - 1):
            places.append(builder.add(places[-1], stride))
        value = _load(builder, _vector_at(context, builder, kind, table, places[-1]))
        for place in places[-2::-1]:
            coefficient = _load(builder, _vector_at(context, builder, kind, table, place))
            value = _multiply_add(builder, value, argument, coefficient)
        _store(builder, value, _vector_at(context, builder, signature.args[0], out, to))
        return context.get_dummy_value()

    return types.void(out, types.int64, s, table, types.int64, types.int64), generate


def _powers(builder, s):
    """Return s^a, a < 8: factors s, s², s⁴ in the lanes whose number has that bit."""
    one, power = _all_lanes(builder, ir.Constant(ir.DoubleType(), 1.0)), s
    powers = None
    for bit in (1, 2, 4):
        ends = [LANES + lane if lane & bit else lane for lane in range(LANES)]
        mask = ir.Constant(ir.VectorType(ir.IntType(32), LANES), ends)
        factor = builder.shuffle_vector(one, _all_lanes(builder, power), mask)
        powers = factor if powers is None else builder.fmul(powers, factor)
        power = builder.fmul(power, power)
    return powers


@intrinsic
def _add_powers(typing_context, moments, at, s, strength):
    """Add strength · s^a, a < 8, to the numbers from a place on."""

    def generate(context, builder, signature, arguments):
        moments, at, s, strength = arguments
        place = _vector_at(context, builder, signature.args[0], moments, at)
        size, old = _all_lanes(builder, strength), _load(builder, place)
        _store(builder, _multiply_add(builder, size, _powers(builder, s), old), place)
        return context.get_dummy_value()

    return types.void(moments, types.int64, types.float64, types.float64), generate


def _last_weights(context, builder, kind, weights, blocks):
    """Return the vectors of the last dimension."""
    start = ir.Constant(_INDEX, (_DIMS - 1) * _MOST)
    places = [_offset(builder, start, k) for k in range(blocks)]
    return [_load(builder, _vector_at(context, builder, kind, weights, p)) for p in places]


def _row_weight(context, builder, kind, weights, row):
    place = builder.add(row, ir.Constant(_INDEX, _MOST))
    return _all_lanes(builder, builder.load(_pointer(context, builder, kind, weights, place)))


def _adder(blocks):
    """Return the intrinsic that adds factor · weights to rows of so many vectors."""

    def add(typing_context, values, at, stride, weights, rows, factor):
        def generate(context, builder, signature, arguments):
            values, at, stride, weights, rows, factor = arguments
            kind, kind_of_weights = signature.args[0], signature.args[3]
            last = _last_weights(context, builder, kind_of_weights, weights, blocks)
            size = _all_lanes(builder, factor)
            last = [builder.fmul(size, each) for each in last]
            with cgutils.for_range(builder, rows) as loop:
                weight = _row_weight(context, builder, kind_of_weights, weights, loop.index)
                start = builder.add(at, builder.mul(loop.index, stride))
                for k, each in enumerate(last):
                    place = _vector_at(context, builder, kind, values, _offset(builder, start, k))
                    grown = _multiply_add(builder, weight, each, _load(builder, place))
                    _store(builder, grown, place)
            return context.get_dummy_value()

        index = types.int64
        return types.void(values, index, index, weights, index, types.float64), generate

    return intrinsic(add)


def _summer(blocks):
    """Return the intrinsic that sums weighted rows of so many vectors."""

    def total(typing_context, values, at, stride, weights, rows):
        def generate(context, builder, signature, arguments):
            values, at, stride, weights, rows = arguments
            kind, kind_of_weights = signature.args[0], signature.args[3]
            zero = ir.Constant(_VECTOR, [0.0] * LANES)
            sums = [cgutils.alloca_once_value(builder, zero) for _ in range(blocks)]
            with cgutils.for_range(builder, rows) as loop:
                weight = _row_weight(context, builder, kind_of_weights, weights, loop.index)
                start = builder.add(at, builder.mul(loop.index, stride))
                for k, each in enumerate(sums):
                    place = _vector_at(context, builder, kind, values, _offset(builder, start, k))
                    grown = _multiply_add(
                        builder, weight, _load(builder, place), builder.load(each)
                    )
                    builder.store(grown, each)
            last = _last_weights(context, builder, kind_of_weights, weights, blocks)
            products = [builder.fmul(builder.load(s), w) for s, w in zip(sums, last, strict=True)]
            whole = products[0]
            for each in products[1:]:
                whole = builder.fadd(whole, each)
            return _lane_sum(builder, whole)

        index = types.int64
        return types.float64(values, index, index, weights, index), generate

    return intrinsic(total)


_add_one, _add_two = _adder(1), _adder(2)
_sum_one, _sum_two = _summer(1), _summer(2)
