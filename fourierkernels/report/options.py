"""What a report asks for, as one object from the command or the call to the measures.

A preset of a published table fills options of the command that were not given, no more. To add one,
add a row to :data:`TABLES`.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from fourierkernels.checkpoints.find import CheckpointFiles, find_checkpoint
from fourierkernels.checkpoints.options import LoadOptions, ReadOptions
from fourierkernels.diagnostics.distances import MAPS, METRICS
from fourierkernels.diagnostics.profile import MeasureOptions
from fourierkernels.diagnostics.summary import DEFAULT_SPREAD, SPREADS
from fourierkernels.foundation.validation import check_choice, check_integer

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class ReportOptions:
    """Options of :func:`~fourierkernels.report.head_report`, which describes them.

    Attributes
    ----------
    load, read, measure
        How networks are loaded, how inputs are read, and what is measured.
    """

    load: LoadOptions
    read: ReadOptions
    measure: MeasureOptions
    baseline: "bool | nn.Module" = True
    importance: str | None = None
    loss: str = "auto"
    spread: str = DEFAULT_SPREAD
    device: str | None = None

    @property
    def compares_maps(self) -> bool:
        """Whether a metric is one of maps."""
        return any(METRICS[name].of == MAPS for name in self.measure.metric_names)

    def check(self) -> None:
        """Refuse what is wrong with the options themselves.

        Raises
        ------
        ValueError, TypeError
            For options that are not known or do not fit each other.
        """
        from fourierkernels.diagnostics.networks.importance import IMPORTANCES  # needs torch
        from fourierkernels.diagnostics.networks.pruning import LOSSES

        check_choice("spread (--std)", self.spread, list(SPREADS))
        check_choice("loss", self.loss, ["auto", *LOSSES])
        if self.importance is not None:
            check_choice("importance", self.importance, list(IMPORTANCES))
        elif self.loss != "auto":
            raise ValueError(f"loss needs an importance to be measured, got {self.loss} without")
        if not self.measure.asks_for_something and not self.importance:
            raise ValueError(
                "metrics, statistics or importance must name something to measure, got none"
            )
        self.measure.check_counts()
        check_integer("batch_size", self.read.batch_size)
        if self.read.max_tokens is not None:
            check_integer("max_tokens", self.read.max_tokens)

    def of_shards(self) -> "ReportOptions":
        """Return the options without those that no share of the inputs depends on."""
        return replace(self, spread=DEFAULT_SPREAD, importance=None, loss="auto")

    def record(self, checkpoint: str, against: str | None) -> dict[str, object]:
        """Return everything that was asked for by the names of ``head_report``, for provenance."""
        load, read, measure = self.load, self.read, self.measure
        return {
            "checkpoint": checkpoint,
            "tokenizer": _named(load.tokenizer),
            "metrics": measure.metrics,
            "statistics": measure.statistics,
            "baseline": _named(self.baseline),
            "against": against,
            "permutations": measure.permutations,
            "importance": self.importance,
            "loss": self.loss,
            "examples": measure.examples,
            "context": read.context,
            "max_tokens": read.max_tokens,
            "batch_size": read.batch_size,
            "tokens": read.tokens,
            "part": load.part,
            "model_class": load.model_class,
            "config": load.config,
            "preset": load.preset,
            "vocabulary": load.vocabulary,
            "seed": measure.seed,
            "spread": self.spread,
            "device": self.device,
        }


def _named(value: object) -> object:
    """Return a value that JSON holds; the class of a model or a tokenizer in memory."""
    return value if isinstance(value, bool | str | Path | None) else type(value).__name__


_EACH = 4  # shards for each process on this machine, so that none waits long for the last
_CLUSTER = 32  # shards for a cluster, whose size is not known


@dataclass(frozen=True)
class Team:
    """Who measures, and where finished shards are kept.

    Attributes
    ----------
    workers : int
        Processes on this machine; not used with a scheduler.
    scheduler : str or None
        Address of a Dask scheduler.
    resume : str, Path or None
        A folder; None for a scratch folder that is removed.
    """

    workers: int = 1
    scheduler: str | None = None
    resume: str | Path | None = None

    def __post_init__(self) -> None:
        check_integer("workers", self.workers)

    @property
    def shares(self) -> bool:
        """Whether the inputs are measured in shares."""
        return self.workers > 1 or self.scheduler is not None or self.resume is not None

    @property
    def shards(self) -> int:
        """Number of shards of each network."""
        return _CLUSTER if self.scheduler else _EACH * self.workers


@dataclass(frozen=True)
class TablePreset:
    """Options that measure what a table shows.

    Attributes
    ----------
    metric, context, spread
        The options of these names.
    splits : tuple of str
        Texts that the table has columns for.
    description : str
        The table.
    """

    name: str
    metric: str
    context: int
    spread: str
    splits: tuple[str, ...]
    description: str


TABLES = {
    row.name: row
    for row in (
        TablePreset(
            "fourierformer-table",
            metric="frobenius",
            context=256,
            spread="pairs-texts",
            splits=("train", "test"),
            description="nguyen2022fourierformer, table 6 (3 on arXiv), as we read it",
        ),
    )
}


def split_presets(names: Collection[str]) -> tuple[str | None, TablePreset | None]:
    """Return the preset of a model, which is any other name, and that of a table.

    Raises
    ------
    ValueError
        If there are two of a kind.
    """
    tables = [name for name in names if name in TABLES]
    models = [name for name in names if name not in TABLES]
    for kind in (tables, models):
        if len(kind) > 1:
            raise ValueError(
                "preset must be one of a model and one of a table at most, "
                f"got {' and '.join(kind)}"
            )
    table = TABLES[tables[0]] if tables else None
    return (models[0] if models else None), table


def filled(
    options: ReportOptions, table: TablePreset | None, *, given: Collection[str]
) -> ReportOptions:
    """Return options with those of a table in place of defaults.

    Parameters
    ----------
    given : collection of str
        Options that were given: they stay as they are.
    """
    if table is None:
        return options
    read, measure, spread = options.read, options.measure, options.spread
    return replace(
        options,
        read=read if "context" in given else replace(read, context=table.context),
        measure=measure if "metrics" in given else replace(measure, metrics=[table.metric]),
        spread=spread if "spread" in given else table.spread,
    )


@dataclass(frozen=True)
class InputOptions:
    """Files that the command reads, one of which is named unless the checkpoint brings its own."""

    text: Path | None = None
    target: Path | None = None
    ids: Path | None = None
    images: Path | None = None
    sounds: Path | None = None

    @property
    def named(self) -> dict[str, Path]:
        """What is to be read, by its option."""
        places = {"text": self.text, "ids": self.ids, "images": self.images, "sounds": self.sounds}
        return {name: path for name, path in places.items() if path is not None}


@dataclass(frozen=True)
class HeadsRequest:
    """What the command line asks for.

    Attributes
    ----------
    checkpoint, against : str
        As they are named there; each is found once, in `files` and `other`.
    table : TablePreset or None
        The table that has filled options.
    """

    checkpoint: str
    against: str | None
    inputs: InputOptions
    options: ReportOptions
    team: Team
    output: Path | None = None
    table: TablePreset | None = None

    @cached_property
    def files(self) -> CheckpointFiles:
        """The checkpoint, where it was found."""
        return find_checkpoint(self.checkpoint)

    @cached_property
    def other(self) -> CheckpointFiles | None:
        """The checkpoint to compare with, where it was found."""
        return None if self.against is None else find_checkpoint(self.against)
