"""Where the networks of a report come from: files, or memory."""

import warnings
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import nn

from fourierkernels.checkpoints import Checkpoint, CheckpointFiles
from fourierkernels.checkpoints.batches import Batches, batch_rows, tensors_digest
from fourierkernels.checkpoints.contexts import check_device, left_as_it_was
from fourierkernels.checkpoints.in_memory import batch_checkpoint, model_checkpoint, model_tokenizer
from fourierkernels.checkpoints.load import load_files
from fourierkernels.checkpoints.options import LoadOptions
from fourierkernels.checkpoints.tokens import Tokenizer
from fourierkernels.report.content import without_folders


class Source(Protocol):
    """A network that a report is about: it is loaded, or drawn anew, whenever it is measured."""

    @property
    def name(self) -> str:
        """What the report calls it."""

    def load(self, *, task_head: bool = False) -> Checkpoint:
        """Return the network."""

    def draw(self, seed: int) -> Checkpoint | None:
        """Return the same architecture with random weights; None if there is no rule for it."""

    def digest(self) -> str:
        """Return the SHA-256 of its weights."""

    def borrowed(self) -> AbstractContextManager[None]:
        """Return what must last as long as the network is used."""


@dataclass(frozen=True)
class FileSource:
    """A checkpoint in files.

    Attributes
    ----------
    device : str or None
        Where the network computes.
    """

    files: CheckpointFiles
    options: LoadOptions
    device: str | None = None

    @property
    def name(self) -> str:
        """The checkpoint as it was asked for."""
        return self.files.name

    def load(self, *, task_head: bool = False) -> Checkpoint:
        """Load it; the head for its task too, if asked for."""
        return self._placed(load_files(self.files, self.options, task_head=task_head))

    def draw(self, seed: int) -> Checkpoint:
        """Build it with random weights."""
        return self._placed(load_files(self.files, self.options, random_weights=True, seed=seed))

    def digest(self) -> str:
        """Return the SHA-256 of its files."""
        return self.files.digest()

    def borrowed(self) -> AbstractContextManager[None]:
        """Nothing is borrowed."""
        return nullcontext()

    def _placed(self, checkpoint: Checkpoint) -> Checkpoint:
        if self.device is None:
            return checkpoint
        return checkpoint.on_device(torch.device(check_device(self.device)))


@dataclass(frozen=True)
class ModelSource:
    """A model in memory, which is left as it was.

    Attributes
    ----------
    tokenizer : object
        As :func:`~fourierkernels.checkpoints.in_memory.model_tokenizer` takes it.
    inputs : iterable
        What is to be read.
    tokens : str
        "auto", or "ids" for texts that are ids.
    """

    model: nn.Module
    inputs: Any
    tokenizer: Any = None
    part: str | None = None
    tokens: str = "auto"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.tokens not in ("auto", "ids"):
            raise ValueError(
                f"tokens must be auto or ids for a model in memory, got {self.tokens!r}: "
                "give a tokenizer"
            )

    @property
    def name(self) -> str:
        """The class of the model, and the name that its configuration has."""
        kind = type(self.model).__name__
        named = str(getattr(getattr(self.model, "config", None), "name_or_path", None) or "")
        return f"{kind} ({without_folders(named)})" if named else kind

    def load(self, *, task_head: bool = False) -> Checkpoint:
        """Return the model as a checkpoint."""
        given = self._tokenizer()
        if isinstance(self.inputs, Batches):
            first = next(batch_rows(self.inputs))
            return batch_checkpoint(self.model, first, tokenizer=given, part=self.part)
        checkpoint = model_checkpoint(self.model, tokenizer=given, part=self.part)
        if checkpoint.reads_texts and given is None and self.tokens == "auto":
            raise ValueError(
                "tokenizer must be given for texts and a model in memory, got None and none that "
                f"can be read for {self.name}: head_report(model, texts, tokenizer=...)"
            )
        return checkpoint

    def draw(self, seed: int) -> Checkpoint | None:
        """Build it with random weights, if there is a rule."""
        loaded = self.load()
        if loaded.redraw is None:
            warnings.warn(
                f"no random weights beside {self.name}: a model in memory is drawn anew if its "
                "class is one of transformers or of this package; give another one with random "
                "weights (baseline=MODEL), or baseline=False",
                stacklevel=2,
            )
            return None
        return loaded.with_random_weights(seed).without_task_head()

    def _tokenizer(self) -> Tokenizer | None:
        """Return the given tokenizer, or one that is found and can be read; not for ids."""
        if self.tokenizer is not None:
            return model_tokenizer(self.model, self.tokenizer)
        with suppress(ValueError):
            return None if self.tokens == "ids" else model_tokenizer(self.model)
        return None

    def digest(self) -> str:
        """Return the SHA-256 of its parameters and buffers."""
        state = self.model.state_dict()
        return tensors_digest(pair for pair in state.items() if isinstance(pair[1], torch.Tensor))

    def borrowed(self) -> AbstractContextManager[None]:
        """Return the context that leaves the model as it was."""
        return left_as_it_was(self.model, seed=self.seed)
