"""Best radius and best MISE to leading order, for every order of kernel and smoothness.

Squared bias falls like B R^{-q} and variance rises like V R^D/n. Three things can limit q: the
order r of the kernel (q = 2r), the smoothness β of the density (q = 2β - 1), or, for l = 1 and a
supersmooth density, nothing: then the bias falls like |p̂| itself and R grows like a logarithm.
"""

from dataclasses import dataclass
from typing import Any

import sympy

from fourierkernels.foundation.validation import check_integer
from fourierkernels.kernels import FourierKernel, GaussianKernel, Kernel, as_kernel
from fourierkernels.theory.densities import Density, as_density
from fourierkernels.theory.symbolic import splines
from fourierkernels.theory.symbolic.formula import Formula, N, balanced
from fourierkernels.theory.symbolic.spectra import Spectrum, spectrum_of


@dataclass(frozen=True)
class Asymptotics:
    """The best radius and error for large n, as functions of n.

    Attributes
    ----------
    radius, error : Formula
        R* and MISE* to leading order; for l = 1, a supersmooth density and D = 1 exactly.
    exponent : sympy.Expr
        e in MISE* ~ n^{-e}, up to logarithms.
    log_power : sympy.Expr
        Power of log n beside it.
    reason : str
        What limits the rate.
    """

    radius: Formula
    error: Formula
    exponent: Any
    log_power: Any
    reason: str


def asymptotics(density: Density | str, kernel: Kernel | str, *, dim: int = 1) -> Asymptotics:
    """Return the leading order of the best radius and error, with exact constants.

    Raises
    ------
    ValueError
        For a density without an elementary spectrum, a kernel that is neither a power of sinc nor
        the Gaussian, a density whose MISE has no minimum of this form (β <= 1/2).

    Examples
    --------
    >>> result = asymptotics("gaussian", "fourier1")
    >>> result.radius.expression, result.exponent, result.log_power
    (sqrt(log(n + 1)), 1, 1/2)
    >>> asymptotics("laplace", "fourier4").exponent
    3/4
    """
    spectrum = spectrum_of(as_density(density))
    facts = _facts(as_kernel(kernel))
    dim = check_integer("dim", dim)
    if not spectrum.beta > sympy.Rational(1, 2):
        raise ValueError(f"density must be square integrable, got β = {spectrum.beta}")
    by_density = 2 * spectrum.beta - 1
    if facts.order == sympy.oo and spectrum.beta == sympy.oo:
        return _unlimited(spectrum, facts, dim)
    if 2 * facts.order < by_density:
        bias = facts.flatness**2 * _curvature(spectrum, facts.order, dim)
        return _limited(bias, 2 * facts.order, facts, dim, "order of the kernel")
    if 2 * facts.order > by_density:
        bias = _rough_bias(spectrum, facts, dim)
        return _limited(bias, by_density, facts, dim, "smoothness of the density")
    return _tied(spectrum, facts, dim)


@dataclass(frozen=True)
class _Facts:
    """Exact facts of a kernel: order r, b in 1 - K̂ ~ b s^r, roughness, ∫ s^{-2β}(1-K̂)²."""

    order: Any
    flatness: Any
    roughness: Any
    power: int | None  # None for the Gaussian

    def lost_energy(self, beta: Any) -> Any:
        return splines.lost_energy(self.power, beta) if self.power else _gaussian_lost(beta)


def _facts(kernel: Kernel) -> _Facts:
    if isinstance(kernel, GaussianKernel):
        half = sympy.Rational(1, 2)
        return _Facts(sympy.Integer(2), half, half / sympy.sqrt(sympy.pi), None)
    if not isinstance(kernel, FourierKernel):
        raise ValueError(f"kernel must be a power of sinc or the Gaussian, got {kernel!r}")
    power = kernel.power
    rough = splines.roughness(power).expression
    return _Facts(splines.order(power), splines.flatness(power), rough, power)


def _gaussian_lost(beta: Any) -> Any:
    """∫ s^{-2β}(1 - e^{-s²/2})² ds: the Mellin transform of each term, continued analytically."""
    b = sympy.Symbol("b")
    term = sympy.gamma(sympy.Rational(1, 2) - b) / 2
    return sympy.limit(term * (1 - 2 * 2 ** (sympy.Rational(1, 2) - b)), b, beta)


def _curvature(spectrum: Spectrum, order: Any, dim: int) -> Any:
    """(2π)^{-D} ∫ (Σ_d |t_d|^r)² |p̂|², multiplied out for a product density."""
    energy = spectrum.energy
    total = dim * energy(order) * _whole(spectrum, dim - 1)
    if dim > 1:
        total += dim * (dim - 1) * energy(order / 2) ** 2 * _whole(spectrum, dim - 2)
    return total


def _rough_bias(spectrum: Spectrum, facts: _Facts, dim: int) -> Any:
    """One coordinate beyond R, where |p̂|² is its power tail; the others anywhere."""
    lost = spectrum.tail * facts.lost_energy(spectrum.beta) / sympy.pi
    return dim * lost * _whole(spectrum, dim - 1)


def _whole(spectrum: Spectrum, times: int) -> Any:
    return spectrum.energy(0) ** times if times else sympy.Integer(1)


def _limited(bias: Any, q: Any, facts: _Facts, dim: int, reason: str) -> Asymptotics:
    radius, error, exponent = balanced(bias, q, facts.roughness**dim, dim)
    return _result(radius, error, exponent, sympy.Integer(0), reason)


def _tied(spectrum: Spectrum, facts: _Facts, dim: int) -> Asymptotics:
    """2r = 2β - 1: ∫^R t^{2r} |p̂|² grows like log R, and log R* ~ log n/(D + q)."""
    q = 2 * facts.order
    bias = dim * facts.flatness**2 * spectrum.tail / sympy.pi * _whole(spectrum, dim - 1)
    log = sympy.log(N) / (dim + q)
    radius, error, exponent = balanced(bias * log, q, facts.roughness**dim, dim)
    tie = sympy.Integer(dim) / (dim + q)
    return _result(radius, error, exponent, tie, "order of the kernel and smoothness alike")


def _unlimited(spectrum: Spectrum, facts: _Facts, dim: int) -> Asymptotics:
    """Return the radius where |p̂|² meets 1/(n+1) and the error there; on the line both exactly.

    In more dimensions the radius is that of the leading order, and one coordinate is beyond it.
    """
    radius = spectrum.edge(N)
    variance = ((facts.roughness * radius) ** dim - spectrum.energy(0) ** dim) / N
    share = 1 + 1 / N if dim == 1 else 1
    error = variance + share * dim * spectrum.beyond(radius) * _whole(spectrum, dim - 1)
    growth = sympy.limit(N * sympy.diff(radius, N) * sympy.log(N) / radius, N, sympy.oo)
    reason = "the kernel's transform is 1 near 0: bias falls like the spectrum itself"
    return _result(radius, sympy.simplify(error), sympy.Integer(1), dim * growth, reason)


def _result(radius: Any, error: Any, exponent: Any, log_power: Any, reason: str) -> Asymptotics:
    return Asymptotics(
        radius=Formula("R^*", radius, "squared bias balanced against variance"),
        error=Formula(r"\mathrm{MISE}^*", error, f"the error at R*; limited by {reason}"),
        exponent=exponent,
        log_power=log_power,
        reason=reason,
    )
