"""The improved Sheather-Jones bandwidth: a fixed point in the cosine coefficients of the data."""

import math
from functools import partial
from itertools import pairwise

import finufft
import numpy as np
from scipy.optimize import brentq

from fourierkernels.estimators.radius.rule import Rule
from fourierkernels.estimators.radius.sample import Standardised, refuse_ties
from fourierkernels.estimators.radius.spectrum import REPEATED, settled
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.kernels import Kernel

_MODES = 2**14  # cosine coefficients, as in the authors' code
_STAGES = 7
_SHORTEST = (6.0 / (math.pi * _MODES)) ** 2  # a kernel so narrow that all coefficients just count
_MOST_COPIES = 1.5


def improved_sheather_jones(points: FloatArray, weights: FloatArray, kernel: Kernel) -> FloatArray:
    """Return R = 1/h, h² the solution of t = ξ γ^[7](t), shape ``(1,)``; Gaussian kernel only.

    The data is mapped to [0, 1] with a tenth of its range added on both sides; with its cosine
    coefficients c_k = Σ p_j cos(πk x_j), ‖f^(s)‖² is 2 π^{2s} Σ k^{2s} c_k² exp(-k²π²t). Where the
    authors bin the data, the coefficients here are those of the data itself. The equation's
    smallest root is taken. Of rounded data, the coefficients that rounding resolves are used, see
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
    energy: FloatArray = np.square(sample.total(partial(_cosines, reach=reach)))
    return energy


def _cosines(points: FloatArray, weights: FloatArray, reach: float) -> FloatArray:
    """Return Σ p_j cos(πk x_j) of points that are centred: their range becomes [1/12, 11/12]."""
    place = points[:, 0] / reach + 0.5
    sums = finufft.nufft1d1(
        math.pi * place, weights.astype(complex), 2 * _MODES, isign=1, eps=1e-13, nthreads=1
    )
    return np.asarray(sums[_MODES + 1 :].real)


def _norm(energy: FloatArray, derivative: int, time: float) -> float:
    """‖f^(s)‖² = 2 π^{2s} Σ k^{2s} c_k² exp(-k²π²t), c_k² the energy."""
    square = np.square(math.pi * np.arange(1.0, len(energy) + 1.0))
    with np.errstate(under="ignore"):
        return float(2.0 * np.sum(square**derivative * energy * np.exp(-square * time)))


def _fixed_point(time: float, energy: FloatArray, n: float) -> float:
    """Return t - ξ γ^[7](t), by the recursion over s = 7, ..., 2."""
    norm = _norm(energy, _STAGES, time)
    for stage in range(_STAGES - 1, 1, -1):
        odd = math.prod(range(1, 2 * stage, 2)) / math.sqrt(2.0 * math.pi)
        constant: float = (1.0 + 0.5 ** (stage + 0.5)) / 3.0
        next_time = (2.0 * constant * odd / (n * norm)) ** (2.0 / (3.0 + 2.0 * stage))
        norm = _norm(energy, stage, next_time)
    return time - math.pow(2.0 * n * math.sqrt(math.pi) * norm, -0.4)


def _smallest_root(energy: FloatArray, n: float) -> float:
    """Return the first change of sign on a grid of t that the coefficients resolve, refined."""
    times = np.geomspace(_SHORTEST, 0.1, 100)
    values = [_fixed_point(float(time), energy, n) for time in times]
    for (left, before), (right, after) in pairwise(zip(times, values, strict=True)):
        if before < 0.0 <= after:
            return float(brentq(_fixed_point, left, right, args=(energy, n), xtol=1e-16))
    raise ValueError(
        "X must give the equation of radius='improved_sheather_jones' a root, got none between "
        f"{math.sqrt(_SHORTEST):.1e} and 0.3 of the range (n = {n:g}); use 'plugin'"
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
