"""A network whose heads can be recorded, whatever it was loaded from and whatever it reads.

No framework is imported here; :func:`fourierkernels.checkpoints.load.load_checkpoint` needs one.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from fourierkernels.checkpoints.find import CheckpointFiles
from fourierkernels.checkpoints.word_lists import WordList
from fourierkernels.foundation.arrays import BoolArray, FloatArray
from fourierkernels.foundation.validation import check_choice, check_integer

if TYPE_CHECKING:
    import torch

    from fourierkernels.checkpoints.contexts import Isolation
    from fourierkernels.checkpoints.recorders.call import AttentionCall
    from fourierkernels.checkpoints.tokens import Tokenizer

Ids = Sequence[int]
Names = tuple[str, ...]

_NO_LANGUAGE = (
    "targets are read without the code of their language, which neither the configuration "
    "(forced_bos_token_id) nor the tokenizer (tgt_lang) names"
)


@dataclass(frozen=True)
class AttentionPart:
    """Which attention of an encoder-decoder is recorded.

    "encoder": source tokens among themselves; "decoder": target tokens among themselves; "cross":
    target tokens to source tokens.

    Attributes
    ----------
    pairs : bool
        Whether the network has to be run on a source and a target.
    sides : callable
        From an item to the token ids of the queries and to those of the keys.
    """

    name: str
    pairs: bool
    sides: Callable[[Any], tuple[Ids, Ids]]


PARTS = {
    row.name: row
    for row in (
        AttentionPart("encoder", pairs=False, sides=lambda ids: (ids, ids)),
        AttentionPart("decoder", pairs=True, sides=lambda pair: (pair[1], pair[1])),
        AttentionPart("cross", pairs=True, sides=lambda pair: (pair[1], pair[0])),
    )
}


def choose_part(part: str | None) -> AttentionPart:
    """Return the part of an encoder-decoder by its name, the encoder by default."""
    return PARTS["encoder" if part is None else check_choice("part", part, list(PARTS))]


def layer_calls(
    recorded: "Sequence[AttentionCall]", selects: "Callable[[AttentionCall], bool]"
) -> "list[AttentionCall]":
    """Return the calls that count as layers: those selected that do not pool.

    Calls of one query, which pool, are layers only where there are no others. The report, the
    importance of heads, pruning, effects and the lens all number the layers by this choice.
    """
    calls = [call for call in recorded if selects(call)]
    return [call for call in calls if not call.pools] or calls


@dataclass(frozen=True, eq=False, kw_only=True)
class Checkpoint(ABC):
    """A network whose heads can be recorded: in float32 on the CPU, where it was loaded from files.

    What the network reads is called an item. Kinds of checkpoints are subclasses, which say how the
    network is run on items (`forward`), what an item is, and which items may share a batch.

    Attributes
    ----------
    files : CheckpointFiles or None
        The files that it was loaded from.
    model : nn.Module
        Without dropout and gradients.
    limit : int or None
        Length of the longest text, in tokens; None if the architecture sets no known limit.
    vocabulary : int or None
        Number of token ids; None for a network that reads no texts.
    start : tuple of int
        Ids with which every target begins: what the decoder reads first, then what every output
        begins with. Those of the tokenizer stand in for what the network does not name.
    untrained : tuple of str
        Parameters after the last attention map (the head for a task) that the weights lack and that
        are therefore random.
    words : WordList or None
        The list of its words, for a language model of words.
    tokenizer_path : Path or None
        Folder or file of the tokenizer that was named; None for its own.
    tokenizer : Tokenizer or None
        The tokenizer of its texts, where it is known without files or has been loaded.
    redraw : callable or None
        From a seed to the same architecture with random weights; None if it was not loaded.
    body : Checkpoint or None
        The network without the head that ``task_head=True`` added; it shares the weights.
    notes : tuple of str
        What has to be said of how the network is run.
    device : torch.device or None
        Where its inputs are made; None for the processor.
    guarded : bool
        Whether what the network raises on its inputs becomes a ValueError of one line.
    isolation : Isolation or None
        How a batch is kept from others, where that was tried.
    """

    files: CheckpointFiles | None
    model: Any
    limit: int | None = None
    vocabulary: int | None = None
    part: AttentionPart = PARTS["encoder"]
    start: tuple[int, ...] = ()
    untrained: tuple[str, ...] = ()
    words: WordList | None = None
    tokenizer_path: Path | None = None
    tokenizer: "Tokenizer | None" = None
    redraw: "Callable[[int], Checkpoint] | None" = None
    body: "Checkpoint | None" = None
    notes: tuple[str, ...] = ()
    device: "torch.device | None" = None
    guarded: bool = False
    isolation: "Isolation | None" = None

    @property
    @abstractmethod
    def reads(self) -> str:
        """The kind of item, a key of :data:`~fourierkernels.checkpoints.inputs.INPUT_KINDS`.

        "tokens", a list of token ids; "images", the path of an image file; "sounds", that of a WAV
        file; "pairs", a list of source ids and a list of target ids as the decoder reads them,
        beginning with `start`; "batches", a row of a batch.
        """

    @abstractmethod
    def forward(self, batch: Sequence[Any]) -> Any:
        """Run the model once on a batch of items, padded as needed, and return its output."""

    @abstractmethod
    def labels(self, item: Any) -> tuple[Names, Names]:
        """Return the names of an item's query tokens and of its key tokens, for display."""

    def selects(self, call: "AttentionCall") -> bool:
        """Return whether a recorded call belongs to the part that was asked for."""
        return not call.cross

    def own_calls(self, recorded: "Sequence[AttentionCall]") -> "list[AttentionCall]":
        """Return the calls of the part that are layers: see ``layer_calls``."""
        return layer_calls(recorded, self.selects)

    def padding_key(self, item: Any) -> Hashable:
        """Return a key; items of equal keys may share a batch as far as padding goes.

        It is constant for networks that mask padding, and the length of the item for those that
        would mix padding in.
        """
        return None

    def spans(self, item: Any) -> tuple[int, int] | None:
        """Return the numbers of queries and keys without padding; None for the whole map."""
        return None

    def beginning(self, item: Any, count: int) -> Any:
        """Return the first tokens of an item that has some, or of both texts of a pair."""
        if hasattr(item, "beginning"):
            return item.beginning(count)
        return tuple(side[:count] for side in item) if self.part.pairs else item[:count]

    def without_padding(
        self, item: Any, calls: "Sequence[AttentionCall]", row: int
    ) -> tuple[Any, int, str]:
        """Return an item without padding, how much was cut away, and what else gets no weight.

        Padding is what is said to be so at the end of a row of a batch, and is seen by no query in
        the maps of all calls; weights may be zero for other reasons.

        Parameters
        ----------
        calls : sequence of AttentionCall
            Those of the part.
        row : int
            Place of the item in its batch.
        """
        span = self.spans(item)
        if span is None or not calls:
            return item, 0, ""
        hidden = ~calls[0].seen_keys(row, *span)
        for call in calls[1:]:
            if not bool(hidden.any()):
                return item, 0, ""
            hidden &= ~call.seen_keys(row, *span)
        unseen: BoolArray = hidden.cpu().numpy()
        last = int(np.cumprod(unseen[::-1]).sum())
        cut = 0
        if 0 < last < len(unseen) and not self.part.pairs and hasattr(item, "padding_at_end"):
            cut = item.padding_at_end(last)
        shorter = self.beginning(item, len(item) - cut) if cut else item
        if self.spans(shorter) != (span[0] - cut, span[1] - cut):
            return item, 0, _without_weight(unseen)
        return shorter, cut, _without_weight(unseen[: len(unseen) - cut])

    def special(self, item: Any) -> BoolArray | None:
        """Return which keys of an item are special tokens, ``(m,)``; None if that is unknown."""
        return None

    def image_tokens(self, item: Any) -> BoolArray | None:
        """Return which keys of an item stand for pieces of an image; None if none do."""
        return None

    @property
    def positions(self) -> FloatArray | None:
        """Row and column of each token of an image, in patches, ``(n, 2)``; None for others.

        Tokens that are not patches (class, teacher, registers) are placed at the centre, at most
        half a diagonal from any patch.
        """
        return None

    def run(self, batch: Sequence[Any]) -> Any:
        """Run the model once on a batch of items where it is, and return its output.

        What its heads compute is recorded by
        :func:`~fourierkernels.checkpoints.recorders.recording.recording`.
        """
        if self.isolation is not None:
            return self.isolation.run(self._run, batch)
        return self._run(batch)

    def _run(self, batch: Sequence[Any]) -> Any:
        forward = self._guarded if self.guarded else self.forward
        if self.device is None:
            return forward(batch)
        from fourierkernels.checkpoints.contexts import computing_on  # needs torch

        with computing_on(self.device):
            return forward(batch)

    def _guarded(self, batch: Sequence[Any]) -> Any:
        try:
            return self.forward(batch)
        except (ValueError, MemoryError):  # which say what is wrong
            raise
        except Exception as error:
            reason = next(iter(str(error).strip().splitlines()), "")
            raise ValueError(
                f"network must run on its inputs, but {type(self.model).__name__} fails on "
                f"{_described(batch)}: {type(error).__name__}: {reason}"
            ) from error

    def batch_key(self, item: Any) -> Hashable:
        """Return a key; items of equal keys may share a batch."""
        key = self.padding_key(item)
        return key if self.isolation is None else self.isolation.batch_key(key, self.spans(item))

    @property
    def name(self) -> str:
        """The checkpoint as it was asked for; the class of the model where it was not loaded."""
        return type(self.model).__name__ if self.files is None else self.files.name

    @property
    def folder(self) -> Path | None:
        """The folder where tokenizer files lie; None for a file."""
        return None if self.files is None else self.files.folder

    @property
    def reads_texts(self) -> bool:
        """Whether a tokenizer turns texts into what the network reads."""
        return self.vocabulary is not None

    def with_random_weights(self, seed: int = 0) -> "Checkpoint":
        """Return the same architecture with weights drawn anew by its own rule.

        The result is that of :func:`~fourierkernels.checkpoints.load.load_checkpoint` with
        ``random_weights=True``, this seed and otherwise the same options. A head that
        ``task_head=True`` added is left out, because drawing it would change the random numbers
        that the other weights get.

        Raises
        ------
        ValueError
            If the checkpoint was not loaded, so that there is no rule for building it.
        """
        if self.redraw is None:
            raise ValueError(
                f"checkpoint must come from load_checkpoint to be drawn anew, got {self.name}"
            )
        return self.redraw(seed)

    def on_device(self, device: "torch.device") -> Self:
        """Return the same network on a device, where it is given its inputs."""
        self.model.to(device)
        body = None if self.body is None else self.body.on_device(device)
        return replace(self, device=device, body=body)

    def with_limit(self, most: int | None) -> Self:
        """Return the same network for texts of at most so many tokens; None changes nothing."""
        if most is None:
            return self
        check_integer("max_tokens", most)
        return replace(self, limit=most if self.limit is None else min(most, self.limit))

    def without_task_head(self) -> "Checkpoint":
        """Return the network without the head that ``task_head=True`` added, if there is one.

        The weights are shared and the attention is the same; the scores of the task, which can be
        large, are not computed.
        """
        return self if self.body is None else self.body

    def with_tokenizer(self, tokenizer: "Tokenizer") -> Self:
        """Return the same network with the labels and special tokens of a tokenizer.

        Without one, labels are ids and special tokens are unknown. A network that reads no texts
        is returned as it is.
        """
        if not self.reads_texts:
            return self
        notes = self.notes
        if self.part.pairs and tokenizer.target is None and len(self.start) < 2:
            notes = (*notes, _NO_LANGUAGE)
        return replace(self, tokenizer=tokenizer, notes=notes)


def _without_weight(unseen: BoolArray) -> str:
    """Return a sentence on keys that no query gives weight to; empty if there are none."""
    places = np.flatnonzero(unseen) + 1
    if not len(places):
        return ""
    ends = f"{places[0]} to {places[-1]}" if len(places) > 1 else f"{places[0]}"
    return f"{len(places)} of {len(unseen)} keys, within {ends}, get no weight from any query"


def _described(batch: Sequence[Any]) -> str:
    """Return what was in a batch, for a message."""
    first = batch[0]
    if isinstance(first, Path):
        return first.name
    if isinstance(first, tuple):
        return f"pairs of up to {max(len(side) for pair in batch for side in pair)} tokens"
    return f"texts of up to {max(map(len, batch))} tokens" if hasattr(first, "__len__") else "them"


@dataclass(frozen=True, eq=False, kw_only=True)
class TokenCheckpoint(Checkpoint):
    """A network that reads token ids, or pairs of them, and masks padding."""

    @property
    def reads(self) -> str:
        """Lists of ids, or pairs of lists."""
        return "pairs" if self.part.pairs else "tokens"

    def spans(self, item: Any) -> tuple[int, int] | None:
        """Return the numbers of ids on both sides."""
        queries, keys = self.part.sides(item)
        return len(queries), len(keys)

    def labels(self, item: Any) -> tuple[Names, Names]:
        """Return tokens if the tokenizer is known, ids otherwise."""
        queries, keys = self.part.sides(item)
        if self.tokenizer is None:
            return tuple(map(str, queries)), tuple(map(str, keys))
        return self.tokenizer.names(queries), self.tokenizer.names(keys)

    def special(self, item: Any) -> BoolArray | None:
        """Return the special tokens of the tokenizer, if it is known and has some."""
        marks = self.tokenizer.special if self.tokenizer is not None else frozenset()
        keys = np.asarray(self.part.sides(item)[1], dtype=np.int64)
        return np.isin(keys, sorted(marks)) if marks else None
