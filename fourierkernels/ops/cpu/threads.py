"""How many threads the compiled CPU kernels use: as many as torch."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from numba import config, get_num_threads, set_num_threads


@contextmanager
def as_many_threads_as_torch() -> Iterator[None]:
    """Let numba use torch's number of threads for the moment, and leave both as they were.

    Both may share one OpenMP library, whose number numba sets for itself when it starts.
    """
    wanted = torch.get_num_threads()
    before = get_num_threads()  # starts numba's threads, the first time
    if torch.get_num_threads() != wanted:
        torch.set_num_threads(wanted)
    set_num_threads(min(wanted, config.NUMBA_NUM_THREADS))
    try:
        yield
    finally:
        set_num_threads(before)
