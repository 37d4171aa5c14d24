"""The Fourier integral theorem, derived: Dirichlet's integral, the band identity, the limit.

p(x) = lim (1/π) ∫ sin(R(x-y))/(x-y) p(y) dy as R → ∞. Three steps carry it: the kernel is the
inverse transform of a band (:func:`band_identity`), so that the estimator's mean is p with its
frequencies above R cut off (:func:`reproduction`); Dirichlet's integral makes the kernel's mass
one; and what is lost, the tail of p̂, tends to 0. Source: [nguyen2022fourierformer]_ eq. 9.
"""

from dataclasses import dataclass
from typing import Any

import sympy

from fourierkernels.foundation.validation import check_choice
from fourierkernels.theory.symbolic.formula import Formula
from fourierkernels.theory.symbolic.spectra import energy_beyond
from fourierkernels.theory.symbolic.splines import positive_pieces

_R, _T, _W = sympy.symbols("R t omega", positive=True)
_U, _X = sympy.symbols("u x", real=True)

# p̂ for t > 0 and p(x); the first is real, so that p(x) = (1/π) ∫_0^∞ p̂(t) cos(tx) dt.
_PAIRS = {
    "gaussian": (sympy.exp(-(_T**2) / 2), sympy.exp(-(_X**2) / 2) / sympy.sqrt(2 * sympy.pi)),
    "cauchy": (sympy.exp(-_T), 1 / (sympy.pi * (1 + _X**2))),
    "laplace": (1 / (1 + _T**2), sympy.exp(-sympy.Abs(_X)) / 2),
}


@dataclass(frozen=True)
class Reproduction:
    """The mean of the sinc kernel's estimate of a density, and its limit.

    Attributes
    ----------
    density : Formula
        p(x).
    mean : Formula
        p_R(x) = (1/π) ∫_0^R p̂(t) cos(tx) dt; an unevaluated integral where no closed form exists.
    limit : Formula
        Its limit for R → ∞, computed without reference to p.
    lost : Formula
        ∫ (p - p_R)² = (1/π) ∫_R^∞ p̂².
    """

    density: Formula
    mean: Formula
    limit: Formula
    lost: Formula

    @property
    def holds(self) -> bool:
        """Whether the limit is p: the Fourier integral theorem for this density."""
        positive = sympy.Symbol("x", positive=True)  # both sides are even
        gap = (self.limit.expression - self.density.expression).subs(_X, positive)
        return bool(sympy.simplify(gap.rewrite(sympy.exp)) == 0)


def dirichlet_integral() -> Formula:
    """Return ∫ sin(x)/x dx, by computer algebra.

    Examples
    --------
    >>> dirichlet_integral().expression
    pi
    """
    value = 2 * sympy.integrate(sympy.sin(_T) / _T, (_T, 0, sympy.oo))
    return Formula(r"\int_{-\infty}^{\infty} \frac{\sin x}{x}\,dx", value, "both halves are equal")


def band_identity() -> Formula:
    """Return (1/2π) ∫_{-R}^R e^{itu} dt: the scaled sinc kernel R K_1(Ru).

    Examples
    --------
    >>> band_identity().expression
    sin(R*u)/(pi*u)
    """
    u = sympy.Symbol("u", nonzero=True, real=True)
    integral = sympy.integrate(sympy.exp(sympy.I * _T * u), (_T, -_R, _R)) / (2 * sympy.pi)
    value = sympy.simplify(integral.rewrite(sympy.sin).expand(complex=True))
    return Formula(r"\frac{1}{2\pi}\int_{-R}^{R} e^{itu}\,dt", value, "an elementary integral")


def wave_response(power: int) -> Formula:
    """Return the factor c in K_R * cos(ωx) = c cos(ωx): K̂(ω/R), 1 below the radius for l = 1.

    A wave is an eigenfunction of every convolution, so the mean of the estimator multiplies each
    frequency of p by this factor.
    """
    ratio = _W / _R
    pieces = [(piece, sympy.Le(ratio, right)) for _, right, piece in positive_pieces(power)]
    s = sympy.Symbol("s", real=True)
    expression = sympy.Piecewise(*pieces, (0, True)).subs(s, ratio)
    return Formula(
        rf"\widehat K_{{{power}}}(\omega/R)", expression, "eigenvalue of the convolution"
    )


def reproduction(density: str) -> Reproduction:
    """Return the Fourier integral theorem for "gaussian", "cauchy" or "laplace", carried out.

    Raises
    ------
    ValueError
        For another density.

    Examples
    --------
    >>> theorem = reproduction("cauchy")
    >>> theorem.holds, theorem.lost.expression
    (True, exp(-2*R)/(2*pi))
    """
    spectrum, pdf = _PAIRS[check_choice("density", density, list(_PAIRS))]
    return Reproduction(
        density=Formula("p(x)", pdf, "the definition"),
        mean=Formula("p_R(x)", _partial(density), "the band identity, integrated against p"),
        limit=Formula(r"\lim_{R\to\infty} p_R(x)", _whole(spectrum), "the whole line of frequency"),
        lost=Formula(r"\int (p - p_R)^2", _beyond(spectrum), "Plancherel: what lies beyond R"),
    )


def _partial(density: str) -> Any:
    spectrum = _PAIRS[density][0]
    wave = sympy.Integral(spectrum * sympy.cos(_T * _X), (_T, 0, _R)) / sympy.pi
    # Of the three, only the Cauchy density's band has elementary functions for its inverse.
    return sympy.simplify(wave.doit()) if density == "cauchy" else wave


def _whole(spectrum: Any) -> Any:
    x = sympy.Symbol("x", positive=True)
    value = sympy.integrate(spectrum * sympy.cos(_T * x), (_T, 0, sympy.oo)) / sympy.pi
    return sympy.simplify(value.rewrite(sympy.exp)).subs(x, sympy.Abs(_X))


def _beyond(spectrum: Any) -> Any:
    return energy_beyond(spectrum**2, _T, _R)
