"""What a run leaves on disk as it goes: checkpoints, those of them that stay, and its curve.

Folders of checkpoints: .safetensors and JSON, written completely or not at all.

A checkpoint has ``model.safetensors`` (weights, class and configuration of the model, as
:func:`fourierkernels.models.save_model` writes them), ``optimiser.safetensors``,
``random.safetensors``, ``trainer_state.json`` (the curve so far and the best step) and
``checkpoint.json``, which names the others with their digests.

Which checkpoints stay: the best, the last, and those before the last until it has proved good.

A checkpoint may hold parameters that an update has ruined without one of them being infinite. It is
good when they have been validated, or when the next update from them was healthy.
"""

import json
import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from fourierkernels.foundation.files import file_digest, write_folder, write_table
from fourierkernels.models.tensor_files import read_metadata, read_tensors
from fourierkernels.studies.engine.recipe import Recipe

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


def last_regular(output: Path, regular: Callable[[int], bool], most: int) -> list[int]:
    """Return the last steps that have a checkpoint in a folder and would have it in any case."""
    found = [step for step in checkpoint_steps(output) if regular(step)]
    return found[len(found) - min(most, len(found)) :]


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


class Keeper:
    """Deletes checkpoints in time.

    Parameters
    ----------
    output : Path
        Where they lie.
    deletes : bool
        Whether this is the process that does it.
    regular : callable
        Whether a step has a checkpoint by the recipe, and not because a run was interrupted there.
    last : int
        How many last ones of these stay, to be averaged.
    """

    def __init__(
        self, output: Path, *, deletes: bool, regular: Callable[[int], bool], last: int
    ) -> None:
        self._output, self._deletes = output, deletes
        self._regular, self._last_ones = regular, last
        self._last: int | None = None  # not yet proved good
        self._kept: set[int] = set()

    def saved(self, step: int, best: int | None, *, proved: bool) -> None:
        """Take note of a new checkpoint and of the best one."""
        self._last, self._kept = step, {step, step if best is None else best}
        if proved:
            self.prove()

    def prove(self) -> None:
        """Delete what came before the last checkpoint, which is good, and is not the best."""
        if self._last is not None and self._deletes:
            averaged = last_regular(self._output, self._regular, self._last_ones)
            keep_only(self._output, self._kept | set(averaged))
        self._last = None

    def reject(self, step: int) -> None:
        """Delete the last checkpoint if the update that failed was the first one from it."""
        if self._last is not None and self._last + 1 == step and self._deletes:
            shutil.rmtree(checkpoint_folder(self._output, self._last))


CURVE_TABLE = "curve.csv"
OF_TEST = "test_"
_VALIDATED, _OWN_LOSS = "eval_", "eval_loss"
# Column -> what the Trainer calls it; what else an objective validates has a column valid_NAME, or
# NAME if it is of the test.
_COLUMNS = {
    "step": "step",
    "loss": "loss",
    "grad_norm": "grad_norm",
    "learning_rate": "learning_rate",
    "valid_loss": _OWN_LOSS,
}

Entry = Mapping[str, Any]  # of the history that the Trainer keeps, which names its numbers itself


def curve_rows(history: Iterable[Entry]) -> list[dict[str, Any]]:
    """Return one row per step of the history that the Trainer keeps."""
    rows: dict[int, dict[str, Any]] = {}
    entries = [entry for entry in history if "loss" in entry or _OWN_LOSS in entry]
    columns = _columns(entries)
    for entry in entries:
        row = rows.setdefault(entry["step"], dict.fromkeys(columns, ""))
        row |= {ours: entry[theirs] for ours, theirs in columns.items() if theirs in entry}
    return [rows[step] for step in sorted(rows)]


def is_over(recipe: Recipe, step: int, history: Iterable[Entry]) -> bool:
    """Return whether all updates are made, or the last validations were without progress."""
    if step >= recipe.steps:
        return True
    losses = [entry[_OWN_LOSS] for entry in history if _OWN_LOSS in entry]
    if recipe.patience is None or not losses:
        return False
    return len(losses) - 1 - losses.index(min(losses)) >= recipe.patience


def write_curve(output: Path, history: Iterable[Entry]) -> None:
    """Write the table, replacing the one of an earlier checkpoint."""
    rows = curve_rows(history)
    write_table(output / CURVE_TABLE, rows, list(rows[0] if rows else _COLUMNS))


def _columns(entries: Iterable[Entry]) -> dict[str, str]:
    """Return the columns, and what the Trainer calls them, for all that was validated."""
    names = (name for entry in entries for name in entry if name.startswith(_VALIDATED))
    return _COLUMNS | {_column(name.removeprefix(_VALIDATED)): name for name in names}


def _column(name: str) -> str:
    return name if name.startswith(OF_TEST) else f"valid_{name}"
