"""Kernel density estimation."""

import warnings
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import DensityMixin

from fourierkernels.estimators.base import (
    KernelEstimator,
    UndefinedWarning,
    count_undefined,
    validated,
)
from fourierkernels.kernels import FloatArray


class KernelDensity(DensityMixin, KernelEstimator):  # type: ignore[misc]
    """Density estimate p̂(x) = Σ_i w_i ∏_d R_d K(R_d(x_d - x_id)) / Σ_i w_i.

    A scikit-learn estimator. Kernels with negative lobes (odd powers) can give a negative
    estimate, which is returned as it is. Source: [nguyen2022fourierformer]_ eq. 12.

    Parameters
    ----------
    kernel : Kernel or str
        ``"gaussian"``, ``"fourier<power>"`` or a kernel object.
    radius : float, array of shape (dim,) or {"normal_reference"}, optional
        R = 1/bandwidth; by default the exact MISE optimum for Gaussian data.
    bandwidth : float or array of shape (dim,), optional
        1/R, instead of `radius`.
    method : {"auto", "direct", "bandlimited", "reference"}
        How sums are computed; by default whichever a cost model finds cheapest.
    tol : float
        Accuracy, relative to the largest sum, where sums are band-limited.

    Attributes
    ----------
    kernel_, radius_ : Kernel, array of shape (dim,)
        What is in use.
    plan_ : Plan
        Method, estimated seconds and promised accuracy for as many queries as samples.
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=(1000, 1))
    >>> model = KernelDensity("fourier1").fit(x)
    >>> print(f"{model.density([[0.0]])[0]:.3f} with R = {model.radius_[0]:.3f}")
    0.407 with R = 2.719
    """

    def fit(self, X: ArrayLike, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Keep the samples and choose the radius.

        Parameters
        ----------
        X : array of shape (n, dim)
        y : ignored
        sample_weight : array of shape (n,), optional

        Raises
        ------
        ValueError
            For data that is empty or not finite, weights that are negative, a radius or bandwidth
            that is not positive, an unknown kernel, rule or method.
        """
        return self._fit_points(validated(self, X), sample_weight)

    def density(self, X: ArrayLike) -> FloatArray:
        """Return p̂ at queries of shape ``(m, dim)``; shape ``(m,)``."""
        totals = self._sums(self._queries(X), refine=False).totals()
        return np.asarray(totals * np.exp(self._log_scale()))

    def score_samples(self, X: ArrayLike) -> FloatArray:
        """Return log p̂, shape ``(m,)``: no underflow; NaN, with one warning, where p̂ < 0."""
        log = self._sums(self._queries(X)).log_totals() + self._log_scale()
        negative = np.isnan(log)
        if negative.any():
            why = "have a negative density estimate; its logarithm is NaN"
            warnings.warn(count_undefined(negative, why), UndefinedWarning, stacklevel=2)
        return log

    def score(self, X: ArrayLike, y: object = None) -> float:
        """Return the total log-likelihood Σ log p̂(x)."""
        return float(self.score_samples(X).sum())

    def _log_scale(self) -> float:
        dim = len(self.radius_)
        peak = np.log(self.radius_).sum() - dim * np.log(self.kernel_.constant)
        return float(peak - np.log(self.weights_.sum()))
