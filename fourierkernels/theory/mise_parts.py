"""The two numbers that make up every exact MISE."""

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class Mise:
    """Integrated squared bias, integrated variance, and their sum."""

    bias2: float
    variance: float

    @property
    def total(self) -> float:
        """bias2 + variance."""
        return self.bias2 + self.variance


class Parts(NamedTuple):
    """Integrated squared bias, and n times the integrated variance; neither depends on n."""

    bias: float
    noise: float

    def per(self, n: int) -> Mise:
        """Return the error for n samples."""
        return Mise(self.bias, self.noise / n)
