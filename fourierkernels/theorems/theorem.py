"""A theorem: its error, assumptions, bound, rates and cases; the evidence of a verification."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.theorems.measure import Bound, ErrorMeasure, Measured, Setting
from fourierkernels.theory.rates import Rate, sharp_rate, sharp_regression_rate
from fourierkernels.theory.slopes import LimitSlope, Slope

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


Verdict = Literal["holds and sharp", "holds, loose", "does not hold", "not applicable", "undecided"]


@dataclass(frozen=True)
class Evidence:
    """The outcome of a verification.

    Attributes
    ----------
    theorem : str
    setting : Setting
    checks : tuple of Check
    verdict : str
    claimed, sharp : Rate or None
        The paper's rate, or None where it states none; the sharp rate.
    computed : Measured or None
        Exact (or first-order) errors over the stated window.
    local : array
        Local slopes of the computed errors.
    slope : LimitSlope or None
        Slope of the computed errors in the limit n → ∞, logarithms of the sharp rate removed, and
        the range over which its extrapolation moved.
    simulated : Measured or None
    simulated_slope : Slope or None
        Slope fitted to the simulated errors over their own window.
    residual : Slope or None
        Slope of simulated over computed error, same n and R: 0 if the simulation confirms.
    constant : float
        Smallest C for which the bound holds over the window, for radii within a factor of 4 of the
        best (2 for regression and tails).
    worst : tuple (n, R)
        Where C is needed.
    """

    theorem: str
    setting: Setting
    checks: tuple[Check, ...]
    verdict: Verdict
    claimed: Rate | None
    sharp: Rate | None
    computed: Measured | None = None
    local: FloatArray | None = None
    slope: LimitSlope | None = None
    simulated: Measured | None = None
    simulated_slope: Slope | None = None
    residual: Slope | None = None
    constant: float = np.nan
    worst: tuple[float, float] = (np.nan, np.nan)

    def __str__(self) -> str:
        setting = self.setting
        target = f"{setting.density} and {setting.kernel.name}, D = {setting.dim}"
        rates = "" if self.sharp is None else f" (stated {self.claimed or '-'}, sharp {self.sharp})"
        return f"{self.theorem}, {target}: {self.verdict}{rates}"

    @property
    def reason(self) -> str:
        """Why it does not apply, or what limits the rate."""
        failed = "; ".join(check.reason for check in self.checks if not check.holds)
        return failed or (self.sharp.source if self.sharp else "")

    def row(self) -> dict[str, str | float | int]:
        """Return one line of a table: always the same columns, "" where there is no value.

        `slope` is that of computed errors in the limit, `slope_least` and `slope_most` the range
        over which its extrapolation moved. `simulated`, and `same_window` for the computed errors
        at the same n, R and weights, are fitted over `simulated_from` to `simulated_to`; the first
        has a statistical interval, `_low` and `_high`.
        """
        setting, fitted, residual = self.setting, self.simulated_slope, self.residual
        simulated = self.simulated if fitted is not None else None
        return {
            "theorem": self.theorem,
            "density": str(setting.density),
            "kernel": setting.kernel.name,
            "function": setting.function.name if setting.function else "",
            "dim": setting.dim,
            "paper_rate": str(self.claimed) if self.claimed else "",
            "sharp_rate": str(self.sharp) if self.sharp else "",
            "verdict": self.verdict,
            "reason": self.reason,
            **_moved("slope", self.slope),
            "last_local": "" if self.local is None else float(self.local[-1]),
            **_window("n", self.computed),
            **_interval("simulated", fitted),
            **_window("simulated", simulated),
            "same_window": fitted.value - residual.value if fitted and residual else "",
            **_interval("residual", residual),
            "constant": "" if self.computed is None else self.constant,
        }


def _interval(name: str, slope: Slope | None) -> dict[str, str | float]:
    keys = (name, f"{name}_low", f"{name}_high")
    values = ("",) * 3 if slope is None else (slope.value, slope.low, slope.high)
    return dict(zip(keys, values, strict=True))


def _moved(name: str, slope: LimitSlope | None) -> dict[str, str | float]:
    keys = (name, f"{name}_least", f"{name}_most")
    values = ("",) * 3 if slope is None else (slope.value, slope.least, slope.most)
    return dict(zip(keys, values, strict=True))


def _window(name: str, measured: Measured | None) -> dict[str, str | int]:
    ends = ("", "") if measured is None else (int(measured.sizes[0]), int(measured.sizes[-1]))
    return dict(zip((f"{name}_from", f"{name}_to"), ends, strict=True))
