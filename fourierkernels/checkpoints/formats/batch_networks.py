"""How a model in memory is run on the rows of ready batches."""

import inspect
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from torch import nn

from fourierkernels.checkpoints.batches import Row, joined
from fourierkernels.checkpoints.checkpoint import AttentionPart, Checkpoint, Ids, Names
from fourierkernels.checkpoints.contexts import device_of
from fourierkernels.checkpoints.formats.request import must_run
from fourierkernels.checkpoints.formats.transformers_networks import CallsOfPart, place_within
from fourierkernels.checkpoints.recorders.call import AttentionCall
from fourierkernels.checkpoints.recorders.recording import recording
from fourierkernels.foundation.arrays import BoolArray
from fourierkernels.foundation.validation import check_choice

TRIED = 24  # tokens of a row that a model is tried on
WITH_IMAGES = {  # parts of a network that reads texts with images; pieces of an image have no ids
    row.name: row
    for row in (
        AttentionPart("encoder", pairs=False, sides=lambda ids: ((), ())),
        AttentionPart("decoder", pairs=False, sides=lambda ids: (ids, ids)),
        AttentionPart("cross", pairs=False, sides=lambda ids: (ids, ())),
    )
}


@dataclass(frozen=True, eq=False, kw_only=True)
class BatchCheckpoint(Checkpoint):
    """A model in memory that reads the rows of ready batches.

    Attributes
    ----------
    inner : nn.Module
        What is run: the model, or its encoder.
    calls : CallsOfPart
        Which calls of attention belong to the part.
    added : (int, int) or None
        How many queries and keys the model has beside the tokens of a row, where it attends from
        every token to every token; see :meth:`with_tokens_of`.
    windowed : bool
        Whether it reads images, and attends within several windows of one.
    """

    inner: nn.Module
    calls: CallsOfPart
    added: tuple[int, int] | None = None
    windowed: bool = False

    @property
    def reads(self) -> str:
        """Rows of batches."""
        return "batches"

    def forward(self, batch: Sequence[Row]) -> Any:
        """Run the model on rows of equal keys."""
        place, decodes = device_of(self.model), self.inner is self.model
        entries = {name: entry.to(place) for name, entry in joined(batch).items()}
        alone = [entries.pop("")] if "" in entries else []
        read = {k: entry for k, entry in entries.items() if decodes or not k.startswith("decoder_")}
        with must_run("network must read the rows of the batches", type(self.model).__name__):
            return self.inner(*alone, **read)

    def selects(self, call: AttentionCall) -> bool:
        """Return whether a call belongs to the part."""
        return self.calls.selects(call)

    def padding_key(self, item: Row) -> Hashable:
        """Return the key of a row; attention within windows is told apart in rows run alone."""
        return (item.key, id(item)) if self.windowed else item.key

    def sides(self, row: Row) -> tuple[Ids, Ids]:
        """Return the token ids of the queries and of the keys."""
        return self.part.sides((row.ids, row.target_ids) if self.part.pairs else row.ids)

    def labels(self, item: Row) -> tuple[Names, Names]:
        """Return tokens, where tokens are what attends."""
        if self.tokenizer is None:
            return (), ()
        queries, keys = self.sides(item)
        return self.tokenizer.names(queries), self.tokenizer.names(keys)

    def special(self, item: Row) -> BoolArray | None:
        """Return the special tokens of the tokenizer, where tokens are what attends."""
        marks = self.tokenizer.special if self.tokenizer is not None else frozenset()
        keys = np.asarray(self.sides(item)[1], dtype=np.int64)
        if not marks or not len(keys):
            return None
        marked, image = np.isin(keys, sorted(marks)), self.image_tokens(item)
        return marked if image is None else marked & ~image

    def image_tokens(self, item: Row) -> BoolArray | None:
        """Return the tokens in whose place a language model reads pieces of an image.

        Where words attend to the image beside them (Mllama), such a token only marks its place.
        """
        keys = np.asarray(self.sides(item)[1], dtype=np.int64)
        marks = keys == getattr(getattr(self.model, "config", None), "image_token_id", None)
        if not np.any(marks):
            return None
        modules = self.inner.named_modules()
        kinds = [
            type(module).__name__ for name, module in modules if name.startswith(self.calls.inside)
        ]
        return None if any(name.endswith("CrossAttention") for name in kinds) else marks

    def spans(self, item: Row) -> tuple[int, int] | None:
        """Return the numbers of queries and keys, where they follow from those of the tokens."""
        if self.added is None:
            return None
        queries, keys = self._lengths(item)
        return queries + self.added[0], keys + self.added[1]

    def _lengths(self, row: Row) -> tuple[int, int]:
        source, target = row.length(), row.length(decoded=self.part.pairs)
        return {"encoder": (source, source), "decoder": (target, target)}.get(
            self.part.name, (target, source)
        )

    def with_tokens_of(self, row: Row) -> Self:
        """Return the same model with what the beginning of a row shows of its tokens.

        It is run on two beginnings: if every map has a query and a key for each token, and as many
        others in both, long rows are estimated, and run in slabs, as texts are.
        """
        added, most = set[tuple[int, int]](), min(TRIED, max(2, row.length()))
        # Images have four dimensions.
        if any(entry.ndim > 3 and "mask" not in name for name, entry in row.entries.items()):
            return replace(self, windowed={texts for texts, _, _ in self._shapes(row)} != {1})
        for count in (most, most - 1):
            piece = row.beginning(count)
            lengths = self._lengths(piece)
            try:
                shapes = self._shapes(piece)
            except Exception:  # it is no sequence of tokens, or too short a one: it is run whole
                return self
            added |= {(n - lengths[0], m - lengths[1]) for _, n, m in shapes}
        return replace(self, added=added.pop()) if len(added) == 1 else self

    def _shapes(self, row: Row) -> list[tuple[int, int, int]]:
        """Return texts, queries and keys of the maps of one row, call by call.

        Raises
        ------
        ValueError
            If there are none.
        """
        with torch.inference_mode(), recording(self.model) as recorded:
            self.run([row])
        calls = self.own_calls(recorded)
        if not calls:
            raise ValueError(f"checkpoint must have attention, {recorded.nothing(self.model)}")
        return [call.own_shape for call in calls]

    def span(self, row: Row) -> tuple[int, int]:
        """Run one row; return its numbers of queries and keys.

        Raises
        ------
        ValueError
            If there is no attention, or some across rows.
        """
        shapes = self._shapes(row)
        counts = sorted({texts for texts, _, _ in shapes})
        if counts != [1] and not self.windowed:
            raise ValueError(
                "batches must have one text or image in each row of their tensors, as with "
                f"batch_first=True, got {counts[-1]} attention maps of one row in "
                f"{type(self.model).__name__}"
            )
        return shapes[0][1:]


def part_with_images(model: Any, name: str) -> tuple[AttentionPart, CallsOfPart]:
    """Return a part of a network that reads texts with images, and the calls that belong to it.

    The encoder is that of images; the decoder is the language model, whose tokens may stand for
    pieces of an image; cross-attention is that of the decoder's words to an image beside them.

    Raises
    ------
    ValueError
        If the name is none of these, or the network has no such part.
    """
    part = WITH_IMAGES[check_choice("part", name, list(WITH_IMAGES))]
    encodes = part.name == "encoder"
    module = model.get_encoder(modality="image") if encodes else model.get_decoder()
    inside = place_within(model, module)
    sees = "pixel_values" in inspect.signature(module.forward).parameters
    if inside == "." or sees != encodes:  # it may be all of the network
        raise ValueError(
            f"part must be one that {type(model).__name__} has as a module, got {name!r}"
        )
    return part, CallsOfPart(inside, cross=part.name == "cross")
