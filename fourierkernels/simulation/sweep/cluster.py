"""The same cells on a Dask cluster; this process alone writes the results.

Dask sends the cells of a worker that dies to another one.
"""

from asyncio import CancelledError as AsyncCancelledError
from collections.abc import Generator, Sequence
from concurrent.futures import CancelledError
from importlib.util import find_spec

from fourierkernels.simulation.sweep.cell import Cell
from fourierkernels.simulation.sweep.compute import Outcome, compute, failure

_PATIENCE = 10.0  # seconds to reach the scheduler


def on_cluster(cells: Sequence[Cell], address: str) -> Generator[tuple[Cell, Outcome]]:
    """Yield cells with their outcomes as the cluster at this address finishes them.

    Raises
    ------
    ImportError
        If dask.distributed is not installed.
    ConnectionError
        If the scheduler cannot be reached, or goes away.
    ChildProcessError
        If a cell ends every worker that takes it.
    ValueError
        If a cell fails.
    """
    if find_spec("distributed") is None:
        raise ImportError("scheduler needs Dask: pip install 'fourierkernels[cluster]'")
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
            client.submit(compute, cell, key=f"sweep-{cell.key}", pure=True): cell for cell in cells
        }
        for future in as_completed(list(futures), loop=client.loop):
            cell = futures.pop(future)
            yield cell, _outcome(future, cell, address)


def _outcome(future: object, cell: Cell, address: str) -> Outcome:
    from distributed import KilledWorker

    try:
        outcome: Outcome = future.result()  # type: ignore[attr-defined]
    except KilledWorker as error:
        raise ChildProcessError(f"cell {cell} ended every worker that took it: {error}") from error
    except (CancelledError, AsyncCancelledError, OSError) as error:
        raise ConnectionError(
            f"scheduler must stay reachable, got {address!r} lost; finished cells are kept: "
            "run the same sweep again"
        ) from error
    except Exception as error:
        raise failure(cell, error) from error
    return outcome


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
