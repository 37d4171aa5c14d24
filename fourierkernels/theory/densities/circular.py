"""Densities on a circle, by their Fourier coefficients c_m = E exp(2πi m X/P), m = 1, 2, ...

A density on the line that is wrapped onto the circle has the coefficients p̂(2πm/P), by Poisson's
formula: wrapped normal, Cauchy and Laplace densities, mixtures, densities on an arc. Source:
[mardia2000directional]_, section 3.5.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy import special

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import check_choice, check_number, lacking
from fourierkernels.theory.densities.contract import (
    BAND_LIMITED,
    Density,
    HasSpectralTail,
    Power,
    Smoothness,
)
from fourierkernels.theory.densities.uniform import Uniform
from fourierkernels.theory.densities.univariate import Cauchy, Gaussian, Laplace

TURN = 2.0 * math.pi
Modes = NDArray[np.intp]


@runtime_checkable
class CircularDensity(Protocol):
    """Interface of densities on a circle."""

    @property
    def period(self) -> float:
        """Length P of the circle."""

    @property
    def unwrapped(self) -> Density | None:
        """The density on the line of which it is the wrapped one, if there is one to compare."""

    @property
    def smoothness(self) -> Smoothness:
        """Of a class that the coefficients lie in, as functions of m."""

    @property
    def last(self) -> float:
        """|c_m|² < 1e-32 for m beyond it; ``inf`` for power tails."""

    def __hash__(self) -> int:
        """Hashable, so that results can be cached."""

    def power_at(self, m: Modes) -> Power:
        """|c_m|² and 1 - |c_m|², m >= 1."""

    def energy_beyond(self, m: int) -> float:
        """Return the sum of |c_k|² over k > m, for m above 1000; 0 beyond the last."""

    def sample(self, n: int, rng: np.random.Generator) -> FloatArray:
        """`n` independent draws in [0, P), shape ``(n,)``."""


@dataclass(frozen=True)
class Wrapped:
    """A density on the line, wrapped onto a circle.

    Parameters
    ----------
    density : Density
        In one dimension. With a power tail it must not wave, as Laplace and Gamma do not: the sum
        of far coefficients is an integral then, to a relative error of m^-2/24.
    period : float

    Raises
    ------
    ValueError

    Examples
    --------
    >>> from fourierkernels.theory.densities import Cauchy
    >>> Wrapped(Cauchy(0.0, 0.5)).power_at(np.array([1, 2])).kept.round(4)  # exp(-m)
    array([0.3679, 0.1353])
    """

    density: Density
    period: float = TURN

    def __post_init__(self) -> None:
        check_number("period", self.period, above=0.0)
        tail = math.isinf(self.density.spectral_range)
        waves = tail and self.density.spectral_span > 0
        if (
            self.density.dim != 1
            or waves
            or (tail and not isinstance(self.density, HasSpectralTail))
        ):
            rule = "on the line, and without waves in a power tail of |p̂|²"
            raise ValueError(f"density must be {rule}, got {self.density}")

    @property
    def unwrapped(self) -> Density:
        """The density on the line."""
        return self.density

    @property
    def smoothness(self) -> Smoothness:
        """That of the density on the line."""
        return self.density.smoothness

    @property
    def last(self) -> float:
        """Where the spectral range of the density ends."""
        return self.density.spectral_range * self.period / TURN

    def power_at(self, m: Modes) -> Power:
        """|p̂|² at the frequencies of the circle."""
        return self.density.power(TURN / self.period * np.asarray(m, float))

    def energy_beyond(self, m: int) -> float:
        """Return the integral from m + 1/2 on."""
        if math.isfinite(self.last) or not isinstance(self.density, HasSpectralTail):
            return 0.0
        return 0.5 * self.period * self.density.spectral_tail(TURN / self.period * (m + 0.5))

    def sample(self, n: int, rng: np.random.Generator) -> FloatArray:
        """Draws on the line, wrapped."""
        return np.asarray(np.mod(self.density.sample(n, rng), self.period))


@dataclass(frozen=True)
class VonMises:
    """p(x) ~ exp(κ cos x) on a circle of length 2π: c_m = I_m(κ)/I_0(κ), about exp(-m log m).

    Examples
    --------
    >>> round(math.sqrt(VonMises(1.0).power_at(np.array([1])).kept[0]), 4)
    0.4464
    """

    concentration: float = 4.0

    period = TURN
    unwrapped = None
    smoothness = Smoothness("supersmooth", 1.0)  # and of every larger c: they fall faster

    def __post_init__(self) -> None:
        check_number("concentration", self.concentration, above=0.0)

    @property
    def last(self) -> float:
        """I_m/I_0 <= exp(-m²/(2κ)) up to about m = κ, and (κ/2)^m/m! beyond."""
        return 9.0 * math.sqrt(self.concentration) + 40.0

    def power_at(self, m: Modes) -> Power:
        """By the scaled Bessel functions; 1 - c² loses the digits of κ."""
        c = special.ive(m, self.concentration) / special.ive(0, self.concentration)
        return Power(np.square(c), (1.0 - c) * (1.0 + c))

    def energy_beyond(self, m: int) -> float:
        """Return none."""
        return 0.0

    def sample(self, n: int, rng: np.random.Generator) -> FloatArray:
        """By NumPy's generator, wrapped."""
        return np.asarray(np.mod(rng.vonmises(0.0, self.concentration, n), TURN))


@dataclass(frozen=True)
class Cardioid:
    """p(x) = (1 + 2ρ cos x)/2π, with one frequency: c_1 = ρ <= 1/2."""

    rho: float = 0.3

    period = TURN
    unwrapped = None
    smoothness = BAND_LIMITED
    last = 1.0

    def __post_init__(self) -> None:
        if check_number("rho", self.rho, above=0.0) > 0.5:
            raise ValueError(f"rho must be at most 0.5, got {self.rho}")

    def power_at(self, m: Modes) -> Power:
        """ρ² for m = 1, else 0."""
        kept = np.where(m == 1, self.rho**2, 0.0)
        return Power(kept, 1.0 - kept)

    def energy_beyond(self, m: int) -> float:
        """Return none."""
        return 0.0

    def sample(self, n: int, rng: np.random.Generator) -> FloatArray:
        """By rejection of uniform draws."""
        found = np.zeros(0)
        while len(found) < n:
            x = rng.uniform(0.0, TURN, n)
            kept = rng.random(n) * (1.0 + 2.0 * self.rho) < 1.0 + 2.0 * self.rho * np.cos(x)
            found = np.concatenate([found, x[kept]])
        return found[:n]


@dataclass(frozen=True)
class Arc:
    """The uniform density on an arc of `share` of the circle: c_m = sin(πms)/(πms)."""

    share: float = 0.4

    period = TURN
    smoothness = Smoothness("ordinary_smooth", 1.0)
    last = math.inf

    def __post_init__(self) -> None:
        if check_number("share", self.share, above=0.0) >= 1.0:
            raise ValueError(f"share must be below 1, got {self.share}")

    @property
    def unwrapped(self) -> Density:
        """The uniform density of that length."""
        return Uniform(0.0, self.share * TURN)

    def power_at(self, m: Modes) -> Power:
        """sinc²."""
        c = np.sinc(self.share * m)
        return Power(np.square(c), (1.0 - c) * (1.0 + c))

    def energy_beyond(self, m: int) -> float:
        """Return Σ (1 - cos 2πks)/(2π²s²k²) over k > m, the waves by their first two terms.

        Summation by parts: Σ_{k>m} exp(ikθ) k^-2 = exp(i(m+1)θ)/((m+1)²(1 - exp(iθ))) + ..., each
        term smaller by m |1 - exp(iθ)|.
        """
        a, wave = m + 1.0, np.exp(1j * TURN * self.share)
        change = 1.0 / (a + 1.0) ** 2 - 1.0 / a**2
        waves = wave**a / (1.0 - wave) * (1.0 / a**2 + wave / (1.0 - wave) * change)
        smooth = float(special.polygamma(1, a))
        return float((smooth - waves.real) / (2.0 * math.pi**2 * self.share**2))

    def sample(self, n: int, rng: np.random.Generator) -> FloatArray:
        """Uniform draws."""
        return rng.uniform(0.0, self.share * TURN, n)


CIRCULAR: dict[str, Callable[..., CircularDensity]] = {
    "wrapped_normal": lambda std=0.5: Wrapped(Gaussian(0.0, std)),
    "wrapped_cauchy": lambda scale=0.5: Wrapped(Cauchy(0.0, scale)),
    "wrapped_laplace": lambda scale=0.5: Wrapped(Laplace(0.0, scale)),
    "von_mises": VonMises,
    "cardioid": Cardioid,
    "arc": Arc,
}


def is_circular(density: object) -> bool:
    """Return whether this is a density on a circle, or the text of one."""
    if isinstance(density, str):
        return density.partition("(")[0].strip() in CIRCULAR
    return isinstance(density, CircularDensity)


def as_circular(density: object) -> CircularDensity:
    """Return a density on a circle given itself or a text: "arc", "von_mises(2)".

    Raises
    ------
    ValueError, TypeError
        For an unknown name, parameters that do not fit, and what is no such density.

    Examples
    --------
    >>> as_circular("wrapped_cauchy(0.2)").density
    Cauchy(location=0.0, scale=0.2)
    """
    if isinstance(density, CircularDensity):
        return density
    if not isinstance(density, str):
        what = f"{density!r}{lacking(CircularDensity, density)}"
        raise TypeError(f"density must be one on a circle or its name, got {what}")
    parts = re.fullmatch(r"\s*(\w+)\s*(?:\(\s*([^()]*?)\s*\))?\s*", density)
    name = check_choice("density", parts[1] if parts else density, list(CIRCULAR))
    try:
        numbers = (
            [float(text) for text in (parts[2] or "").split(",")] if parts and parts[2] else []
        )
        return CIRCULAR[name](*numbers)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: {error}") from None
