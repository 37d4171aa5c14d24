"""Nadaraya-Watson regression with a radius of each sample."""

from numpy.typing import ArrayLike

from fourierkernels.estimators.adaptive.base import AdaptiveEstimator
from fourierkernels.estimators.adaptive.choice import REGRESSION_SCORES
from fourierkernels.estimators.boxes import Bounds
from fourierkernels.estimators.density import KernelDensity
from fourierkernels.estimators.design import DesignFit
from fourierkernels.estimators.regression import NadarayaWatson
from fourierkernels.estimators.smoother import LinearSmoother
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.kernels import Kernel


class AdaptiveRegression(AdaptiveEstimator, NadarayaWatson):
    """Regression f̂(x) = Σ_i w_i y_i K_i(x) / Σ_i w_i K_i(x), K_i with the radius λ_i R.

    Wide kernels where the design is sparse, narrow ones where it is dense; the factors are those of
    the density of the design. With `NadarayaWatson` it shares all that follows: derivatives,
    weights, leave-one-out (with the factors of the whole sample), limits, bounds and grids. Not for
    streams, periods, devices or matrices. The rules "gcv", "loo" and "aicc" choose R for this
    estimate, others for one radius.

    Parameters
    ----------
    kernel, radius, bandwidth, tol, bounds, undefined, weighting
        As for `NadarayaWatson`.
    method, adaptive, sensitivity, neighbours, pilot
        As for :class:`AdaptiveDensity`.

    Attributes
    ----------
    factors_ : array of shape (n,)
        λ_i, whose geometric mean over the samples is 1.

    Raises
    ------
    ValueError
        From `fit`, as of `NadarayaWatson` and of :class:`AdaptiveDensity`.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(-2, 2, 200).reshape(-1, 1) ** 3
    >>> model = AdaptiveRegression(radius=4.0).fit(x, np.sin(x[:, 0]))
    >>> model.predict([[1.0]]).round(2)  # sin(1) = 0.84
    array([0.83])
    """

    _scores = REGRESSION_SCORES

    def __init__(
        self,
        kernel: Kernel | str = "fourier4",
        *,
        radius: ArrayLike | str | None = None,
        bandwidth: ArrayLike | None = None,
        method: str = "auto",
        tol: float = 1e-12,
        bounds: Bounds | None = None,
        undefined: str = "nan",
        weighting: str = "frequency",
        adaptive: str = "abramson",
        sensitivity: float | None = None,
        neighbours: int | None = None,
        pilot: KernelDensity | None = None,
    ) -> None:
        super().__init__(
            kernel,
            radius=radius,
            bandwidth=bandwidth,
            method=method,
            tol=tol,
            bounds=bounds,
            undefined=undefined,
            weighting=weighting,
        )
        self.adaptive = adaptive
        self.sensitivity = sensitivity
        self.neighbours = neighbours
        self.pilot = pilot

    def design_fit(self) -> DesignFit:
        """Return the fit at the distinct design points, by its weights."""
        return LinearSmoother.design_fit(self)

    def squared_weight_sums(self, queries: FloatArray, variances: FloatArray) -> FloatArray:
        """Return Σ_j W_j(x)² σ_j² at checked queries, shape ``(m,)``, from the weights."""
        return LinearSmoother.squared_weight_sums(self, queries, variances)

    def adjoint(self, columns: FloatArray) -> FloatArray:
        """Return Hᵀ c of columns ``(n, k)``, from the weights."""
        return LinearSmoother.adjoint(self, columns)
