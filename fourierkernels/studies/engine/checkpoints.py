"""Folders of checkpoints: .safetensors and JSON, written completely or not at all.

A checkpoint has ``model.safetensors`` (weights, class and configuration of the model, as
:func:`fourierkernels.models.save_model` writes them), ``optimiser.safetensors``,
``random.safetensors``, ``trainer_state.json`` (the curve so far and the best step) and
``checkpoint.json``, which names the others with their digests.
"""

import json
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from fourierkernels.foundation.files import file_digest, write_folder
from fourierkernels.models.tensor_files import read_metadata, read_tensors

FORMAT = 1
MANIFEST = "checkpoint.json"
MODEL, OPTIMISER, RANDOM = "model.safetensors", "optimiser.safetensors", "random.safetensors"
CURVE = "trainer_state.json"
_NAME = re.compile(r"checkpoint-(\d+)")


@dataclass(frozen=True)
class SavedStep:
    """A checkpoint whose files are whole.

    Attributes
    ----------
    folder : Path
        Where it lies.
    step : int
        Updates made.
    processes : int
        Processes that trained together.
    """

    folder: Path
    step: int
    processes: int

    def tensors(self, name: str) -> dict[str, Tensor]:
        """Return the tensors of one of its files."""
        return read_tensors(self.folder / name)

    def texts(self, name: str) -> dict[str, str]:
        """Return the texts in the head of one of its files."""
        return read_metadata(self.folder / name)


def checkpoint_folder(output: Path, step: int) -> Path:
    """Return where the checkpoint of a step lies."""
    return output / f"checkpoint-{step}"


def checkpoint_steps(output: Path) -> list[int]:
    """Return the steps that have a checkpoint in a folder, in order."""
    names = [path.name for path in output.iterdir()] if output.is_dir() else []
    return sorted(int(found[1]) for name in names if (found := _NAME.fullmatch(name)))


def last_good(output: Path) -> str:
    """Return where the last checkpoint is, as the end of a sentence."""
    steps = checkpoint_steps(output)
    if not steps:
        return "there is no checkpoint"
    return f"the last good checkpoint is {checkpoint_folder(output, steps[-1])}"


def write_checkpoint(output: Path, step: int, processes: int, fill: Callable[[Path], None]) -> Path:
    """Write the checkpoint of a step and return its folder; one that exists already stays.

    Parameters
    ----------
    fill : callable
        Writes the files into the folder that it is given.

    Raises
    ------
    OSError
        If it cannot be written; the message names the last one that there is.
    """

    def fill_and_sign(folder: Path) -> None:
        fill(folder)
        digests = {path.name: file_digest(path) for path in sorted(folder.iterdir())}
        facts = {"format": FORMAT, "step": step, "processes": processes, "files": digests}
        (folder / MANIFEST).write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")

    folder = checkpoint_folder(output, step)
    try:
        write_folder(folder, fill_and_sign)
    except OSError as error:
        raise OSError(
            f"checkpoint of step {step} could not be written ({error}); {last_good(output)}"
        ) from error
    return folder


def read_checkpoint(folder: Path) -> SavedStep:
    """Return a checkpoint after looking at each of its files.

    Raises
    ------
    ValueError
        If the folder is no checkpoint, one of an earlier format, or a file of it is missing, cut
        off or changed.
    """
    manifest = folder / MANIFEST
    if not manifest.is_file():
        raise ValueError(f"checkpoint must be a folder with {MANIFEST}, got {folder}")
    try:
        facts = json.loads(manifest.read_text(encoding="utf-8"))
        written, files = facts["format"], facts["files"]
        step, processes = int(facts["step"]), int(facts["processes"])
        names = dict(files)
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{manifest} must describe a checkpoint, got {error!r}") from error
    if written != FORMAT:
        raise ValueError(f"{folder} must have format {FORMAT} of checkpoints, got {written}")
    _check_files(folder, names)
    return SavedStep(folder, step, processes)


def last_checkpoint(output: Path) -> SavedStep:
    """Return the latest checkpoint in a folder.

    Raises
    ------
    ValueError
        If there is none, or it is damaged.
    """
    steps = checkpoint_steps(output)
    if not steps:
        raise ValueError(f"resume needs a checkpoint, got none in {output}")
    return read_checkpoint(checkpoint_folder(output, steps[-1]))


def keep_only(output: Path, steps: set[int]) -> None:
    """Delete the checkpoints of all other steps."""
    for step in checkpoint_steps(output):
        if step not in steps:
            shutil.rmtree(checkpoint_folder(output, step))


def read_curve(folder: Path) -> Mapping[str, Any]:
    """Return the curve and the best step that a checkpoint records.

    Raises
    ------
    ValueError
        If they are not those that the Trainer writes.
    """
    file = folder / CURVE
    try:
        state = json.loads(file.read_text(encoding="utf-8"))
        wrong = {"log_history", "best_global_step", "global_step"} - state.keys()
        steps = [entry["step"] for entry in state["log_history"]] if not wrong else []
    except (OSError, ValueError, TypeError, AttributeError, KeyError) as error:
        raise ValueError(f"{file} must be a state of the Trainer, got {error!r}") from error
    if wrong or any(not isinstance(step, int) for step in steps):
        raise ValueError(f"{file} must be a state of the Trainer, got another file")
    found: Mapping[str, Any] = state
    return found


def _check_files(folder: Path, files: Mapping[str, str]) -> None:
    for name in (MODEL, OPTIMISER, RANDOM, CURVE):
        if name not in files:
            raise ValueError(f"{folder / MANIFEST} must name {name}, got none")
    for name, digest in files.items():
        path = folder / Path(name).name
        if not path.is_file():
            raise ValueError(f"{folder} must have {name}, got no such file")
        if file_digest(path) != digest:
            raise ValueError(f"{path} must be as it was written, got a file cut off or changed")
