"""How many threads sums may use, told without starting any."""

import os
import sys


def loop_threads() -> int:
    """Return how many threads numba's loops have been given, by default one per core allowed.

    numba would start its threads to tell, after which a process can no longer be forked safely.

    Examples
    --------
    >>> loop_threads() >= 1
    True
    """
    loaded = sys.modules.get("numba.np.ufunc.parallel")
    if loaded is not None and loaded._is_initialized:
        return int(loaded.get_num_threads())
    return _number("NUMBA_NUM_THREADS") or _cores()


def transform_threads() -> int:
    """Return how many threads a transform may use: what both numba and OpenMP allow."""
    return min(loop_threads(), _number("OMP_NUM_THREADS") or _cores())


def _number(variable: str) -> int:
    """Return a number from the environment, the first of a list; 0 if there is none."""
    first = os.environ.get(variable, "").partition(",")[0].strip()
    return int(first) if first.isdecimal() else 0


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
