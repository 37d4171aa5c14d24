"""A kernel from outside the package, whole: powers of the hyperbolic secant.

Its transform has no compact support, no compiled form and no sampler, which are optional.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from fourierkernels.foundation.arrays import FloatArray

NEAR = 0.05  # below, 1 - K̂ cancels: log K̂ by its series


@dataclass(frozen=True)
class SechKernel:
    """K(u) = sech(u)^p / B(1/2, p/2), with the transform |Γ((p + is)/2)|²/Γ(p/2)²."""

    power: float = 1.0

    order = 2.0
    support = math.inf
    nonnegative = True

    @property
    def name(self) -> str:
        return "sech"

    @property
    def constant(self) -> float:
        return float(special.beta(0.5, 0.5 * self.power))

    @property
    def second_moment(self) -> float:
        return 0.5 * float(special.polygamma(1, 0.5 * self.power))

    @property
    def roughness(self) -> float:
        return SechKernel(2 * self.power).constant / self.constant**2

    @property
    def cutoff(self) -> float:
        return 26.0 + 2.0 * self.power

    @property
    def knots(self) -> tuple[float, ...]:
        return (*(float(k) for k in range(2, int(self.cutoff), 2)), self.cutoff)

    def _log_transform(self, s: FloatArray) -> FloatArray:
        half = 0.5 * self.power
        far = 2.0 * (special.loggamma(half + 0.5j * s).real - special.gammaln(half))
        terms = (
            2.0
            * (-1) ** (j // 2)
            * special.polygamma(j - 1, half)
            * (0.5 * s) ** j
            / math.factorial(j)
            for j in (2, 4, 6, 8)
        )
        return np.where(np.abs(s) < NEAR, sum(terms), far)

    def value(self, u: ArrayLike) -> FloatArray:
        return np.asarray(np.exp(self.log_shape(u)[0]) / self.constant)

    def transform(self, s: ArrayLike) -> FloatArray:
        return np.exp(self._log_transform(np.asarray(s, float)))

    def gap(self, s: ArrayLike) -> FloatArray:
        return -np.expm1(self._log_transform(np.asarray(s, float)))

    def log_shape(self, u: ArrayLike) -> tuple[FloatArray, FloatArray]:
        size = np.abs(np.asarray(u, float))
        log = -self.power * (size + np.log1p(np.exp(-2.0 * size)) - math.log(2.0))
        return log, np.ones_like(log)

    def noise(self, u: ArrayLike, u_error: ArrayLike) -> FloatArray:
        return np.asarray(self.power * np.tanh(np.abs(np.asarray(u, float))) * u_error)

    def log_slope(self, u: ArrayLike) -> tuple[FloatArray, FloatArray]:
        u = np.asarray(u, float)
        with np.errstate(divide="ignore"):
            return np.log(self.power * np.tanh(np.abs(u))) + self.log_shape(u)[0], -np.sign(u)

    def cumulative(self, u: ArrayLike) -> FloatArray:
        half = 0.5 * self.power
        u = np.asarray(u, float)
        tail = special.betainc(half, half, special.expit(-2.0 * np.abs(u)))
        return np.where(u < 0, tail, 1.0 - tail)

    @property
    def squared(self) -> tuple["SechKernel", float]:
        return SechKernel(2.0 * self.power), 1.0
