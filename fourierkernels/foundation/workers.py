"""Parallel work on many pieces, by processes on this machine or by a Dask cluster.

Each worker has one thread and one piece at a time. On this machine it is a process: one that dies
loses the piece it had in hand, which another one computes again, and nothing else, since this
process alone writes the results. If this process dies, however it does, each worker gets SIGTERM,
by which a training saves a checkpoint and ends. Dask sends the pieces of a worker that dies to
another one.

joblib and its loky give neither: a worker that dies ends all pieces with TerminatedWorkerError,
without a word on which piece it was, and if the parent is killed the workers go on with what they
had been given (joblib 1.6).
"""

import os
import signal
import sys
import threading
from asyncio import CancelledError as AsyncCancelledError
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import ForkingPickler
from typing import Any, Generic, Protocol, TypeVar
from uuid import uuid4

from fourierkernels.foundation.extras import require


class Piece(Protocol):
    """One piece of the work; hashable, and its string names it."""

    @property
    def key(self) -> str:
        """Its identity."""


P = TypeVar("P", bound=Piece)
R = TypeVar("R")


@dataclass(frozen=True)
class Work(Generic[P, R]):
    """Computation for every piece.

    Attributes
    ----------
    compute : callable
        From a piece to its result; a function that a worker can import.
    piece, whole : str
        What one and what all of them are called in messages.
    """

    compute: Callable[[P], R]
    piece: str
    whole: str

    def failure(self, piece: P, error: Exception) -> ValueError:
        """Return the error to raise when a piece fails: it names the piece."""
        return ValueError(f"{self.piece} {piece} failed: {type(error).__name__}: {error}")


@contextmanager
def one_thread() -> Iterator[None]:
    """Keep to one thread, because the workers share the cores among themselves."""
    import numba
    from threadpoolctl import threadpool_limits

    torch = sys.modules.get("torch")
    before = numba.get_num_threads(), 1 if torch is None else torch.get_num_threads()
    numba.set_num_threads(1)
    if torch is not None:
        torch.set_num_threads(1)
    try:
        with threadpool_limits(limits=1):
            yield
    finally:
        numba.set_num_threads(before[0])
        if torch is not None:
            torch.set_num_threads(before[1])


class DeadlyPieceError(ChildProcessError):
    """A piece that ended every worker that took it.

    Attributes
    ----------
    piece : Piece
    """

    def __init__(self, piece: Piece, message: str) -> None:
        super().__init__(message)
        self.piece = piece


@contextmanager
def _one_numba_thread() -> Iterator[None]:
    """Start processes whose numba has one thread, unless the user has said how many.

    It is said from here because numba reads it when it is first imported, which is when a worker
    reads what it shall compute; later it takes another number only until its threads have begun.
    """
    given = _THREADS in os.environ
    os.environ.setdefault(_THREADS, "1")
    try:
        yield
    finally:
        if not given:
            del os.environ[_THREADS]


_THREADS = "NUMBA_NUM_THREADS"
_DEATHS = 3  # of workers over one piece, before all is given up
_SPAWN = get_context("spawn")  # compiled threads do not survive a fork


class _Worker(Generic[P, R]):
    """A process and the pipe to it."""

    def __init__(self, work: Work[P, R]) -> None:
        self.pipe, theirs = _SPAWN.Pipe()
        self.process = _SPAWN.Process(target=_work, args=(theirs, work), daemon=True)
        with _one_numba_thread():
            self.process.start()
        theirs.close()  # so that the end of the worker closes the pipe

    def give(self, piece: P) -> None:
        with suppress(OSError):  # a dead worker is found when its answer is waited for
            self.pipe.send(piece)

    def answer(self) -> tuple[R] | str | None:
        """Return what came back: a result, an error, or None if the process died."""
        try:
            answer: tuple[R] | str = self.pipe.recv()
        except (EOFError, OSError):
            return None
        return answer

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


def on_machine(work: Work[P, R], pieces: Sequence[P], workers: int) -> Generator[tuple[P, R]]:
    """Yield pieces with their results as they finish; with one worker, in this process.

    Raises
    ------
    ValueError
        If a piece fails: at once with one worker, otherwise after the pieces in hand are finished.
    DeadlyPieceError
        If a piece ends every worker that takes it.
    """
    if workers == 1 or len(pieces) < 2:
        for piece in pieces:
            try:
                result = work.compute(piece)
            except Exception as error:
                raise work.failure(piece, error) from error
            yield piece, result
        return
    team = _Team(work, pieces, workers)
    try:
        while team.busy():
            yield from team.finished()
    finally:
        team.end()
    if team.failed:
        raise ValueError(team.failed)


class _Team(Generic[P, R]):
    """Workers, the pieces that wait for one, and how many workers each piece has crashed."""

    failed: str = ""  # what the first piece to fail said

    def __init__(self, work: Work[P, R], pieces: Sequence[P], workers: int) -> None:
        self._work = work
        self._queue = deque(pieces)
        self._deaths = dict.fromkeys(pieces, 0)
        self._idle = [_Worker(work) for _ in range(min(workers, len(pieces)))]
        self._busy: dict[object, tuple[_Worker[P, R], P]] = {}  # by pipe, with the piece in hand

    def busy(self) -> bool:
        """Hand out pieces; return whether any worker has one."""
        while self._idle and self._queue:
            worker, piece = self._idle.pop(), self._queue.popleft()
            worker.give(piece)
            self._busy[worker.pipe] = worker, piece
        return bool(self._busy)

    def finished(self) -> Iterator[tuple[P, R]]:
        """Wait for at least one worker to answer or die; yield what came back."""
        for pipe in wait([worker.pipe for worker, _ in self._busy.values()]):
            worker, piece = self._busy[pipe]
            answer = worker.answer()  # whatever it raises, the worker is still ended with the rest
            del self._busy[pipe]
            if answer is None:
                worker.end()
                self._count_death(worker, piece)
                self._queue.appendleft(piece)
                self._idle.append(_Worker(self._work))
                continue
            self._idle.append(worker)
            if isinstance(answer, str):
                self.failed = self.failed or answer
                self._queue.clear()
            else:
                yield piece, answer[0]

    def end(self) -> None:
        """End all workers, whatever they are doing."""
        for worker in [*self._idle, *(worker for worker, _ in self._busy.values())]:
            worker.end()

    def _count_death(self, worker: _Worker[P, R], piece: P) -> None:
        self._deaths[piece] += 1
        name = self._work.piece
        if self._deaths[piece] >= _DEATHS:
            raise DeadlyPieceError(
                piece,
                f"{name} {piece} ended {_DEATHS} workers, the last with status "
                f"{worker.process.exitcode}: out of memory? Finished {name}s are kept",
            )


def _work(pipe: Connection, work: Work[Any, Any]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to stop
    threading.Thread(target=_end_with_parent, daemon=True).start()
    while True:
        try:
            piece = pipe.recv()
        except (EOFError, OSError):  # the parent has gone
            return
        try:
            answer = ForkingPickler.dumps((work.compute(piece),))
        except Exception as error:  # the parent raises it
            answer = ForkingPickler.dumps(str(work.failure(piece, error)))
        try:
            pipe.send_bytes(answer)
        except OSError:
            return


def _end_with_parent() -> None:
    """Wait for the parent to die, and ask this process to end, in the middle of a piece, too."""
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)


_PATIENCE = 10.0  # seconds to reach the scheduler


def on_cluster(work: Work[P, R], pieces: Sequence[P], address: str) -> Generator[tuple[P, R]]:
    """Yield pieces with their results as the cluster at this address finishes them.

    Raises
    ------
    ImportError
        If dask.distributed is not installed.
    ConnectionError
        If the scheduler cannot be reached, or goes away.
    DeadlyPieceError
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
    call = f"{work.whole}-{uuid4().hex}"  # other works of this scheduler may have equal pieces
    with client:
        futures = {
            client.submit(work.compute, piece, key=f"{call}-{piece.key}"): piece for piece in pieces
        }
        for future in as_completed(list(futures), loop=client.loop):
            piece = futures.pop(future)
            yield piece, _result(work, piece, future, address)


def _result(work: Work[P, R], piece: P, future: Any, address: str) -> R:
    from distributed import KilledWorker

    try:
        result: R = future.result()
    except KilledWorker as error:
        raise DeadlyPieceError(
            piece, f"{work.piece} {piece} ended every worker that took it: {error}"
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
        As :func:`~fourierkernels.foundation.workers.on_machine` and
        :func:`~fourierkernels.foundation.workers.on_cluster`, from the iterator.
    """
    source = on_cluster(work, pieces, scheduler) if scheduler else on_machine(work, pieces, workers)
    with closing(source):  # whatever happens to who takes the results
        yield source
