"""What a run will cost, before it starts."""

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
from fourierkernels.studies.engine.optimisers import as_precision
from fourierkernels.studies.engine.run_setup import Setup, read_data
from fourierkernels.studies.engine.study import Objective, Terms

_PROBE = 8  # sequences of the passes that are timed
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
        From timed passes of a few sequences on this machine, without validations.
    terms : Terms
        What the study calls its data.
    """

    parameters: int
    words: int
    tokens: int
    epochs: float
    memory: int
    seconds: float
    terms: Terms = field(default_factory=Terms)

    def rows(self) -> Iterator[tuple[str, str]]:
        """Yield names and values for display."""
        yield "parameters", f"{self.parameters:,}"
        yield self.terms.outputs_of, f"{self.words:,} {self.terms.outputs}"
        yield self.terms.data, f"{self.tokens:,} {self.terms.items}, read {self.epochs:.2g} times"
        yield "memory", f"{self.memory / 2**20:,.0f} MiB"
        yield "time", f"{_readable(self.seconds)} on this machine, validations aside"


def plan(run: Setup, *, cache: Any = None) -> Plan:
    """Return what a run will cost; the model is built and a few sequences are passed through it.

    Raises
    ------
    ValueError
        If the data cannot be read, or the teacher does not read them.
    """
    study, preset = run.chosen_study, run.chosen_preset
    data = read_data(run, cache=cache)
    recipe = run.recipe
    teacher = load_teacher(run, data)
    torch.manual_seed(recipe.seed)
    model = as_precision(study.build(preset, data, run.mixer, run.mixer_options), recipe.precision)
    updates = study.batches(preset, data, recipe)
    batch, times = updates.probe(_PROBE)
    seconds, activations = _probe(model, objective_of(run, data, model, teacher), batch)
    held = 4 * _bytes(model) + (0 if teacher is None else _bytes(teacher))
    return Plan(
        parameters=count_parameters(model),
        words=len(data.vocabulary),
        tokens=data.counts["train"],
        epochs=recipe.steps / updates.updates_per_epoch,
        memory=int(held + activations * times / recipe.accumulation),
        seconds=seconds * times * recipe.steps,
        terms=study.terms,
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

    own = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    model.train()
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        goal.loss(model, batch).backward()  # type: ignore[no-untyped-call]
    times: list[float] = []
    while len(times) < _MOST_PASSES and sum(times) < _MOST_SECONDS:
        begun = time.perf_counter()
        goal.loss(model, batch).backward()  # type: ignore[no-untyped-call]
        times.append(time.perf_counter() - begun)
    return median(times), sum(size for place, size in kept.items() if place not in own)


def _bytes(model: nn.Module) -> int:
    return sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())


def _readable(seconds: float) -> str:
    units = (("days", 86_400.0), ("hours", 3_600.0), ("minutes", 60.0))
    for name, size in units:
        if seconds >= 2 * size:
            return f"about {seconds / size:.3g} {name}"
    return f"about {seconds:.3g} seconds"
