"""What a check finds: numbers beside their bounds, and what could not be measured."""

import math
from dataclasses import dataclass


class NotHere(Exception):  # noqa: N818 (no error: a fact about the machine)
    """The check has no meaning on this device; the message says why."""


@dataclass(frozen=True)
class Measure:
    """An error beside its bound."""

    quantity: str
    error: float
    bound: float

    @property
    def holds(self) -> bool:
        """Whether the error is within the bound; NaN never is."""
        return not math.isnan(self.error) and self.error <= self.bound


@dataclass(frozen=True)
class Row:
    """A line of the results.

    Attributes
    ----------
    status : str
        "ok", "miss", "skipped" or "failed".
    note : str
        Why it was skipped, or the error it failed with.
    """

    group: str
    case: str
    dtype: str
    quantity: str
    error: float
    bound: float
    status: str
    note: str = ""

    @property
    def bad(self) -> bool:
        """Whether this row must not be."""
        return self.status in ("miss", "failed")

    @property
    def sentence(self) -> str:
        """The row in words."""
        place = ", ".join(part for part in (self.group, self.case, self.dtype) if part)
        if self.note:
            return f"{place}: {self.note}"
        return f"{place}: {self.quantity} {self.error:.2e}, bound {self.bound:.1e}"
