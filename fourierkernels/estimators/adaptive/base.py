"""What density and regression with a radius of each sample share."""

from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from fourierkernels.estimators.adaptive.choice import AdaptiveScore, best_multiple
from fourierkernels.estimators.adaptive.rules import ADAPTIVE_RULES, Sample
from fourierkernels.estimators.base import KernelEstimator
from fourierkernels.estimators.density import KernelDensity
from fourierkernels.estimators.streams.sources import Source
from fourierkernels.estimators.weights import SampleRows, whole_rows
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import check_choice


class AdaptiveEstimator(KernelEstimator):
    """Sums with a radius of each sample, in place of those with one.

    Attributes
    ----------
    factors_ : array of shape (n,)
        λ_i; 1 for a sample without weight.
    """

    _takes_matrices = False
    factors_: FloatArray
    adaptive: str
    sensitivity: float | None
    neighbours: int | None
    pilot: KernelDensity | None
    _scores: dict[str, AdaptiveScore]

    def _compute_fit(self, X: FloatArray, sample_weight: ArrayLike | None) -> None:
        super()._compute_fit(X, sample_weight)
        if isinstance(self.radius, str) and self.radius in self._scores:
            self.radius_ = best_multiple(self, self._scores[self.radius])
            self.plan_ = self._kept_sum().plan(X)

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
    def sample_factors(self) -> FloatArray:
        """Factors on the radius of each sample, shape ``(n,)``."""
        return self.factors_

    def _fit_stream(self, source: Source, *, more: bool = False) -> Self:
        """Refuse a stream: its samples are not there for their radii."""
        raise ValueError(
            f"X must be an array for a radius of each sample, got a stream, {type(source).__name__}"
        )
