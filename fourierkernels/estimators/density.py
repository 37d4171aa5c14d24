"""Kernel density estimation."""

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import DensityMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from fourierkernels.estimators.base import StreamingEstimator
from fourierkernels.estimators.boxes import box_mass, folded
from fourierkernels.estimators.checks import (
    checked_queries,
    count_undefined,
    tell_copies,
    unchanged_on_failure,
    validated,
    warn_undefined,
)
from fourierkernels.estimators.inference import Band, density_band, density_interval
from fourierkernels.estimators.proper import ProperDensity, proper_density
from fourierkernels.estimators.sampling import moved_by_kernel
from fourierkernels.estimators.streams.choice import as_source, stream_of
from fourierkernels.estimators.streams.fitting import may_go_on
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import as_real, check_integer, check_rng
from fourierkernels.kernels.periodic import wrapped
from fourierkernels.sums import SampleSum
from fourierkernels.sums.parts import check_parts, log_scale, slopes
from fourierkernels.theory import ise
from fourierkernels.theory.densities import Density

_NO_LOG = {
    False: "have a negative density estimate; its logarithm is NaN",
    True: "have a density estimate that is negative or within its numerical error of zero, which a "
    "fit to a stream cannot sum again; its logarithm is NaN",
}


class KernelDensity(DensityMixin, StreamingEstimator):  # type: ignore[misc]
    """Density estimate p̂(x) = Σ_i w_i ∏_d R_d K(R_d(x_d - x_id)) / Σ_i w_i.

    With a matrix R it is |det R| Σ_i w_i ∏_d K((R (x - x_i))_d) / Σ_i w_i, the density estimate of
    the data mapped by R [wand1995kernel]_; the Gaussian sees RᵀR alone, other kernels the axes too.

    A scikit-learn estimator. Kernels with negative lobes (odd powers) can give a negative
    estimate, which is returned as it is. Source: [nguyen2022fourierformer]_ eq. 12.

    Parameters
    ----------
    kernel : Kernel or str
        ``"gaussian"``, ``"fourier<power>"`` or a kernel object.
    radius : float, array of shape (dim,) or (dim, dim) or str, optional
        R = 1/bandwidth, or a rule of `fourierkernels.estimators.radius`: "normal_reference" (the
        default, the exact MISE optimum for Gaussian data), "lscv", "plugin", and for the Gaussian
        "silverman", "scott", "improved_sheather_jones"; matrices by "normal_reference_full" and
        "lscv_full". Chapter 20 compares rules. Bounds, boxes and the ISE need a vector.
    bandwidth : float or array of shape (dim,) or (dim, dim), optional
        1/R, or the inverse of the matrix, instead of `radius`.
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
    weighting : {"frequency", "importance"}
        What `sample_weight` means: copies of a row, scikit-learn's contract, or an importance of
        which only ratios matter, (Σw)²/Σw² samples in all. Estimates with a given radius do not
        depend on it; rules, leave-one-out and limits do, and count distinct rows: see
        `fourierkernels.estimators.weights`.
    within : sequence of (low, high) per dimension, optional
        A range of all samples and queries of a stream, read once if R is given; not a bound.
    period : float or sequence of float or None per dimension, optional
        Of dimensions that are circles, None for a line: the kernel is the sum over its images a
        period apart (`fourierkernels.kernels.PeriodicKernel`), and the estimate integrates to one
        over a period. Data of any period are wrapped into one.

    Attributes
    ----------
    kernel_, radius_ : Kernel, array of shape (dim,) or (dim, dim)
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

    _takes_matrices = True

    def fit(self, X: ArrayLike, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Keep the samples and choose the radius.

        Of a stream, in at most three dimensions, only the modes of the samples are kept, in memory
        O(modes) and a block, whose sums are as accurate as those of an array, relative to the
        largest. Small densities are known to fewer digits, and what needs the samples (draws,
        leave-one-out, ISE) is refused.

        Parameters
        ----------
        X : array of shape (n, dim), or a stream
            A stream is an iterable of blocks (arrays, or tuples (X, None, weights)), the path of a
            ``.npy`` file, a memory map of at least 2^27 numbers (1 GiB), a Dask array or data
            frame, or what :func:`fourierkernels.estimators.samples_from` returns. Unless `radius`
            and `within` are given it must be possible to read it again.
        y : ignored
        sample_weight : array of shape (n,), optional
            Counts or importances, see `weighting`; 1 each by default. Like X on disk or in Dask if
            that is; None beside blocks.

        Raises
        ------
        ValueError
            For data that is empty or not finite, weights that are negative, a radius or bandwidth
            that is not positive, an unknown kernel, rule or method.
        """
        source = as_source(X, None, sample_weight)
        if source is not None:
            return self._fit_stream(source)
        with unchanged_on_failure(self):
            return self._fit_points(validated(self, X), sample_weight)

    @available_if(may_go_on)  # type: ignore[untyped-decorator]
    def partial_fit(
        self, X: ArrayLike, y: object = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Add samples to a fit to a stream; `radius` and `within` must be given.

        Parameters
        ----------
        X, y, sample_weight
            As for `fit`, an array of shape ``(m, dim)`` too.

        Raises
        ------
        ValueError
            As `fit`; for samples beyond the range, and parameters that have changed meanwhile.

        Examples
        --------
        >>> model = KernelDensity("gaussian", radius=2.0, within=[(-6, 6)])
        >>> for block in ([[0.0], [1.0]], [[-1.0]]):
        ...     _ = model.partial_fit(block)
        >>> print(model.density([[0.0]]).round(3))
        [0.338]
        """
        return self._fit_stream(stream_of(X, None, sample_weight), more=True)

    def density(self, X: ArrayLike) -> FloatArray:
        """Return p̂ at queries of shape ``(m, dim)``; shape ``(m,)``."""
        queries = checked_queries(self, X)
        return self._estimate(self._kept_sum(), queries)

    def score_samples(self, X: ArrayLike) -> FloatArray:
        """Return log p̂, shape ``(m,)``: no underflow; NaN, with one warning, where p̂ < 0.

        After a fit to a stream NaN also where p̂ is within its numerical error of zero.
        """
        queries = checked_queries(self, X)
        sums = self._kept_sum().at(queries)
        log = sums.log_totals() + self._log_scale()
        if self._streamed:  # without samples, rows that are faint have no digits
            log[sums.undefined] = np.nan
        log[~self._inside(queries)] = -np.inf
        negative = np.isnan(log)
        if negative.any():
            warn_undefined(count_undefined(negative, _NO_LOG[self._streamed]))
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
        slope = self._frame.gradient(np.column_stack(columns))
        return np.where(self._inside(queries)[:, None], slope, 0.0)

    def cdf(self, X: ArrayLike) -> FloatArray:
        """Return P̂(X_1 <= x_1, ..., X_D <= x_D) at queries ``(m, dim)``; shape ``(m,)``.

        The integral of p̂, by that of the kernel. For nonnegative kernels it lies in [0, 1] and is
        monotone up to the accuracy of the sums, about `tol`: each value is computed from its own
        query alone, so that neighbours may differ by rounding in either direction. On a circle it
        is the probability of the arc from 0 up to x.
        """
        queries = wrapped(np.clip(checked_queries(self, X), *self.bounds_), self.periods_)
        mass = self._mass(np.where(np.isfinite(self.periods_), 0.0, self.bounds_[0]), queries)
        return np.clip(mass, 0.0, 1.0) if self.kernel_.nonnegative else mass

    def probability(self, low: ArrayLike, high: ArrayLike) -> float:
        """Return the integral of p̂ over a box; ends may be infinite.

        Parameters
        ----------
        low, high : float or array of shape (dim,)
            On a circle the ends of an arc, from `low` upwards: from 22 to 26 hours over midnight.

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
        if np.isneginf(stop[np.isinf(self.periods_)]).any():
            return 0.0
        return float(self._mass(start, stop[None, :])[0])

    def interval(
        self, X: ArrayLike, *, level: float = 0.95, bias: str = "ignore", undersmooth: float = 1.0
    ) -> Band:
        """Return normal confidence intervals at queries ``(m, dim)``, pointwise.

        Parameters
        ----------
        X : array of shape (m, dim)
        level : float
            Between 0 and 1.
        bias : {"ignore", "corrected"}
            Intervals for E p̂, or for the density by an estimate without the leading term of the
            bias, which is their centre.
        undersmooth : float
            Factor on the radius.

        Raises
        ------
        ValueError
            For a level outside (0, 1), an unknown bias, a factor that is not positive, a single
            sample, or a bias to be corrected that has no leading term (l = 1).

        Examples
        --------
        >>> import numpy as np
        >>> x = np.random.default_rng(0).normal(size=(1000, 1))
        >>> limits = KernelDensity().fit(x).interval([[0.0]], bias="corrected")
        >>> print(f"{limits.low[0]:.2f} to {limits.high[0]:.2f}")  # the density is 0.40
        0.36 to 0.44
        """
        queries = checked_queries(self, X)
        return density_interval(self, queries, level=level, bias=bias, undersmooth=undersmooth)

    def band(
        self,
        X: ArrayLike,
        *,
        rng: np.random.Generator,
        level: float = 0.95,
        bias: str = "ignore",
        undersmooth: float = 1.0,
        replicates: int = 500,
    ) -> Band:
        """Return limits that hold at all queries at once, by a Gaussian multiplier bootstrap.

        The critical value is a quantile of max_x |Σ_i √q_i ξ_i (K_i(x) - p̂(x))| over its standard
        error, ξ standard normal. Options as for `interval`; source: [chernozhukov2014anti]_.

        Raises
        ------
        ValueError, TypeError
            As `interval`; for fewer than 20 replicates; if `rng` is no generator.
        """
        queries = checked_queries(self, X)
        return density_band(
            self,
            queries,
            level=level,
            bias=bias,
            undersmooth=undersmooth,
            rng=rng,
            replicates=replicates,
        )

    def proper(self) -> "KernelDensity | ProperDensity":
        """Return the nearest density to p̂: max(0, p̂ - ξ), or p̂ if its kernel is nonnegative.

        Its integral is one, its integrated squared error at most that of p̂ [glad2003correction]_.

        Raises
        ------
        ValueError
            For a kernel with negative values: in more than one dimension, if it is no power of
            sinc, on a circle, or if the radius is so large that p̂ has millions of extrema.
        """
        check_is_fitted(self)
        return self if self.kernel_.nonnegative else proper_density(self)

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
            starts, factors = self.points_[chosen[missing]], self._factors_at(chosen[missing])
            moved = moved_by_kernel(starts, self.kernel_, self.radius_, rng, factors=factors)
            draws[missing] = folded(moved, self.bounds_)
            missing = missing[~self._inside(draws[missing])]  # further out than one reflection
        return wrapped(draws, self.periods_)

    def leave_one_out(self) -> FloatArray:
        """Return p̂ without sample i at each sample x_i, shape ``(n,)``, in closed form.

        (W p̂(x_i) - v_i ∏ R_d K(0)) / (W - v_i) with W = Σ w, and v_i what is left out: the weight
        of all copies of x_i, with a warning, or of one sample where others coincide with it
        (`fourierkernels.estimators.weights`). One sample alone has none: NaN.
        """
        check_is_fitted(self)
        rows = self.sample_rows()
        tell_copies(self, rows)
        sums = self._sums_without_own(rows)
        rest = self.weights_.sum() - rows.left
        rest[rest < 1e-12 * self.weights_.sum()] = 0.0  # rounding of a sample that is all
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(rest > 0, self.weights_.sum() / rest, np.nan)
        return np.asarray(sums.totals() * np.exp(self._log_scale()) * share)

    def ise(self, density: Density | str) -> float:
        """Return ∫ (p̂ - p)² against a known density, exactly, by Plancherel; D at most 3.

        Raises
        ------
        ValueError
            If it has bounds, a period or a radius matrix, or as :func:`fourierkernels.theory.ise`.
        """
        check_is_fitted(self)
        self._need_vector("for the ISE in frequency")
        if np.isfinite(self.bounds_).any() or self._on_circle:
            given = self.bounds, self.period
            raise ValueError(f"bounds and period must be None for the ISE, got {given}")
        return ise(density, self.kernel_, self.points_, radius=self.radius_, weights=self.weights_)

    def _end(self, name: str, end: ArrayLike) -> FloatArray:
        values = as_real(name, end)
        dim = len(self.radius_)
        if values.shape not in ((), (dim,)):
            raise ValueError(f"{name} must be a number or have shape ({dim},), got {values.shape}")
        return np.broadcast_to(values, (dim,))

    def _need_vector(self, what: str) -> None:
        if self.radius_.ndim == 2:
            raise ValueError(f"radius must be a vector {what}, got a matrix")

    def _mass(self, low: FloatArray, high: FloatArray) -> FloatArray:
        self._need_vector("for integrals over boxes")
        return np.asarray(box_mass(self._kept_sum, low, high, self.periods_) / self._weight)

    def _estimate(self, prepared: SampleSum, queries: FloatArray) -> FloatArray:
        totals = prepared.at(queries, refine=False).totals()
        if self.kernel_.nonnegative:  # rounding is not
            totals = np.maximum(totals, 0.0)
        density: FloatArray = totals * np.exp(self._log_scale())
        density[~self._inside(queries)] = 0.0
        return density

    def _log_scale(self, parts: Sequence[str] | None = None) -> float:
        names, frame = check_parts(parts, len(self.radius_)), self._frame
        scale = log_scale(self.kernel_, frame.radius, names) + frame.log_determinant
        return float(scale - np.log(self._weight))
