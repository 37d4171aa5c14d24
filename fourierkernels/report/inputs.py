"""What a report measures on: what was given, or what a training run keeps of its test text."""

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import torch

from fourierkernels.checkpoints import (
    CheckpointFiles,
    TextFile,
    read_images,
    read_sounds,
    read_texts,
)
from fourierkernels.checkpoints.batches import as_batches, holds_batches
from fourierkernels.checkpoints.formats.package_models import refuse_unread
from fourierkernels.checkpoints.input_files import SOUND_FORMATS
from fourierkernels.checkpoints.word_lists import find_words
from fourierkernels.foundation.run_folder import VOCABULARY
from fourierkernels.report.options import ReportOptions


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
        with other words; or if it holds a model that is not read.
    """
    ids = files.own_ids()
    if ids is None or not ids.is_file():
        refuse_unread(files.path)  # no inputs would do
        without = "" if ids is None else f" and no {ids}"
        raise ValueError(
            "text, ids, images or sounds must be given, one of them: --text FILE, --ids FILE, "
            f"--images FOLDER or --sounds FOLDER, got none{without}"
        )
    words = [
        _words(source) for source in (files, other) if source is not None and source.run is not None
    ]
    if len(set(words)) > 1:
        raise ValueError(
            f"against must have the words of {files} to read its {ids.name}, got {other}"
        )
    return read_texts(ids)


def inputs_digest(inputs: Any) -> str:
    """Return the SHA-256 of files, or of other inputs as if a file held one per line.

    Where some have several lines, their numbers of lines stand behind them all. The path of a file
    stands with the digest of the file.
    """
    if hasattr(inputs, "sha256"):
        return str(inputs.sha256)
    texts = [f"{each}{_content(each)}\n" for each in inputs]
    lines = [text.count("\n") for text in texts]
    ends = f"{lines}" if max(lines, default=1) > 1 else ""
    return hashlib.sha256("".join([*texts, ends]).encode()).hexdigest()


def _content(one: Any) -> str:
    """Return the digest of a file that an input is the path of; nothing for any other."""
    with suppress(OSError):  # of a text that is longer than any path
        if isinstance(one, str | Path) and Path(one).is_file():
            return f" {hashlib.sha256(Path(one).read_bytes()).hexdigest()}"
    return ""


def _words(files: CheckpointFiles) -> bytes | None:
    file = None if files.run is None else files.run / VOCABULARY
    return file.read_bytes() if file is not None and file.is_file() else None
