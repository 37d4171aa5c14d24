"""What workers do with each of many pieces, on one thread each."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar


class Piece(Protocol):
    """One piece of the work; hashable, and its string names it."""

    @property
    def key(self) -> str:
        """Its identity."""


P = TypeVar("P", bound=Piece)
R = TypeVar("R")


@dataclass(frozen=True)
class Work(Generic[P, R]):
    """What is computed of every piece.

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
