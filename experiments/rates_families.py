"""Exact and simulated rates over families: Cauchy, Beta, Gamma, Marron-Wand, correlated, designs.

    python experiments/rates_families.py [--output FOLDER] [--quick]

rates_families.csv, one row per setting. Densities: the least exact MISE at one n, its local slope,
the limit of the slopes with what its extrapolation moved over, the sharp rate, the paper's claim.
Regression at five points inside a design that is not Gaussian: the same of the error to first order
in R^D/n. For some of both a simulation at the same radii: its slope with a statistical interval,
beside it the slope of the computed errors over the same n with the same weights.

rates_correlated.csv: normals of one common correlation up to D = 5, each kernel's best error and
radius, and what the correlation costs: the error over that without it (both over the integral of
p²), and how many times as many samples bring that error back.
"""

import argparse
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import brentq

from fourierkernels import simulation, theorems, theory
from fourierkernels.foundation.provenance import write_study
from fourierkernels.theorems import ERROR_AT_POINTS, INTEGRATED_ERROR, THEOREMS, Setting
from fourierkernels.theorems.measure import Measured
from fourierkernels.theory.densities import CorrelatedGaussian

ROOT = Path(__file__).parents[1]
SEED = 2022
KERNELS = ("fourier1", "fourier2", "fourier4", "gaussian")
DENSITIES = ("cauchy", "beta(1, 1)", "beta(1.5, 3)", "beta(2, 2)", "gamma", "gamma(1.5)")
DENSITIES += tuple(f"mw{i}" for i in range(1, 16))
SIMULATED = ("cauchy", "beta(2, 2)", "gamma(1.5)", "mw6")
DESIGNS = ("beta(1, 1)", "laplace", "beta(2, 2)", "mw6")  # beta(1, 1) is the uniform density
REGRESSION = ("fourier1", "fourier2", "fourier4", "fourier6")
AT = 10_000  # the n of the columns radius, error and local_slope
Row = dict[str, Any]


def density_row(name: str, kernel: str, *, quick: bool) -> Row:
    """Exact rates of one density and kernel."""
    setting = Setting.of(name, kernel)
    best = theory.optimum(name, kernel, n=AT)
    sharp = theory.sharp_rate(name, kernel)
    computed = INTEGRATED_ERROR.compute(setting, _sizes(INTEGRATED_ERROR.sizes, quick=quick))
    row = _row("density", name, "", kernel, sharp, computed)
    row |= {"radius": best.radius, "error": best.mise.total, "local_slope": best.slope}
    row["paper"] = str(theorems.paper_rate(name, kernel) or "")
    sizes = (100, 400, 1_600) if quick else (1_000, 4_000, 16_000)
    if name in SIMULATED and kernel in {"fourier1", "fourier4"}:
        exact = INTEGRATED_ERROR.compute(setting, sizes)
        row |= _simulated(exact, _simulated_ise(setting, exact, 10 if quick else 40))
    return row


def regression_row(name: str, kernel: str, *, quick: bool) -> Row:
    """Rates of regression on the sine with one design and kernel."""
    setting = Setting.of(name, kernel, "sine")
    measure = ERROR_AT_POINTS
    sharp = theory.sharp_regression_rate(name, "sine", kernel)
    window = measure.log_sizes if sharp.log_power else measure.sizes
    computed = measure.compute(setting, _sizes(window, quick=quick))
    row = _row("regression", name, "sine", kernel, sharp, computed)
    near = measure.compute(setting, (AT // 2, AT, 2 * AT))
    slope = math.log(near.errors[2] / near.errors[0]) / math.log(4.0)
    row |= {"radius": near.radii[1], "error": near.errors[1], "local_slope": slope}
    claims = (THEOREMS[key] for key in ("2", "4"))
    paper = [t.claimed(setting) for t in claims if t.claimed and t.applies(setting)]
    row["paper"] = str(paper[0]) if paper else ""
    sizes = (250, 500, 1_000) if quick else measure.simulated_sizes
    if measure.simulation is not None:
        made = measure.simulation(replicates=10 if quick else 40, seed=SEED)
        row |= _simulated(measure.compare_with(setting, sizes), made(setting, sizes))
    return row


def _sizes(sizes: Sequence[int], *, quick: bool) -> Sequence[int]:
    return sizes[:5] if quick else sizes


def _row(
    target: str, name: str, function: str, kernel: str, sharp: theory.Rate, computed: Measured
) -> Row:
    logs = np.log(computed.sizes) ** sharp.log_power
    kind = "logarithm" if sharp.log_power else "power"
    limit = theory.limit_slope(computed.sizes, computed.errors / logs, correction=kind)
    return {
        "target": target,
        "density": name,
        "function": function,
        "kernel": kernel,
        "n": AT,
        "radius": "",
        "error": "",
        "local_slope": "",
        "limit": limit.value,
        "limit_least": limit.least,
        "limit_most": limit.most,
        "sharp_exponent": -sharp.exponent,
        "sharp": str(sharp),
        "paper": "",
        "simulated": "",
        "simulated_low": "",
        "simulated_high": "",
        "same_window": "",
        "simulated_from": "",
        "simulated_to": "",
    }


def _simulated_ise(setting: Setting, exact: Measured, replicates: int) -> Measured:
    found = [
        simulation.mise(
            setting.density,
            setting.kernel,
            n=int(n),
            radius=float(radius),
            replicates=replicates,
            rng=np.random.default_rng([SEED, int(n)]),
        )
        for n, radius in zip(exact.sizes, exact.radii, strict=True)
    ]
    errors = np.array([each.mean for each in found])
    spread = np.array([each.standard_error for each in found])
    return replace(exact, errors=errors, standard_errors=spread)


def _simulated(computed: Measured, simulated: Measured) -> Row:
    assert simulated.standard_errors is not None
    spread = simulated.standard_errors
    slope = theory.fit_slope(simulated.sizes, simulated.errors, spread)
    return {
        "simulated": slope.value,
        "simulated_low": slope.low,
        "simulated_high": slope.high,
        "same_window": theory.fit_slope(computed.sizes, computed.errors, spread).value,
        "simulated_from": int(simulated.sizes[0]),
        "simulated_to": int(simulated.sizes[-1]),
    }


def relative_error(correlation: float, dim: int, kernel: str, n: int) -> tuple[float, float]:
    """Return the least MISE over ∫p², and its radius."""
    density = CorrelatedGaussian(correlation, dim)
    best = theory.optimum(density, kernel, n=n)
    return best.mise.total / density.roughness, best.radius


def correlated_rows(*, quick: bool) -> Iterator[Row]:
    """Yield what one common correlation costs product kernels, up to D = 5."""
    n = 1_000
    for dim in (2, 5) if quick else (2, 3, 4, 5):
        for kernel in ("fourier1", "fourier4", "gaussian"):
            plain, _ = relative_error(0.0, dim, kernel, n)
            for correlation in (0.9,) if quick else (0.5, 0.9):
                error, radius = relative_error(correlation, dim, kernel, n)
                yield {
                    "dim": dim,
                    "kernel": kernel,
                    "correlation": correlation,
                    "n": n,
                    "radius": radius,
                    "relative_mise": error,
                    "error_ratio": error / plain,
                    "sample_ratio": sample_ratio(correlation, dim, kernel, n, plain),
                }


def sample_ratio(correlation: float, dim: int, kernel: str, n: int, plain: float) -> float:
    """Return m/n, m the samples with which the correlated error is `plain` too."""

    def excess(log_ratio: float) -> float:
        size = round(n * math.exp(log_ratio))
        return math.log(relative_error(correlation, dim, kernel, size)[0] / plain)

    return math.exp(brentq(excess, 0.0, math.log(1e3), xtol=1e-4))


def main() -> None:
    """Compute all rows, then write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "experiments/results")
    parser.add_argument("--quick", action="store_true", help="few densities, small samples")
    options = parser.parse_args()
    quick = options.quick
    densities = ("cauchy", "mw6") if quick else DENSITIES
    config = {"seed": SEED, "quick": quick}
    correlated = list(correlated_rows(quick=quick))
    write_study(options.output, "rates_correlated", correlated, config, source=Path(__file__))
    rows = []
    for name in densities:
        for kernel in KERNELS:
            rows.append(density_row(name, kernel, quick=quick))
            _show(rows[-1])
    for name in DESIGNS[1:2] if quick else DESIGNS:
        for kernel in REGRESSION[1:3] if quick else REGRESSION:
            rows.append(regression_row(name, kernel, quick=quick))
            _show(rows[-1])
    write_study(options.output, "rates_families", rows, config, source=Path(__file__))


def _show(row: Row) -> None:
    shown = ("target", "density", "kernel", "limit", "sharp", "paper", "simulated", "same_window")
    print(*(row[name] for name in shown), sep=" | ", flush=True)


if __name__ == "__main__":
    main()
