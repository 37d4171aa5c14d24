"""What the heads of a checkpoint compute, one input at a time: the pass behind every measure."""

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from typing import Any

import numpy as np
import torch

from fourierkernels.arrays import BoolArray, FloatArray
from fourierkernels.checkpoints import AttentionCall, recording
from fourierkernels.checkpoints.checkpoint import Checkpoint
from fourierkernels.checkpoints.recorders.heard import Heard, unread_sentence
from fourierkernels.checkpoints.steady import steady
from fourierkernels.validation import check_integer

Numbered = tuple[int, Any]  # an input and its number

_BATCHES_SORTED_TOGETHER = 16  # inputs of similar length meet, and little padding is needed
_MOST_WEIGHTS = 2**18  # of one head in a batch, 16 texts of 128 tokens: memory follows from it


@dataclass(frozen=True, eq=False)
class HeadSample:
    """What the heads of a checkpoint compute on one input, in float64, padding cut away.

    Layers are calls of attention: a shared module appears once per call. Arrays are made
    when they are first asked for.

    Attributes
    ----------
    index : int
        Number of the input.
    item : object
        The input: token ids, the path of an image, or ids of a source and a target.
    unread : str
        A sentence on attention that was seen and not understood; empty if there was none.
    """

    index: int
    item: Any
    checkpoint: Checkpoint
    unread: str
    _calls: list[AttentionCall]
    _row: int

    @cached_property
    def span(self) -> tuple[int, int]:
        """Numbers of queries n and keys m."""
        n, m = self._calls[0].maps.shape[2:]
        return self.checkpoint.spans(self.item) or (int(n), int(m))

    @cached_property
    def maps(self) -> FloatArray:
        """Weights, ``(L, H, n, m)``."""
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

    @property
    def special(self) -> BoolArray | None:
        """Which keys are special tokens, ``(m,)``; None where that is not known."""
        marks = self.checkpoint.special
        return None if marks is None else marks(self.item)

    @torch.inference_mode()
    def _stacked(self, name: str) -> FloatArray:
        """Copy one part of every call into one array, once, whatever its dtype was."""
        parts = [call.part(name, self._row, *self.span) for call in self._calls]
        stacked = np.empty((len(parts), *parts[0].shape))
        for layer, tensor in zip(stacked, parts, strict=True):
            torch.from_numpy(layer).copy_(tensor)
        return stacked


def head_samples(
    checkpoint: Checkpoint, items: Iterable[Any], *, batch_size: int = 16
) -> Iterator[HeadSample]:
    """Run a checkpoint on inputs and yield what its heads compute on each.

    Inputs of similar length share a batch, so they come out of order; `index` of a sample tells
    which it is. One batch is held at a time. What a head computes on an input depends neither on
    its batch nor on earlier ones: see ``fourierkernels.checkpoints.steady.steady``.

    Parameters
    ----------
    checkpoint : Checkpoint
        What :func:`~fourierkernels.checkpoints.load.load_checkpoint` returned.
    items : iterable
        Lists of token ids, paths of images, or pairs of lists, as the checkpoint reads; read
        lazily.
    batch_size : int
        Most inputs in a batch; long ones are fewer.

    Raises
    ------
    ValueError
        If the network has no attention, or layers of different shapes.
    """
    check_integer("batch_size", batch_size)
    items = iter(items)
    for first in islice(items, 1):
        checkpoint = steady(checkpoint, first)
        for batch in _batches(checkpoint, chain([first], items), batch_size):
            yield from _samples(checkpoint, batch)


def _samples(checkpoint: Checkpoint, batch: list[Numbered]) -> Iterator[HeadSample]:
    calls = _calls(checkpoint, [item for _, item in batch])
    unread = unread_sentence(calls.unread)
    for row, (index, item) in enumerate(batch):
        yield HeadSample(index, item, checkpoint, unread, calls, row)


def _batches(
    checkpoint: Checkpoint, items: Iterable[Any], batch_size: int
) -> Iterator[list[Numbered]]:
    """Yield batches of numbered inputs; those of similar length meet, and are padded little."""
    numbered = enumerate(items)
    while chunk := list(islice(numbered, batch_size * _BATCHES_SORTED_TOGETHER)):
        groups: dict[Hashable, list[Numbered]] = {}
        for pair in sorted(chunk, key=lambda pair: _weights(checkpoint, pair)):
            group = groups.setdefault(checkpoint.batch_key(pair[1]), [])
            if len(group) >= _most(checkpoint, pair, batch_size):
                yield list(group)
                group.clear()
            group.append(pair)
        yield from (group for group in groups.values() if group)


def _weights(checkpoint: Checkpoint, pair: Numbered) -> int:
    n, m = checkpoint.spans(pair[1]) or (1, 1)
    return n * m


def _most(checkpoint: Checkpoint, longest: Numbered, batch_size: int) -> int:
    """Return how many inputs may share a batch with one that is the longest of them."""
    return min(batch_size, max(1, _MOST_WEIGHTS // max(1, _weights(checkpoint, longest))))


@torch.inference_mode()
def _calls(checkpoint: Checkpoint, items: list[Any]) -> Heard:
    with recording(checkpoint.model) as heard:
        checkpoint.run(items)
    calls = Heard([call for call in heard if checkpoint.selects(call)], heard.unread)
    name = type(checkpoint.model).__name__
    if not calls:
        raise ValueError(f"checkpoint must have attention, {heard.nothing(checkpoint.model)}")
    shapes = {(*call.maps.shape[1:], call.outputs.shape[-1]) for call in calls}
    if len(shapes) > 1:
        raise ValueError(
            "checkpoint must have layers of one shape (heads, queries, keys, features), "
            f"got {sorted(shapes)} in {name}"
        )
    spans = [span for item in items if (span := checkpoint.spans(item)) is not None]
    sides = (side - calls[0].filler for side in calls[0].maps.shape[2:])
    found = (len(calls[0].maps), *sides)
    if spans and found != (len(items), *map(max, zip(*spans, strict=True))):
        raise ValueError(
            "checkpoint must attend from every token to every token, got maps of (texts, queries, "
            f"keys) {found} for {len(items)} texts of at most {max(spans)} in {name}"
        )
    return calls
