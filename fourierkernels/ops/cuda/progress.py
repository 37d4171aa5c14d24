"""What a first call says while it waits for the compiler: one line, on standard error."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from fourierkernels.foundation.progress import bar

QUIET_VARIABLE = "FOURIERKERNELS_QUIET"


def say(message: str) -> None:
    """Write a line on standard error, unless $FOURIERKERNELS_QUIET is set."""
    if not os.environ.get(QUIET_VARIABLE):
        sys.stderr.write(f"fourierkernels: {message}\n")
        sys.stderr.flush()


@contextmanager
def announced(message: str) -> Iterator[None]:
    """Say what is being done, then how long it took; on a terminal, with the time meanwhile.

    Nothing is said with $FOURIERKERNELS_QUIET. A failure has no last line: its error is one.
    """
    start = time.perf_counter()
    say(message)
    with nullcontext() if os.environ.get(QUIET_VARIABLE) else bar("nvcc"):
        yield
    say(f"done in {time.perf_counter() - start:.1f} s")
