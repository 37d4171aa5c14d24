"""Conditional density estimation."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from fourierkernels.arrays import FloatArray
from fourierkernels.estimators.base import KernelEstimator
from fourierkernels.estimators.checks import (
    checked_queries,
    count_undefined,
    validated,
    warn_undefined,
)
from fourierkernels.kernels import Kernel
from fourierkernels.sums import KernelSums
from fourierkernels.sums.parts import log_scale
from fourierkernels.validation import check_points


class ConditionalDensity(KernelEstimator):
    """Conditional density p̂(y | x) = Σ_i w_i K_R(x - x_i) K_S(y - y_i) / Σ_i w_i K_R(x - x_i).

    The joint estimate over the marginal one; its mean is the Nadaraya-Watson regression with the
    radius R if K has a mean. Where the denominator is within its own numerical error of zero the
    answer is NaN, with one warning. Source: [rosenblatt1969conditional]_.

    Parameters
    ----------
    kernel : Kernel or str
        ``"gaussian"``, ``"fourier<power>"`` or a kernel object.
    radius : float, array of shape (dim + q,) or the name of a rule, optional
        R, then S for the q responses; by default a density rule for both together.
    bandwidth : float or array of shape (dim + q,), optional
        1/radius, instead of `radius`.
    method : {"auto", "direct", "direct_float32", "bandlimited", "reference", "torch"}
        How sums are computed; by default whichever a cost model finds cheapest.
    tol : float
        Accuracy, relative to the largest sum, where sums are band-limited.
    weighting : {"frequency", "importance"}
        What `sample_weight` means: how many samples a row stands for, so that whole numbers are
        repetitions, or an importance of which only ratios matter, (Σw)²/Σw² samples in all.
        Estimates with a given radius do not depend on it; rules do.

    Attributes
    ----------
    kernel_, radius_ : Kernel, array of shape (dim + q,)
        The kernel and the radius in use.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(-2, 2, 9000).reshape(-1, 1)
    >>> y = x[:, 0] ** 2 + 0.1 * np.random.default_rng(0).normal(size=9000)
    >>> model = ConditionalDensity("gaussian", bandwidth=[0.1, 0.05]).fit(x, y)
    >>> print(model.density([[1.0], [1.0]], [1.0, 2.0]).round(2))
    [1.68 0.  ]
    """

    def __init__(
        self,
        kernel: Kernel | str = "fourier4",
        *,
        radius: ArrayLike | str | None = None,
        bandwidth: ArrayLike | None = None,
        method: str = "auto",
        tol: float = 1e-12,
        weighting: str = "frequency",
    ) -> None:
        super().__init__(
            kernel,
            radius=radius,
            bandwidth=bandwidth,
            method=method,
            tol=tol,
            weighting=weighting,
        )

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Keep the samples and choose the radius.

        Parameters
        ----------
        X : array of shape (n, dim)
        y : array of shape (n,) or (n, q)
        sample_weight : array of shape (n,), optional
            Counts or importances, see `weighting`; 1 each by default.

        Raises
        ------
        ValueError
            For data that is empty, not finite or of different lengths, weights that are negative,
            a radius or bandwidth that is not positive, an unknown kernel, rule or method.
        """
        points, responses = validated(self, X, y=y, multi_output=True, y_numeric=True)
        columns = np.asarray(responses, dtype=np.float64).reshape(len(points), -1)
        return self._fit_points(np.column_stack([points, columns]), sample_weight)

    def density(self, X: ArrayLike, y: ArrayLike) -> FloatArray:
        """Return p̂(y_j | x_j) for pairs: `X` ``(m, dim)``, `y` ``(m,)`` or ``(m, q)``; ``(m,)``."""
        joint, marginal = self._joint_and_marginal(X, y, "value")
        return self._ratio(joint, marginal, "value")

    def cdf(self, X: ArrayLike, y: ArrayLike) -> FloatArray:
        """Return P̂(Y <= y_j | x_j), in every response, for pairs as in `density`.

        Monotone in y only for nonnegative kernels.
        """
        joint, marginal = self._joint_and_marginal(X, y, "cumulative")
        return self._ratio(joint, marginal, "cumulative")

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """Return Σ_j log p̂(y_j | x_j); minus infinity if one of them is not positive."""
        density = self.density(X, y)
        with np.errstate(divide="ignore"):
            return float(np.log(np.where(density > 0, density, 0.0)).sum())

    def _joint_and_marginal(
        self, X: ArrayLike, y: ArrayLike, part: str
    ) -> tuple[KernelSums, KernelSums]:
        queries = checked_queries(self, X)
        dim = queries.shape[1]
        q = len(self.radius_) - dim
        columns = np.asarray(y, dtype=np.float64)
        values = check_points("y", columns.reshape(-1, 1) if columns.ndim == 1 else columns, dim=q)
        if len(values) != len(queries):
            raise ValueError(f"y must have one row per query, {len(queries)}, got {len(values)}")
        parts = ("value",) * dim + (part,) * q
        joint = self._kept_sum().at(np.column_stack([queries, values]), parts=parts)
        return joint, self._kept_sum(tuple(range(dim))).at(queries)

    def _ratio(self, joint: KernelSums, marginal: KernelSums, part: str) -> FloatArray:
        undefined = marginal.undefined
        if undefined.any():
            why = "have a denominator within its own numerical error of zero: NaN"
            warn_undefined(count_undefined(undefined, why))
        own = self.radius_[self.n_features_in_ :]
        scale = np.exp(log_scale(self.kernel_, own, (part,) * len(own)))
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = joint.denominator / marginal.denominator
            total = scale * np.ldexp(ratio, joint.exponent - marginal.exponent)
        return np.where(undefined, np.nan, total)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
