"""A density given by the formula of its characteristic function and its smoothness.

The formula is read by Python's grammar and made of numbers, t, i and pi, + - * / **, and a few
functions; nothing else is evaluated.
"""

import math
import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg

from fourierkernels.foundation.arrays import ComplexArray, FloatArray
from fourierkernels.foundation.validation import check_number
from fourierkernels.theory.densities.contract import Power, Smoothness
from fourierkernels.theory.densities.formulas import check_formula, formula_values
from fourierkernels.theory.densities.panels import panels

_ROUNDING = 1e-32  # of |p̂|²
_TAIL = 2.0**24  # scales after which |p̂|² is taken for the power that it is
_CUSP = 2.0**-24
_STEPS = (0.02, 0.1, 0.5, 2.0)  # of grids in widths of |p̂|, on which p̂ must be positive definite
_EXPONENT, _OF_WAVES = 0.05, 0.2  # share by which it may be off, and where |p̂| waves
_ENDS = 1e-25  # |p̂| a tenth beyond where it is 1e-16; no order up to 2 falls as fast


@dataclass(frozen=True)
class CharacteristicFunction:
    """A density on the line, known by p̂ alone.

    Errors that are integrals over frequency are exact, to 1e-16 of ∫K̂² in the variance; what asks
    for p(x) or for samples is refused. That p̂ is one of a density is tested, not proved: p̂(0) = 1,
    p̂(-t) is the conjugate of p̂(t), and p̂(t_j - t_k) is positive semidefinite on four grids. The
    stated exponent must be that of p̂ where it is small, to a twentieth or, if p̂ is supersmooth and
    waves, a fifth.

    Parameters
    ----------
    formula : str
        Of t, such as ``"exp(-abs(t)**1.5)"``.
    smoothness : Smoothness

    Raises
    ------
    ValueError
        For a formula outside the grammar, no characteristic function, another smoothness than the
        stated one, and a power tail that waves.

    Examples
    --------
    >>> density = CharacteristicFunction("exp(-abs(t)**1.5)", Smoothness("supersmooth", 1.5))
    >>> round(density.roughness, 6)
    0.181021
    """

    formula: str
    smoothness: Smoothness

    dim = 1
    breaks = ()

    def __post_init__(self) -> None:
        check_number("smoothness", self.smoothness.exponent, above=0.0)
        with np.errstate(all="ignore"):
            check_formula(self.formula)
            self._check_values()
            self._check_smoothness()

    def cf(self, t: ArrayLike) -> ComplexArray:
        """E exp(itX) by the formula, elementwise; 0 where it overflows, far out."""
        t = np.asarray(t, float)
        with np.errstate(all="ignore"):
            value = formula_values(self.formula, t + 0j)
        value = np.asarray(value * np.ones(t.shape), dtype=complex)
        return np.where(np.isfinite(value), value, 0.0)

    def power(self, t: ArrayLike) -> Power:
        """|p̂|² and 1 - |p̂|², the second to 1e-16, elementwise."""
        value = self.cf(t)
        kept = np.asarray(np.square(value.real) + np.square(value.imag))
        return Power(kept, np.maximum(1.0 - kept, 0.0))

    def pdf(self, x: ArrayLike) -> FloatArray:
        """Refuse: see the class."""
        raise ValueError(f"{_BY_FREQUENCY}, got {self.formula!r} alone")

    def sample(self, n: int, rng: np.random.Generator) -> FloatArray:
        """Refuse: see the class."""
        raise ValueError(f"{_BY_FREQUENCY}, got {self.formula!r} alone")

    @property
    def spectral_scale(self) -> float:
        """2^{-24} of where |p̂| falls to exp(-1/2): it may have a cusp at 0."""
        return _CUSP * self._width

    @cached_property
    def _width(self) -> float:
        """Frequency at which |p̂| falls to exp(-1/2), over 2."""
        t = np.geomspace(1e-12, 1e12, 2401)
        low = np.flatnonzero(~(self._size(t) > math.exp(-0.5)))
        if not len(low):
            raise ValueError(f"formula must tend to 0, got {self.formula!r}")
        if low[0] == 0:
            raise ValueError(f"formula must fall beyond t = 1e-12, rescale it: {self.formula!r}")
        return float(0.5 * t[low[0]])

    @cached_property
    def spectral_range(self) -> float:
        """Frequency beyond which |p̂|² < 1e-32; infinite for a power tail."""
        if self.smoothness.kind == "ordinary_smooth":
            return math.inf
        t = self._width * np.geomspace(1.0, 1e12, 24001)
        high = np.flatnonzero(np.square(self._size(t)) >= _ROUNDING)
        return float(t[min(high[-1] + 1, len(t) - 1)])

    @cached_property
    def spectral_span(self) -> float:
        """Smallest angular frequency whose panels integrate |p̂|² to 1e-10, by trial; 0 if none."""
        scale = self._width
        end = min(self.spectral_range, 1000.0 * scale)
        doubling = _CUSP * scale * 2.0 ** np.arange(math.ceil(math.log2(end / scale / _CUSP)))
        ends = np.append(np.append(0.0, doubling[doubling < end]), end)
        for span in (0.0, *(4.0 ** np.arange(7) / scale)):
            longest = 16.0 / span if span else math.inf
            sums = []
            for order in (16, 23):
                t, weight = panels(ends, longest=longest, order=order)
                sums.append(
                    np.add.reduceat(weight * self.power(t).kept, np.arange(0, len(t), order))
                )
            gaps = [each.sum() for each in sums]
            if abs(gaps[0] - gaps[1]) <= 1e-10 * gaps[1]:
                return float(span)
        raise ValueError(f"formula must not wave so often, got {self.formula!r}")

    @cached_property
    def roughness(self) -> float:
        """(1/π) ∫_0^∞ |p̂|²."""
        return self._energy(0.0)

    def _size(self, t: FloatArray) -> FloatArray:
        return np.asarray(np.abs(self.cf(t)))

    def _energy(self, start: float) -> float:
        """(1/π) ∫_start^∞ |p̂|²; the end of a power tail as t^-2β."""
        smooth, scale = self.smoothness, self._width
        power = smooth.kind == "ordinary_smooth"
        if power and smooth.exponent <= 0.5:
            return math.inf
        end = max(start, scale) * _TAIL if power else max(self.spectral_range, start)
        ends = _CUSP * scale * 2.0 ** np.arange(math.ceil(math.log2(end / scale / _CUSP)))
        inside = ends[(ends > start) & (ends < end)]
        span = self.spectral_span
        t, weight = panels(
            np.concatenate([[start], inside, [end]]), longest=8.0 / span if span else math.inf
        )
        total = float(weight @ self.power(t).kept)
        if power:
            total += end * float(self.power(end).kept) / (2.0 * smooth.exponent - 1.0)
        return total / math.pi

    def _check_values(self) -> None:
        t = self._width * np.concatenate([np.linspace(0.0, 8.0, 33), np.geomspace(9, 1e3)])
        values, mirrored = self.cf(t), self.cf(-t)
        name = f"formula must be a characteristic function, got {self.formula!r}"
        if not np.isfinite(formula_values(self.formula, t[:1] + 0j)).all():
            raise ValueError(f"{name}, which has no value at t = 0, as 0/0 has none")
        if abs(values[0] - 1.0) > 1e-12:
            raise ValueError(f"{name}, which is {values[0]:.6g} at t = 0, not 1")
        if not np.allclose(mirrored, np.conj(values), rtol=1e-9, atol=1e-12):
            raise ValueError(f"{name}, whose value at -t is not the conjugate of that at t")
        for step in _STEPS:
            column = self.cf(step * self._width * np.arange(160))
            least = linalg.eigvalsh(linalg.toeplitz(column), subset_by_index=[0, 0])[0]
            if not np.isfinite(column).all() or least < -1e-9 * len(column):
                raise ValueError(f"{name}: it would make some of the density negative")

    def _check_smoothness(self) -> None:
        stated, kind = self.smoothness.exponent, self.smoothness.kind
        if kind == "supersmooth":
            found, off = self._supersmooth_exponent()
        else:
            t = self._width * np.array([1e4, 1e6])
            logs = [-np.log(self._size(x * np.linspace(0.9, 1.0, 2000)).max()) for x in t]
            if self.spectral_span > 0.0:
                raise ValueError(
                    "formula must not wave if its tail is a power, got "
                    f"{self.formula!r}: give a mixture, or file.py:name"
                )
            found, off = float((logs[1] - logs[0]) / math.log(t[1] / t[0])), _EXPONENT
        if not abs(found - stated) <= off * stated:
            other = kind.replace("_", " ")
            raise ValueError(
                f"smoothness must be that of the formula, got {other} {stated:g} for "
                f"{self.formula!r}, whose exponent as such is {found:.3g}"
            )

    def _supersmooth_exponent(self) -> tuple[float, float]:
        """Return α of |p̂| ~ C t^k exp(-c t^α), from -log |p̂| at four frequencies, and its error.

        Their second differences over log t are free of C and k. Where |p̂| waves, differences
        elsewhere disagree, and α is that of its maxima near two frequencies, with C = 1 and k = 0.
        """
        end = self.spectral_range
        if self._size(end * np.linspace(1.01, 1.1)).max() < _ENDS:
            raise ValueError(
                f"formula must not vanish beyond a frequency, as it does at t = {end:.3g}: "
                f"it has no exponent, got {self.formula!r}"
            )
        found = []
        for last in (0.95, 0.88, 0.8):
            falls = -np.log(self._size(last * end * 1.3 ** np.arange(-3.0, 1.0)))
            first, second = np.diff(falls, 2)
            found.append(float(np.log(second / first) / math.log(1.3)))
        if np.ptp(found) <= _EXPONENT * found[0]:
            return found[0], _EXPONENT
        t = end * np.array([0.6, 0.95])
        logs = [np.log(-np.log(self._size(x * np.linspace(0.95, 1.0, 200)).max())) for x in t]
        return float((logs[1] - logs[0]) / math.log(t[1] / t[0])), _OF_WAVES


@dataclass(frozen=True)
class RoughCharacteristicFunction(CharacteristicFunction):
    """The same with a power tail."""

    def spectral_tail(self, t: float) -> float:
        """(1/π) ∫_t^∞ |p̂|²."""
        return self._energy(t)


_BY_FREQUENCY = (
    "density must have values and samples for this, as a mixture or an object file.py:name has them"
)


def read_characteristic(formula: str, smoothness: str) -> CharacteristicFunction:
    """Return the density of a formula and its smoothness, both as text.

    Parameters
    ----------
    formula : str
    smoothness : str
        ``"supersmooth 1.5"`` or ``"ordinary 2"``.

    Raises
    ------
    ValueError
        As :class:`CharacteristicFunction`, and for another text on smoothness.

    Examples
    --------
    >>> read_characteristic("1/(1 + t**2)", "ordinary 2").smoothness.exponent
    2.0
    """
    match = re.fullmatch(r"\s*(supersmooth|ordinary)(?:[ _]smooth)?\s+([\d.eE+-]+)\s*", smoothness)
    if match is None:
        raise ValueError(
            f"smoothness must be as 'supersmooth 1.5' or 'ordinary 2', got {smoothness!r}"
        )
    try:
        exponent = float(match[2])
    except ValueError:
        raise ValueError(f"smoothness must end with a number, got {smoothness!r}") from None
    if match[1] == "supersmooth":
        return CharacteristicFunction(formula, Smoothness("supersmooth", exponent))
    return RoughCharacteristicFunction(formula, Smoothness("ordinary_smooth", exponent))
