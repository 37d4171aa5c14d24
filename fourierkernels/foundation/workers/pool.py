"""Workers on this machine: one process each, one piece at a time.

A worker that dies loses the piece it had in hand, which another one computes again, and nothing
else: it never writes a file. If this process dies, the workers' pipes close and they
end by themselves.
"""

import os
import signal
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Generic

from fourierkernels.foundation.workers.work import P, R, Work

_DEATHS = 3  # of workers over one piece, before all is given up
_SPAWN = get_context("spawn")  # compiled threads do not survive a fork


class _Worker(Generic[P, R]):
    """A process, the pipe to it, and the piece that it has in hand."""

    process: BaseProcess
    pipe: Connection
    piece: P | None = None

    def __init__(self, work: Work[P, R]) -> None:
        self.pipe, theirs = _SPAWN.Pipe()
        self.process = _SPAWN.Process(target=_work, args=(theirs, work), daemon=True)
        self.process.start()
        theirs.close()  # so that the end of the worker closes the pipe

    def give(self, piece: P) -> None:
        self.piece = piece
        with suppress(OSError):  # a dead worker is found when its answer is waited for
            self.pipe.send(piece)

    def take(self) -> tuple[P, tuple[R] | str | None]:
        """Return the piece and what came back: a result, an error, or None if the process died."""
        assert self.piece is not None
        piece, self.piece = self.piece, None
        try:
            return piece, self.pipe.recv()
        except (EOFError, OSError):
            return piece, None

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
    ChildProcessError
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
        self._members = [_Worker(work) for _ in range(min(workers, len(pieces)))]

    def busy(self) -> bool:
        """Hand out pieces; return whether any worker has one."""
        for worker in self._members:
            if worker.piece is None and self._queue:
                worker.give(self._queue.popleft())
        return any(worker.piece is not None for worker in self._members)

    def finished(self) -> Iterator[tuple[P, R]]:
        """Wait for at least one worker to answer or die; yield what came back."""
        pipes = {worker.pipe: worker for worker in self._members if worker.piece is not None}
        for pipe in wait(list(pipes)):
            worker = pipes[pipe]  # type: ignore[index]
            piece, answer = worker.take()
            if isinstance(answer, str):
                self.failed = self.failed or answer
                self._queue.clear()
            elif answer is None:
                self._replace(worker, piece)
            else:
                yield piece, answer[0]

    def end(self) -> None:
        """End all workers, whatever they are doing."""
        for worker in self._members:
            worker.end()

    def _replace(self, worker: _Worker[P, R], piece: P) -> None:
        worker.end()
        self._deaths[piece] += 1
        name = self._work.piece
        if self._deaths[piece] >= _DEATHS:
            raise ChildProcessError(
                f"{name} {piece} ended {_DEATHS} workers, the last with status "
                f"{worker.process.exitcode}: out of memory? Finished {name}s are kept"
            )
        self._queue.appendleft(piece)
        self._members[self._members.index(worker)] = _Worker(self._work)


def _work(pipe: Connection, work: Work[Any, Any]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to stop
    os.environ.setdefault("NUMBA_NUM_THREADS", "1")
    while True:
        try:
            piece = pipe.recv()
        except (EOFError, OSError):  # the parent has gone
            return
        try:
            answer: tuple[Any] | str = (work.compute(piece),)
        except Exception as error:  # the parent raises it
            answer = str(work.failure(piece, error))
        try:
            pipe.send(answer)
        except OSError:
            return
