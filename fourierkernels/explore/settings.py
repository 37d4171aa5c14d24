"""Settings of an exploration, and the numbers of its axes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import check_choice, check_integer, check_number


@dataclass(frozen=True)
class Slider:
    """A setting that is a number between two ends.

    Attributes
    ----------
    log : bool
        Whether equal steps are equal ratios.
    whole : bool
        Whether it is an integer.
    """

    name: str
    label: str
    low: float
    high: float
    log: bool = False
    whole: bool = False

    def check(self, value: object) -> float | int:
        """Return the value.

        Raises
        ------
        ValueError, TypeError
            If it is no number, or outside the ends.
        """
        found: float | int = check_number(self.name, value)
        if self.whole:
            found = check_integer(self.name, value, least=-(2**31))
        if not self.low <= found <= self.high:
            raise ValueError(
                f"{self.name} must be from {self.low:.6g} to {self.high:.6g}, got {found:.6g}"
            )
        return found


@dataclass(frozen=True)
class Choice:
    """A setting that is one of several names."""

    name: str
    label: str
    options: tuple[str, ...]

    def check(self, value: object) -> str:
        """Return the name, or refuse one that there is not."""
        return check_choice(self.name, value, self.options)


Setting = Slider | Choice


def log_grid(low: float, high: float, count: int) -> FloatArray:
    """Return `count` numbers from `low` to `high`, of equal ratios."""
    return np.exp(np.linspace(math.log(low), math.log(high), count))


def ticks(low: float, high: float, *, log: bool = False) -> Sequence[float]:
    """Return round numbers between two ends: about five, or powers of ten and halves of them.

    Examples
    --------
    >>> ticks(0.0, 9.0), ticks(0.02, 30.0, log=True)
    ([0.0, 2.0, 4.0, 6.0, 8.0], [0.1, 1.0, 10.0])
    """
    if log:
        first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
        step = max(1, math.ceil((last - first + 1) / 5))
        powers = [10.0**k for k in range(first, last + 1, step)]
        return powers if len(powers) > 1 else [low, *powers, high]
    rough = (high - low) / 5
    exponent = math.floor(math.log10(rough))
    unit = 10.0**exponent
    width = min((m * unit for m in (1, 2, 5, 10)), key=lambda each: abs(math.log(each / rough)))
    ends = math.ceil(low / width), math.floor(high / width) + 1
    return [round(k * width, 12 - exponent) for k in range(*ends)]
