"""A run that is trained for a comparison, without output."""

import contextlib
import csv
import io
import math
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from fourierkernels.foundation.run_folder import BEST, SETUP, read_results
from fourierkernels.models import load_model
from fourierkernels.studies.engine.checkpoints import CURVE_TABLE
from fourierkernels.studies.engine.comparison_table import Row
from fourierkernels.studies.engine.contenders import learned_radii
from fourierkernels.studies.engine.optimisers import DivergenceError
from fourierkernels.studies.engine.run import train
from fourierkernels.studies.engine.run_setup import Setup
from fourierkernels.studies.engine.study import Measured
from fourierkernels.studies.engine.together import read_measured, train_together

FINISHED = "finished"


@dataclass(frozen=True)
class Trained:
    """A finished run: its folder, its numbers, and how its training ended.

    Attributes
    ----------
    measured : sequence of Measured
        None of a run that diverged.
    end : str
        "finished", or the message of a divergence.
    begun : float
        Processor time when the training began.
    together : int
        Processes that trained it.
    """

    run: Setup
    folder: Path
    measured: Sequence[Measured]
    end: str
    begun: float
    together: int = 1

    @property
    def seconds(self) -> float:
        """Processor time since the training began, of all processes that trained the run.

        On Windows, which does not tell that of others, of this process alone.
        """
        return round(_processor_time(self.together) - self.begun, 1)

    @property
    def facts(self) -> Mapping[str, Any]:
        """What the results of the run name beside its numbers."""
        return read_results(self.folder)

    def model(self) -> nn.Module:
        """Return the best model."""
        return load_model(self.folder / BEST)

    @property
    def radii(self) -> str:
        """Mean R of each layer of the best model; empty for a run that diverged."""
        return learned_radii(self.model()) if self.end == FINISHED else ""

    def number(self, metric: str, *, split: str = "test") -> Measured:
        """Return one of the numbers that were measured."""
        return next(row for row in self.measured if (row.split, row.metric) == (split, metric))

    def row(self, numbers: Callable[["Trained"], Row]) -> Row:
        """Return how training ended, and what it gave and took; no numbers of one that diverged."""
        ended = self.end == FINISHED
        return {
            "end": self.end.partition(";")[0],
            "valid_loss": self.least_loss,
            **(numbers(self) if ended else {}),
            "parameters": self.facts["parameters"] if ended else "",
            "seconds": self.seconds,
        }

    def curve(self, column: str) -> dict[int, float]:
        """Return a column of the curve by step."""
        with (self.folder / CURVE_TABLE).open(encoding="utf-8") as file:
            rows = [row for row in csv.DictReader(file) if row[column]]
        return {int(row["step"]): float(row[column]) for row in rows}

    @property
    def least_loss(self) -> float:
        """Least validation loss; NaN of a run that diverged."""
        return min(self.curve("valid_loss").values()) if self.end == FINISHED else math.nan

    @property
    def best_step(self) -> int:
        """Update of the least validation loss."""
        losses = self.curve("valid_loss")
        return min(losses, key=lambda step: losses[step])

    @property
    def largest_gradient(self) -> float:
        """Largest norm of a gradient in the curve."""
        return max(self.curve("grad_norm").values(), default=math.nan)


@contextlib.contextmanager
def trained(
    run: Setup, folder: Path | None = None, *, divergence: bool = False, together: int = 1
) -> Iterator[Trained]:
    """Train a run without output and yield what is left.

    Parameters
    ----------
    folder : Path, optional
        That of the run, which goes on from its last checkpoint there; by default one that is
        removed afterwards.
    divergence : bool
        Whether a run that diverges is yielded like others, or raises DivergenceError.
    together : int
        Processes that train it, as torchrun starts them.
    """
    begun = _processor_time(together)
    with contextlib.ExitStack() as stack:
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "run"
        measured: Sequence[Measured] = []
        end = FINISHED
        try:
            measured = _train(run, folder, together)
        except DivergenceError as error:
            if not divergence:
                raise
            end = str(error)
        yield Trained(run, folder, measured, end, begun, together)


def _processor_time(together: int) -> float:
    """Return that of this process, with that of finished ones that it started if they train."""
    here = time.process_time()
    if together == 1:
        return here
    spent = os.times()
    return here + spent.children_user + spent.children_system


def _train(run: Setup, folder: Path, together: int) -> Sequence[Measured]:
    resume = (folder / SETUP).is_file()
    if together > 1:
        train_together(run, folder, resume=resume, processes=together)
        return read_measured(folder)
    silence = io.StringIO()
    with contextlib.redirect_stdout(silence), contextlib.redirect_stderr(silence):
        return train(run, folder, resume=resume)
