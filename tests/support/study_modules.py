"""Studies as modules, found and run as python finds and runs a script."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType

import numba
import torch

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
    before = torch.get_num_threads(), numba.get_num_threads()
    sys.path.insert(0, str(EXPERIMENTS))  # a study finds its neighbours as python runs it
    try:
        study = import_module(name)
    finally:
        sys.path.remove(str(EXPERIMENTS))
    if threads:
        study.use_one_thread()
    try:
        yield study
    finally:
        torch.set_num_threads(before[0])
        numba.set_num_threads(before[1])
