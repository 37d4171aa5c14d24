"""The least time that issuing the instructions of our kernels takes: the floor of a measurement.

A multiprocessor of compute capability 8.0 and later issues four warp instructions of 32 lanes in a
clock. What the kernels need were counted in their machine code for sm_90 (nvcc 13.0, cuobjdump), in
issue slots for each pair of query and key:

- the score, by angle addition with a polynomial near zero: 9.89 for each feature, reciprocals and
  loads from shared memory included (7.0 without the polynomial, whose error of 1e-5 is too large);
- its product with the values: 1.42 for each column;
- backward, in two kernels without atomics: each computes the score again (7.0), the slopes and
  their weighted sums (17.0) for each feature, and the gradient of the weights (1.25) for each
  column; one of them adds the gradient of the values (1.42). Together 52 for D = C.

Memory traffic is far below: each tensor is read once for 64 rows of the other side.
"""

import math
from dataclasses import dataclass

from fourierkernels.cli.card.card import Card
from fourierkernels.cli.card.shapes import Shape

_LANES = 4 * 32


@dataclass(frozen=True)
class Slots:
    """Issue slots for each pair, for one feature and for one column of the values."""

    feature: float
    column: float


SLOTS = {
    "forward": Slots(feature=9.89, column=1.42),
    "backward": Slots(feature=2 * (7.0 + 17.0), column=2 * 1.25 + 1.42),
}


def floor_ms(shape: Shape, direction: str, card: Card) -> float:
    """Return the floor in milliseconds for float32, NaN where no clock is known.

    Examples
    --------
    >>> from fourierkernels.cli.card.shapes import SHAPES
    >>> h200 = Card("", "sm_90", 132, 0, 0, 1.755, "", "", "", "", "")
    >>> small = SHAPES["language model, small"]
    >>> [round(floor_ms(small, direction, h200), 2) for direction in SLOTS]
    [0.31, 1.41]
    """
    rate = _LANES * card.multiprocessors * card.clock * 1e6  # lanes in a millisecond
    slots = SLOTS[direction]
    each = slots.feature * shape.dim + slots.column * shape.dim
    return shape.pairs * each / rate if rate > 0 else math.nan
