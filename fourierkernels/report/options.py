"""What a report asks for, as one object from the command or the call to the measures."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fourierkernels.checkpoints.options import LoadOptions, ReadOptions
from fourierkernels.diagnostics.controls import CONTROLS
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
    def needs_random(self) -> bool:
        """Whether a control is made of random heads."""
        of_maps = any(METRICS[name].of == MAPS for name in self.measure.metric_names)
        return of_maps and any(CONTROLS[name].needs_random for name in self.measure.control_names)

    def check(self) -> None:
        """Refuse what is wrong with the options themselves.

        Raises
        ------
        ValueError, TypeError
            For options that are not known or do not fit each other.
        """
        from fourierkernels.diagnostics.networks.importance import IMPORTANCES  # needs torch
        from fourierkernels.diagnostics.networks.losses import LOSSES

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
        if self.needs_random and not self.baseline:
            names = [name for name in self.measure.control_names if CONTROLS[name].needs_random]
            raise ValueError(f"baseline must be measured for the control {names[0]}, got False")
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
            "controls": list(measure.control_names),
            "permutations": measure.permutations,
            "roles": measure.roles,
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
