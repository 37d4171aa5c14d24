"""Assumptions of the theorems, each with a test that gives a reason."""

import math

import numpy as np

from fourierkernels.kernels import FourierKernel
from fourierkernels.theorems.measure import Setting
from fourierkernels.theorems.theorem import Assumption
from fourierkernels.theory.densities import RegressionFunction, Smoothness


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


def absolute_moments(m: int, top: int) -> Assumption:
    """∫ φ(sinc z) z^j = 0 for j <= m, and ∫ |φ(sinc z)| |z|^j finite for m < j <= top.

    For sinc^l the j-th absolute moment is finite if l - j > 1.
    """

    def test(setting: Setting) -> tuple[bool, str]:
        l = power(setting)  # noqa: E741 - the literature's letter
        if l is None:
            return False, f"the kernel is {setting.kernel.name}, not a FourierKernel"
        holds = l - top > 1
        size = "is finite" if holds else "diverges"
        return holds, f"∫ |sinc z|^{l} |z|^{top} dz {size}: it needs l > {top + 1}"

    text = f"moments of φ(sinc z): zero up to {m}, absolutely finite up to {top}"
    return Assumption(text, test)


def _continuous_derivatives(smooth: Smoothness, times: int) -> tuple[bool, str]:
    """|p̂| ~ t^{-β}: the derivative of order k is continuous and bounded if β > k + 1."""
    if smooth.kind == "supersmooth":
        return True, "supersmooth: all derivatives are bounded"
    holds = smooth.exponent > times + 1
    sign = ">" if holds else "<="
    return holds, f"ordinary smooth with β = {smooth.exponent:g} {sign} {times + 1}"


def smooth_density(times: int) -> Assumption:
    """Ask p for continuous, bounded derivatives up to `times` (used in the proof)."""

    def test(setting: Setting) -> tuple[bool, str]:
        holds, reason = _continuous_derivatives(setting.density.smoothness, times)
        return holds, f"the density is {reason}"

    return Assumption(f"p has {times} bounded continuous derivatives", test)


def smooth_function(times: int) -> Assumption:
    """Ask f for continuous, bounded derivatives up to `times` (used in the proof)."""

    def test(setting: Setting) -> tuple[bool, str]:
        f = setting.response
        if f.growth > 1.0:
            return False, f"f grows like |x|^{f.growth:g}: its derivatives are not bounded"
        holds, reason = _continuous_derivatives(f.smoothness, times)
        return holds, reason if holds else f"f has a {f.kind} at {_places(f)}: {reason}"

    return Assumption(f"f has {times} bounded continuous derivatives", test)


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


def common_order(setting: Setting) -> float:
    """Return α for p and f p alike: a density of order 2 is one of order 1 as well."""
    orders = (setting.density.smoothness.exponent, setting.response.smoothness.exponent)
    return min(orders)


def bounded_second_moment() -> Assumption:
    """Ask for sup f² p < ∞, checked out to 10^6 widths of the density."""

    def test(setting: Setting) -> tuple[bool, str]:
        f, p = setting.response, setting.density
        x = np.geomspace(1e2, 1e6, 9) / p.spectral_scale
        far = np.maximum(p.pdf(x), p.pdf(-x)) * (1.0 + x) ** (2.0 * f.growth)
        holds = bool(far[-1] <= 1.01 * far[:-1].max() or far.max() == 0.0)
        size = "is bounded" if holds else "grows without bound"
        return holds, f"f² p {size}: f grows like |x|^{f.growth:g}"

    return Assumption("sup f² p is finite", test)


def decay(setting: Setting) -> float:
    """Return c in |p̂(t)| ~ exp(-c Σ|t_d|^α), measured where |p̂| is small but representable.

    The slope of -log |p̂| against |t|^α between half and nine tenths of the spectral range, over the
    directions of the coordinates and their diagonals; the smallest.
    """
    p = setting.density
    alpha = p.smoothness.exponent
    if not math.isfinite(p.spectral_range):
        raise ValueError(f"density must be supersmooth to have a decay, got {p!r}")
    lengths = p.spectral_range * np.linspace(0.5, 0.9, 41)
    rates = []
    for direction in _directions(p.dim):
        t = np.outer(lengths, direction / np.abs(direction).max()) / math.sqrt(p.dim)
        log = np.log(np.maximum(np.abs(p.cf(t if p.dim > 1 else t[:, 0])), 1e-300))
        sums = (np.abs(t) ** alpha).sum(axis=1)
        first, last = int(log[:10].argmax()), 31 + int(log[-10:].argmax())  # crests, if it waves
        rates.append((log[first] - log[last]) / (sums[last] - sums[first]))
    return float(min(rates))


def product_decay(setting: Setting) -> float:
    """Return a c with |(f p)^(t)| <= C exp(-c|t|^α), α the common order of p and f p.

    Where f is the less smooth, half of what a quadrature of f p shows between t = 4 and 16; else
    half the decay of p: (f p)^ is p̂ shifted or differentiated, which costs any c below.
    """
    if common_order(setting) == setting.density.smoothness.exponent:
        return 0.5 * decay(setting)
    x = np.linspace(-40.0, 40.0, 2**15 + 1) / setting.density.spectral_scale
    weighted = setting.response.value(x) * setting.density.pdf(x) * (x[1] - x[0])
    t = setting.density.spectral_scale * np.array([4.0, 16.0])[:, None] * np.linspace(0.8, 1.2, 9)
    log = np.log(np.abs(np.exp(1j * t[..., None] * x) @ weighted).max(axis=1))
    alpha = common_order(setting)
    return 0.5 * float((log[0] - log[1]) / (t[1].mean() ** alpha - t[0].mean() ** alpha))


def _directions(dim: int) -> list[np.ndarray]:
    grid = np.stack(np.meshgrid(*([-1.0, 0.0, 1.0],) * dim, indexing="ij"), axis=-1)
    return [v for v in grid.reshape(-1, dim) if v.any() and v[np.flatnonzero(v)[0]] > 0]


def _places(f: RegressionFunction) -> str:
    return ", ".join(f"{x:g}" for x in f.breaks)


def _class_of(name: str, smooth: Smoothness) -> str:
    if smooth.kind == "supersmooth":
        return f"{name} is supersmooth with α = {smooth.exponent:g}"
    return f"{name} is ordinary smooth with β = {smooth.exponent:g}"
