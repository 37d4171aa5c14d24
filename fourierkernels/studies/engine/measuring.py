"""The best model of a run: kept beside its checkpoints, measured, and written down."""

import sys
import warnings
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from fourierkernels.foundation.provenance import write_study
from fourierkernels.foundation.run_folder import RESULTS, find_run, read_results
from fourierkernels.models.averaging import average_models
from fourierkernels.models.parameters import count_parameters
from fourierkernels.models.saved import load_model, save_model
from fourierkernels.models.tensor_files import load_exactly
from fourierkernels.studies.engine.checkpoints import (
    MODEL,
    checkpoint_folder,
    checkpoint_steps,
    is_over,
    last_checkpoint,
    last_regular,
    read_curve,
)
from fourierkernels.studies.engine.recipe import Recipe
from fourierkernels.studies.engine.run_setup import (
    Setup,
    has_model_of_preset,
    is_of_preset,
    load_setup,
)
from fourierkernels.studies.engine.study import Measured

_PACKAGES = ("torch", "transformers", "accelerate", "safetensors")


def measure_best(
    output: Path, run: Setup, data: Any, device: torch.device, seconds: tuple[float, float]
) -> list[Measured]:
    """Keep the best model, measure it, and write the results."""
    study, preset = run.study, run.chosen_preset
    averaged = _averaged(output, run.recipe)
    best = _keep_best(output, averaged).to(device)
    measured = study.measure(
        preset, data, run.mixer.name, best, positions=preset.positions, folder=output
    )
    measured = beside_the_paper(run, output, measured)
    config = _config(output, run, data, best, seconds, averaged)
    rows = [asdict(row) for row in measured]
    packages = (*_PACKAGES, *study.packages)
    write_study(output, RESULTS, rows, config, source=Path(__file__), packages=packages)
    return measured


def beside_the_paper(
    run: Setup, home: Path, measured: list[Measured], *, of_best: bool = True
) -> list[Measured]:
    """Leave the paper's numbers beside a run alone that is trained as its preset says, to the end.

    The same holds for one that it began with, which must be there to be looked at. Whether data
    and metric are the paper's, the study has seen. Other weights than the best of the run
    (`of_best`) have none.
    """
    runs = [(run, home)]
    if run.start is not None:
        started = find_run(Path(run.start.path))
        if started is None:
            return [replace(row, published=None) for row in measured]
        runs.append((load_setup(started)[0], started))
    if of_best and all(_is_of_the_paper(each, place) for each, place in runs):
        return measured
    return [replace(row, published=None) for row in measured]


def _is_of_the_paper(run: Setup, home: Path) -> bool:
    return is_of_preset(run) and has_model_of_preset(home, run) and _has_ended(run, home)


def _has_ended(run: Setup, home: Path) -> bool:
    if not checkpoint_steps(home):  # they may be deleted
        return int(read_results(home).get("steps", 0)) >= run.recipe.steps
    last = last_checkpoint(home)
    return is_over(run.recipe, last.step, read_curve(last.folder)["log_history"])


def _averaged(output: Path, recipe: Recipe) -> list[int]:
    """Return the steps whose checkpoints are averaged; none if the best one is kept."""
    if recipe.average is None:
        return []
    last = last_checkpoint(output).step
    steps = last_regular(output, recipe.saves, recipe.average) or [last]
    if len(steps) < recipe.average:
        warnings.warn(
            f"average is of {len(steps)} checkpoints instead of {recipe.average}: there are no "
            f"more in {output}, whose last one is of step {last}",
            stacklevel=2,
        )
    return steps


def _keep_best(output: Path, averaged: list[int]) -> nn.Module:
    """Put the best model, or the mean of some, beside the checkpoints, and return it."""
    last = last_checkpoint(output)
    best = read_curve(last.folder)["best_global_step"] or last.step
    files = [checkpoint_folder(output, step) / MODEL for step in averaged or [best]]
    model = load_model(files[-1])
    if averaged:
        load_exactly(model, average_models(files))
    save_model(model, output / MODEL)
    return model


def _config(
    output: Path,
    run: Setup,
    data: Any,
    model: nn.Module,
    seconds: tuple[float, float],
    averaged: list[int],
) -> dict[str, object]:
    """Return what the numbers of a run are of, for its results.json."""
    last, study = last_checkpoint(output), run.study
    return {
        "study": run.study.name,
        "preset": run.preset,
        "mixer": run.mixer.name,
        "mixer_options": run.mixer.options,
        "recipe": run.recipe.as_json(),
        "teacher": None if run.teacher is None else asdict(run.teacher),
        **({} if run.start is None else {"start": asdict(run.start)}),
        "corpus": data.corpus,
        "source": data.source,
        study.terms.outputs: len(data.vocabulary),
        study.terms.items: dict(data.counts),
        **({"unknown": dict(data.unknown)} if hasattr(data, "unknown") else {}),
        "parameters": count_parameters(model),
        "steps": last.step,
        "best_step": read_curve(last.folder)["best_global_step"],
        **({"averaged_steps": averaged} if averaged else {}),
        "seconds": round(seconds[0], 1),
        "processor_seconds": round(seconds[1], 1),  # of this process and since it resumed
        "peak_mib": _peak_mib(),
        "processes": last.processes,
        **study.facts(run.chosen_preset, data),
    }


def _peak_mib() -> int | None:
    """Return the largest memory of this process; None on Windows, where nothing tells."""
    if sys.platform == "win32":
        return None
    import resource

    unit = 2**20 if sys.platform == "darwin" else 2**10  # Linux counts KiB
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit)
