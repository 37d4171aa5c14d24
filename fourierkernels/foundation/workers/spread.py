"""Spread work over processes of this machine or over a cluster."""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

from fourierkernels.foundation.workers.cluster import on_cluster
from fourierkernels.foundation.workers.pool import on_machine
from fourierkernels.foundation.workers.work import P, R, Work


@contextmanager
def spread(
    work: Work[P, R], pieces: Sequence[P], *, workers: int, scheduler: str | None
) -> Iterator[Iterator[tuple[P, R]]]:
    """Yield an iterator over pieces with their results; at the end, end the workers.

    Parameters
    ----------
    workers : int
        Processes on this machine; not used with a scheduler.
    scheduler : str, optional
        Address of a Dask scheduler, whose workers have this package.

    Raises
    ------
    ImportError, OSError, ValueError
        As :func:`~fourierkernels.foundation.workers.pool.on_machine` and
        :func:`~fourierkernels.foundation.workers.cluster.on_cluster`, from the iterator.
    """
    source = on_cluster(work, pieces, scheduler) if scheduler else on_machine(work, pieces, workers)
    with closing(source):  # whatever happens to who takes the results
        yield source
