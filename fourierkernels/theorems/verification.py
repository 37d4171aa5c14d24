"""Test a theorem: slopes, verdict, and the smallest constant of its bound."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fourierkernels.kernels import Kernel
from fourierkernels.theorems.evidence import Answer, Evidence, Verdict
from fourierkernels.theorems.measure import ErrorMeasure, Measured, Setting, Simulation
from fourierkernels.theorems.registry import as_theorem
from fourierkernels.theorems.theorem import Form, Theorem
from fourierkernels.theory.densities import Density, RegressionFunction
from fourierkernels.theory.rates import Rate
from fourierkernels.theory.slopes import (
    Correction,
    LimitSlope,
    Slope,
    fit_slope,
    limit_slope,
    local_slopes,
)

_WIDEST = 0.02  # that an extrapolation may move; beyond, it tells no rate from another
_ROUNDING = 1e-12  # of an exponent
_RESIDUAL = 0.02  # slope that orders not computed may leave between simulation and computation


class _Windows(NamedTuple):
    """Sizes that were asked for, None for those of the measure, and the simulation."""

    sizes: Sequence[int] | None
    simulated_sizes: Sequence[int] | None
    simulation: Simulation | None  # None: nothing is simulated


def verify(
    theorem: Theorem | str,
    density: Density | str,
    kernel: Kernel | str,
    function: RegressionFunction | str | None = None,
    *,
    dim: int = 1,
    sizes: Sequence[int] | None = None,
    beyond: bool = False,
    simulate: bool = True,
    simulation: Simulation | None = None,
    simulated_sizes: Sequence[int] | None = None,
) -> Evidence:
    """Return the evidence for a theorem in one setting, with an answer for each of its forms.

    `answers` has one verdict for the theorem as printed, as proved and as sharp; the `verdict` is
    that of the form as proved. Constants may depend on p and f in all of them. A printed statement
    "does not hold" also where nothing that is measured can show it: where the mean that it bounds
    is infinite. The form as sharp is "not applicable" where its condition, the weakest, fails.

    A verdict compares the claimed rate with the slope of computed errors in the limit: exact MISE
    for densities, the error to first order in R^D/n for regression; powers of log n, which no slope
    tells apart, with those of the sharp rate. Where these are not exact, a
    simulation over smaller n must agree with them. "does not hold" asks for a proof beside the
    slope: that the sharp rate is slower than the claimed one, so that no constant will do; "holds,
    loose", that it is faster. If slope and sharp rate contradict each other, the simulation does
    not agree, or the extrapolation has not settled, the verdict is "undecided".

    Parameters
    ----------
    theorem : Theorem or str
        A theorem, or its name in :data:`~fourierkernels.theorems.THEOREMS`.
    density, kernel, function
        Objects or names; a regression function where the theorem is about regression.
    dim : int
        D, for a product of copies of a density on the line.
    sizes : sequence of int, optional
        The window of n, at least five in geometric progression.
    beyond : bool
        Judge the form as proved although an assumption fails: it may be true beyond.
    simulate : bool
        Whether to simulate where the computed error is not exact.
    simulation : callable (setting, sizes) -> Measured, optional
        Instead of the default simulation.
    simulated_sizes : sequence of int, optional
        The window of n of the simulation, at least three.

    Raises
    ------
    ValueError, TypeError
        For unknown names, a missing regression function, sizes that do not fit.

    Examples
    --------
    >>> result = verify("3a ordinary smooth", "laplace", "fourier1")
    >>> result.verdict, str(result.claimed), str(result.sharp)
    ('holds, loose', 'n^-1/2', 'n^-3/4')
    """
    theorem = as_theorem(theorem)
    setting = Setting.of(density, kernel, function, dim=dim)
    answers = tuple(_asked(theorem, form, setting, beyond=beyond) for form in theorem.forms)
    made = theorem.error.simulation
    if not simulate or made is None:
        simulation = None
    elif simulation is None:
        simulation = made()
    if all(answer.verdict in {"not applicable", "does not hold"} for answer in answers):
        proved = answers[-2]
        return Evidence(
            theorem.name, setting, proved.checks, proved.verdict, None, None, answers=answers
        )
    return _evidence(theorem, setting, answers, _Windows(sizes, simulated_sizes, simulation))


def _asked(theorem: Theorem, form: Form, setting: Setting, *, beyond: bool) -> Answer:
    """Check the assumptions of a form; the verdict is open ("undecided") where they hold."""
    checks = tuple(each.check(setting) for each in form.assumptions)
    applies = all(check.holds for check in checks)
    if not applies and not (beyond and form.name == "as proved"):
        return Answer(form.name, checks, "not applicable", None)
    refuted = theorem.refuted(setting) if form.name == "as printed" else ""
    verdict: Verdict = "does not hold" if refuted else "undecided"
    return Answer(form.name, checks, verdict, form.rate(setting), refuted)


def _evidence(
    theorem: Theorem, setting: Setting, answers: tuple[Answer, ...], windows: _Windows
) -> Evidence:
    measure, sharp = theorem.error, theorem.sharp(setting)
    computed = measure.compute(setting, _window(measure, sharp, windows.sizes))
    simulated = _simulated(measure, setting, windows)
    residual = _residual(measure, setting, simulated)
    answers = tuple(_judged(answer, sharp, computed, residual) for answer in answers)
    constant, worst = _smallest_constant(theorem, setting, computed)
    return Evidence(
        theorem=theorem.name,
        setting=setting,
        checks=answers[-2].checks,
        verdict=answers[-2].verdict,
        claimed=_claimed(theorem, answers),
        sharp=sharp,
        computed=computed,
        local=local_slopes(computed.sizes, computed.errors),
        slope=_slope_beside(sharp, computed),
        simulated=simulated,
        simulated_slope=_fitted(simulated),
        residual=residual,
        constant=constant,
        worst=worst,
        answers=answers,
    )


def _claimed(theorem: Theorem, answers: tuple[Answer, ...]) -> Rate | None:
    """Return the paper's rate if the printed or the proved form applies."""
    if theorem.claimed is None:
        return None
    return next((answer.rate for answer in answers[:-1] if answer.rate is not None), None)


def _judged(answer: Answer, sharp: Rate, computed: Measured, residual: Slope | None) -> Answer:
    """Settle an open verdict by the slope of what was measured."""
    if answer.verdict != "undecided" or answer.rate is None:
        return answer
    gap = _gap(answer.rate, sharp, computed)
    return answer._replace(verdict=_judge(gap, _faster(sharp, answer.rate), residual))


def _window(measure: ErrorMeasure, sharp: Rate, sizes: Sequence[int] | None) -> Sequence[int]:
    if sizes is not None:
        return sizes
    return measure.log_sizes if sharp.log_power else measure.sizes


def _simulated(measure: ErrorMeasure, setting: Setting, windows: _Windows) -> Measured | None:
    if windows.simulation is None:
        return None
    sizes = windows.simulated_sizes
    return windows.simulation(setting, measure.simulated_sizes if sizes is None else sizes)


def _judge(gap: LimitSlope, faster: int, residual: Slope | None) -> Verdict:
    """Compare the slope of error over claimed rate with the sign of sharp less claimed rate."""
    width = gap.most - gap.least
    if residual is not None and 0.0 not in residual:
        return "undecided"
    if width > _WIDEST and min(abs(gap.least), abs(gap.most)) < 0.5 * width:
        return "undecided"  # the extrapolation itself moved by more than it says
    seen = 0 if 0.0 in gap else 1 if gap.most < 0.0 else -1
    only_logarithms = abs(faster) == 1
    if seen != np.sign(faster) and not (only_logarithms and seen == 0):
        return "undecided"  # the next order is slow, or the sharp rate is not what was measured
    return _VERDICTS[int(np.sign(faster))]


_VERDICTS: dict[int, Verdict] = {-1: "does not hold", 0: "holds and sharp", 1: "holds, loose"}


def _faster(sharp: Rate, stated: Rate) -> int:
    """Return 2 if the sharp rate has the larger exponent, 1 if only fewer logarithms; or minus."""
    gain = sharp.exponent - stated.exponent
    if abs(gain) > _ROUNDING:
        return 2 if gain > 0.0 else -2
    return int(np.sign(stated.log_power - sharp.log_power))


def _gap(rate: Rate, sharp: Rate, computed: Measured) -> LimitSlope:
    """Slope, in the limit, of the error over a rate."""
    ratio = computed.errors / np.array([rate(n) for n in computed.sizes])
    return limit_slope(computed.sizes, ratio, correction=_correction(sharp))


def _slope_beside(sharp: Rate, computed: Measured) -> LimitSlope:
    """Exponent of n in the limit, with the logarithms of the sharp rate taken out."""
    logs = np.log(computed.sizes) ** sharp.log_power
    return limit_slope(computed.sizes, computed.errors / logs, correction=_correction(sharp))


def _correction(sharp: Rate) -> Correction:
    return "logarithm" if sharp.log_power else "power"


def _fitted(simulated: Measured | None) -> Slope | None:
    if simulated is None or simulated.standard_errors is None:
        return None
    return fit_slope(simulated.sizes, simulated.errors, simulated.standard_errors)


def _residual(measure: ErrorMeasure, setting: Setting, simulated: Measured | None) -> Slope | None:
    """Slope of simulated over computed error at the same n and R, with room for the next order."""
    if simulated is None or simulated.standard_errors is None:
        return None
    computed = measure.compare_with(setting, [int(n) for n in simulated.sizes])
    ratio = simulated.errors / computed.errors
    fit = fit_slope(simulated.sizes, ratio, simulated.standard_errors / computed.errors)
    return Slope(fit.value, fit.low - _RESIDUAL, fit.high + _RESIDUAL)


def _smallest_constant(
    theorem: Theorem, setting: Setting, computed: Measured
) -> tuple[float, tuple[float, float]]:
    places = [
        (float(n), float(factor * radius))
        for n, radius in zip(computed.sizes, computed.radii, strict=True)
        for factor in theorem.error.factors
    ]
    over_bound = theorem.error.over_bound
    ratios = [over_bound(theorem.bound, setting, n, radius) for n, radius in places]
    worst = int(np.argmax(ratios))
    return float(ratios[worst]), places[worst]
