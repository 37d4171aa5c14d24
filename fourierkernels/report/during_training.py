"""Distances between the heads of a model while it is trained, by layer.

The model is measured on inputs that stay the same, and left as it was: a training run takes the
same steps with and without it.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any

import torch
import transformers
from torch import nn

from fourierkernels.checkpoints.in_memory import unwrapped
from fourierkernels.checkpoints.options import ReadOptions
from fourierkernels.diagnostics.distances import DEFAULT_METRIC, METRICS
from fourierkernels.diagnostics.networks.profile import make_profile
from fourierkernels.diagnostics.profile import MeasureOptions
from fourierkernels.foundation.validation import check_choice, check_integer
from fourierkernels.report.inputs import inputs_in_memory
from fourierkernels.report.sources import ModelSource


def layer_distances(
    model: nn.Module,
    inputs: Any,
    *,
    tokenizer: Any = None,
    metrics: Sequence[str] | str = (DEFAULT_METRIC,),
    context: int | None = None,
    batch_size: int = 16,
    tokens: str = "auto",
    part: str | None = None,
) -> dict[str, float]:
    """Return the mean distance between the heads of each layer of a model in memory.

    Parameters
    ----------
    model, inputs, tokenizer, metrics, context, batch_size, tokens, part
        As in :func:`~fourierkernels.report.head_report`.

    Returns
    -------
    dict
        ``heads/METRIC/layer_N`` for every metric and layer, from 1, and ``heads/METRIC/average``
        for the mean of the layers: names that TensorBoard draws in one group.

    Raises
    ------
    ValueError, TypeError
        As :func:`~fourierkernels.report.head_report`.
    """
    return _Watch(inputs, tokenizer, metrics, context, batch_size, tokens, part).distances(model)


class _Watch:
    """What is measured of a model whenever it is time."""

    def __init__(
        self,
        inputs: Any,
        tokenizer: Any,
        metrics: Sequence[str] | str,
        context: int | None,
        batch_size: int,
        tokens: str,
        part: str | None,
    ) -> None:
        names = [metrics] if isinstance(metrics, str) else list(metrics)
        known = [check_choice("metrics", name, list(METRICS)) for name in names]
        self._measure = MeasureOptions(known, statistics="none", controls=())
        self._inputs, self._part, self._tokenizer = inputs_in_memory(inputs), part, tokenizer
        self._read = ReadOptions(tokens, context, batch_size=batch_size)

    def distances(self, model: nn.Module) -> dict[str, float]:
        """Return what :func:`layer_distances` does."""
        bare, tokens = unwrapped(model), self._read.tokens
        source = ModelSource(bare, self._inputs, self._tokenizer, self._part, tokens)
        with source.borrowed():
            network = source.load().without_task_head()
            profile = make_profile(network, source.inputs, self._measure, self._read)
        scalars: dict[str, float] = {}
        for metric, summary in profile.distances.items():
            layers = enumerate(summary.mean.tolist(), start=1)
            scalars |= {f"heads/{metric}/layer_{layer}": mean for layer, mean in layers}
            scalars[f"heads/{metric}/average"] = summary.layer_average
        return scalars


def log_heads(
    optimizer: torch.optim.Optimizer,
    model: nn.Module,
    inputs: Any,
    *,
    log: Callable[[int, Mapping[str, float]], Any],
    every: int = 100,
    tokenizer: Any = None,
    metrics: Sequence[str] | str = (DEFAULT_METRIC,),
    context: int | None = None,
    batch_size: int = 16,
    tokens: str = "auto",
    part: str | None = None,
) -> Any:
    """Measure a model after every so many steps of its optimizer, in any loop.

    Parameters
    ----------
    inputs, tokenizer, metrics, context, batch_size, tokens, part
        As in :func:`~fourierkernels.report.layer_distances`.
    log : callable
        Given the number of the step, from 1, and the dictionary of
        :func:`~fourierkernels.report.layer_distances`.
    every : int

    Returns
    -------
    handle
        With the method ``remove``, which ends it.

    Raises
    ------
    ValueError, TypeError
        For inputs that cannot be read; from a step, as
        :func:`~fourierkernels.report.layer_distances`.
    """
    check_integer("every", every)
    watch = _Watch(inputs, tokenizer, metrics, context, batch_size, tokens, part)
    steps = count(1)

    def after_step(*_: Any) -> None:
        step = next(steps)
        if step % every == 0:
            log(step, watch.distances(model))

    return optimizer.register_step_post_hook(after_step)


class HeadDistances(transformers.TrainerCallback):  # type: ignore[misc]  # transformers is untyped
    """Logs the distances between heads during training with transformers' Trainer.

    They go where the loss goes: into ``trainer.state.log_history``, the console, and what the
    Trainer reports to.

    Parameters
    ----------
    trainer : transformers.Trainer
        Add the callback to it: ``trainer.add_callback(HeadDistances(trainer, texts))``.
    inputs, metrics, context, batch_size, tokens, part
        As in :func:`~fourierkernels.report.layer_distances`.
    every : int
        Steps from one measurement to the next.
    tokenizer : str, Path or tokenizer of transformers, optional
        That of the Trainer by default.

    Raises
    ------
    ValueError, TypeError
        As :func:`~fourierkernels.report.log_heads`.
    """

    def __init__(
        self,
        trainer: Any,
        inputs: Any,
        *,
        every: int = 100,
        tokenizer: Any = None,
        metrics: Sequence[str] | str = (DEFAULT_METRIC,),
        context: int | None = None,
        batch_size: int = 16,
        tokens: str = "auto",
        part: str | None = None,
    ) -> None:
        self._trainer = trainer
        self._every = check_integer("every", every)
        given = getattr(trainer, "processing_class", None)
        given = getattr(given, "tokenizer", given)  # of a processor
        if tokenizer is None and isinstance(given, transformers.PreTrainedTokenizerBase):
            tokenizer = given
        self._watch = _Watch(inputs, tokenizer, metrics, context, batch_size, tokens, part)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Measure and log, if it is time; one process does it."""
        if state.global_step % self._every or not state.is_world_process_zero:
            return
        scalars = self._watch.distances(self._trainer.model)
        wanted = control.should_log
        self._trainer.log(scalars)
        control.should_log = wanted  # which every log clears, and the loss is still to be logged
