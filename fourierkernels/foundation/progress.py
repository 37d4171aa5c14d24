"""Progress of long operations, on standard error if that is a terminal.

One display has all the bars, since two displays would write over each other. While a command works
and shows no bar, it has the time.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager, nullcontext
from threading import RLock, Timer
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_PATIENCE = 1.0  # seconds without a sign before there is one

T = TypeVar("T")
Advance = Callable[..., None]  # of what is done and, if it was not known before, of how much


@contextmanager
def working(title: str) -> Iterator[None]:
    """Show the time of what is done within whenever nothing has been shown for a second."""
    display = _Display(title) if _interactive() else None
    if display is None:
        yield
        return
    _DISPLAYS.append(display)
    display.wait()
    try:
        yield
    finally:
        _DISPLAYS.remove(display)
        display.stop()


@contextmanager
def paused() -> Iterator[None]:
    """Show nothing: something else writes on the terminal."""
    for display in _DISPLAYS:
        display.stop()
    try:
        yield
    finally:
        for display in _DISPLAYS:
            display.wait()


@contextmanager
def bar(title: str, total: float | None = None) -> Iterator[Advance]:
    """Show how much is done; what is yielded is called with it, and with the total if that changes.

    Examples
    --------
    >>> with bar("cells", total=2) as advance:
    ...     advance(1)
    ...     advance(2)
    """
    if not _interactive():
        yield lambda done, total=None: None
        return
    with nullcontext() if _DISPLAYS else working(title):
        display = _DISPLAYS[-1]
        task = display.begin(title, total)
        try:
            yield lambda done, total=None: display.advance(task, done, total)
        finally:
            display.end(task)


def tracked(items: Iterable[T], title: str) -> Iterator[T]:
    """Pass items on and show how many have been.

    Examples
    --------
    >>> list(tracked("ab", "letters"))
    ['a', 'b']
    """
    with bar(title, len(items) if isinstance(items, Sized) else None) as advance:
        for done, item in enumerate(items, start=1):
            yield item
            advance(done)


def _interactive() -> bool:
    """Return whether standard error is a terminal where lines can be replaced."""
    if not sys.stderr.isatty():  # rich believes FORCE_COLOR
        return False
    from rich.console import Console

    return Console(stderr=True).is_interactive


class _Display:
    """The lines below the cursor: a bar for each task, or else the time of all."""

    def __init__(self, title: str) -> None:
        self._bars = _bars()
        self._totals: dict[TaskID, float | None] = {}
        self._whole = self._bars.add_task(title, total=None, counted="")
        self._lock, self._timer, self._stopped = RLock(), Timer(0, self._start), True

    def wait(self) -> None:
        """Show it soon, if it is not stopped before."""
        with self._lock:
            self._timer.cancel()
            self._timer, self._stopped = Timer(_PATIENCE, self._start), False
            self._timer.daemon = True
            self._timer.start()

    def _start(self) -> None:
        with self._lock:
            if not self._stopped:
                self._bars.start()

    def stop(self) -> None:
        with self._lock:
            self._timer.cancel()
            if not self._stopped:
                self._bars.stop()
            self._stopped = True

    def begin(self, title: str, total: float | None) -> "TaskID":
        self._bars.update(self._whole, visible=False)
        task = self._bars.add_task(title, total=total, counted="")
        self._totals[task] = total
        self.advance(task, 0, total)
        return task

    def advance(self, task: "TaskID", done: float, total: float | None) -> None:
        total = self._totals[task] = total or self._totals[task]
        counted = f"{done:,.0f}" if total is None else f"{done:,.0f} of {total:,.0f}"
        self._bars.update(task, completed=done, total=total, counted=counted)

    def end(self, task: "TaskID") -> None:
        self._bars.refresh()  # so that a bar ends full
        del self._totals[task]
        self._bars.remove_task(task)
        self._bars.update(self._whole, visible=not self._totals)


_DISPLAYS: list[_Display] = []


def _bars() -> "Progress":
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[counted]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    # Standard output stays as it is: it may be a file.
    return Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False)
