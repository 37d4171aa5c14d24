"""Nadaraya-Watson regression."""

import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin

from fourierkernels.estimators.base import (
    KernelEstimator,
    UndefinedWarning,
    count_undefined,
    validated,
)
from fourierkernels.kernels import FloatArray, Kernel
from fourierkernels.sums import KernelSums, kernel_matrix
from fourierkernels.validation import check_choice

_WHY = (
    "have a denominator within its own numerical error of zero (far from the data, or between "
    "the signs of an odd power); the regression is undefined there"
)


class NadarayaWatson(RegressorMixin, KernelEstimator):  # type: ignore[misc]
    """Regression f̂(x) = Σ_i w_i y_i K_R(x - x_i) / Σ_i w_i K_R(x - x_i).

    A scikit-learn estimator. Where the denominator is within its own numerical error of zero the
    answer is NaN, with one warning that counts the queries. Sources: [nadaraya1964estimating]_,
    [watson1964smooth]_; [nguyen2022fourierformer]_ eq. 14 for the Fourier kernels.

    Parameters
    ----------
    kernel : Kernel or str
        ``"gaussian"``, ``"fourier<power>"`` or a kernel object.
    radius : float, array of shape (dim,) or {"normal_reference"}, optional
        R = 1/bandwidth; by default the density rule for the design points.
    bandwidth : float or array of shape (dim,), optional
        1/R, instead of `radius`.
    method : {"auto", "direct", "bandlimited", "reference"}
        How sums are computed; by default whichever a cost model finds cheapest.
    tol : float
        Accuracy, relative to the largest sum, where sums are band-limited.
    undefined : {"nan", "raise"}
        What to do at undefined queries.

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
    >>> x = np.linspace(-3, 3, 200).reshape(-1, 1)
    >>> model = NadarayaWatson("fourier4", radius=6.0).fit(x, np.sin(x[:, 0]))
    >>> print(f"{model.predict([[1.0]])[0]:.3f}")  # sin(1) = 0.841
    0.833
    """

    def __init__(
        self,
        kernel: Kernel | str = "fourier4",
        *,
        radius: ArrayLike | str | None = None,
        bandwidth: ArrayLike | None = None,
        method: str = "auto",
        tol: float = 1e-12,
        undefined: str = "nan",
    ) -> None:
        super().__init__(kernel, radius=radius, bandwidth=bandwidth, method=method, tol=tol)
        self.undefined = undefined

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Keep the samples and choose the radius.

        Parameters
        ----------
        X : array of shape (n, dim)
        y : array of shape (n,) or (n, k)
        sample_weight : array of shape (n,), optional

        Raises
        ------
        ValueError
            For data that is empty, not finite or of different lengths, weights that are negative,
            a radius or bandwidth that is not positive, an unknown kernel, rule or method.
        """
        check_choice("undefined", self.undefined, ["nan", "raise"])
        points, responses = validated(self, X, y=y, multi_output=True, y_numeric=True)
        self.responses_ = np.asarray(responses, dtype=np.float64)
        columns = 1 + self.responses_.reshape(len(points), -1).shape[1]
        return self._fit_points(points, sample_weight, columns=columns)

    def predict(self, X: ArrayLike) -> FloatArray:
        """Return f̂ at queries of shape ``(m, dim)``; shape ``(m,)`` or ``(m, k)`` as y had."""
        sums = self._sums(self._queries(X), self.responses_)
        self._report(sums)
        ratios = sums.ratios()
        return ratios[:, 0] if self.responses_.ndim == 1 else ratios

    def weights(self, X: ArrayLike) -> FloatArray:
        """Return the weight (hat) matrix at queries: shape ``(m, n)``, rows sum to one.

        ``weights(X) @ y`` equals ``predict(X)``; rows are NaN where the prediction is.
        """
        queries = self._queries(X)
        sums = self._sums(queries)
        self._report(sums)
        matrix, _, exponent = kernel_matrix(
            self.points_, queries, kernel=self.kernel_, radius=self.radius_
        )
        scale = np.ldexp(1.0 / sums.denominator, exponent - sums.exponent)
        scale[sums.undefined] = np.nan
        return np.asarray(matrix * self.weights_ * scale[:, None])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _report(self, sums: KernelSums) -> None:
        if not sums.undefined.any():
            return
        message = count_undefined(sums.undefined, _WHY)
        if self.undefined == "raise":
            raise ValueError(f"X must lie where the regression is defined: {message}")
        warnings.warn(f"{message}: NaN", UndefinedWarning, stacklevel=3)
