"""Workers on this machine: one process each, one cell at a time.

A worker that dies loses the cell it had in hand, which another one computes again, and nothing
else: it never touches the results file. If this process dies, the workers' pipes close and they
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

from fourierkernels.simulation.sweep.cell import Cell
from fourierkernels.simulation.sweep.compute import Outcome, compute, failure

_DEATHS = 3  # of workers over one cell, before the sweep gives up
_SPAWN = get_context("spawn")  # compiled threads do not survive a fork


class _Worker:
    """A process, the pipe to it, and the cell that it is computing."""

    process: BaseProcess
    pipe: Connection
    cell: Cell | None = None

    def __init__(self) -> None:
        self.pipe, theirs = _SPAWN.Pipe()
        self.process = _SPAWN.Process(target=_work, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()  # so that the end of the worker closes the pipe

    def give(self, cell: Cell) -> None:
        self.cell = cell
        with suppress(OSError):  # a dead worker is found when its answer is waited for
            self.pipe.send(cell)

    def take(self) -> tuple[Cell, Outcome | str | None]:
        """Return the cell and what came back: an outcome, an error, or None if the process died."""
        assert self.cell is not None
        cell, self.cell = self.cell, None
        try:
            return cell, self.pipe.recv()
        except (EOFError, OSError):
            return cell, None

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


def on_machine(cells: Sequence[Cell], workers: int) -> Generator[tuple[Cell, Outcome]]:
    """Yield cells with their outcomes as they finish; with one worker, in this process.

    Raises
    ------
    ValueError
        If a cell fails: at once with one worker, otherwise after the cells in hand are finished.
    ChildProcessError
        If a cell ends every worker that takes it.
    """
    if workers == 1 or len(cells) < 2:
        for cell in cells:
            try:
                outcome = compute(cell)
            except Exception as error:
                raise failure(cell, error) from error
            yield cell, outcome
        return
    team = _Team(cells, workers)
    try:
        while team.busy():
            yield from team.finished()
    finally:
        team.end()
    if team.failed:
        raise ValueError(team.failed)


class _Team:
    """Workers, the cells that wait for one, and how many workers each cell has crashed."""

    failed: str = ""  # what the first cell to fail said

    def __init__(self, cells: Sequence[Cell], workers: int) -> None:
        self._queue = deque(cells)
        self._deaths = dict.fromkeys(cells, 0)
        self._members = [_Worker() for _ in range(min(workers, len(cells)))]

    def busy(self) -> bool:
        """Hand out cells; return whether any worker has one."""
        for worker in self._members:
            if worker.cell is None and self._queue:
                worker.give(self._queue.popleft())
        return any(worker.cell for worker in self._members)

    def finished(self) -> Iterator[tuple[Cell, Outcome]]:
        """Wait for at least one worker to answer or die; yield what came back."""
        pipes = {worker.pipe: worker for worker in self._members if worker.cell}
        for pipe in wait(list(pipes)):
            worker = pipes[pipe]  # type: ignore[index]
            cell, answer = worker.take()
            if isinstance(answer, str):
                self.failed = self.failed or answer
                self._queue.clear()
            elif answer is None:
                self._replace(worker, cell)
            else:
                yield cell, answer

    def end(self) -> None:
        """End all workers, whatever they are doing."""
        for worker in self._members:
            worker.end()

    def _replace(self, worker: _Worker, cell: Cell) -> None:
        worker.end()
        self._deaths[cell] += 1
        if self._deaths[cell] >= _DEATHS:
            raise ChildProcessError(
                f"cell {cell} ended {_DEATHS} workers, the last with status "
                f"{worker.process.exitcode}: out of memory? Finished cells are kept"
            )
        self._queue.appendleft(cell)
        self._members[self._members.index(worker)] = _Worker()


def _work(pipe: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to stop
    os.environ.setdefault("NUMBA_NUM_THREADS", "1")
    while True:
        try:
            cell = pipe.recv()
        except (EOFError, OSError):  # the parent has gone
            return
        try:
            answer: Outcome | str = compute(cell)
        except Exception as error:  # the parent raises it
            answer = str(failure(cell, error))
        try:
            pipe.send(answer)
        except OSError:
            return
