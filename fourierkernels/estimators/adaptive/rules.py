"""Rules for the radius of each sample: R times λ_i = (p̃(x_i)/g)^α, g the geometric mean of the p̃.

p̃ is a pilot, an estimate of the density at the samples up to a factor, and α the sensitivity. The
geometric mean of the λ_i is 1, so that R keeps its meaning. To add a rule, write a function that
returns the logarithm of a pilot and an :class:`AdaptiveRule` in :data:`ADAPTIVE_RULES`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.spatial import KDTree
from sklearn.base import clone

from fourierkernels.estimators.boxes import Bounds
from fourierkernels.estimators.checks import TiedDataWarning, silenced
from fourierkernels.estimators.density import KernelDensity
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import check_integer, check_number
from fourierkernels.kernels import Kernel


@dataclass(frozen=True)
class Sample:
    """What a rule sees: rows of positive weight, and the options of the estimator.

    Attributes
    ----------
    points : array of shape (n, dim)
    counts : array of shape (n,)
        How many samples each stands for.
    kernel, radius : Kernel, array of shape (dim,)
        Those of the estimate.
    bounds, pilot, neighbours
        Parameters of :class:`~fourierkernels.estimators.AdaptiveDensity`.
    """

    points: FloatArray
    counts: FloatArray
    kernel: Kernel
    radius: FloatArray
    bounds: Bounds | None
    pilot: KernelDensity | None
    neighbours: int | None


@dataclass(frozen=True)
class AdaptiveRule:
    """A rule for the radius of each sample.

    Attributes
    ----------
    name : str
    log_pilot : callable
        `Sample` to log p̃ at its points up to a constant, shape ``(n,)``.
    sensitivity : callable
        The number of dimensions to the α by default.
    description : str
    source : str
        Key of book/references.bib.
    """

    name: str
    log_pilot: Callable[[Sample], FloatArray]
    sensitivity: Callable[[int], float]
    description: str
    source: str

    def factors(self, sample: Sample, sensitivity: float | None) -> FloatArray:
        """Return λ at the points, shape ``(n,)``.

        Raises
        ------
        ValueError, TypeError
            For a sensitivity outside [0, 1], and as the rule.
        """
        alpha = self.sensitivity(sample.points.shape[1])
        if sensitivity is not None:
            alpha = check_number("sensitivity", sensitivity)
        if not 0.0 <= alpha <= 1.0:
            raise ValueError(f"sensitivity must be in [0, 1], got {sensitivity}")
        log = self.log_pilot(sample)
        return np.asarray(np.exp(alpha * (log - np.average(log, weights=sample.counts))))


def _by_kernels(sample: Sample) -> FloatArray:
    """Return the log of a fixed-radius density at its own samples, which is positive there."""
    pilot = sample.pilot
    if pilot is None:
        varies = bool((np.ptp(sample.points, axis=0) > 0).all())
        pilot = KernelDensity(
            sample.kernel if sample.kernel.nonnegative else "gaussian",
            radius=None if varies else sample.radius,  # a rule needs columns that vary
            bounds=sample.bounds,
        )
    if not isinstance(pilot, KernelDensity):
        raise TypeError(f"pilot must be a KernelDensity or None, got {pilot!r}")
    model = clone(pilot).set_params(weighting="importance")
    with silenced(TiedDataWarning):  # said by the estimate's own rule
        density = model.fit(sample.points, None, sample.counts).density(sample.points)
    if not density.min() > 0:
        raise ValueError(
            "pilot must be positive at all samples, as with a nonnegative kernel, got "
            f"{density.min():.3g}"
        )
    return np.asarray(np.log(density))


def _by_neighbours(sample: Sample) -> FloatArray:
    """Return -D log of the distance to the k-th nearest sample, in bandwidths."""
    size = float(sample.counts.sum())
    k = round(math.sqrt(size)) if sample.neighbours is None else sample.neighbours
    k = check_integer("neighbours", k)
    if k > size - 1.0:
        raise ValueError(f"neighbours must be below the number of samples, {size:g}, got {k}")
    distances = neighbour_distances(sample.points * sample.radius, sample.counts, k)
    if not distances.min() > 0:
        raise ValueError(
            "X must have two different rows for a radius by neighbours, got copies of one"
        )
    return np.asarray(-sample.points.shape[1] * np.log(distances))


def neighbour_distances(points: FloatArray, counts: FloatArray, k: int) -> FloatArray:
    """Return the distance from each point to the k-th nearest other sample, shape ``(n,)``.

    At least that to the nearest other place, where k or more coincide.

    Parameters
    ----------
    points : array of shape (n, dim)
    counts : array of shape (n,)
        Positive; a row that counts c samples has c - 1 others, or none, at distance 0.
    """
    places, row = np.unique(points, axis=0, return_inverse=True)
    joint = np.bincount(row.ravel(), weights=counts)
    tree, found = KDTree(places), np.full(len(places), -1.0)
    left, asked = np.arange(len(places)), min(k + 1, len(places))
    while len(left):
        distance, near = tree.query(places[left], k=asked)
        distance, near = (np.reshape(each, (-1, asked)) for each in (distance, near))
        others = np.cumsum(joint[near], axis=1) - np.minimum(joint[left], 1.0)[:, None]
        reached = others >= k * (1.0 - 1e-12)
        done = reached[:, -1] | (asked == len(places))
        first = np.where(reached.any(axis=1), np.argmax(reached, axis=1), asked - 1)
        first = np.maximum(first, min(1, asked - 1))  # beyond copies
        found[left[done]] = distance[done, first[done]]
        left, asked = left[~done], min(2 * asked, len(places))
    return found[row.ravel()]


ADAPTIVE_RULES: dict[str, AdaptiveRule] = {
    rule.name: rule
    for rule in (
        AdaptiveRule(
            "abramson",
            _by_kernels,
            lambda dim: 0.5,
            "the square root of a density with one radius: its own kernel, or the Gaussian where "
            "that has negative values, at the normal-reference radius, or `pilot`",
            "abramson1982bandwidth",
        ),
        AdaptiveRule(
            "neighbours",
            _by_neighbours,
            lambda dim: 1.0 / dim,
            "the distance to the k-th nearest sample, √n by default: p̃ is its power -D, so that α "
            "= 1/D makes bandwidths proportional to it",
            "breiman1977variable",
        ),
    )
}
