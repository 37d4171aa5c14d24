"""What the heads of a checkpoint compute, one input at a time: the pass behind every measure."""

import math
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from typing import Any

import numpy as np
import torch

from fourierkernels.checkpoints import recording
from fourierkernels.checkpoints.checkpoint import Checkpoint
from fourierkernels.checkpoints.isolating import isolated
from fourierkernels.checkpoints.memory import available_memory, in_bytes
from fourierkernels.checkpoints.recorders.call import RecordedCalls, unread_sentence
from fourierkernels.diagnostics.maps import InapplicableError
from fourierkernels.diagnostics.networks.layers import (
    COMPUTED_SLAB,
    MOST_WEIGHTS,
    Footprint,
    HeadLayer,
    footprint,
    slab_rows,
)
from fourierkernels.foundation.arrays import BoolArray, FloatArray
from fourierkernels.foundation.validation import check_integer

Numbered = tuple[int, Any]  # an input and its number

_BATCHES_SORTED_TOGETHER = 16  # inputs of similar length meet, and little padding is needed


@dataclass(frozen=True, eq=False)
class HeadSample:
    """What the heads of a checkpoint compute on one input, in float64, padding cut away.

    Layers are calls of attention: a shared module appears once per call. Arrays are made
    when they are first asked for; those of all layers together need layers of one shape. Each layer
    by itself, in `by_layer`, may have a shape of its own, and is read in slabs.

    Attributes
    ----------
    index : int
        Number of the input.
    item : object
        The input: token ids, the path of an image, or ids of a source and a target.
    unread : str
        A sentence on attention that was seen and not understood; empty if there was none.
    padding : int
        Tokens that were cut away at the end.
    unseen : str
        A sentence on keys that get no weight; empty if there were none.
    """

    index: int
    item: Any
    checkpoint: Checkpoint
    unread: str
    _calls: RecordedCalls
    _row: int
    _inputs: int = 1
    padding: int = 0
    unseen: str = ""

    @cached_property
    def span(self) -> tuple[int, int]:
        """Numbers of queries n and keys m, of the first layer."""
        return self.by_layer[0].queries, self.by_layer[0].keys

    @cached_property
    def by_layer(self) -> list[HeadLayer]:
        """What each layer computes."""
        span = self.checkpoint.spans(self.item)
        layers = []
        for number, call in enumerate(self._calls):
            texts, _, *sides = map(int, call.maps.shape)
            n, m = span or sides
            windows = texts if self._alone else 1
            layers.append(HeadLayer(number, call, self._row, windows, n, m))
        return layers

    @property
    def shapes(self) -> list[tuple[int, int, int, int]]:
        """Heads, windows, queries and keys of each layer."""
        return [layer.shape for layer in self.by_layer]

    @property
    def size(self) -> int:
        """Number of weights of all maps."""
        return sum(math.prod(shape) for shape in self.shapes)

    @cached_property
    def maps(self) -> FloatArray:
        """Weights, ``(L, H, n, m)``.

        Raises
        ------
        ValueError
            If layers differ in shape, attend within windows, or do not fit into memory together.
        """
        if 8.0 * self.size > available_memory():
            raise InapplicableError(
                f"maps must fit into memory to be kept whole, got {in_bytes(8.0 * self.size)} "
                f"for {self.span[0]} tokens"
            )
        return self._stacked("maps")

    @cached_property
    def queries(self) -> FloatArray:
        """Queries, ``(L, H, n, d)``, after rotary positions."""
        return self._stacked("queries")

    @cached_property
    def keys(self) -> FloatArray:
        """Keys, ``(L, H, m, d)``, after rotary positions."""
        return self._stacked("keys")

    @cached_property
    def values(self) -> FloatArray:
        """Values, ``(L, H, m, d)``."""
        return self._stacked("values")

    @cached_property
    def outputs(self) -> FloatArray:
        """Outputs before the output projection, ``(L, H, n, d)``."""
        return self._stacked("outputs")

    @cached_property
    def projected(self) -> FloatArray:
        """What each head adds to the residual stream, ``(L, H, n, E)``.

        Raises
        ------
        ValueError
            If what reads the heads is not a linear layer.
        """
        return self._stacked("projected")

    @property
    def scale(self) -> float:
        """What multiplies q·k in the first layer."""
        return self._calls[0].scale

    @property
    def cross(self) -> bool:
        """Whether queries and keys belong to two sequences."""
        return self._calls[0].cross

    @property
    def layers(self) -> tuple[str, ...]:
        """Names of the modules."""
        return tuple(call.name for call in self._calls)

    @cached_property
    def special(self) -> BoolArray | None:
        """Which keys are special tokens, ``(m,)``; None where that is not known."""
        return self.checkpoint.special(self.item)

    @property
    def pooled(self) -> tuple[str, ...]:
        """Names of modules that pool, which are no layers of the sample."""
        return self._calls.pooled

    @property
    def _alone(self) -> bool:
        """Whether the batch is this input: what else it has in its first place is windows."""
        return self._inputs == 1

    @torch.inference_mode()
    def _stacked(self, name: str) -> FloatArray:
        """Copy one part of every call into one array, once, whatever its dtype was."""
        both = zip(self.shapes, self._calls, strict=True)
        shapes = [(*shape, 0 if name == "maps" else call.outputs.shape[-1]) for shape, call in both]
        if len(set(shapes)) > 1 or shapes[0][1] > 1:
            raise InapplicableError(
                f"{name} must be those of layers of one shape to be kept together, got (heads, "
                f"windows, queries, keys, features) {sorted(set(shapes))}"
            )
        first = self._calls[0].part(name, self._row, *self.span)
        stacked = np.empty((len(self._calls), *first.shape))
        for layer, call in zip(stacked, self._calls, strict=True):
            torch.from_numpy(layer).copy_(call.part(name, self._row, *self.span))
        return stacked


def head_samples(
    checkpoint: Checkpoint,
    items: Iterable[Any],
    *,
    batch_size: int = 16,
    share: tuple[int, int] = (0, 1),
) -> Iterator[HeadSample]:
    """Run a checkpoint on inputs and yield what its heads compute on each.

    Inputs of similar length share a batch, so they come out of order; `index` of a sample tells
    which it is. Memory has one batch at a time. What a head computes on an input depends neither on
    its batch nor on earlier ones: see ``fourierkernels.checkpoints.isolating.isolated``.

    Parameters
    ----------
    checkpoint : Checkpoint
        What :func:`~fourierkernels.checkpoints.load.load_checkpoint` returned.
    items : iterable
        Lists of token ids, paths of images, or pairs of lists, as the checkpoint reads; read
        lazily.
    batch_size : int
        Most inputs in a batch; long ones are fewer.
    share : (int, int)
        A number, from 0, and of how many: run every so many-th batch only. Batches and numbers of
        inputs are those of a run on all.

    Raises
    ------
    ValueError
        If the network has no attention, or none from every token to every token, or inputs do not
        fit into memory.
    """
    most, items = check_integer("batch_size", batch_size), iter(items)
    for first in islice(items, 1):
        checkpoint = isolated(checkpoint, first)
        pace = _Pace(checkpoint, most)
        batches = _batches(chain([first], items), pace)
        for batch in islice(batches, share[0], None, share[1]):
            yield from _samples(checkpoint, batch, pace.slab(batch))


def _samples(checkpoint: Checkpoint, batch: list[Numbered], slab: int) -> Iterator[HeadSample]:
    calls = _calls(checkpoint, [item for _, item in batch], slab)
    unread = unread_sentence(calls.unread)
    for row, (index, whole) in enumerate(batch):
        with torch.inference_mode():
            item, padding, unseen = checkpoint.without_padding(whole, calls, row)
        yield HeadSample(
            index, item, checkpoint, unread, calls, row, len(batch), padding=padding, unseen=unseen
        )


class _Pace:
    """How many inputs share a batch, and whether they are so long that maps are not kept.

    Parameters
    ----------
    most : int
        Inputs in a batch.
    """

    def __init__(self, checkpoint: Checkpoint, most: int) -> None:
        self.checkpoint, self.together = checkpoint, most * _BATCHES_SORTED_TOGETHER
        self._most = most
        self._footprint: Footprint | None = None

    def sides(self, pair: Numbered) -> tuple[int, int]:
        """Return the numbers of queries and keys of an input."""
        span = self.checkpoint.spans(pair[1])
        if span is not None:
            return span
        queries, keys = self.checkpoint.labels(pair[1])
        return len(queries), len(keys)

    def weights(self, pair: Numbered) -> int:
        """Return the number of weights of one head."""
        n, m = self.sides(pair)
        return n * m

    def most(self, longest: Numbered) -> int:
        """Return how many inputs may share a batch with one that is the longest of them."""
        return min(self._most, max(1, MOST_WEIGHTS // max(1, self.weights(longest))))

    def _is_long(self, pair: Numbered) -> bool:
        return self.weights(pair) > MOST_WEIGHTS and self.checkpoint.spans(pair[1]) is not None

    def check(self, pairs: list[Numbered]) -> None:
        """Refuse inputs that do not fit into memory, before the first of them is run."""
        long = max(pairs, key=self.weights)
        if self._is_long(long):
            self._footprint = self._footprint or footprint(self.checkpoint, long[1])
            self._footprint.check(*self.sides(long))

    def slab(self, batch: list[Numbered]) -> int:
        """Return how many queries attention is run on at a time; 0 for all."""
        footprint = self._footprint
        if footprint is None or not footprint.in_slabs or not self._is_long(batch[-1]):
            return 0
        return slab_rows(footprint.heads, self.sides(batch[-1])[1], weights=COMPUTED_SLAB)


def _batches(items: Iterable[Any], pace: _Pace) -> Iterator[list[Numbered]]:
    """Yield batches of numbered inputs; those of similar length meet, and are padded little."""
    numbered = enumerate(items)
    while chunk := list(islice(numbered, pace.together)):
        pace.check(chunk)
        groups: dict[Hashable, list[Numbered]] = {}
        for pair in sorted(chunk, key=pace.weights):
            group = groups.setdefault(pace.checkpoint.batch_key(pair[1]), [])
            if len(group) >= pace.most(pair):
                yield list(group)
                group.clear()
            group.append(pair)
        yield from (group for group in groups.values() if group)


@torch.inference_mode()
def _calls(checkpoint: Checkpoint, items: list[Any], slab: int) -> RecordedCalls:
    with recording(checkpoint.model, slab=slab) as recorded:
        checkpoint.run(items)
    calls = RecordedCalls(checkpoint.own_calls(recorded), recorded.unread)
    calls.pooled = tuple(
        call.name for call in recorded if checkpoint.selects(call) and call not in calls
    )
    if not calls:
        raise ValueError(f"checkpoint must have attention, {recorded.nothing(checkpoint.model)}")
    _check_shapes(checkpoint, calls, items)
    return calls


def _check_shapes(checkpoint: Checkpoint, calls: RecordedCalls, items: list[Any]) -> None:
    """Refuse maps that are not from every token of a text to every token.

    An image may be attended to within windows, and on several scales, if it is run alone.
    """
    spans = [span for item in items if (span := checkpoint.spans(item)) is not None]
    shapes = {call.own_shape for call in calls}
    name = type(checkpoint.model).__name__
    if spans and (strange := shapes - {(len(items), *map(max, zip(*spans, strict=True)))}):
        raise ValueError(
            "checkpoint must attend from every token to every token, got maps of (texts, queries, "
            f"keys) {max(strange)} for {len(items)} texts of at most {max(spans)} in {name}"
        )
    if not spans and len(items) > 1 and {shape[0] for shape in shapes} != {len(items)}:
        raise ValueError(
            "checkpoint must attend from all tokens to all tokens where images share a batch, got "
            f"maps of (windows, queries, keys) {max(shapes)} for {len(items)} images in {name}"
        )
