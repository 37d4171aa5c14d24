"""Processes that can be interrupted wherever the tests run."""

import signal


def hears_interrupts() -> None:
    """Undo what a shell does to jobs in the background, which ignore an interrupt."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
