"""Options that a density and a regression share."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from fourierkernels.foundation.validation import check_number
from fourierkernels.kernels import Kernel


class Follow(Protocol):
    """What passes items on while it shows how many are done; `iter` shows nothing."""

    def __call__(self, items: Iterable[Any], /) -> Iterator[Any]:
        """Return an iterator over the items."""


def radius_of(radius: float | str | None) -> float | str | None:
    """Return a radius that may be a number in text, or the name of a rule."""
    if not isinstance(radius, str):
        return radius
    try:
        return float(radius)
    except ValueError:
        return radius


def rule_name(radius: float | str | None, default: str) -> str:
    """Return how the radius was chosen, for a heading."""
    chosen = radius_of(default if radius is None else radius)
    return chosen if isinstance(chosen, str) else "as given"


def check_level(level: float) -> float:
    """Return a level between 0 and 1."""
    value = check_number("level", level)
    if not 0.0 < value < 1.0:
        raise ValueError(f"level must be between 0 and 1, got {level}")
    return value


def kernel_name(kernel: Kernel | str) -> str:
    """Return the name of a kernel that may be given by name."""
    return kernel if isinstance(kernel, str) else kernel.name


@contextmanager
def in_group(name: str) -> Iterator[None]:
    """Say in which group an estimate failed."""
    try:
        yield
    except ValueError as error:
        if not name:
            raise
        raise ValueError(f"group {name!r}: {error}") from error
