"""A network whose heads can be recorded, whatever it was loaded from and whatever it reads.

No framework is imported here; :func:`fourierkernels.checkpoints.load.load_checkpoint` needs one.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fourierkernels.checkpoints.find import CheckpointFiles
from fourierkernels.checkpoints.word_lists import WordList
from fourierkernels.foundation.arrays import BoolArray, FloatArray
from fourierkernels.foundation.validation import check_choice, check_integer

if TYPE_CHECKING:
    from fourierkernels.checkpoints.recorders.call import AttentionCall
    from fourierkernels.checkpoints.tokens import Tokenizer

Ids = Sequence[int]

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


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A network whose heads can be recorded: in float32 on the CPU, where it was loaded from files.

    What the network reads is called an item. The kind of item is `reads`, a key of
    :data:`~fourierkernels.checkpoints.inputs.INPUT_KINDS`: "tokens", a list of token ids; "images",
    the path of an image file; "sounds", that of a WAV file; "pairs", a list of source ids and a
    list of target ids as the decoder reads them, beginning with `start`; "batches", a row of a
    batch.

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
    run : callable
        Runs the model once on a batch of items, padded as needed, and returns its output. What
        its heads compute is recorded by
        :func:`~fourierkernels.checkpoints.recorders.recording.recording`.
    selects : callable
        Whether a recorded call belongs to the part that was asked for.
    batch_key : callable
        From an item to a key; items with equal keys may share a batch. It is constant for networks
        that mask padding, and the length of the item for those that would mix padding in.
    spans : callable
        From an item to its numbers of queries and keys without padding; None for the whole map.
    labels : callable
        From an item to the names of its query tokens and of its key tokens, for display.
    special : callable or None
        From an item to a mask of the keys that are special tokens, ``(m,)``; None if unknown.
    positions : ndarray, shape (n, 2), or None
        Row and column of each token of an image, in patches. Tokens that are not patches (class,
        teacher, registers) are placed at the centre, at most half a diagonal from any patch.
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
    redraw : callable or None
        From a seed to the same architecture with random weights; None if it was not loaded.
    body : Checkpoint or None
        The network without the head that ``task_head=True`` added; it shares the weights.
    tokenizer : Tokenizer or None
        The tokenizer of its texts, where it is known without files.
    notes : tuple of str
        What has to be said of how the network is run.
    """

    files: CheckpointFiles | None
    model: Any
    limit: int | None
    vocabulary: int | None
    reads: str
    run: Callable[[Sequence[Any]], Any]
    selects: Callable[["AttentionCall"], bool]
    batch_key: Callable[[Any], Hashable]
    spans: Callable[[Any], tuple[int, int] | None]
    labels: Callable[[Any], tuple[tuple[str, ...], tuple[str, ...]]]
    special: Callable[[Any], BoolArray] | None = None
    positions: FloatArray | None = None
    start: tuple[int, ...] = ()
    untrained: tuple[str, ...] = ()
    part: AttentionPart = PARTS["encoder"]
    words: WordList | None = None
    tokenizer_path: Path | None = None
    redraw: "Callable[[int], Checkpoint] | None" = None
    body: "Checkpoint | None" = None
    tokenizer: "Tokenizer | None" = None
    notes: tuple[str, ...] = ()

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

    def with_limit(self, most: int | None) -> "Checkpoint":
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

    def with_tokenizer(self, tokenizer: "Tokenizer") -> "Checkpoint":
        """Return the same network with the labels and special tokens of a tokenizer.

        Without one, labels are ids and special tokens are unknown. A network that reads no texts
        is returned as it is.
        """
        if not self.reads_texts:
            return self
        sides = self.part.sides

        def labels(item: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
            queries, keys = sides(item)
            return tokenizer.names(queries), tokenizer.names(keys)

        marks = tokenizer.special

        def special(item: Any) -> BoolArray:
            return np.isin(np.asarray(sides(item)[1], dtype=np.int64), sorted(marks))

        notes = self.notes
        if self.part.pairs and tokenizer.target is None and len(self.start) < 2:
            notes = (*notes, _NO_LANGUAGE)
        return replace(self, labels=labels, special=special if marks else None, notes=notes)


def token_fields(part: AttentionPart) -> dict[str, Any]:
    """Return the fields of a checkpoint that reads token ids and masks padding."""

    def spans(item: Any) -> tuple[int, int]:
        queries, keys = part.sides(item)
        return len(queries), len(keys)

    def labels(item: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
        queries, keys = part.sides(item)
        return tuple(map(str, queries)), tuple(map(str, keys))

    return {
        "reads": "pairs" if part.pairs else "tokens",
        "part": part,
        "spans": spans,
        "labels": labels,
        "batch_key": lambda item: None,
    }


def image_fields(n: int, grid: tuple[int, int] | None) -> dict[str, Any]:
    """Return the fields of a checkpoint that reads images as `n` tokens.

    Parameters
    ----------
    grid : (int, int) or None
        Rows and columns of patches, which come after all other tokens; None if the tokens do not
        form one grid of patches.
    """
    rows, columns = grid or (0, 0)
    extra = n - rows * columns
    places = [(float(r), float(c)) for r in range(rows) for c in range(columns)]
    if grid is None:
        names = tuple(f"token {i}" for i in range(n))
    else:
        marks = ("class", *(f"extra {i}" for i in range(1, extra)))[:extra]
        names = (*marks, *(f"patch {int(r)},{int(c)}" for r, c in places))
    middle = [((rows - 1) / 2, (columns - 1) / 2)] * extra
    return {
        "reads": "images",
        "limit": None,
        "vocabulary": None,
        "batch_key": lambda item: None,
        "spans": lambda item: None,
        "labels": lambda item: (names, names),
        "special": None if grid is None else lambda item: np.arange(n) < extra,
        "positions": None if grid is None else np.array([*middle, *places]),
    }
