"""Regression functions of known smoothness: value, derivatives, decay of the transform.

They are the targets f of y = f(x) + noise. On the line they act elementwise; in D dimensions the
target is the sum f(x_1) + ... + f(x_D), see :func:`additive`. To add one, write a frozen dataclass
with the members of :class:`RegressionFunction` and put an instance into
:data:`REGRESSION_FUNCTIONS`; the contract tests and the command line pick it up from there.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import (
    check_choice,
    check_integer,
    check_number,
    check_points,
)
from fourierkernels.theory.densities.contract import (
    BAND_LIMITED,
    Kind,
    RegressionFunction,
    Smoothness,
)


@dataclass(frozen=True)
class Break:
    """|x - at|^degree, times the sign of x - at for even degrees: a jump, a kink, a bend, ...

    Its derivative of order `degree` jumps at one point and all others are smooth there, so |f̂|
    falls exactly like |t|^{-(degree + 1)}: 2/|t| for the jump, 2/t² for the kink.

    Examples
    --------
    >>> Break(degree=1).value([-2.0, 3.0]), Break(degree=0).value([-2.0, 3.0])
    (array([2., 3.]), array([-1.,  1.]))
    """

    degree: int = 1
    at: float = 0.0

    def __post_init__(self) -> None:
        check_integer("degree", self.degree, least=0)
        check_number("at", self.at)

    @property
    def name(self) -> str:
        """``jump``, ``kink``, ``bend``, and ``break<degree>`` from the third derivative on."""
        return {0: "jump", 1: "kink", 2: "bend"}.get(self.degree, f"break{self.degree}")

    @property
    def kind(self) -> Kind:
        """A jump of f, a kink, or smoother than both."""
        kinds: dict[int, Kind] = {0: "jump", 1: "kink"}
        return kinds.get(self.degree, "ordinary_smooth")

    @property
    def smoothness(self) -> Smoothness:
        """β = degree + 1."""
        return Smoothness("ordinary_smooth", self.degree + 1.0)

    @property
    def breaks(self) -> tuple[float, ...]:
        """The one point."""
        return (self.at,)

    @property
    def growth(self) -> float:
        """The degree."""
        return float(self.degree)

    def value(self, x: ArrayLike) -> FloatArray:
        """|x - at|^degree, with its sign."""
        return self._derivative(x, 0)

    def slope(self, x: ArrayLike) -> FloatArray:
        """First derivative; 0 at the break of a jump or a kink."""
        return self._derivative(x, 1)

    def curvature(self, x: ArrayLike) -> FloatArray:
        """Second derivative; 0 at the break of a jump, a kink or a bend."""
        return self._derivative(x, 2)

    def _derivative(self, x: ArrayLike, times: int) -> FloatArray:
        z = np.asarray(x, float) - self.at
        if times > self.degree:
            return np.zeros(z.shape)
        falling = float(math.perm(self.degree, times))
        sign = np.sign(z) ** (self.degree + 1 + times)
        return np.asarray(falling * np.abs(z) ** (self.degree - times) * sign)


@dataclass(frozen=True)
class Sine:
    """sin(frequency · x): f̂ is two lines, and the transform of f p two shifted copies of p̂.

    Examples
    --------
    >>> f = Sine()
    >>> round(float(f.value(0.5)), 6), round(float(f.slope(0.0)), 6)
    (0.841471, 2.0)
    """

    frequency: float = 2.0

    name = "sine"
    kind: Kind = "supersmooth"
    smoothness = BAND_LIMITED
    breaks = ()
    growth = 0.0

    def __post_init__(self) -> None:
        check_number("frequency", self.frequency, above=0.0)

    @property
    def spectral_range(self) -> float:
        """2ω, of f²."""
        return 2.0 * self.frequency

    def value(self, x: ArrayLike) -> FloatArray:
        """sin(ωx)."""
        return np.sin(self.frequency * np.asarray(x, float))

    def slope(self, x: ArrayLike) -> FloatArray:
        """ω cos(ωx)."""
        return self.frequency * np.cos(self.frequency * np.asarray(x, float))

    def curvature(self, x: ArrayLike) -> FloatArray:
        """-ω² sin(ωx)."""
        return -(self.frequency**2) * self.value(x)


@dataclass(frozen=True)
class Bump:
    """exp(-(x - center)²/(2 width²)): f̂ is a Gaussian of standard deviation 1/width."""

    center: float = 0.0
    width: float = 0.5

    name = "bump"
    kind: Kind = "supersmooth"
    smoothness = Smoothness("supersmooth", 2.0)
    breaks = ()
    growth = 0.0

    def __post_init__(self) -> None:
        check_number("center", self.center)
        check_number("width", self.width, above=0.0)

    @property
    def spectral_range(self) -> float:
        """6/width: f² has ended there."""
        return 6.0 / self.width

    def value(self, x: ArrayLike) -> FloatArray:
        """exp(-z²/2), z = (x - center)/width."""
        return np.asarray(np.exp(-0.5 * np.square(self._standard(x))))

    def slope(self, x: ArrayLike) -> FloatArray:
        """-z exp(-z²/2)/width."""
        return -self._standard(x) * self.value(x) / self.width

    def curvature(self, x: ArrayLike) -> FloatArray:
        """(z² - 1) exp(-z²/2)/width²."""
        return (np.square(self._standard(x)) - 1.0) * self.value(x) / self.width**2

    def _standard(self, x: ArrayLike) -> FloatArray:
        return (np.asarray(x, float) - self.center) / self.width


@dataclass(frozen=True)
class Power:
    """x^degree, degree 1 (linear) or 2 (quadratic): the transform of f p is a derivative of p̂."""

    degree: int = 1

    kind: Kind = "supersmooth"
    smoothness = BAND_LIMITED
    breaks = ()

    def __post_init__(self) -> None:
        if check_integer("degree", self.degree) > 2:
            raise ValueError(f"degree must be 1 or 2, got {self.degree}")

    @property
    def name(self) -> str:
        """``linear`` or ``quadratic``."""
        return ("linear", "quadratic")[self.degree - 1]

    @property
    def growth(self) -> float:
        """The degree."""
        return float(self.degree)

    def value(self, x: ArrayLike) -> FloatArray:
        """x^degree."""
        return np.asarray(np.asarray(x, float) ** self.degree)

    def slope(self, x: ArrayLike) -> FloatArray:
        """Return the degree times the power of degree one less."""
        return np.asarray(self.degree * np.asarray(x, float) ** (self.degree - 1))

    def curvature(self, x: ArrayLike) -> FloatArray:
        """Constant: degree (degree - 1)."""
        return np.full(np.shape(x), float(self.degree * (self.degree - 1)))


@dataclass(frozen=True)
class Doppler:
    """sin(strength/(width² + x²)): waves that crowd towards 0, smooth everywhere.

    f is analytic in the strip |Im x| < width, with essential singularities at its edge: |f̂| falls
    like exp(-c|t|) for every c < width, and for no c above, so f is supersmooth of order 1. With a
    Gaussian design f p is less smooth than p.
    """

    strength: float = 4.0
    width: float = 0.7

    name = "doppler"
    kind: Kind = "supersmooth"
    smoothness = Smoothness("supersmooth", 1.0)
    breaks = ()
    growth = 0.0

    def __post_init__(self) -> None:
        check_number("strength", self.strength, above=0.0)
        check_number("width", self.width, above=0.0)

    @property
    def spectral_range(self) -> float:
        """Twice the largest slope of the phase; the strip where f is analytic asks for 8/width."""
        return max(1.3 * self.strength / self.width**3, 8.0 / self.width)

    def value(self, x: ArrayLike) -> FloatArray:
        """Sine of the phase."""
        return np.asarray(np.sin(self._phase(x)[0]))

    def slope(self, x: ArrayLike) -> FloatArray:
        """Cosine of the phase, times its slope."""
        phase, slope, _ = self._phase(x)
        return np.asarray(np.cos(phase) * slope)

    def curvature(self, x: ArrayLike) -> FloatArray:
        """Chain rule, twice."""
        phase, slope, curvature = self._phase(x)
        return np.asarray(np.cos(phase) * curvature - np.sin(phase) * slope**2)

    def _phase(self, x: ArrayLike) -> tuple[FloatArray, FloatArray, FloatArray]:
        """strength/(width² + x²) and its two derivatives."""
        x = np.asarray(x, float)
        square = self.width**2 + x**2
        curvature = self.strength * (6.0 * x**2 - 2.0 * self.width**2) / square**3
        return self.strength / square, -2.0 * self.strength * x / square**2, curvature


REGRESSION_FUNCTIONS: dict[str, RegressionFunction] = {
    function.name: function
    for function in (Sine(), Bump(), Power(1), Power(2), Break(2), Break(1), Break(0), Doppler())
}


def as_regression_function(function: "RegressionFunction | str") -> RegressionFunction:
    """Return a regression function given itself or its name in :data:`REGRESSION_FUNCTIONS`.

    Raises
    ------
    ValueError
        If the name is unknown.
    TypeError
        If it is neither a name nor a regression function.

    Examples
    --------
    >>> as_regression_function("kink").kind
    'kink'
    """
    if isinstance(function, str):
        names = list(REGRESSION_FUNCTIONS)
        return REGRESSION_FUNCTIONS[check_choice("function", function, names)]
    if not isinstance(function, RegressionFunction):
        raise TypeError(f"function must be a regression function or its name, got {function!r}")
    return function


def additive(function: RegressionFunction | str, points: ArrayLike) -> FloatArray:
    """Return Σ_d f(x_d) at points of shape ``(n, dim)``; shape ``(n,)``.

    Examples
    --------
    >>> additive("quadratic", [[1.0, 2.0], [0.0, 3.0]])
    array([5., 9.])
    """
    f = as_regression_function(function)
    return np.asarray(f.value(check_points("points", points)).sum(axis=1))
