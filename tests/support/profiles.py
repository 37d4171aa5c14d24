"""From a place of a checkpoint to what was measured of its heads, in one call."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fourierkernels.checkpoints import Checkpoint, load_checkpoint
from fourierkernels.diagnostics import HeadProfile, HeadSummary, head_pruning, profile_heads
from fourierkernels.diagnostics.distances import DEFAULT_METRIC
from fourierkernels.diagnostics.profile import HeadPruning
from fourierkernels.diagnostics.statistic_summary import StatisticSummary

LOADING = ("model_class", "config", "part", "random_weights")


def loaded(checkpoint: str | Path | Checkpoint, options: dict[str, Any], **more: Any) -> Checkpoint:
    """The checkpoint, with the options that load it taken out."""
    chosen = {name: options.pop(name) for name in LOADING if name in options}
    if isinstance(checkpoint, Checkpoint):
        return checkpoint
    return load_checkpoint(checkpoint, **chosen, **more)


def profile(
    checkpoint: str | Path | Checkpoint, inputs: Iterable[Any], **options: Any
) -> HeadProfile:
    return profile_heads(loaded(checkpoint, options), inputs, **options)


def distances(
    checkpoint: str | Path | Checkpoint,
    inputs: Iterable[Any],
    *,
    metric: str = DEFAULT_METRIC,
    **options: Any,
) -> HeadSummary:
    found = profile(checkpoint, inputs, metrics=[metric], statistics="none", **options)
    return found.distances[metric]


def statistics(
    checkpoint: str | Path | Checkpoint,
    inputs: Iterable[Any],
    *,
    names: Any = "all",
    **options: Any,
) -> dict[str, StatisticSummary]:
    return profile(checkpoint, inputs, metrics=(), statistics=names, **options).statistics


def pruning(
    checkpoint: str | Path | Checkpoint, inputs: Iterable[Any], **options: Any
) -> HeadPruning:
    return head_pruning(loaded(checkpoint, options, task_head=True), inputs, **options)
