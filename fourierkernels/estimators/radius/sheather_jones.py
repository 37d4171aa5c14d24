"""The improved Sheather-Jones bandwidth: a fixed point in the cosine coefficients of the data."""

import math
from functools import partial

import numpy as np
from scipy.optimize import brentq

from fourierkernels.estimators.radius.rule import Rule
from fourierkernels.estimators.radius.sample import Standardised, refuse_ties
from fourierkernels.estimators.radius.spectrum import REPEATED, settled
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.kernels import Kernel
from fourierkernels.sums.coordinates import Box
from fourierkernels.sums.transforms import forward

_MODES = 2**14  # cosine coefficients, as in the authors' code
_STAGES = 7
_SHORTEST = (6.0 / (math.pi * _MODES)) ** 2  # a kernel so narrow that all coefficients just count
_LONGEST = 0.1
_STEP = 1.1  # from a time below the root to one that may be above
_UNDERFLOW = 150.0  # of an exponent: what is beyond adds less than rounding
_MOST_COPIES = 1.5
_ERROR = 2e-5  # of a coefficient, in units of 1/√n, about its standard error


def improved_sheather_jones(points: FloatArray, weights: FloatArray, kernel: Kernel) -> FloatArray:
    """Return R = 1/h, h² the solution of t = ξ γ^[7](t), shape ``(1,)``; Gaussian kernel only.

    The data is mapped to [0, 1] with a tenth of its range added on both sides; with its cosine
    coefficients c_k = Σ p_j cos(πk x_j), ‖f^(s)‖² is 2 π^{2s} Σ k^{2s} c_k² exp(-k²π²t). Where the
    authors bin the data, the coefficients here are those of the data itself, with an error of at
    most 2e-5/√n, where their standard error is about 1/√(2n). The equation's
    smallest root is taken: γ^[7] grows with t, so that from a time below all roots t, γ(t),
    γ(γ(t)), ... tends to it. Of rounded data, the coefficients that rounding resolves are used, see
    `fourierkernels.estimators.radius.spectrum`. Source: [botev2010kernel]_, Algorithm 1.

    Raises
    ------
    ValueError
        For more than one column or an equation without a root.
    """
    _check_one_column(points.shape[1])
    return _fixed_radius(*settled(points, weights, _MOST_COPIES, "improved_sheather_jones"))


def _of_stream(sample: Standardised, kernel: Kernel) -> FloatArray:
    _check_one_column(sample.dim)
    refuse_ties(sample, REPEATED, "improved_sheather_jones")
    return _fixed_radius(sample, np.array([math.inf]))


def _check_one_column(dim: int) -> None:
    if dim != 1:
        raise ValueError(f"X must have one column for radius='improved_sheather_jones', got {dim}")


def _fixed_radius(sample: Standardised, end: FloatArray) -> FloatArray:
    reach = 1.2 * float(sample.ranges[0])
    energy = _cosine_energy(sample, reach)
    if math.isfinite(end[0]):
        energy = energy[: max(1, int(end[0] * reach / math.pi))]
    return np.array([1.0 / (reach * math.sqrt(_smallest_root(energy, sample.size)))]) / sample.scale


def _cosine_energy(sample: Standardised, reach: float) -> FloatArray:
    """Return (Σ p_j cos(πk x_j))², x in [0, 1], for k = 1, 2, ...; shape ``(modes - 1,)``."""
    cosines = partial(_cosines, reach=reach, eps=_ERROR / math.sqrt(sample.size))
    energy: FloatArray = np.square(sample.total(cosines))
    return energy


def _cosines(points: FloatArray, weights: FloatArray, reach: float, eps: float) -> FloatArray:
    """Return Σ p_j cos(πk x_j) of points that are centred: their range becomes [1/12, 11/12].

    Phases count from the centre of a box: one around the points and their mirror images at the end
    of the cosines gives these without a turn.
    """
    high, grid = float(points.max()), ((2.0 * reach, 2 * _MODES),)
    box = Box((-reach - high,), (high,))
    modes = forward(points, weights[None], grid, box, eps=eps)
    return np.asarray(modes[0, 1:].real)


class _Equation:
    """t = ξ γ^[7](t) for cosine coefficients c_k of n samples; `energy` is c_k², k = 1, 2, ..."""

    def __init__(self, energy: FloatArray, n: float) -> None:
        self._n, self._square = n, np.square(math.pi * np.arange(1.0, len(energy) + 1.0))
        self._terms = {s: self._square**s * energy for s in range(2, _STAGES + 1)}

    def norm(self, derivative: int, time: float) -> np.float64:
        """‖f^(s)‖² = 2 π^{2s} Σ k^{2s} c_k² exp(-k²π²t)."""
        count = math.ceil(min(math.sqrt(_UNDERFLOW / time) / math.pi, len(self._square)))
        decay = np.exp(-time * self._square[:count])
        return np.float64(2.0 * np.einsum("k,k", self._terms[derivative][:count], decay))

    @np.errstate(divide="ignore")
    def improved(self, time: float) -> float:
        """Return ξ γ^[7](t), by the recursion over s = 7, ..., 2; infinite if no mode is left."""
        norm = self.norm(_STAGES, time)
        for stage in range(_STAGES - 1, 1, -1):
            odd = math.prod(range(1, 2 * stage, 2)) / math.sqrt(2.0 * math.pi)
            constant: float = (1.0 + 0.5 ** (stage + 0.5)) / 3.0
            next_time = (2.0 * constant * odd / (self._n * norm)) ** (2.0 / (3.0 + 2.0 * stage))
            norm = self.norm(stage, next_time)
        return float((2.0 * self._n * math.sqrt(math.pi) * norm) ** -0.4)

    def excess(self, time: float) -> float:
        """Return t - ξ γ^[7](t)."""
        return time - self.improved(time)


def _smallest_root(energy: FloatArray, n: float) -> float:
    """Return the smallest root that the coefficients resolve, approached from below.

    As γ grows, a time from which it gains more than a step has no root within the step.
    """
    equation, below = _Equation(energy, n), _SHORTEST
    while below < _LONGEST and (better := equation.improved(below)) > below:
        if better <= _STEP * below and equation.excess(_STEP * below) >= 0.0:
            return float(brentq(equation.excess, below, _STEP * below, xtol=1e-16))
        below = better
    raise ValueError(
        "X must give the equation of radius='improved_sheather_jones' a root, got none between "
        f"{math.sqrt(_SHORTEST):.1e} and {math.sqrt(_LONGEST):.1g} of the range (n = {n:g}); use "
        "'plugin'"
    )


RULES = (
    Rule(
        "improved_sheather_jones",
        improved_sheather_jones,
        "fixed point of seven plug-in stages, D = 1",
        "botev2010kernel",
        gaussian_only=True,
        of_sample=_of_stream,
    ),
)
