"""A network whose heads can be recorded, whatever it was loaded from and whatever it reads.

No framework is needed here: :mod:`fourierkernels.checkpoints.load` loads.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fourierkernels.arrays import BoolArray, FloatArray
from fourierkernels.checkpoints.find import CheckpointFiles
from fourierkernels.validation import check_choice

if TYPE_CHECKING:
    from fourierkernels.checkpoints.recorders.call import AttentionCall
    from fourierkernels.checkpoints.tokens import Tokenizer

Ids = Sequence[int]


@dataclass(frozen=True)
class AttentionPart:
    """Which attention of an encoder-decoder is recorded.

    "encoder": source tokens among themselves; "decoder": target tokens among themselves; "cross":
    target tokens to source tokens.

    Attributes
    ----------
    pairs : bool
        Whether it takes a source and a target to run it.
    sides : callable
        From an input to the token ids along the queries and along the keys.
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
    """A network, in float32 on the CPU, whose heads can be recorded.

    `reads` names what it reads, an item below, by a key of
    :data:`~fourierkernels.checkpoints.inputs.INPUT_KINDS`: "tokens", a list of token ids; "images",
    the path of an image file; "pairs", a list of source ids and one of target ids as the decoder
    reads them, which begins with `start`.

    Attributes
    ----------
    files : CheckpointFiles or None
        What it was loaded from.
    model : nn.Module
        Without dropout and gradients.
    limit : int or None
        Longest text in tokens; None if the architecture sets none that is known.
    vocabulary : int or None
        Number of token ids; None for a network that reads no texts.
    run : callable
        Runs the model once on a batch of items, padded as needed, and returns its output. What
        its heads compute is recorded by
        :func:`~fourierkernels.checkpoints.recorders.recording.recording`.
    selects : callable
        Whether a recorded call belongs to the part that was asked for.
    batch_key : callable
        Items may share a batch where this is equal. It is constant for networks that leave padding
        out, and the lengths for the others, which would mix padding into the tokens.
    spans : callable
        Numbers of queries and keys of an item without padding; None for the whole map.
    labels : callable
        Names of the query and of the key tokens of an item, for display.
    special : callable or None
        From an item to which keys are special tokens, ``(m,)``; None if that is not known.
    positions : ndarray, shape (n, 2), or None
        Row and column of each token of an image, in patches. Tokens that are no patch (class,
        teacher, registers) stand in the middle of the image: half a diagonal away at most.
    start : tuple of int
        Ids that every target begins with.
    untrained : tuple of str
        Parameters behind the last map, of a task's head, that the weights left at random values.
    redraw : callable or None
        From a seed to the same architecture with random weights; None if it was not loaded.
    body : Checkpoint or None
        The network inside the head for its task, the weights being shared.
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
    redraw: "Callable[[int], Checkpoint] | None" = None
    body: "Checkpoint | None" = None

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

        A head that ``task_head=True`` added is left out, so that the weights do not depend on it:
        they are those of :func:`~.load.load_checkpoint` with ``random_weights=True``, this seed
        and otherwise the same options.

        Raises
        ------
        ValueError
            If the checkpoint was not loaded, so that how to build it is not known.
        """
        if self.redraw is None:
            raise ValueError(f"checkpoint must have been loaded to be redrawn, got {self.name}")
        return self.redraw(seed)

    def without_task_head(self) -> "Checkpoint":
        """Return the network without the head that ``task_head=True`` added, if there is one.

        The weights are shared. What the attention heads compute is the same, and scores of tokens
        are not computed in vain.
        """
        return self if self.body is None else self.body

    def with_tokenizer(self, tokenizer: "Tokenizer") -> "Checkpoint":
        """Return the same network, its labels and special tokens being those of a tokenizer.

        Before, labels are ids and special tokens are not known. Networks that read no texts are
        left as they are.
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

        return replace(self, labels=labels, special=special if marks else None)


def token_fields(part: AttentionPart) -> dict[str, Any]:
    """Return the fields of a checkpoint that reads ids and can leave padding out."""

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
        Rows and columns of patches, which come after all other tokens; None if the tokens are not
        the patches of one grid.
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
