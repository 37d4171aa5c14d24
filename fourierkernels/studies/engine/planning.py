"""What a run will cost, before it starts."""

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

from fourierkernels.models.parameters import count_parameters
from fourierkernels.studies.engine.distillation import load_teacher, objective_of
from fourierkernels.studies.engine.epochs import Batch
from fourierkernels.studies.engine.prepared import prepared
from fourierkernels.studies.engine.run_setup import Setup, read_data
from fourierkernels.studies.engine.study import Objective, Terms

_PROBE = 8  # sequences of the passes that are timed
_SHARES = (4096, 1024, 256, 64, 16, 4, 1)  # of a validation, the first that takes long enough
_LEAST_SECONDS = 0.3
_MOST_PASSES, _MOST_SECONDS = 9, 2.0  # no further pass after either


@dataclass(frozen=True)
class Plan:
    """Size and cost of a run.

    Attributes
    ----------
    parameters, words, tokens : int
        Of the model, of the vocabulary (or classes), of the training text (or images).
    epochs : float
        Times the data are read.
    memory : int
        Bytes of parameters, gradients, the optimiser's two moments and the activations of a batch,
        and of a teacher's parameters.
    seconds : float
        Of all updates, from timed passes of a few sequences on this machine.
    loading, validating, measuring : float
        Seconds of reading data and model, as they took; of all validations, from a timed share of
        one; of measuring the best model at the end.
    terms : Terms
        What the study calls its data.
    uncounted : str
        What is done at the end besides, and not part of `measuring`.
    """

    parameters: int
    words: int
    tokens: int
    epochs: float
    memory: int
    seconds: float
    loading: float
    validating: float
    measuring: float
    terms: Terms = field(default_factory=Terms)
    uncounted: str = ""

    @property
    def total(self) -> float:
        """Seconds of the whole run."""
        return self.loading + self.seconds + self.validating + self.measuring

    def rows(self) -> Iterator[tuple[str, str]]:
        """Yield names and values for display."""
        yield "parameters", f"{self.parameters:,}"
        yield self.terms.outputs_of, f"{self.words:,} {self.terms.outputs}"
        yield self.terms.data, f"{self.tokens:,} {self.terms.items}, read {self.epochs:.2g} times"
        yield "memory", f"{self.memory / 2**20:,.0f} MiB"
        parts = {"loading": self.loading, "updates": self.seconds}
        parts |= {"validations": self.validating, "measuring": self.measuring}
        named = ", ".join(f"{name} {seconds / self.total:.0%}" for name, seconds in parts.items())
        aside = f"; {self.uncounted} aside" if self.uncounted else ""
        yield "time", f"{_readable(self.total)} on this machine ({named}{aside})"


def plan(run: Setup, *, cache: Any = None) -> Plan:
    """Return what a run will cost; the model is built and a few sequences are passed through it.

    Raises
    ------
    ValueError
        If the data cannot be read, or the teacher does not read them.
    """
    begun = time.perf_counter()
    study, preset = run.study, run.chosen_preset
    data = read_data(run, cache=cache)
    recipe = run.recipe
    teacher = load_teacher(run, data)
    torch.manual_seed(recipe.seed)
    model = prepared(study.build(preset, data, run.mixer), recipe)
    updates = study.batches(preset, data, recipe)
    batch, times = updates.probe(_PROBE)
    loading = time.perf_counter() - begun
    goal = objective_of(run, data, model, teacher)
    seconds, activations = _probe(model, goal, batch)
    validation = _validation(model, goal)
    held = 4 * _bytes(model) + (0 if teacher is None else _bytes(teacher))
    return Plan(
        parameters=count_parameters(model),
        words=len(data.vocabulary),
        tokens=data.counts["train"],
        epochs=recipe.steps / updates.updates_per_epoch,
        memory=int(held + activations * times / recipe.accumulation),
        seconds=seconds * times * recipe.steps,
        loading=loading,
        validating=validation * math.ceil(recipe.steps / recipe.evaluate_every),
        measuring=validation * study.measuring(preset, data),
        terms=study.terms,
        uncounted=study.uncounted,
    )


def _probe(model: nn.Module, goal: Objective, batch: Batch) -> tuple[float, int]:
    """Return the time of a pass there and back, and the bytes that it keeps for the way back.

    The first pass is not timed. Of short passes, several are, since the next ones may still find
    memory to be allocated and threads to be started; the median leaves those out.
    """
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    parameters = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    model.train()
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        goal.loss(model, batch).backward()  # type: ignore[no-untyped-call]
    times: list[float] = []
    while len(times) < _MOST_PASSES and sum(times) < _MOST_SECONDS:
        begun = time.perf_counter()
        goal.loss(model, batch).backward()  # type: ignore[no-untyped-call]
        times.append(time.perf_counter() - begun)
    return median(times), sum(size for place, size in kept.items() if place not in parameters)


@torch.no_grad()
def _validation(model: nn.Module, goal: Objective) -> float:
    """Return the time of a validation, from the first and the last share of several processes."""
    model.eval()
    for processes in _SHARES:
        begun = time.perf_counter()
        places = sorted({0, processes - 1})
        counts = [goal.validate(model, place, processes)[1] for place in places]
        seconds = time.perf_counter() - begun
        if seconds >= _LEAST_SECONDS and counts[-1]:  # else there are more shares than batches
            break
    return seconds * processes / len(places)


def _bytes(model: nn.Module) -> int:
    return sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())


def _readable(seconds: float) -> str:
    units = (("days", 86_400.0), ("hours", 3_600.0), ("minutes", 60.0))
    for name, size in units:
        if seconds >= 2 * size:
            return f"about {seconds / size:.3g} {name}"
    return f"about {seconds:.3g} seconds"
