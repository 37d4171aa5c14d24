"""Spectra |p̂|² of densities as expressions, and the functionals the best error depends on."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import sympy

from fourierkernels.theory.densities import Beta, Cauchy, Density, Gamma, Gaussian, Laplace

_T = sympy.Symbol("t", positive=True)


@dataclass(frozen=True)
class Spectrum:
    """|p̂(t)|² of a density on the line, for t > 0.

    Attributes
    ----------
    power : sympy.Expr
        |p̂(t)|², or None where only its mean tail is elementary.
    pdf : sympy.Expr
        p(x) on (0, 1), for a spectrum that is not elementary; else None.
    tail : sympy.Expr
        L² in |p̂(t)|² ~ L² t^{-2β}, in the mean over oscillations; 0 for a supersmooth density.
    beta : sympy.Expr
        β, or oo.
    """

    power: Any
    tail: Any
    beta: Any
    pdf: Any = None

    def energy(self, times: Any) -> Any:
        """Return ∫ (p^{(k)})² = (1/π) ∫_0^∞ t^{2k} |p̂|² dt, k = `times` a half-integer too.

        Infinite where the integral diverges.

        Examples
        --------
        >>> SPECTRA[Gaussian](Gaussian()).energy(2)
        3/(8*sqrt(pi))
        """
        return _energy(self, sympy.nsimplify(times, rational=True))

    def beyond(self, radius: Any) -> Any:
        """Return (1/π) ∫_R^∞ |p̂|² dt: the squared bias of the sinc kernel."""
        return energy_beyond(self.power, _T, radius)

    def edge(self, n: Any) -> Any:
        """Return the R > 0 with |p̂(R)|² = 1/(n + 1): best for l = 1 on the line, exactly."""
        roots = sympy.solve(sympy.Eq(sympy.log(self.power), -sympy.log(n + 1)), _T)
        return sympy.simplify(roots[-1])


def energy_beyond(power: Any, t: Any, radius: Any) -> Any:
    """Return (1/π) ∫_R^∞ power dt, with erfc where a difference from 1 would cancel."""
    edge = sympy.Symbol("R", positive=True)
    value = sympy.integrate(power, (t, edge, sympy.oo)) / sympy.pi
    return sympy.simplify(sympy.expand(value.rewrite(sympy.erfc))).subs(edge, radius)


@lru_cache
def _energy(spectrum: Spectrum, times: Any) -> Any:
    if 2 * (spectrum.beta - times) <= 1:
        return sympy.oo
    if spectrum.power is None:
        return _energy_in_x(spectrum.pdf, times)
    value = sympy.integrate(_T ** (2 * times) * spectrum.power, (_T, 0, sympy.oo)) / sympy.pi
    return sympy.simplify(value)


def _energy_in_x(pdf: Any, times: Any) -> Any:
    if times != int(times):
        raise ValueError(f"times must be an integer without an elementary spectrum, got {times}")
    derivative = sympy.diff(pdf, _T, int(times)) if times else pdf
    return sympy.integrate(sympy.expand(derivative**2), (_T, 0, 1))


def spectrum_of(density: Density) -> Spectrum:
    """Return the spectrum of a density of :data:`SPECTRA`.

    Raises
    ------
    ValueError
        For a density of no family there: its error is computed all the same, but not derived.
    """
    for family, spectrum in SPECTRA.items():
        if isinstance(density, family):
            return spectrum(density)
    known = ", ".join(family.__name__ for family in SPECTRA)
    raise ValueError(
        f"density must have a spectrum in closed form in SPECTRA ({known}), got {density!r}"
    )


def _exact(value: float) -> Any:
    return sympy.nsimplify(value, rational=True)


def _gaussian(density: Gaussian) -> Spectrum:
    return Spectrum(sympy.exp(-((_exact(density.std) * _T) ** 2)), sympy.Integer(0), sympy.oo)


def _cauchy(density: Cauchy) -> Spectrum:
    return Spectrum(sympy.exp(-2 * _exact(density.scale) * _T), sympy.Integer(0), sympy.oo)


def _laplace(density: Laplace) -> Spectrum:
    return _rational(_exact(density.scale), sympy.Integer(2))


def _gamma(density: Gamma) -> Spectrum:
    return _rational(_exact(density.scale), _exact(density.shape))


def _rational(scale: Any, beta: Any) -> Spectrum:
    power = (1 + (scale * _T) ** 2) ** (-beta)
    return Spectrum(power, sympy.limit(power * _T ** (2 * beta), _T, sympy.oo), beta)


def _beta(density: Beta) -> Spectrum:
    """Near x = 0 the density is x^{a-1}/B(a, b), whose transform is Γ(a) (-it)^{-a}/B(a, b)."""
    a, b = _exact(density.a), _exact(density.b)
    low = min(a, b)
    ends = 2 if a == b else 1  # both ends count if they are equally rough; the cross term averages
    tail = ends * (sympy.gamma(low) / sympy.beta(a, b)) ** 2
    pdf = _T ** (a - 1) * (1 - _T) ** (b - 1) / sympy.beta(a, b).rewrite(sympy.gamma)
    return Spectrum(None, sympy.simplify(tail.rewrite(sympy.gamma)), low, pdf)


# What sympy derives formulas from; a density without a row has every number, but no formula.
SPECTRA: dict[type, Callable[[Any], Spectrum]] = {
    Gaussian: _gaussian,
    Cauchy: _cauchy,
    Laplace: _laplace,
    Gamma: _gamma,
    Beta: _beta,
}
