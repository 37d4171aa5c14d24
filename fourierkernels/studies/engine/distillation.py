"""What a run with a teacher minimises: its study's loss and the divergence from the teacher.

Word-level distillation, [kim2016sequence]_ section 3.1, from one model of a study into another, of
any mixer: the report leaves it open ([chen_attention]_ section 7.2). The teacher is in evaluation
mode, gets no gradients, is no part of the model that is trained or saved, and lies whole in each
process.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fourierkernels.foundation.files import file_digest
from fourierkernels.foundation.run_folder import RESULTS, read_results
from fourierkernels.models.losses import distillation_sum
from fourierkernels.models.saved import load_model
from fourierkernels.studies.engine.epochs import Batch
from fourierkernels.studies.engine.prepared import as_precision
from fourierkernels.studies.engine.run_setup import Setup, load_setup
from fourierkernels.studies.engine.study import Objective, TaughtStudy
from fourierkernels.studies.engine.teacher import Teacher, teacher_files


def load_teacher(run: Setup, data: Any) -> nn.Module | None:
    """Return the teacher of a run, in the precision of its recipe; None if it has none.

    Raises
    ------
    ValueError
        If it is gone, has changed, is of another study, or does not read the data of the run.
    """
    if run.teacher is None:
        return None
    home, file = teacher_files(Path(run.teacher.path))
    found = file_digest(file)
    if found != run.teacher.digest:
        raise ValueError(
            f"teacher must be the one that the run began with, weights of SHA-256 "
            f"{run.teacher.digest[:12]}…, got {found[:12]}… in {file}"
        )
    theirs, digest = load_setup(home)
    ours, taught = run.study.name, theirs.study.name
    if taught != ours:
        raise ValueError(f"teacher must be of study {ours}, got one of {taught}: {home}")
    if digest != data.digest:
        _check_data(home, run, data)
    model = as_precision(load_model(file), run.recipe.precision)
    return model.requires_grad_(requires_grad=False)


def objective_of(run: Setup, data: Any, model: nn.Module, teacher: nn.Module | None) -> Objective:
    """Return what a run minimises.

    Raises
    ------
    ValueError
        If the teacher does not predict what the model is to predict.
    """
    study = run.study
    goal = study.objective(run.chosen_preset, data, run.recipe)
    if teacher is None or run.teacher is None or not isinstance(study, TaughtStudy):
        return goal
    _check_alike(teacher, model)
    return _distilled(goal, study, run.recipe.label_smoothing, run.teacher, teacher)


def _distilled(
    goal: Objective,
    study: TaughtStudy[Any, Any, Any],
    smoothing: float,
    chosen: Teacher,
    teacher: nn.Module,
) -> Objective:
    weight, temperature = chosen.weight, chosen.temperature

    def loss(model: nn.Module, batch: Batch) -> Tensor:
        with torch.no_grad():
            theirs = study.scores(teacher, batch).scores
        own = study.scores(model, batch)
        total = distillation_sum(
            own.scores,
            theirs,
            own.words,
            smoothing=smoothing,
            weight=weight,
            temperature=temperature,
        )
        return total / own.count

    # An even guess diverges from a teacher by at most log V; the validation is of the words alone.
    even = goal.even * max(1.0, 1 - weight + weight * temperature**2)
    return replace(goal, loss=loss, even=even)


def _check_data(home: Path, run: Setup, data: Any) -> None:
    """Refuse a teacher of other data that it cannot be shown to read as the run does."""
    if not read_results(home):
        raise ValueError(
            f"teacher must have ended its run, or have the data of this one, "
            f"got other data and no {RESULTS}.json in {home}"
        )
    try:
        run.study.check(home, data)
    except ValueError as error:
        raise ValueError(f"teacher must read the data of the run: {error}") from error


def _check_alike(teacher: Any, model: Any) -> None:
    if type(teacher) is not type(model):
        raise ValueError(
            f"teacher must be a {type(model).__name__}, got a {type(teacher).__name__}"
        )
    ours, theirs = model.config, teacher.config
    if theirs.vocabulary != ours.vocabulary:
        raise ValueError(f"teacher must know {ours.vocabulary} words, got {theirs.vocabulary}")
    if theirs.length < ours.length:
        raise ValueError(f"teacher must read {ours.length} tokens or more, got {theirs.length}")
