"""The engine costs little beside a bare loop on the same model: counted, not timed."""

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, Self

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from training_runs import short_run

import fourierkernels
from fourierkernels.studies.engine.optimisers import create_optimiser
from fourierkernels.studies.engine.recipe import Recipe
from fourierkernels.studies.engine.run_setup import Setup
from fourierkernels.studies.engine.trainer import Engine
from fourierkernels.studies.language import study as language

PACKAGE = str(Path(fourierkernels.__file__).parent)
# Functions of Python that the engine may call in a step more than a bare loop: of this package, and
# of all, for the most part transformers'. There were 30 and 2,000 when this was written.
OWN, ALL = 60, 4_000
RARELY = {"evaluate_every": 1000, "save_every": 1000, "log_every": 20}


class Calls(TorchDispatchMode):
    """Counts what is asked of PyTorch, forward, backward and by the optimiser, and of Python.

    Attributes
    ----------
    found, python : Counter
        Calls of PyTorch by operation, of functions of Python by file.
    """

    def __init__(self) -> None:
        super().__init__()
        self.found: Counter[str] = Counter()
        self.python: Counter[str] = Counter()

    def __enter__(self) -> Self:
        sys.setprofile(self._see)
        return super().__enter__()

    def __exit__(self, *given: Any) -> None:
        super().__exit__(*given)
        sys.setprofile(None)

    def _see(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            self.python[frame.f_code.co_filename] += 1

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


def calls_of_ten_steps(train: Callable[[int], None]) -> tuple[Counter[str], Counter[str]]:
    """Return the calls of the later of two runs' steps, which leaves out what a run begins with."""
    counted = []
    for steps in (2, 12):
        with Calls() as calls:
            train(steps)
        counted.append(calls)
    few, many = counted
    return many.found - few.found, many.python - few.python


def of_the_package(python: Counter[str]) -> int:
    return sum(count for file, count in python.items() if file.startswith(PACKAGE))


@pytest.mark.parametrize("mixer", ["softmax", "fourier"])
def test_engine_asks_little_more_than_a_bare_loop(
    mixer: str, texts: Path, cache: Path, tmp_path: Path
) -> None:
    def run(steps: int) -> Setup:
        return short_run(texts, mixer=mixer, steps=steps, batch=4, **RARELY)

    def bare(steps: int) -> None:
        bare_loop(*parts(run(steps), cache), run(steps).recipe)

    def engine(steps: int) -> None:
        Bare(*parts(run(steps), cache), run(steps).recipe, tmp_path / str(steps)).train()

    (loop, plain), (ours, python) = map(calls_of_ten_steps, (bare, engine))
    assert loop.total() > 1000
    assert ours.total() <= 1.1 * loop.total(), ours - loop
    assert 0 < of_the_package(python - plain) <= 10 * OWN, python - plain
    assert python.total() - plain.total() <= 10 * ALL, python - plain
