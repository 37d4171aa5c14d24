# mypy: allow-untyped-defs, allow-untyped-decorators, disable-error-code="no-untyped-call"
# Numba infers the types of the compiled functions below.
"""The common case of the forward pass, compiled by itself: nothing masked, dropped, spoilt or kept.

A row's work on a tile takes half a microsecond, of which the layout's many arrays, handed from
function to function, would be a third: here only the arrays in use are.
"""

from fourierkernels.ops.cpu.bits import constant
from fourierkernels.ops.cpu.compiled import inner
from fourierkernels.ops.cpu.pairs import TILE, highest_exponent, sinc_pairs
from fourierkernels.ops.cpu.products import add_products
from fourierkernels.ops.cpu.running import raise_top, take_scale
from fourierkernels.ops.cpu.series import far_limit
from fourierkernels.ops.cpu.weights import extent, keys_in_sight


@inner(error_model="numpy", forceinline=True)
def add_plain_tile(rows, place, layout, settings, work, running):
    """Add a tile of keys to the sums of the rows; arguments as those of the general case."""
    head, first, tile = place
    most = keys_in_sight(first + rows - 1, tile, layout, settings.causal)
    _weigh_rows(
        rows,
        most,
        first + 1 - tile * TILE if settings.causal else TILE,
        settings.power,
        work.queries,
        work.reaches,
        layout.keys.rows[head, tile],
        layout.keys.reach[head, tile],
        work.weights,
        work.integers[0],
        running,
    )
    values = layout.values.columns[head, tile]
    add_products(rows, extent(most).stretch, work.weights, values, running.sums)


@inner(error_model="numpy")
def _weigh_rows(
    rows, most, seen, power, queries, reaches, columns, far, weights, exponents, running
):
    """Fill in the weights of rows, the first of which sees `seen` keys; 0 beyond what they see."""
    zero, limit = constant(0.0, reaches[0]), far_limit(reaches[0])
    end, sums, totals, tops = extent(most).stretch, running.sums, running.totals, running.tops
    for i in range(rows):
        row, count = weights[i], min(most, seen + i)
        part = extent(max(count, 0))
        if count > 0:
            distant = reaches[i] + far[count - 1] > limit
            sinc_pairs(queries[i], columns, part, power, distant, row, exponents, None)
            for j in range(count, part.stretch):
                row[j] = zero
            top = highest_exponent(part.stretch, row, exponents, tops[i], None)
            raise_top(i, top, sums, totals, tops)
            totals[i] += take_scale(part.stretch, row, exponents, top)
        for j in range(part.stretch, end):
            row[j] = zero
