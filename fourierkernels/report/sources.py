"""What a report measures: networks from files or memory, and the inputs that all of them read."""

import hashlib
import warnings
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import nn

from fourierkernels.checkpoints import (
    Checkpoint,
    CheckpointFiles,
    TextFile,
    read_images,
    read_sounds,
    read_texts,
)
from fourierkernels.checkpoints.batches import (
    Batches,
    as_batches,
    batch_rows,
    holds_batches,
    tensors_digest,
)
from fourierkernels.checkpoints.contexts import check_device, left_as_it_was
from fourierkernels.checkpoints.in_memory import batch_checkpoint, model_checkpoint, model_tokenizer
from fourierkernels.checkpoints.input_files import SOUND_FORMATS
from fourierkernels.checkpoints.load import load_files
from fourierkernels.checkpoints.options import LoadOptions
from fourierkernels.checkpoints.run_vocabularies import find_words
from fourierkernels.checkpoints.tokens import Tokenizer
from fourierkernels.foundation.run_folder import VOCABULARY
from fourierkernels.report.options import ReportOptions


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
        """The class of the model."""
        return type(self.model).__name__

    def load(self, *, task_head: bool = False) -> Checkpoint:
        """Return the model as a checkpoint."""
        given = self._tokenizer()
        if isinstance(self.inputs, Batches):
            first = next(batch_rows(self.inputs))
            return batch_checkpoint(self.model, first, tokenizer=given, part=self.part)
        found = model_checkpoint(self.model, tokenizer=given, part=self.part)
        if found.reads_texts and given is None and self.tokens == "auto":
            raise ValueError(
                "tokenizer must be given for texts and a model in memory, got None and none that "
                f"can be read for {self.name}: head_report(model, texts, tokenizer=...)"
            )
        return found

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


class Inputs(Protocol):
    """What can be read again for every network: a list, or texts or images in files."""

    def __iter__(self) -> Iterator[Any]:
        """Yield texts, pairs of texts, or paths of images."""


def choose_inputs(
    inputs: str | Path | Inputs | None,
    files: CheckpointFiles,
    other: CheckpointFiles | None,
    options: ReportOptions,
) -> Inputs:
    """Return inputs that every network reads again: what was given, or what a run keeps.

    Parameters
    ----------
    inputs : str, Path, Inputs or None
        A path is that of texts, of images or of sounds.

    Raises
    ------
    TypeError
        For an iterator, which is read once.
    ValueError
        As for :func:`own_inputs`.
    """
    if inputs is None:
        return own_inputs(files, other)
    if isinstance(inputs, str | Path):
        if Path(inputs).is_dir():
            return _read_folder(Path(inputs))
        return read_texts(inputs, blank_lines=keeps_blank_lines(files, options))
    if isinstance(inputs, Iterator):
        raise TypeError("inputs must be readable twice, a list or a text file, got an iterator")
    return inputs


def inputs_in_memory(inputs: Any) -> Inputs:
    """Return what a model in memory reads: texts, pairs, paths of images, or ready batches.

    Raises
    ------
    TypeError
        If it is none of these, or an iterator, which is read once.
    ValueError
        If a file cannot be read, or there is no input at all.
    """
    if inputs is None:
        raise TypeError("inputs must be texts or batches for a model in memory, got None")
    if isinstance(inputs, str | Path):
        return _read_folder(Path(inputs)) if Path(inputs).is_dir() else read_texts(inputs)
    if isinstance(inputs, Iterator) or not isinstance(inputs, Iterable):
        raise TypeError(
            "inputs must be texts or batches that can be read twice, such as a list, "
            f"got {type(inputs).__name__}"
        )
    with torch.random.fork_rng(devices=[]):  # a DataLoader draws a seed whenever it is read
        return as_batches(inputs) if holds_batches(inputs) else inputs


def _read_folder(folder: Path) -> Inputs:
    """Return the sounds in a folder if it has any, else its images."""
    sounds = any(path.suffix.lower() in SOUND_FORMATS for path in folder.rglob("*"))
    return read_sounds(folder) if sounds else read_images(folder)


def keeps_blank_lines(files: CheckpointFiles, options: ReportOptions) -> bool:
    """Return whether empty lines of a text are texts, as in the training of a language model."""
    load = options.load
    words = find_words(files, vocabulary=load.vocabulary, published=load.preset is not None)
    return options.read.tokens != "ids" and words is not None and words.blank_lines


def own_inputs(files: CheckpointFiles, other: CheckpointFiles | None = None) -> TextFile:
    """Return the token ids that a training run keeps of its test text, a context per line.

    Parameters
    ----------
    other : CheckpointFiles, optional
        Another checkpoint that is to read them.

    Raises
    ------
    ValueError
        If the checkpoint is of no training run, its run keeps none, or the other one is of a run
        with other words.
    """
    ids = files.own_ids()
    if ids is None or not ids.is_file():
        found = "" if ids is None else f" and no {ids}"
        raise ValueError(
            "text, ids, images or sounds must be given, one of them: --text FILE, --ids FILE, "
            f"--images FOLDER or --sounds FOLDER, got none{found}"
        )
    words = [_words(one) for one in (files, other) if one is not None and one.run is not None]
    if len(set(words)) > 1:
        raise ValueError(
            f"against must have the words of {files} to read its {ids.name}, got {other}"
        )
    return read_texts(ids)


def inputs_digest(inputs: Any) -> str:
    """Return the SHA-256 of files, or of other inputs as if a file held one per line."""
    if hasattr(inputs, "sha256"):
        return str(inputs.sha256)
    return hashlib.sha256("".join(f"{one}\n" for one in inputs).encode()).hexdigest()


def _words(files: CheckpointFiles) -> bytes | None:
    file = None if files.run is None else files.run / VOCABULARY
    return file.read_bytes() if file is not None and file.is_file() else None
