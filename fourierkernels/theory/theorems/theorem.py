"""What a theorem is: assumptions, bound, rate, sharp rate, and how it is put to the test."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from fourierkernels.arrays import FloatArray
from fourierkernels.densities import Density, RegressionFunction, as_density, as_regression_function
from fourierkernels.kernels import Kernel, as_kernel
from fourierkernels.theory.rates import Rate
from fourierkernels.theory.slopes import Slope
from fourierkernels.validation import check_integer

Verdict = Literal["holds and sharp", "holds, loose", "does not hold", "not applicable", "undecided"]
NOT_IN_THE_PAPERS = "not in the papers"


@dataclass(frozen=True)
class Setting:
    """What a theorem is asked about: a product of `dim` copies, a kernel, a regression function."""

    density: Density
    kernel: Kernel
    dim: int = 1
    function: RegressionFunction | None = None

    @classmethod
    def of(
        cls,
        density: Density | str,
        kernel: Kernel | str,
        function: RegressionFunction | str | None = None,
        *,
        dim: int = 1,
    ) -> "Setting":
        """Return the setting of names or objects.

        Raises
        ------
        ValueError, TypeError
            For unknown names and a `dim` below 1.
        """
        target = as_density(density)
        f = None if function is None else as_regression_function(function)
        return cls(target, as_kernel(kernel), max(check_integer("dim", dim), target.dim), f)

    @property
    def response(self) -> RegressionFunction:
        """The regression function.

        Raises
        ------
        ValueError
            If there is none.
        """
        if self.function is None:
            raise ValueError("function must be given for a theorem on regression, got None")
        return self.function


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


@dataclass(frozen=True)
class Measured:
    """Errors at the best radius for growing n.

    Attributes
    ----------
    sizes, radii, errors : arrays of shape (k,)
    standard_errors : array of shape (k,) or None
        None for errors that are computed, not simulated.
    method : str
        How they were found.
    notes : str
        What the method saw besides: shares of undefined ratios, say.
    """

    sizes: FloatArray
    radii: FloatArray
    errors: FloatArray
    standard_errors: FloatArray | None
    method: str
    notes: str = ""


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
    slope : Slope or None
        Slope of the computed errors in the limit n → ∞, logarithms of the sharp rate removed.
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
    slope: Slope | None = None
    simulated: Measured | None = None
    simulated_slope: Slope | None = None
    residual: Slope | None = None
    constant: float = np.nan
    worst: tuple[float, float] = (np.nan, np.nan)

    @property
    def reason(self) -> str:
        """Why it does not apply, or what limits the rate."""
        failed = "; ".join(check.reason for check in self.checks if not check.holds)
        return failed or (self.sharp.source if self.sharp else "")

    def row(self) -> dict[str, str | float | int]:
        """Return one line of a table, the same columns always, "" where there is nothing.

        `slope` is that of computed errors in the limit; `simulated`, and `same_window` for the
        computed errors at the same n, R and weights, are fitted over `simulated_from` to
        `simulated_to`; each has `_low` and `_high`, but for `same_window`.
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
            **_interval("slope", self.slope),
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


def _window(name: str, measured: Measured | None) -> dict[str, str | int]:
    ends = ("", "") if measured is None else (int(measured.sizes[0]), int(measured.sizes[-1]))
    return dict(zip((f"{name}_from", f"{name}_to"), ends, strict=True))


@dataclass(frozen=True)
class Theorem:
    r"""A stated rate, with everything needed to test it.

    Attributes
    ----------
    name : str
        Key in :data:`~fourierkernels.theory.theorems.THEOREMS`.
    source : str
        Where it is stated.
    statement : str
        The bound, in LaTeX.
    error : str
        "mise", "mse" (at a point) or "tail" (quantile of the error at a point).
    assumptions : tuple of Assumption
    bound : callable (setting, n, R) -> float
        Right side up to its constant C.
    claimed : callable setting -> Rate, or None
    sharp : callable setting -> Rate
    derivation : str
        Why the sharp rate is what it is, with the symbolic result that carries it.
    remark : str
        What the statement or its proof leaves open.
    """

    name: str
    source: str
    statement: str
    error: Literal["mise", "mse", "tail"]
    assumptions: tuple[Assumption, ...]
    bound: Callable[[Setting, float, float], float]
    claimed: Callable[[Setting], Rate] | None
    sharp: Callable[[Setting], Rate]
    derivation: str
    remark: str = ""

    def check(self, setting: Setting) -> tuple[Check, ...]:
        """Return every assumption, whether it holds for this setting, and why."""
        return tuple(Check(each.text, *each.test(setting)) for each in self.assumptions)

    def applies(self, setting: Setting) -> bool:
        """Whether every assumption holds."""
        return all(check.holds for check in self.check(setting))
