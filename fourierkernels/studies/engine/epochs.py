"""The order in which a run reads its examples, and the batches that they make.

The order follows from the seed and the place in the run alone, whatever the number of processes
and wherever a run is resumed.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset

from fourierkernels.foundation.validation import check_integer

Batch = dict[str, Tensor]
Order = Callable[[int], int]  # from a place in the run to the example that comes there
Collate = Callable[[list[int]], Batch]

_KEPT = 2  # blocks of an order: a batch may begin in one and end in the next
_ROUNDS = 6  # of the Feistel network
_WORD = (1 << 64) - 1
# Step and mixing of splitmix64: Steele, Lea and Flood, "Fast splittable pseudorandom number
# generators" (OOPSLA 2014), with the constants of java.util.SplittableRandom and of
# https://prng.di.unimi.it/splitmix64.c.
_STEP, _MIXERS = 0x9E3779B97F4A7C15, ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))


class Epochs(Dataset[Batch]):
    """The training batches of a run: examples in their order, epoch after epoch without a gap.

    Parameters
    ----------
    collate : callable
        From examples to a batch.
    examples : int
        How many there are, for the length of an epoch.
    steps, batch : int
        Updates of the run, and examples of each.
    order : callable, optional
        From a place in the run to an example. Without it `collate` is given the places themselves,
        as it has to where what is drawn for an example depends on its place.
    """

    def __init__(
        self,
        collate: Collate,
        *,
        examples: int,
        steps: int,
        batch: int,
        order: Order | None = None,
    ) -> None:
        self.collate, self.order = collate, order
        self.examples, self.batch = examples, check_integer("batch", batch)
        self._count = check_integer("steps", steps) * batch

    @property
    def updates_per_epoch(self) -> float:
        """Updates in which as many examples are read as there are."""
        return self.examples / self.batch

    def __len__(self) -> int:
        return self._count

    def __getitems__(self, indices: Sequence[int]) -> Batch:
        """Return one batch of the examples of some places."""
        places = [int(index) for index in indices]
        return self.collate(places if self.order is None else [self.order(i) for i in places])

    def probe(self, most: int) -> tuple[Batch, float]:
        """Return a batch of at most `most` examples, and how many such batches an update has."""
        few = min(most, self.batch)
        return self.__getitems__(range(few)), self.batch / few


def one_batch(batch: Batch) -> Batch:
    """Return a batch that :class:`Epochs` has put together already, as a collator does."""
    return batch


class DrawnOrder:
    """An order that is drawn in blocks, of which the last two are kept.

    Parameters
    ----------
    draw : callable
        From the number of a block to its examples, ``(size,)``.
    size : int
        Places of a block.
    """

    def __init__(self, draw: Callable[[int], NDArray[np.int64]], size: int) -> None:
        self._draw, self._size = draw, size
        self._blocks: dict[int, NDArray[np.int64]] = {}

    def __call__(self, place: int) -> int:
        """Return what comes at a place."""
        block, inside = divmod(place, self._size)
        if block not in self._blocks:
            for old in sorted(self._blocks)[: 1 - _KEPT]:
                del self._blocks[old]
            self._blocks[block] = self._draw(block)
        return int(self._blocks[block][inside])


def shuffled(examples: int, seed: int) -> DrawnOrder:
    """Return all examples epoch after epoch, each epoch in a new order.

    Examples
    --------
    >>> order = shuffled(5, seed=0)
    >>> [sorted(map(order, range(first, first + 5))) for first in (0, 5)]
    [[0, 1, 2, 3, 4], [0, 1, 2, 3, 4]]
    """

    def draw(epoch: int) -> NDArray[np.int64]:
        return np.random.default_rng([seed, epoch]).permutation(examples)

    return DrawnOrder(draw, examples)


class FeistelOrder:
    """All examples epoch after epoch, each epoch in a new order, of which nothing is kept.

    A permutation by a Feistel network on the binary digits of a place, walked until it falls below
    the number of examples: a corpus may have more of them than an order in memory could.

    Examples
    --------
    >>> order = FeistelOrder(5, seed=2)
    >>> [sorted(map(order, range(first, first + 5))) for first in (0, 5)]
    [[0, 1, 2, 3, 4], [0, 1, 2, 3, 4]]
    """

    def __init__(self, examples: int, seed: int) -> None:
        self._examples, self._seed = examples, seed
        self._half = ((examples - 1).bit_length() + 1) // 2
        self._key = (-1, 0)  # epoch, and what its order follows from

    def __call__(self, place: int) -> int:
        """Return what comes at a place."""
        epoch, inside = divmod(place, self._examples)
        if self._key[0] != epoch:
            state = np.random.SeedSequence((self._seed, epoch)).generate_state(1, np.uint64)
            self._key = epoch, int(state[0])
        while True:
            inside = _permuted(inside, self._half, self._key[1])
            if inside < self._examples:
                return inside


def _permuted(place: int, half: int, key: int) -> int:
    mask = (1 << half) - 1
    left, right = place >> half, place & mask
    for turn in range(_ROUNDS):
        left, right = right, left ^ (_mixed(key + (turn << half) + right) & mask)
    return (left << half) | right


def _mixed(number: int) -> int:
    number = (number * _STEP + _STEP) & _WORD
    for shift, factor in _MIXERS:
        number = ((number ^ (number >> shift)) * factor) & _WORD
    return number ^ (number >> 31)
