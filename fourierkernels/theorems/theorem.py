"""A theorem: the error it bounds, its assumptions, bound and rates, and the cases that show it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from fourierkernels.theorems.measure import Bound, ErrorMeasure, Setting
from fourierkernels.theory.rates import Rate, sharp_rate, sharp_regression_rate

NOT_IN_THE_PAPERS = "not in the papers"


class Check(NamedTuple):
    """One assumption, whether it holds, and why."""

    assumption: str
    holds: bool
    reason: str


@dataclass(frozen=True)
class Assumption:
    """An assumption in words, and its test: returns whether it holds, and a reason."""

    text: str
    test: Callable[[Setting], tuple[bool, str]]


class Case(NamedTuple):
    """A setting by its names; `beyond` to measure even where an assumption fails."""

    density: str
    kernel: str
    function: str | None = None
    dim: int = 1
    beyond: bool = False


@dataclass(frozen=True)
class Theorem:
    r"""A stated rate, with everything needed to test it.

    Attributes
    ----------
    name : str
        Key in :data:`~fourierkernels.theorems.THEOREMS`.
    source : str
        Where it is stated.
    statement : str
        The bound, in LaTeX.
    error : ErrorMeasure
        What is bounded.
    assumptions : tuple of Assumption
    bound : callable (setting, n, R) -> float
        Right side up to its constant C; of a tail (setting, n, R, level).
    claimed : callable setting -> Rate, or None
    sharp : callable setting -> Rate
    derivation : str
        Why the sharp rate is what it is, with the symbolic result that carries it.
    cases : tuple of Case
        The settings in which tables show it.
    remark : str
        What the statement or its proof leaves open.
    """

    name: str
    source: str
    statement: str
    error: ErrorMeasure
    assumptions: tuple[Assumption, ...]
    bound: Bound
    claimed: Callable[[Setting], Rate] | None
    sharp: Callable[[Setting], Rate]
    derivation: str
    cases: tuple[Case, ...] = ()
    remark: str = ""

    def check(self, setting: Setting) -> tuple[Check, ...]:
        """Return every assumption, whether it holds for this setting, and why."""
        return tuple(Check(each.text, *each.test(setting)) for each in self.assumptions)

    def applies(self, setting: Setting) -> bool:
        """Whether every assumption holds."""
        return all(check.holds for check in self.check(setting))


def variance(setting: Setting, n: float, radius: float) -> float:
    """Return R^D/n."""
    return float(radius**setting.dim) / n


def sharp_density(setting: Setting) -> Rate:
    """Return the sharp rate of the integrated error of a density."""
    return sharp_rate(setting.density, setting.kernel, dim=setting.dim)


def sharp_regression(setting: Setting) -> Rate:
    """Return the sharp rate of the mean squared error of a regression at a point."""
    return sharp_regression_rate(setting.density, setting.response, setting.kernel, dim=setting.dim)
