"""The engine costs little beside a bare loop on the same model: counted, not timed."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from training_runs import short_run

from fourierkernels.studies.engine.optimisers import create_optimiser
from fourierkernels.studies.engine.recipe import Recipe
from fourierkernels.studies.engine.run_setup import Setup
from fourierkernels.studies.engine.trainer import Engine
from fourierkernels.studies.language import study as language

RARELY = {"evaluate_every": 1000, "save_every": 1000, "log_every": 20}


class Calls(TorchDispatchMode):
    """Counts what is asked of PyTorch, forward, backward and by the optimiser."""

    def __init__(self) -> None:
        super().__init__()
        self.found: Counter[str] = Counter()

    def __torch_dispatch__(
        self, function: Any, types: Any, arguments: Any = (), options: Any = None
    ) -> Any:
        self.found[str(function)] += 1
        return function(*arguments, **(options or {}))


def parts(run: Setup, cache: Path) -> tuple[nn.Module, Any, Any]:
    preset = language.PRESETS["tiny"]
    data = language.STUDY.read(preset, run.data, cache=cache)
    torch.manual_seed(0)
    model = language.STUDY.build(preset, data, run.mixer)
    goal = language.STUDY.objective(preset, data, run.recipe)
    return model, goal, language.STUDY.batches(preset, data, run.recipe)


def bare_loop(model: nn.Module, goal: Any, data: Any, recipe: Recipe) -> None:
    optimiser = create_optimiser(model, recipe)
    model.train()
    for step in range(recipe.steps):
        batch = data.__getitems__(range(step * recipe.batch, (step + 1) * recipe.batch))
        goal.loss(model, batch).backward()
        nn.utils.clip_grad_norm_(model.parameters(), recipe.clip or 1.0)
        optimiser.step()
        optimiser.zero_grad()


class Bare(Engine):
    """The engine without validation and checkpoint."""

    def evaluate(self, *given: Any, **options: Any) -> dict[str, float]:
        return {"eval_loss": 0.0}

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        pass


def calls_per_step(run: Setup, cache: Path, train: Any) -> Counter[str]:
    """Return the calls of the later of two runs' steps, which leaves out what a run begins with."""
    counted = []
    for steps in (2, 12):
        with Calls() as calls:
            train(steps)
        counted.append(calls.found)
    return counted[1] - counted[0]


@pytest.mark.parametrize("mixer", ["softmax", "fourier"])
def test_engine_asks_pytorch_for_a_tenth_more_than_a_bare_loop_at_most(
    mixer: str, texts: Path, cache: Path, tmp_path: Path
) -> None:
    def run(steps: int) -> Setup:
        return short_run(texts, mixer=mixer, steps=steps, batch=4, **RARELY)

    def bare(steps: int) -> None:
        bare_loop(*parts(run(steps), cache), run(steps).recipe)

    def engine(steps: int) -> None:
        Bare(*parts(run(steps), cache), run(steps).recipe, tmp_path / str(steps)).train()

    loop, ours = (calls_per_step(run(2), cache, train) for train in (bare, engine))
    assert loop.total() > 1000
    assert ours.total() <= 1.1 * loop.total(), ours - loop
