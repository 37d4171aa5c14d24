"""A theorem in its three forms: error, assumptions, bound, rates and cases.

*As printed*: the paper's own words. *As proved*: with the conditions that its proof uses and that
are not printed, which are marked as ours. *As sharp*: under the weakest condition that gives the
printed rate, with the rate that the error then has.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from fourierkernels.kernels import Kernel
from fourierkernels.theorems.measure import Bound, ErrorMeasure, Setting, order_at_points
from fourierkernels.theory.densities import Density
from fourierkernels.theory.rates import (
    RadiusLaw,
    Rate,
    balanced_rate,
    sharp_rate,
    sharp_regression_rate,
)

NOT_IN_THE_PAPERS = "not in the papers"


class Check(NamedTuple):
    """One assumption, whether it holds, and why; whether we add it to what is printed."""

    assumption: str
    holds: bool
    reason: str
    ours: bool = False


@dataclass(frozen=True)
class Assumption:
    """An assumption in words, and its test: returns whether it holds, and a reason.

    `ours` marks one that the proof uses and the paper does not print.
    """

    text: str
    test: Callable[[Setting], tuple[bool, str]]
    ours: bool = False

    def check(self, setting: Setting) -> Check:
        """Return the outcome in a setting."""
        return Check(self.text, *self.test(setting), self.ours)


FormName = Literal["as printed", "as proved", "as sharp"]
FORMS: tuple[FormName, ...] = ("as printed", "as proved", "as sharp")


class Form(NamedTuple):
    """One form of a theorem: its assumptions, and the rate that it states."""

    name: FormName
    assumptions: tuple[Assumption, ...]
    rate: Callable[[Setting], Rate]


def never(setting: Setting) -> str:
    """Return no reason: nothing refutes the printed statement but its rate."""
    del setting
    return ""


class Case(NamedTuple):
    """A setting by its names, or objects; `beyond` to measure even where an assumption fails."""

    density: Density | str
    kernel: Kernel | str
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
        Those of the form as proved: what is printed, and ours.
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
    weakest : tuple of Assumption
        Conditions that are sufficient for the stated rate, the weakest known; for kernels of the
        theorem those of Theorems 1 and 3(b) are necessary as well. By default those of the form as
        proved.
    refuted : callable setting -> str
        Why the printed statement fails in a setting whatever the rate of the error that is
        measured, or "".
    radius : callable setting -> RadiusLaw, or None
        The best radius after the paper.
    errata : tuple of str
        What is wrong in print and does not touch the rate.
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
    weakest: tuple[Assumption, ...] = ()
    refuted: Callable[[Setting], str] = never
    radius: Callable[[Setting], RadiusLaw] | None = None
    errata: tuple[str, ...] = ()

    @property
    def forms(self) -> tuple[Form, ...]:
        """From the printed to the sharp one; what is not in the papers has no printed form."""
        stated, every = self.claimed or self.sharp, self.assumptions
        printed = Form("as printed", tuple(each for each in every if not each.ours), stated)
        proved = Form("as proved", every, stated)
        sharp = Form("as sharp", self.weakest or every, self.sharp)
        return (printed, proved, sharp)[self.claimed is None :]

    def check(self, setting: Setting) -> tuple[Check, ...]:
        """Return every assumption, whether it holds for this setting, and why."""
        return tuple(each.check(setting) for each in self.assumptions)

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
    """Return the sharp rate of the mean squared error of a regression at five points.

    Where one of them is a break of f or p, its bias there may be of a lower order than elsewhere.
    """
    inside = sharp_regression_rate(
        setting.density, setting.response, setting.kernel, dim=setting.dim
    )
    at_break = balanced_rate(2.0 * order_at_points(setting), setting.dim, "break at a point")
    return at_break if at_break.exponent < inside.exponent else inside
