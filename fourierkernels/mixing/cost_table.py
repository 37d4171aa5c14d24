"""Table 1 of the FNet paper for every mixer of the registry."""

from typing import NamedTuple

from fourierkernels.foundation.validation import check_integer
from fourierkernels.mixing.costs import Size
from fourierkernels.mixing.registry import MIXERS


class CostRow(NamedTuple):
    """Costs of one mixer: parameters of a layer, multiply-adds of a pass, and their formula."""

    name: str
    parameters: int
    operations: int
    formula: str
    complex_operations: bool


def cost_table(*, dim: int, length: int) -> list[CostRow]:
    """Return Table 1 of [leethorp2021fnet]_ for every mixer, per layer and sequence.

    Examples
    --------
    >>> softmax = cost_table(dim=768, length=512)[0]
    >>> softmax.parameters, softmax.formula
    (2359296, '2N²E + 4NE²')
    """
    size = Size(check_integer("length", length), check_integer("dim", dim))
    return [
        CostRow(
            name,
            int(row.parameters(size)),
            round(row.operations(size)),
            row.formula,
            row.complex_operations,
        )
        for name, row in MIXERS.items()
    ]
