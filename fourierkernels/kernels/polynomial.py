"""Kernels whose φ is a polynomial with rational coefficients, and those of any even order."""

import math
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from numbers import Rational

import numpy as np
from numpy.typing import ArrayLike

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import check_integer, check_number
from fourierkernels.kernels.kernel import FourierKernel, Kernel, sinc_series
from fourierkernels.kernels.phi_kernel import PhiKernel, is_nonnegative, log_and_sign, noise_of
from fourierkernels.kernels.sinc import sinc

_LARGEST_DEGREE = 40  # that of the B-splines
_TERM = re.compile(r"([+-]?)(\d+(?:\.\d+|/0*[1-9]\d*)?)?\*?z(?:(?:\^|\*\*)(\d+))?")


@dataclass(frozen=True)
class PolynomialKernel:
    """K(u) = φ(sinc u)/A for φ(z) = Σ c_l z^l: all constants are rational multiples of powers of π.

    The transform is Σ c_l A_l K̂_l / A, a sum of B-splines. Up to the first knot the gap 1 - K̂ is
    a polynomial whose coefficients are added as fractions: in a kernel of high order the low ones
    are exactly zero, and no digit of the gap is lost. Beyond, it is the difference from the
    transform, whose terms cancel. Source: [nguyen2022fourierformer]_ eq. 12.

    Parameters
    ----------
    coefficients : tuple of (int, Fraction)
        Pairs (l, c_l) with 1 <= l <= 40, no l twice; floats c_l are taken by their exact value.
    name : str
        Shown in tables; by default the polynomial, which :func:`as_kernel` reads.

    Raises
    ------
    ValueError
        If there is no term, a power is out of range or repeated, a coefficient is not finite, or
        the integral is not positive.
    TypeError
        If a power is no integer, or a coefficient no number.

    Examples
    --------
    >>> kernel = PolynomialKernel.of("1.5z^8 - z^6")
    >>> kernel.order, round(kernel.flatness, 5), kernel.name
    (4.0, 0.03081, '3/2z^8-z^6')
    """

    coefficients: tuple[tuple[int, Fraction], ...]
    name: str = ""

    def __post_init__(self) -> None:
        pairs = [_checked_term(pair) for pair in self.coefficients]
        powers = [power for power, _ in pairs]
        wrong = not powers or len(set(powers)) < len(powers)
        if wrong or not all(1 <= power <= _LARGEST_DEGREE for power in powers):
            rule = f"phi must have powers from 1 to {_LARGEST_DEGREE}, each once"
            raise ValueError(f"{rule}, got {powers}")
        terms = sorted((power, c) for power, c in pairs if c)
        object.__setattr__(self, "coefficients", tuple(terms))
        object.__setattr__(self, "name", self.name or _written(terms))
        if not self._integral > 0:
            raise ValueError(f"phi must give a positive integral, got {float(self._integral)}π")

    @classmethod
    def of(cls, text: str) -> "PolynomialKernel":
        """Return the kernel of a polynomial written in z, as ``3z^8 - 2z^6``.

        Raises
        ------
        ValueError
            For a text that is no sum of multiples of powers of z.
        """
        bare = text.replace(" ", "")
        found = list(_TERM.finditer(bare))
        unsigned = any(not term[1] for term in found[1:])
        if not found or unsigned or "".join(term[0] for term in found) != bare:
            raise ValueError(f"phi must be a sum like '3z^8 - 2z^6', got {text!r}")
        terms = [(int(t[3] or 1), Fraction(t[2] or 1) * (-1) ** (t[1] == "-")) for t in found]
        return cls(tuple(terms))

    @cached_property
    def constant(self) -> float:
        """A = Σ c_l A_l."""
        return math.pi * float(self._integral)

    @property
    def lowest_power(self) -> int:
        """L in |K(u)| ~ |u|^{-l} far from 0."""
        return self.coefficients[0][0]

    @cached_property
    def order(self) -> float:
        """First power of s in 1 - K̂(s); infinite for φ(z) = c z."""
        return float(next((j for j, g in enumerate(self._gap_fractions) if g), math.inf))

    @property
    def flatness(self) -> float:
        """Its coefficient b in 1 - K̂(s) = b s^order + ...; 0 if the order is infinite."""
        return float(next((g for g in self._gap_fractions if g), 0))

    @property
    def second_moment(self) -> float:
        """-K̂''(0): infinite at order 1, 0 above order 2."""
        if self.order < 2.0:
            return math.inf
        return 2.0 * self.flatness if self.order == 2.0 else 0.0

    @cached_property
    def roughness(self) -> float:
        """∫ K² = Σ c_i c_j A_{i+j} / A²."""
        pairs = product(self.coefficients, repeat=2)
        total = sum(c * d * sinc_series(i + j)[0] for (i, c), (j, d) in pairs)
        return float(total / self._integral**2) / math.pi

    @property
    def support(self) -> float:
        """The degree."""
        return float(self.coefficients[-1][0])

    @property
    def cutoff(self) -> float:
        """Equal to the support."""
        return self.support

    @cached_property
    def knots(self) -> tuple[float, ...]:
        """Those of all its B-splines."""
        return tuple(sorted({knot for _, part in self._parts for knot in part.knots}))

    @cached_property
    def nonnegative(self) -> bool:
        """Checked on a grid of the range of sinc."""
        return is_nonnegative(self.phi)

    def phi(self, z: ArrayLike) -> FloatArray:
        """Σ c_l z^l, elementwise."""
        dense = np.zeros(self.coefficients[-1][0] + 1)
        for power, c in self.coefficients:
            dense[power] = float(c)
        return np.asarray(np.polynomial.polynomial.polyval(np.asarray(z, float), dense))

    def value(self, u: ArrayLike) -> FloatArray:
        """φ(sinc u)/A, elementwise."""
        return np.asarray(self.phi(sinc(u)) / self.constant)

    def transform(self, s: ArrayLike) -> FloatArray:
        """Σ c_l A_l K̂_l(s) / A, elementwise."""
        return sum((w * part.transform(s) for w, part in self._parts), np.zeros(np.shape(s)))

    def gap(self, s: ArrayLike) -> FloatArray:
        """Return 1 - K̂(s), elementwise: to the first knot from terms that have cancelled."""
        size = np.abs(np.asarray(s, float))
        reach = self.knots[0]
        series = [float(g) for g in self._gap_fractions]
        near = np.polynomial.polynomial.polyval(np.minimum(size, reach), series)
        return np.where(size < reach, near, 1.0 - self.transform(size))

    def log_shape(self, u: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """(log|φ(sinc u)|, sign)."""
        return log_and_sign(self.phi(sinc(u)))

    def noise(self, u: ArrayLike, u_error: ArrayLike) -> FloatArray:
        """Largest change of φ over the error of sinc u, relative to φ."""
        return noise_of(self.phi, u, u_error)

    def log_slope(self, u: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """(log, sign) of the sum of the slopes of the powers."""
        slope = np.zeros(np.shape(u))
        for power, c in self.coefficients:
            log, sign = FourierKernel(power).log_slope(u)
            slope = slope + float(c) * sign * np.exp(log)
        return log_and_sign(slope)

    def cumulative(self, u: ArrayLike) -> FloatArray:
        """Sum of the integrals of the powers."""
        return sum((w * part.cumulative(u) for w, part in self._parts), np.zeros(np.shape(u)))

    @property
    def squared(self) -> tuple[Kernel, float]:
        """φ² at the same u.

        Above degree 40 as a `PhiKernel`: the coefficients of so many B-splines cancel nearly all
        digits of their sum.
        """
        if 2 * self.coefficients[-1][0] > _LARGEST_DEGREE:
            return PhiKernel(lambda z: np.square(self.phi(z)), f"{self.name}-squared"), 1.0
        square: dict[int, Fraction] = {}
        for (i, c), (j, d) in product(self.coefficients, repeat=2):
            square[i + j] = square.get(i + j, Fraction(0)) + c * d
        return PolynomialKernel(tuple(square.items())), 1.0

    @property
    def _integral(self) -> Fraction:
        """A/π."""
        return sum((c * sinc_series(power)[0] for power, c in self.coefficients), Fraction(0))

    @cached_property
    def _parts(self) -> list[tuple[float, FourierKernel]]:
        """Weights c_l A_l/A with the kernels of the powers."""
        return [
            (float(c * sinc_series(power)[0] / self._integral), FourierKernel(power))
            for power, c in self.coefficients
        ]

    @cached_property
    def _gap_fractions(self) -> list[Fraction]:
        """Coefficients of 1 - K̂(s) in powers of s, up to the first knot."""
        total = [Fraction(0)] * (self.coefficients[-1][0])
        for power, c in self.coefficients:
            for j, term in enumerate(sinc_series(power)[1:], start=1):
                total[j] -= c * term / self._integral
        return total


def kernel_of_order(order: int, powers: Sequence[int] | None = None) -> PolynomialKernel:
    """Return the combination of powers of sinc with 1 - K̂(s) ~ b s^order, φ(1) = 1.

    `order`/2 powers have one combination in which the terms s², s⁴, ..., s^{order-2} cancel.

    Parameters
    ----------
    order : int
        An even number of at least 2. From 4 on the kernel is signed: its second moment is 0.
    powers : sequence of int, optional
        As many as `order`/2. By default the lowest even ones of at least `order` + 2: those of
        which ∫ |φ(sinc z)| |z|^order is finite, as Theorem 1 asks, so that it holds with
        m = `order` - 1. Odd powers from 3 on have the order too, that of the transform, where
        absolute moments are infinite; so do even ones from `order` + 2 on, among them. Power 1,
        whose transform is constant near 0, has no terms that could cancel those of others. From
        order 6 on some choices have no positive integral.

    Raises
    ------
    TypeError
        For an order or powers that are no integers.
    ValueError
        For an odd order, another number of powers, a power above 40, powers whose kernel has
        another order (an even power l leaves |s|^{l-1}), or one whose integral is not positive.

    Examples
    --------
    >>> kernel_of_order(4).coefficients
    ((6, Fraction(-2, 1)), (8, Fraction(3, 1)))
    >>> kernel_of_order(6).order, kernel_of_order(6, powers=(3, 5, 7)).order
    (6.0, 6.0)
    """
    order = check_integer("order", order, least=2)
    if order % 2:
        raise ValueError(f"order must be even, got {order}: transforms of kernels are even")
    count = order // 2
    given = range(order + 2, 2 * order + 1, 2) if powers is None else powers
    chosen = tuple(check_integer("powers", power) for power in given)
    if len(set(chosen)) != count:
        raise ValueError(f"powers must be {count} different ones for order {order}, got {chosen}")
    rows = [[_term(power, 2 * j) for power in chosen] for j in range(1, count)]
    solution = _solved([*rows, [Fraction(1)] * count])
    name = f"order{order}" if powers is None else ""
    kernel = PolynomialKernel(tuple(zip(chosen, solution, strict=True)), name)
    if kernel.order != order:
        raise ValueError(f"powers must give order {order}, got {chosen} of order {kernel.order:g}")
    return kernel


def _checked_term(pair: object) -> tuple[int, Fraction]:
    """Return a pair (l, c_l) as a Python integer, which no product overflows, and a fraction."""
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise TypeError(f"coefficients must be pairs (power, coefficient), got {pair!r}")
    power, c = check_integer("powers", pair[0], least=-sys.maxsize), pair[1]  # range: with others
    number = check_number("coefficients", c)
    exact = isinstance(c, Rational)
    return power, Fraction(int(c.numerator), int(c.denominator)) if exact else Fraction(number)


def _term(power: int, j: int) -> Fraction:
    """Coefficient of s^j in A_l K̂_l(s)/π; 0 beyond the degree l - 1."""
    series = sinc_series(power)
    return series[j] if j < len(series) else Fraction(0)


def _solved(rows: list[list[Fraction]]) -> list[Fraction]:
    """Solve for the right-hand side (0, ..., 0, 1) by elimination; singular systems are refused."""
    table = [[*row, Fraction(i == len(rows) - 1)] for i, row in enumerate(rows)]
    for k in range(len(table)):
        pivot = next((i for i in range(k, len(table)) if table[i][k]), None)
        if pivot is None:
            raise ValueError("powers must have one combination of this order, got none or many")
        table[k], table[pivot] = table[pivot], table[k]
        table[k] = [entry / table[k][k] for entry in table[k]]
        for i in range(len(table)):
            if i != k:
                factor = table[i][k]
                table[i] = [a - factor * b for a, b in zip(table[i], table[k], strict=True)]
    return [row[-1] for row in table]


def _written(terms: Sequence[tuple[int, Fraction]]) -> str:
    """Write φ with its highest power first, so that :meth:`PolynomialKernel.of` reads it."""
    text = ""
    for power, c in reversed(terms):
        size = "" if abs(c) == 1 else str(abs(c))
        text += ("-" if c < 0 else "+") + size + (f"z^{power}" if power > 1 else "z")
    return text.removeprefix("+")
