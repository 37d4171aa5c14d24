"""Kernel density estimation."""

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import DensityMixin
from sklearn.utils.validation import check_is_fitted

from fourierkernels.arrays import FloatArray
from fourierkernels.densities import Density
from fourierkernels.estimators.base import StreamingEstimator
from fourierkernels.estimators.checks import (
    checked_queries,
    count_undefined,
    validated,
    warn_undefined,
)
from fourierkernels.estimators.cumulative import box_mass
from fourierkernels.estimators.sampling import draw_from_kernel
from fourierkernels.exact_error import ise
from fourierkernels.sums import SampleSum
from fourierkernels.sums.parts import check_parts, log_scale, slopes
from fourierkernels.validation import as_real, check_integer, check_rng


class KernelDensity(DensityMixin, StreamingEstimator):  # type: ignore[misc]
    """Density estimate p̂(x) = Σ_i w_i ∏_d R_d K(R_d(x_d - x_id)) / Σ_i w_i.

    A scikit-learn estimator. Kernels with negative lobes (odd powers) can give a negative
    estimate, which is returned as it is. Source: [nguyen2022fourierformer]_ eq. 12.

    Parameters
    ----------
    kernel : Kernel or str
        ``"gaussian"``, ``"fourier<power>"`` or a kernel object.
    radius : float, array of shape (dim,) or str, optional
        R = 1/bandwidth, or a rule of `fourierkernels.estimators.radius`: "normal_reference" (the
        default, the exact MISE optimum for Gaussian data), "lscv", "plugin", and for the Gaussian
        "silverman", "scott", "improved_sheather_jones".
    bandwidth : float or array of shape (dim,), optional
        1/R, instead of `radius`.
    method : {"auto", "direct", "direct_float32", "bandlimited", "split", "reference", "torch"}
        How sums are computed; by default whichever a cost model finds cheapest.
    tol : float
        Accuracy, relative to the largest sum, where sums are band-limited.
    bounds : sequence of (low, high) or None per dimension, optional
        Where the density lives, None for an end that is open. Samples are reflected there; the
        estimate integrates to one on the box and is 0 outside.
    device : {"cpu", "cuda", "cuda:<index>"}
        Where sums run: "cuda" uses the operator of Fourier attention in double precision.
        Derivatives and integrals need the CPU.

    Attributes
    ----------
    kernel_, radius_ : Kernel, array of shape (dim,)
        The kernel and the radius in use.
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
        queries = checked_queries(self, X)
        return self._estimate(self._kept_sum(), queries)

    def score_samples(self, X: ArrayLike) -> FloatArray:
        """Return log p̂, shape ``(m,)``: no underflow; NaN, with one warning, where p̂ < 0."""
        queries = checked_queries(self, X)
        log = self._kept_sum().at(queries).log_totals() + self._log_scale()
        log[~self._inside(queries)] = -np.inf
        negative = np.isnan(log)
        if negative.any():
            why = "have a negative density estimate; its logarithm is NaN"
            warn_undefined(count_undefined(negative, why))
        return log

    def score(self, X: ArrayLike, y: object = None) -> float:
        """Return the total log-likelihood Σ log p̂(x)."""
        return float(self.score_samples(X).sum())

    def derivative(self, X: ArrayLike) -> FloatArray:
        """Return ∂p̂/∂x_d at queries of shape ``(m, dim)``; shape ``(m, dim)``; 0 out of bounds.

        By the slope of the kernel, or mode by mode where sums are band-limited.
        """
        queries, prepared = checked_queries(self, X), self._kept_sum()
        columns = [
            prepared.at(queries, parts=parts).totals() * np.exp(self._log_scale(parts))
            for parts in slopes(len(self.radius_))
        ]
        return np.where(self._inside(queries)[:, None], np.column_stack(columns), 0.0)

    def cdf(self, X: ArrayLike) -> FloatArray:
        """Return P̂(X_1 <= x_1, ..., X_D <= x_D) at queries ``(m, dim)``; shape ``(m,)``.

        The integral of p̂, by that of the kernel. For nonnegative kernels it lies in [0, 1] and is
        monotone up to the accuracy of the sums, about `tol`: each value is computed from its own
        query alone, so that neighbours may differ by rounding in either direction.
        """
        queries = np.clip(checked_queries(self, X), *self.bounds_)
        mass = self._mass(self.bounds_[0], queries)
        return np.clip(mass, 0.0, 1.0) if self.kernel_.nonnegative else mass

    def probability(self, low: ArrayLike, high: ArrayLike) -> float:
        """Return the integral of p̂ over a box; ends may be infinite.

        Parameters
        ----------
        low, high : float or array of shape (dim,)

        Raises
        ------
        ValueError, TypeError
            If an end is NaN, no number or of another length, or a lower end is above its upper end.

        Examples
        --------
        >>> import numpy as np
        >>> model = KernelDensity("gaussian", bandwidth=1.0).fit([[0.0]])
        >>> print(f"{model.probability(-1.96, 1.96):.3f}")
        0.950
        """
        check_is_fitted(self)
        ends = [self._end(name, end) for name, end in (("low", low), ("high", high))]
        if not np.all(ends[0] <= ends[1]):
            raise ValueError(f"low must not be above high, got {low!r} and {high!r}")
        start, stop = (np.clip(end, *self.bounds_) for end in ends)
        if np.isneginf(stop).any():
            return 0.0
        return float(self._mass(start, stop[None, :])[0])

    def sample(self, n: int, *, rng: np.random.Generator) -> FloatArray:
        """Return `n` independent draws from p̂, shape ``(n, dim)``.

        A sample is drawn by its weight and moved by a draw from the kernel; beyond a bound it is
        reflected. Exact up to rounding, heavy tails included.

        Raises
        ------
        ValueError, TypeError
            If the kernel is not nonnegative (odd powers): p̂ is no probability density then. If
            `rng` is no generator.
        """
        count = check_integer("n", n)
        check_rng(rng)
        check_is_fitted(self)
        chosen = rng.choice(len(self.points_), count, p=self.weights_ / self.weights_.sum())
        draws, missing = np.empty((count, len(self.radius_))), np.arange(count)
        while len(missing):
            draws[missing] = self._moved(self.points_[chosen[missing]], rng)
            missing = missing[~self._inside(draws[missing])]  # further out than one reflection
        return draws

    def leave_one_out(self) -> FloatArray:
        """Return p̂ without sample i at each sample x_i, shape ``(n,)``, in closed form.

        (W p̂(x_i) - w_i ∏ R_d K(0)) / (W - w_i) with W = Σ w; one sample alone has none: NaN.
        """
        check_is_fitted(self)
        owners = self._images.source
        sums = self._kept_sum().left_out(self.points_, self._own_terms(), owners)
        rest = self.weights_.sum() - self.weights_
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(rest > 0, self.weights_.sum() / rest, np.nan)
        return np.asarray(sums.totals() * np.exp(self._log_scale()) * share)

    def ise(self, density: Density | str) -> float:
        """Return ∫ (p̂ - p)² against a known density, exactly, by Plancherel; D at most 3.

        Raises
        ------
        ValueError
            If the estimate has bounds, or as :func:`fourierkernels.theory.ise`.
        """
        check_is_fitted(self)
        if np.isfinite(self.bounds_).any():
            raise ValueError(f"bounds must be None for the ISE in frequency, got {self.bounds}")
        return ise(density, self.kernel_, self.points_, radius=self.radius_, weights=self.weights_)

    def _end(self, name: str, end: ArrayLike) -> FloatArray:
        values = as_real(name, end)
        dim = len(self.radius_)
        if values.shape not in ((), (dim,)):
            raise ValueError(f"{name} must be a number or have shape ({dim},), got {values.shape}")
        return np.broadcast_to(values, (dim,))

    def _mass(self, low: FloatArray, high: FloatArray) -> FloatArray:
        return np.asarray(box_mass(self._kept_sum, low, high) / self.weights_.sum())

    def _estimate(self, prepared: SampleSum, queries: FloatArray) -> FloatArray:
        totals = prepared.at(queries, refine=False).totals()
        if self.kernel_.nonnegative:  # rounding is not
            totals = np.maximum(totals, 0.0)
        return np.where(self._inside(queries), totals * np.exp(self._log_scale()), 0.0)

    def _moved(self, points: FloatArray, rng: np.random.Generator) -> FloatArray:
        steps = draw_from_kernel(self.kernel_, points.size, rng).reshape(points.shape)
        moved = points + steps / self.radius_
        low, high = self.bounds_
        with np.errstate(invalid="ignore"):  # infinite ends mirror nothing
            folded = np.where(moved > high, 2.0 * high - moved, moved)
            return np.where(moved < low, 2.0 * low - moved, folded)

    def _log_scale(self, parts: Sequence[str] | None = None) -> float:
        names = check_parts(parts, len(self.radius_))
        scale = log_scale(self.kernel_, self.radius_, names)
        return float(scale - np.log(self.weights_.sum()))
