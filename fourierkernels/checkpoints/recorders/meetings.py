"""What came out where weights met values, compared with the outputs of recorded calls."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

# Last digits by which sums of one product, made twice, may differ: a margin, no bound.
_DIGITS = 64.0
Print = tuple[int, float, float]


@dataclass(eq=False)
class Meeting:
    """Weights have met values.

    Attributes
    ----------
    where : str
        Name of the module.
    print : (int, float, float)
        Number, sum and sum of squares of what came out.
    pools : bool
        Whether there is no query: it need not be a call.
    paired : bool
        Whether the weights are pairs of numbers, as a state of keys times values.
    scores : bool
        Whether it was a product of products that was normalised afterwards: there are no values.
    ranked, read : bool
        Whether numbers are chosen by it, and whether a layer or a product reads it. Where only the
        former is so, as with an index of the keys to be read, it need not be a call either.
    """

    where: str
    print: Print
    pools: bool
    paired: bool = False
    scores: bool = False
    ranked: bool = False
    read: bool = False

    @property
    def silent(self) -> bool:
        """Whether it need not be a call."""
        return self.pools or self.scores or (self.ranked and not self.read)


def fingerprint(tensor: Tensor) -> Print:
    """Return number, sum and sum of squares, which no reshaping and no reordering changes.

    Half precision is added up in single; squares in double, from one row to the next.
    """
    numbers = tensor.detach()
    if numbers.is_complex():
        numbers = torch.view_as_real(numbers.resolve_conj())
    dtype = torch.promote_types(numbers.dtype, torch.float32)
    numbers = numbers if numbers.is_floating_point() else numbers.to(dtype)
    rows = torch.linalg.vector_norm(numbers, dim=-1, dtype=dtype).double()
    return tensor.numel(), float(numbers.sum(dtype=dtype)), float(rows.square().sum())


def _fits(made: Print, wanted: Print, digit: float) -> bool:
    """Tell whether two prints are of the same numbers, up to rounding; NaN is equal to itself."""
    if made[0] != wanted[0]:
        return False
    squares = max(abs(made[2]), abs(wanted[2]))
    room = _DIGITS * digit * math.sqrt(squares * made[0]), _DIGITS * digit * squares
    pairs = zip(made[1:], wanted[1:], room, strict=True)
    return all(a == b or abs(a - b) <= most or (a != a and b != b) for a, b, most in pairs)


def run_of(meetings: list[Meeting], wanted: Print, digit: float) -> list[Meeting]:
    """Return the meetings in turn that make up the outputs of a call; none if no such are there."""
    for start in range(len(meetings)):
        total = (0, 0.0, 0.0)
        for stop in range(start, len(meetings)):
            a, b, c = meetings[stop].print
            total = (total[0] + a, total[1] + b, total[2] + c)
            if total[0] >= wanted[0]:
                break
        if _fits(total, wanted, digit):
            return meetings[start : stop + 1]
    return []
