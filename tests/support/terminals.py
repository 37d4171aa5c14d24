"""Standard error as a terminal, where progress is shown without waiting."""

import io
import sys
from collections.abc import Callable

import pytest

from fourierkernels.foundation import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class _AtOnce:
    """A timer that does not wait."""

    def __init__(self, seconds: float, call: Callable[[], None]) -> None:
        self.start = call

    def cancel(self) -> None:
        pass


def show_on(stream: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a stream standard error; to be called in the test, before which pytest sets its own."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress, "Timer", _AtOnce)
    monkeypatch.setattr(sys, "stderr", stream)
