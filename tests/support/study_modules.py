"""Studies as modules, found and run as python finds and runs a script."""

import csv
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib import import_module
from pathlib import Path
from types import ModuleType

from fourierkernels.foundation.workers import one_thread

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
RESULTS = EXPERIMENTS / "results"


@contextmanager
def study_module(name: str, *, threads: bool = True) -> Iterator[ModuleType]:
    """Yield a study that computes in one thread; the threads are given back afterwards.

    Parameters
    ----------
    threads : bool
        Whether it computes at all.
    """
    sys.path.insert(0, str(EXPERIMENTS))  # a study finds its neighbours as python runs it
    try:
        study = import_module(name)
    finally:
        sys.path.remove(str(EXPERIMENTS))
    with one_thread() if threads else nullcontext():
        yield study


def read_rows(name: str) -> list[dict[str, str]]:
    """Return the rows of a committed table."""
    with (RESULTS / f"{name}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))
