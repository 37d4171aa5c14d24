"""Test a theorem: slopes, verdict, and the smallest constant of its bound."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fourierkernels.densities import Density, RegressionFunction
from fourierkernels.kernels import Kernel
from fourierkernels.theory.measures.measure import ErrorMeasure, Measured, Simulation
from fourierkernels.theory.rates import Rate
from fourierkernels.theory.setting import Setting
from fourierkernels.theory.slopes import Correction, Slope, fit_slope, limit_slope, local_slopes
from fourierkernels.theory.theorems.evidence import Evidence, Verdict
from fourierkernels.theory.theorems.registry import as_theorem
from fourierkernels.theory.theorems.theorem import Check, Theorem

_WIDEST = 0.02  # interval of a slope; a wider one tells no rate from another
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
    """Return the evidence for a theorem in one setting.

    The verdict compares the claimed rate with the slope of computed errors in the limit: exact MISE
    for densities, the error to first order in R^D/n for regression; powers of log n, which no slope
    tells apart, with those of the sharp rate. Where these are not exact, a
    simulation over smaller n must agree with them; if not, or if the extrapolation has not settled,
    the verdict is "undecided".

    Parameters
    ----------
    theorem : Theorem or str
        A theorem, or its name in :data:`~fourierkernels.theory.theorems.THEOREMS`.
    density, kernel, function
        Objects or names; a regression function where the theorem is about regression.
    dim : int
        D, for a product of copies of a density on the line.
    sizes : sequence of int, optional
        The window of n, at least five in geometric progression.
    beyond : bool
        Measure although an assumption fails: the theorem may be true beyond what it assumes.
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
    checks = theorem.check(setting)
    if not (beyond or all(check.holds for check in checks)):
        return Evidence(theorem.name, setting, checks, "not applicable", None, None)
    made = theorem.error.simulation
    if not simulate or made is None:
        simulation = None
    elif simulation is None:
        simulation = made()
    return _evidence(theorem, setting, checks, _Windows(sizes, simulated_sizes, simulation))


def _evidence(
    theorem: Theorem, setting: Setting, checks: tuple[Check, ...], windows: _Windows
) -> Evidence:
    measure, sharp = theorem.error, theorem.sharp(setting)
    claimed = theorem.claimed(setting) if theorem.claimed else None
    computed = measure.compute(setting, _window(measure, sharp, windows.sizes))
    simulated = _simulated(measure, setting, windows)
    residual = _residual(measure, setting, simulated)
    verdict = _judge(_gap(claimed or sharp, sharp, computed), residual)
    constant, worst = _smallest_constant(theorem, setting, computed)
    return Evidence(
        theorem=theorem.name,
        setting=setting,
        checks=checks,
        verdict=_with_logarithms(verdict, claimed or sharp, sharp),
        claimed=claimed,
        sharp=sharp,
        computed=computed,
        local=local_slopes(computed.sizes, computed.errors),
        slope=_slope_beside(sharp, computed),
        simulated=simulated,
        simulated_slope=_fitted(simulated),
        residual=residual,
        constant=constant,
        worst=worst,
    )


def _window(measure: ErrorMeasure, sharp: Rate, sizes: Sequence[int] | None) -> Sequence[int]:
    if sizes is not None:
        return sizes
    return measure.log_sizes if sharp.log_power else measure.sizes


def _simulated(measure: ErrorMeasure, setting: Setting, windows: _Windows) -> Measured | None:
    if windows.simulation is None:
        return None
    sizes = windows.simulated_sizes
    return windows.simulation(setting, measure.simulated_sizes if sizes is None else sizes)


def _judge(gap: Slope, residual: Slope | None) -> Verdict:
    """Sharp if error over claimed rate has slope 0, loose if it falls, false if it rises."""
    width = gap.high - gap.low
    if residual is not None and 0.0 not in residual:
        return "undecided"
    if 0.0 in gap:
        return "holds and sharp" if width <= _WIDEST else "undecided"
    if width > _WIDEST and min(abs(gap.low), abs(gap.high)) < 0.5 * width:
        return "undecided"  # the extrapolation itself moved by more than it says
    return "holds, loose" if gap.high < 0.0 else "does not hold"


def _with_logarithms(verdict: Verdict, rate: Rate, sharp: Rate) -> Verdict:
    """Tell apart rates that differ only in powers of log n, which no slope over a window can do."""
    if verdict != "holds and sharp" or rate.log_power == sharp.log_power:
        return verdict
    return "holds, loose" if rate.log_power > sharp.log_power else "does not hold"


def _gap(rate: Rate, sharp: Rate, computed: Measured) -> Slope:
    """Slope, in the limit, of the error over a rate."""
    ratio = computed.errors / np.array([rate(n) for n in computed.sizes])
    return limit_slope(computed.sizes, ratio, correction=_correction(sharp))


def _slope_beside(sharp: Rate, computed: Measured) -> Slope:
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
