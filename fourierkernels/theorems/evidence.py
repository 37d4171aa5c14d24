"""The outcome of a verification: one answer for each form of a theorem, and the evidence."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.theorems.measure import Measured, Setting
from fourierkernels.theorems.theorem import FORMS, Check, FormName
from fourierkernels.theory.rates import Rate
from fourierkernels.theory.slopes import LimitSlope, Slope

Verdict = Literal["holds and sharp", "holds, loose", "does not hold", "not applicable", "undecided"]


class Answer(NamedTuple):
    """What became of one form of a theorem in one setting.

    Attributes
    ----------
    form : str
    checks : tuple of Check
    verdict : str
    rate : Rate or None
        The rate that the form states, None where it does not apply.
    refuted : str
        Why it fails whatever the rate that is measured, or "".
    """

    form: FormName
    checks: tuple[Check, ...]
    verdict: Verdict
    rate: Rate | None
    refuted: str = ""

    @property
    def reason(self) -> str:
        """Which assumption fails, or what refutes the statement."""
        return self.refuted or "; ".join(check.reason for check in self.checks if not check.holds)


@dataclass(frozen=True)
class Evidence:
    """The outcome of a verification.

    Attributes
    ----------
    theorem : str
    setting : Setting
    checks : tuple of Check
        Those of the form as proved.
    verdict : str
        Of the form as proved.
    claimed, sharp : Rate or None
        The paper's rate, or None where it states none or neither its printed nor its proved form
        applies; the sharp rate.
    answers : tuple of Answer
        One for each form.
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
    answers: tuple[Answer, ...] = ()

    def answer(self, form: FormName) -> Answer | None:
        """Return what became of a form, None for the printed one of what is not in the papers."""
        return next((answer for answer in self.answers if answer.form == form), None)

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
            **{name.replace(" ", "_"): _verdict(self.answer(name)) for name in FORMS},
            **_moved("slope", self.slope),
            "last_local": "" if self.local is None else float(self.local[-1]),
            **_window("n", self.computed),
            **_interval("simulated", fitted),
            **_window("simulated", simulated),
            "same_window": fitted.value - residual.value if fitted and residual else "",
            **_interval("residual", residual),
            "constant": "" if self.computed is None else self.constant,
        }


def _verdict(answer: Answer | None) -> str:
    return "" if answer is None else answer.verdict


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
