"""Assumptions of the theorems, each with a test that gives a reason."""

import math
from collections.abc import Callable

import numpy as np

from fourierkernels.kernels import FourierKernel, Kernel, PolynomialKernel
from fourierkernels.kernels.phi_kernel import PhiKernel
from fourierkernels.theorems.decay import common_order
from fourierkernels.theorems.measure import Setting, central_points, order_at_points
from fourierkernels.theorems.theorem import Assumption
from fourierkernels.theory.densities import RegressionFunction, Smoothness
from fourierkernels.theory.regression_moments import check_moments


def power(setting: Setting) -> int | None:
    """Return l of a sinc power, None for any other kernel."""
    kernel = setting.kernel
    return kernel.power if isinstance(kernel, FourierKernel) else None


def power_is(*powers: int) -> Assumption:
    """φ(z) = z^l with one of these l."""
    names = " or ".join(map(str, powers))

    def test(setting: Setting) -> tuple[bool, str]:
        holds = power(setting) in powers
        return holds, f"the kernel is {setting.kernel.name}"

    return Assumption(f"φ(z) = z^l, l = {names}", test)


Moments = Callable[[Setting], int]


def lowest_power(kernel: Kernel) -> float | None:
    """Return l in φ(z) ~ z^l at 0, None for a kernel that is no function of sinc."""
    if isinstance(kernel, FourierKernel | PolynomialKernel | PhiKernel):
        return kernel.lowest_power
    return None


def moments_of_theorem_1(setting: Setting) -> int:
    """Return the largest m >= 1 of Theorem 1: moments vanish below the order r, |z|^{m+1} counts.

    m = min(r - 1, l - 3), l the lowest power of φ; r - 1 where that is none, and 1 if there is no
    order to stop at.
    """
    return _moments(setting, lambda power: math.ceil(power) - 3)


def moments_of_theorem_2(setting: Setting) -> int:
    """Return the largest m >= 1 of Theorem 2, min(r - 1, (l - 4)/2): it counts |z|^{2m+2}."""
    return _moments(setting, lambda power: (math.ceil(power) - 4) // 2)


def _moments(setting: Setting, largest: Callable[[float], int]) -> int:
    order, power = setting.kernel.order, lowest_power(setting.kernel)
    below = 1 if math.isinf(order) else max(math.ceil(order) - 1, 1)
    absolute = 0 if power is None else largest(power)
    return min(below, absolute) if absolute >= 1 else below


def absolute_moments(m: Moments, top: Callable[[int], int]) -> Assumption:
    """∫ φ(sinc z) z^j = 0 for 1 <= j <= m, ∫ |φ(sinc z)| |z|^j finite for m < j <= top(m).

    Where φ(z) ~ z^l at 0, the j-th absolute moment is finite if l - j > 1; moments below the order
    of the kernel are zero.
    """

    def test(setting: Setting) -> tuple[bool, str]:
        kernel, power = setting.kernel, lowest_power(setting.kernel)
        if power is None:
            return False, f"the kernel is {kernel.name}, no function φ of sinc"
        last = top(m(setting))
        holds = power - last > 1 and kernel.order > m(setting)
        shape = f"sinc z|^{power:g}" if isinstance(kernel, FourierKernel) else "φ(sinc z)|"
        size = "is finite" if power - last > 1 else "diverges"
        return holds, f"∫ |{shape} |z|^{last} dz {size}: it needs l > {last + 1}"

    text = f"moments of φ(sinc z): zero up to m >= 1, absolutely finite up to {_named(top)}"
    return Assumption(text, test)


def _named(top: Callable[[int], int]) -> str:
    return {2: "m + 1", 4: "2m + 2"}[top(1)]


def _continuous_derivatives(smooth: Smoothness, times: int) -> tuple[bool, str]:
    """|p̂| ~ t^{-β}: the derivative of order k is continuous and bounded if β > k + 1."""
    if smooth.kind == "supersmooth":
        return True, "supersmooth: all derivatives are bounded"
    holds = smooth.exponent > times + 1
    sign = ">" if holds else "<="
    return holds, f"ordinary smooth with β = {smooth.exponent:g} {sign} {times + 1}"


def smooth_density(m: Moments) -> Assumption:
    """Ask p for m + 1 continuous, bounded derivatives: used in the proof, not printed."""

    def test(setting: Setting) -> tuple[bool, str]:
        holds, reason = _continuous_derivatives(setting.density.smoothness, m(setting) + 1)
        return holds, f"the density is {reason}"

    return Assumption("p has m + 1 bounded continuous derivatives", test, ours=True)


def smooth_function(m: Moments) -> Assumption:
    """Ask f for m + 1 continuous, bounded derivatives: used in the proof, not printed."""

    def test(setting: Setting) -> tuple[bool, str]:
        f = setting.response
        if f.growth > 1.0:
            return False, f"f grows like |x|^{f.growth:g}: its derivatives are not bounded"
        holds, reason = _continuous_derivatives(f.smoothness, m(setting) + 1)
        return holds, reason if holds else f"f has a {f.kind} at {_places(f)}: {reason}"

    return Assumption("f has m + 1 bounded continuous derivatives", test, ours=True)


def of_finite_order(least: float) -> Assumption:
    """1 - K̂(s) ~ b |s|^r with r >= least."""

    def test(setting: Setting) -> tuple[bool, str]:
        order = setting.kernel.order
        return least <= order < math.inf, f"{setting.kernel.name} has order {order:g}"

    return Assumption(f"1 - K̂(s) ~ b |s|^r, {least:g} <= r < ∞", test)


def of_order(least: float) -> Assumption:
    """1 - K̂(s) = O(|s|^r) with r >= least; every r where K̂ = 1 near 0."""

    def test(setting: Setting) -> tuple[bool, str]:
        order = setting.kernel.order
        return order >= least, f"{setting.kernel.name} has order {order:g}"

    return Assumption(f"1 - K̂(s) = O(|s|^r), r >= {least:g}", test)


def energy_beyond(exponent: Callable[[Setting], float], text: str) -> Assumption:
    """Ask that ∫ |p̂|² over max|t_d| > R is O(R^{-q}): p is in the Besov space B^{q/2}_{2,∞}.

    For a kernel of order r = q/2 that leaves a logarithm, and ∫ |t|^q |p̂|² must be finite.
    """

    def test(setting: Setting) -> tuple[bool, str]:
        smooth, q = setting.density.smoothness, exponent(setting)
        if smooth.kind == "supersmooth":
            return True, "supersmooth: the energy beyond R falls faster than every power"
        falls = 2.0 * smooth.exponent - 1.0
        if falls <= 0.0:
            return False, f"p is not square integrable: β = {smooth.exponent:g}"
        if 2.0 * setting.kernel.order <= q:
            holds, sign = falls > q, ">" if falls > q else "<="
        else:
            holds, sign = falls >= q, ">=" if falls >= q else "<"
        return holds, f"the energy beyond R is R^-{falls:g}, and {falls:g} {sign} {q:g}"

    rule = f"∫ |p̂|² beyond R is O(R^-q), {text}; if q = 2r, ∫ |t|^q |p̂|² is finite"
    return Assumption(rule, test)


def finite_energy(power: Callable[[Setting], float], text: str) -> Assumption:
    """Ask that ∫ |t|^{2r} |p̂|² is finite: p is in the Sobolev space H^r."""

    def test(setting: Setting) -> tuple[bool, str]:
        smooth, r = setting.density.smoothness, power(setting)
        name = f"∫ t{_superscript(2 * r)}|p̂|²"
        if smooth.kind == "supersmooth":
            return True, f"supersmooth: {name} is finite"
        holds = smooth.exponent > r + 0.5
        return holds, f"{name} {'is finite' if holds else 'diverges'}: β = {smooth.exponent:g}"

    return Assumption(f"∫ {text} |p̂|² is finite", test)


def _superscript(power: float) -> str:
    return f"{power:g}".translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))


def even_differences(m: Moments) -> Assumption:
    """Ask G = (f - f(x)) p for G(x + t) + G(x - t) = O(|t|^{m+1}), but for even powers below.

    That is all that an even kernel sees of f and p near x. It holds unless a break is at x.
    """

    def test(setting: Setting) -> tuple[bool, str]:
        empty = empty_point(setting)
        if empty is not None:
            return False, f"p is zero at x = {empty:g}"
        order, least = order_at_points(setting), m(setting) + 1
        if math.isinf(order):
            return True, "no break of f or p is at a point"
        return order >= least, f"a break at a point has |t|^{order:g}, and O(|t|^{least}) is needed"

    text = "G(x + t) + G(x - t) is O(|t|^{m+1}) but for even powers, G = (f - f(x)) p; p(x) > 0"
    return Assumption(text, test)


def empty_point(setting: Setting) -> float | None:
    """Return a point at which p is zero, or None."""
    x = np.unique(central_points(setting.density, setting.dim))
    empty = x[~(setting.density.pdf(x) > 0.0)]
    return float(empty[0]) if len(empty) else None


def finite_moments() -> Assumption:
    """Ask for E |K_R f| and E K_R² f² to be finite, as tails of K, f and p have it."""

    def test(setting: Setting) -> tuple[bool, str]:
        try:
            check_moments(setting.density, setting.response, setting.kernel)
        except ValueError as error:
            return False, str(error)
        return True, f"f grows like |x|^{setting.response.growth:g}"

    return Assumption("E |K_R f| and E K_R² f² are finite", test)


def _tame_mean(setting: Setting) -> tuple[bool, str]:
    if setting.kernel.nonnegative:
        return True, "K >= 0: the estimate is an average, and its mean exists"
    return True, "K is signed: over all designs the mean is infinite for large R"


TAME_MEAN = Assumption(
    "the mean is over designs whose denominator is at least p/2, if K is signed",
    _tame_mean,
    ours=True,
)


def infinite_mean(setting: Setting) -> str:
    """Return why the mean squared error of a regression is infinite for large R, or ""."""
    if setting.kernel.nonnegative:
        return ""
    return (
        f"{setting.kernel.name} is signed: where the design reaches its negative lobe, the "
        "denominator has a density at 0, and the mean on the left is infinite for N >= 2"
    )


def supersmooth() -> Assumption:
    """|p̂(t)| <= C exp(-c Σ|t_d|^α) (Definition 3)."""

    def test(setting: Setting) -> tuple[bool, str]:
        smooth = setting.density.smoothness
        return smooth.kind == "supersmooth", _class_of("the density", smooth)

    return Assumption("p is supersmooth of some order α > 0", test)


def ordinary_smooth(above: float) -> Assumption:
    """|p̂(t)| <= c ∏ (1 + |t_d|^β)^{-1} with β > above (Definition 3).

    A supersmooth density satisfies the bound for every β; the statement for ordinary smooth ones is
    not meant for it, and another part of the theorem is stronger.
    """

    def test(setting: Setting) -> tuple[bool, str]:
        smooth = setting.density.smoothness
        reason = _class_of("the density", smooth)
        if smooth.kind == "supersmooth":
            return False, f"{reason}: the supersmooth part covers it"
        holds = smooth.exponent > above
        return holds, reason if holds else f"{reason}, not more than {above:g}"

    return Assumption(f"p is ordinary smooth of order β > {above:g}", test)


def supersmooth_product() -> Assumption:
    """|(f p)^(t)| <= C Q(|t|) exp(-c Σ|t_d|^α), Q a polynomial."""

    def test(setting: Setting) -> tuple[bool, str]:
        f = setting.response
        if f.smoothness.kind != "supersmooth":
            where = f"f has a {f.kind} at {_places(f)}"
            return False, f"{where}: the transform of f p falls like a power"
        order = common_order(setting)
        return True, f"p and f p are supersmooth of order {order:g}"

    return Assumption("f p is supersmooth of the order of p, up to a polynomial", test)


def bounded_second_moment(*, ours: bool = False) -> Assumption:
    """Ask for sup f² p < ∞, checked out to 10^6 widths of the density."""

    def test(setting: Setting) -> tuple[bool, str]:
        f, p = setting.response, setting.density
        x = np.geomspace(1e2, 1e6, 9) / p.spectral_scale
        far = np.maximum(p.pdf(x), p.pdf(-x)) * (1.0 + x) ** (2.0 * f.growth)
        # A hundredth more: what is bounded may rise to its limit.
        holds = bool(far[-1] <= 1.01 * far[:-1].max() or far.max() == 0.0)
        size = "is bounded" if holds else "grows without bound"
        return holds, f"f² p {size}: f grows like |x|^{f.growth:g}"

    return Assumption("sup f² p is finite", test, ours)


def _places(f: RegressionFunction) -> str:
    return ", ".join(f"{x:g}" for x in f.breaks)


def _class_of(name: str, smooth: Smoothness) -> str:
    if smooth.kind == "supersmooth":
        return f"{name} is supersmooth with α = {smooth.exponent:g}"
    return f"{name} is ordinary smooth with β = {smooth.exponent:g}"
