"""A run of a study: from data on disk to a trained model, its curve and its numbers."""

import os
import signal
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import nn

from fourierkernels.foundation.device import default_device
from fourierkernels.foundation.files import claimed, remove_unfinished
from fourierkernels.foundation.progress import paused
from fourierkernels.foundation.run_folder import BEST, RESULTS, weights_file
from fourierkernels.models.saved import load_model
from fourierkernels.studies.engine.checkpoints import (
    checkpoint_steps,
    is_over,
    last_checkpoint,
    last_good,
    read_curve,
    write_curve,
)
from fourierkernels.studies.engine.distillation import load_teacher, objective_of
from fourierkernels.studies.engine.measuring import beside_the_paper, measure_best
from fourierkernels.studies.engine.prepared import prepared
from fourierkernels.studies.engine.recipe import Recipe
from fourierkernels.studies.engine.run_setup import (
    Setup,
    load_setup,
    read_data,
    run_folder,
    save_setup,
)
from fourierkernels.studies.engine.settings import check_changes
from fourierkernels.studies.engine.study import Measured, Objective
from fourierkernels.studies.engine.teacher import check_start, compared
from fourierkernels.studies.engine.trainer import Engine

_FINISHED = (BEST, f"{RESULTS}.json")  # of a run whose checkpoints may have been deleted
_OF_SIGNALS = 128  # plus its number: the status of a program that a signal ended


def train(
    run: Setup,
    output: Path,
    *,
    resume: bool = False,
    limit: int | None = None,
    tensorboard: bool = False,
    workers: int = 0,
    cache: Path | None = None,
) -> list[Measured]:
    """Train a model, keep its best and its last checkpoint, and measure the best.

    With `recipe.average` the mean of the last checkpoints takes the place of the best.

    Parameters
    ----------
    run : Setup
        What to train, see :func:`~fourierkernels.studies.engine.run_setup.setup`.
    output : Path
        Folder of the run. Afterwards it has ``model.safetensors``, the best model, beside
        ``curve.csv``, ``results.csv``, ``results.json``, the checkpoints and what the study leaves:
        the language study ``vocabulary.txt`` and ``test.ids``.
    resume : bool
        Go on from the last checkpoint in that folder, or begin anew if there is none yet. Settings
        that change no update may differ from before, and a run may be extended by more steps where
        its rates do not depend on them. On a CPU and with as many processes as before, the result
        is the same, to the bit, as if the run had not been interrupted; with another number of them
        dropout draws other numbers, which a warning says.
    limit : int, optional
        Stop when so many updates have been made in all, those before a resumption included, to be
        resumed later. A run that has made as many already is measured as it is.
    tensorboard : bool
        Write the curve for TensorBoard as well (``tensorboard --logdir OUTPUT``); needs the extra
        of that name.
    workers : int
        Processes that load batches ahead; the result is the same, to the bit, with any number.
    cache : Path, optional
        Folder of token files.

    Returns
    -------
    list of Measured
        None for processes but the first.

    Raises
    ------
    ValueError
        If data cannot be read, the folder belongs to another run, a checkpoint is damaged, the
        teacher is gone, has changed or does not read the data, or the run diverges.
    OSError
        If a checkpoint cannot be written; the last one is kept.
    SystemExit
        After Ctrl-C (with 130) or SIGTERM (143), once the next whole update is saved as a
        checkpoint; a second signal ends the run at once.
    """
    first = int(os.environ.get("RANK", "0")) == 0
    if run.start is not None:
        check_start(run.start)
    data = read_data(run, cache=cache)
    _check_folder(output, run, data.digest, resume=resume)
    begun = time.perf_counter(), time.process_time()
    teacher = load_teacher(run, data)  # draws numbers, too
    model, goal = _untrained(run, data, teacher)
    with claimed(output) if first else nullcontext():
        if first:
            # Again: another run may have ended here while this one read its data.
            _check_folder(output, run, data.digest, resume=resume)
            _begin(output, run, data)
        batches = run.study.batches(run.chosen_preset, data, run.recipe)
        what = (model, goal, batches, run.recipe, output)
        engine = Engine(*what, limit=limit, tensorboard=tensorboard, workers=workers)
        if teacher is not None:
            teacher.to(engine.args.device)
        with paused(), engine.signals:  # the Trainer has a bar of its own
            _train(engine, output, resume=resume, limit=limit)
        _end_if_interrupted(engine, output)
        if not first:
            return []
        seconds = time.perf_counter() - begun[0], time.process_time() - begun[1]
        return measure_best(output, run, data, engine.args.device, seconds)


def evaluate(
    checkpoint: Path,
    *,
    data: str | Path | None = None,
    splits: tuple[str, ...] = ("valid", "test"),
    positions: int | None = None,
    cache: Path | None = None,
) -> list[Measured]:
    """Measure a trained model on the text it was made for, or on another copy of it.

    Parameters
    ----------
    checkpoint : Path
        The folder of a run (for its best model), of one of its checkpoints, or a file of weights.
    data : str or Path, optional
        Where the text is now.
    positions : int, optional
        Windows of the sliding evaluation, or sentences that are translated; all by default.

    Raises
    ------
    ValueError
        If the checkpoint is no such thing or damaged, or the model cannot read the text.
    """
    home = run_folder(checkpoint)
    run, digest = load_setup(home)
    file = weights_file(checkpoint)
    study, preset = run.study, run.chosen_preset
    text = read_data(run, data=data, start=checkpoint, cache=cache)
    if text.digest != digest:
        study.check(home, text)
    model = load_model(file).to(default_device())
    found = study.measure(preset, text, run.mixer.name, model, splits=splits, positions=positions)
    return beside_the_paper(run, home, found, of_best=file.resolve() == (home / BEST).resolve())


def _untrained(run: Setup, data: Any, teacher: nn.Module | None) -> tuple[nn.Module, Objective]:
    """Return the model of a run with random weights, and what it minimises."""
    study, preset = run.study, run.chosen_preset
    torch.manual_seed(run.recipe.seed)
    model = prepared(study.build(preset, data, run.mixer), run.recipe)
    return model, objective_of(run, data, model, teacher)


def _begin(output: Path, run: Setup, data: Any) -> None:
    """Write what a run is into its folder."""
    remove_unfinished(output)
    save_setup(output, run, data.digest)
    run.study.prepare(output, data)


def _train(engine: Engine, output: Path, *, resume: bool, limit: int | None) -> None:
    saved = last_checkpoint(output) if resume and checkpoint_steps(output) else None
    if saved is None:
        engine.train()
        return
    state = read_curve(saved.folder)
    history, best = state["log_history"], state["best_global_step"]
    over = is_over(engine.recipe, saved.step, history)
    if engine.is_world_process_zero():
        write_curve(output, history)  # the run may have died before it came to that
    engine.keeper.saved(saved.step, best, proved=over)
    if not over and (limit is None or saved.step < limit):
        engine.train(resume_from_checkpoint=str(saved.folder))


def _end_if_interrupted(engine: Engine, output: Path) -> None:
    """End as shells expect it of a signal, when the update that it met is saved."""
    number = engine.signals.number
    if not number:
        return
    if engine.is_world_process_zero():
        sys.stderr.write(
            f"interrupted by {signal.Signals(number).name} after update "
            f"{engine.state.global_step}; {last_good(output)}; --resume goes on from there\n"
        )
    raise SystemExit(_OF_SIGNALS + number)


def _check_folder(output: Path, run: Setup, digest: str, *, resume: bool) -> None:
    """Refuse a folder of another run, and one that would be overwritten."""
    if not resume:
        # study.json alone may be that of this run, written by another of its processes.
        if checkpoint_steps(output) or any((output / name).exists() for name in _FINISHED):
            raise ValueError(f"output must be a new folder, or resumed (--resume), got {output}")
        return
    earlier, known = load_setup(output)
    if digest != known:
        raise ValueError(f"data must be those the run in {output} began with, got others")
    made = max(checkpoint_steps(output), default=0)
    check_changes(run.recipe, earlier.recipe, made=made, where=str(output))
    _check_extension(output, run.recipe, earlier.recipe)
    ours, theirs = (
        given.asked() | compared(given.teacher) | {"start": _digest(given)}
        for given in (run, earlier)
    )
    names = [name for name in ours if ours[name] != theirs[name] and name not in {"data", "recipe"}]
    if names:
        raise ValueError(
            f"{names[0]} must be that of the run in {output}, {theirs[names[0]]!r}, "
            f"got {ours[names[0]]!r}"
        )


def _check_extension(output: Path, recipe: Recipe, earlier: Recipe) -> None:
    """Refuse to extend a run that has ended for want of progress, and would end again."""
    if recipe.steps <= earlier.steps or not checkpoint_steps(output):
        return
    last = last_checkpoint(output)
    if is_over(recipe, last.step, read_curve(last.folder)["log_history"]):
        raise ValueError(
            f"patience must be more than {recipe.patience} (or none) to extend the run in {output},"
            f" which made no progress and ended at step {last.step}, got {recipe.patience}"
        )


def _digest(run: Setup) -> str | None:
    """Return what must not change of a start: not where it lies."""
    return None if run.start is None else run.start.digest
