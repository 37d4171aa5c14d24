"""The kinds of kernel that the compiled loops know."""

from typing import NamedTuple


class Shape(NamedTuple):
    """The Gaussian, whose power is 1 and counts for nothing, or a power of the sinc."""

    gaussian: bool
    power: int
