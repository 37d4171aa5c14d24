"""What density and regression with a radius of each sample share."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fourierkernels.estimators.adaptive.rules import ADAPTIVE_RULES, Sample
from fourierkernels.estimators.base import KernelEstimator
from fourierkernels.estimators.boxes import Images, reflect
from fourierkernels.estimators.density import KernelDensity
from fourierkernels.estimators.kept import Sources
from fourierkernels.estimators.streams.choice import as_source
from fourierkernels.estimators.weights import SampleRows, whole_rows
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import check_choice
from fourierkernels.sums import SampleSum
from fourierkernels.sums.factors import FactorSum


class AdaptiveEstimator(KernelEstimator):
    """Sums with a radius of each sample, in place of those with one.

    Attributes
    ----------
    factors_ : array of shape (n,)
        λ_i; 1 for a sample without weight.
    """

    _takes_matrices = False
    adaptive: str
    sensitivity: float | None
    neighbours: int | None
    pilot: KernelDensity | None

    def _chosen_radius(self, X: FloatArray) -> FloatArray:
        """Return R, and keep the factors, which go by it."""
        rule = ADAPTIVE_RULES[check_choice("adaptive", self.adaptive, list(ADAPTIVE_RULES))]
        radius = super()._chosen_radius(X)
        if radius.ndim == 2:
            return radius  # refused where all matrices are
        rows = SampleRows.of(whole_rows(X, self._summed()), self.weights_, self.weighting)
        used = np.flatnonzero(self.weights_ > 0)
        self.factors_ = np.ones(len(X))
        options = self.bounds, self.pilot, self.neighbours
        sample = Sample(X[used], rows.counts[used], self.kernel_, radius, *options)
        self.factors_[used] = rule.factors(sample, self.sensitivity)
        return radius

    @property
    def largest_radius(self) -> FloatArray:
        """The largest radius of a sample."""
        return np.asarray(self.radius_ * self.factors_[self.weights_ > 0].max())

    def _factors(self, rows: NDArray[np.intp]) -> FloatArray:
        return self.factors_[rows]

    @property
    def _images(self) -> Images:
        box, each = self.bounds_, self.radius_[:, None] * self.factors_
        kept: Images = self._kept.get(
            "images",
            self._sources(),
            lambda: reflect(self.points_, self.weights_, box, kernel=self.kernel_, radius=each),
        )
        return kept

    def _sources(self) -> Sources:
        objects, values = super()._sources()
        return Sources((*objects, self.factors_), values)

    def _sum_of_images(
        self, images: Images, responses: FloatArray | None, dims: tuple[int, ...] | None = None
    ) -> SampleSum:
        points, weights, source = images
        columns = np.zeros((len(source), 0)) if responses is None else responses[source]
        some = slice(None) if dims is None else list(dims)
        return FactorSum(
            np.ascontiguousarray(points[:, some]),
            factors=self.factors_[source],
            kernel=self.kernel_,
            radius=self.radius_[some],
            weights=weights,
            responses=columns.reshape(len(source), -1),
            method=self.method,
            tol=self.tol,
        )


def refuse_stream(X: ArrayLike, y: Any, sample_weight: Any) -> None:
    """Refuse a stream: its samples are not there for their radii.

    Raises
    ------
    ValueError
    """
    if as_source(X, y, sample_weight) is not None:
        raise ValueError(
            f"X must be an array for a radius of each sample, got a stream, {type(X).__name__}"
        )
