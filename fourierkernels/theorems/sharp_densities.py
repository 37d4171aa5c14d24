"""What the papers leave open about densities: kernels of order 2, and densities that limit."""

from fourierkernels.theorems.measures.integrated_error import INTEGRATED_ERROR
from fourierkernels.theorems.shared_terms import sharp_density, variance
from fourierkernels.theorems.theorem import NOT_IN_THE_PAPERS, Assumption, Case, Theorem
from fourierkernels.theory.setting import Setting


def _bound_order_2(setting: Setting, n: float, radius: float) -> float:
    return float(radius**-4.0) + variance(setting, n, radius)


def _bound_by_smoothness(setting: Setting, n: float, radius: float) -> float:
    q = 2.0 * setting.density.smoothness.exponent - 1.0
    return float(radius**-q) + variance(setting, n, radius)


def _second_order(setting: Setting) -> tuple[bool, str]:
    order = setting.kernel.order
    return order == 2.0, f"{setting.kernel.name} has order {order:g}"


def _finite_curvature(setting: Setting) -> tuple[bool, str]:
    smooth = setting.density.smoothness
    if smooth.kind == "supersmooth":
        return True, "supersmooth: ∫ t⁴|p̂|² is finite"
    holds = smooth.exponent > 2.5
    return holds, f"∫ t⁴|p̂|² {'is finite' if holds else 'diverges'}: β = {smooth.exponent:g}"


def _rough_for_the_kernel(setting: Setting) -> tuple[bool, str]:
    smooth, order = setting.density.smoothness, setting.kernel.order
    if smooth.kind == "supersmooth":
        return False, "the density is supersmooth: the order of the kernel limits"
    holds = 0.5 < smooth.exponent < order + 0.5
    return holds, f"β = {smooth.exponent:g} and the order is {order:g}"


DENSITY_OF_ORDER_2 = Theorem(
    name="density of order 2",
    source=NOT_IN_THE_PAPERS,
    statement=r"\mathrm{MISE} \le C \left(\frac{1}{R^4} + \frac{R^D}{N}\right)",
    error=INTEGRATED_ERROR,
    assumptions=(
        Assumption("the kernel has order 2: l >= 3, or the Gaussian", _second_order),
        Assumption("∫ t⁴ |p̂|² is finite", _finite_curvature),
    ),
    bound=_bound_order_2,
    claimed=None,
    sharp=sharp_density,
    derivation=(
        "the order counts in the transform: 1 - K̂(s) ~ (μ₂/2) s² for l = 3 too, where "
        "∫ |K| x² diverges and Taylor's theorem says nothing (symbolic.asymptotics)"
    ),
    cases=(
        Case("gaussian", "fourier3"),
        Case("gaussian", "fourier5"),
        Case("cauchy", "fourier3"),
        Case("gaussian", "fourier3", dim=2),
    ),
)

DENSITY_LIMITED_BY_SMOOTHNESS = Theorem(
    name="density limited by smoothness",
    source=NOT_IN_THE_PAPERS,
    statement=r"\mathrm{MISE} \le C \left(\frac{1}{R^{2\beta-1}} + \frac{R^D}{N}\right)",
    error=INTEGRATED_ERROR,
    assumptions=(Assumption("p is ordinary smooth, 1/2 < β < order + 1/2", _rough_for_the_kernel),),
    bound=_bound_by_smoothness,
    claimed=None,
    sharp=sharp_density,
    derivation=(
        "squared bias is ∫ |p̂|²(1 - K̂(t/R))² ~ R^{-(2β-1)} L² ∫ s^{-2β}(1 - K̂(s))² ds/π "
        "(symbolic.asymptotics)"
    ),
    cases=(
        Case("laplace", "fourier3"),
        Case("laplace", "fourier4"),
        Case("laplace", "fourier5"),
    ),
)
