"""The same pieces on a Dask cluster; this process alone writes the results.

Dask sends the pieces of a worker that dies to another one.
"""

from asyncio import CancelledError as AsyncCancelledError
from collections.abc import Generator, Sequence
from concurrent.futures import CancelledError
from typing import Any

from fourierkernels.foundation.extras import require
from fourierkernels.foundation.workers.work import P, R, Work

_PATIENCE = 10.0  # seconds to reach the scheduler


def on_cluster(work: Work[P, R], pieces: Sequence[P], address: str) -> Generator[tuple[P, R]]:
    """Yield pieces with their results as the cluster at this address finishes them.

    Raises
    ------
    ImportError
        If dask.distributed is not installed.
    ConnectionError
        If the scheduler cannot be reached, or goes away.
    ChildProcessError
        If a piece ends every worker that takes it.
    ValueError
        If a piece fails.
    """
    require("distributed", "scheduler")
    from distributed import Client, as_completed
    from distributed.comm.addressing import parse_address, parse_host_port

    try:
        parse_host_port(parse_address(address)[1])  # a client that cannot start complains later too
        client = Client(address, timeout=_PATIENCE, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        message = f"scheduler must be reachable, got {address!r} ({_first_line(error)})"
        raise ConnectionError(message) from error
    with client:
        futures = {
            client.submit(work.compute, piece, key=f"{work.whole}-{piece.key}", pure=True): piece
            for piece in pieces
        }
        for future in as_completed(list(futures), loop=client.loop):
            piece = futures.pop(future)
            yield piece, _result(work, piece, future, address)


def _result(work: Work[P, R], piece: P, future: Any, address: str) -> R:
    from distributed import KilledWorker

    try:
        result: R = future.result()
    except KilledWorker as error:
        raise ChildProcessError(
            f"{work.piece} {piece} ended every worker that took it: {error}"
        ) from error
    except (CancelledError, AsyncCancelledError, OSError) as error:
        raise ConnectionError(
            f"scheduler must stay reachable, got {address!r} lost; finished {work.piece}s are "
            f"kept: run the same {work.whole} again"
        ) from error
    except Exception as error:
        raise work.failure(piece, error) from error
    return result


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
