"""What the heads command asks for: files, options, and the table of a paper.

A preset of a published table fills options that were not given, no more. To add one, add a row to
:data:`TABLES`.
"""

from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path

from fourierkernels.checkpoints.find import CheckpointFiles, find_checkpoint
from fourierkernels.report.options import ReportOptions, Team


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

    def record(self) -> dict[str, object]:
        """Return all that was asked for by its names on the command line, with what is filled."""
        options = self.options
        load, read, measure = options.load, options.read, options.measure
        return {
            "checkpoint": self.checkpoint,
            **asdict(self.inputs),
            "output": self.output,
            "metric": measure.metrics,
            "statistic": measure.statistics,
            "context": read.context,
            "max_tokens": read.max_tokens,
            "batch_size": read.batch_size,
            "model_class": load.model_class,
            "config": load.config,
            "preset": load.preset,
            "vocabulary": load.vocabulary,
            "tokenizer": load.tokenizer,
            "part": load.part,
            "tokens": read.tokens,
            "baseline": options.baseline,
            "control": measure.controls,
            "role": measure.roles,
            "permutations": measure.permutations,
            "importance": options.importance,
            "loss": options.loss,
            "examples": measure.examples,
            "std": options.spread,
            "seed": measure.seed,
            "against": self.against,
            "workers": self.team.workers,
            "scheduler": self.team.scheduler,
            "device": options.device,
        }
