"""Confidence intervals and simultaneous bands for density estimates.

p̂(x) = Σ_i v_i K_i(x), v_i = w_i / Σ w, is a mean of independent terms, so its variance is estimated
by Σ_i q_i (K_i(x) - p̂(x))² with q_i = v_i / Σ w for weights that count samples, v_i² for
importances, and v_i times the share of all copies where rows repeat. The squares are a sum of the
squared kernel.

Limits are for E p̂ = K_R ∗ p, or with a corrected bias for p. The bias K_R ∗ p - p starts with R^-r,
r the order of the kernel, so 2 p̂_R - p̂_S with S = R / 2^{1/r} has none of it: a kernel estimate of
higher order [schucany1977improvement]_, [cheng2019nonparametric]_. For the Gaussian it is twicing,
since K_R ∗ K_R is the Gaussian of S. For the powers 2 and 3 its transform is 1 near zero, a kernel
of infinite order [politis1999multivariate]_; for 4 the order is 3, for 5 and 6 it is 4.

Where hardly a sample is near, the variance is estimated from hardly a sample: intervals are too
short there, and of width zero where no kernel reaches.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fourierkernels.estimators.boxes import Images, inside, reflect
from fourierkernels.estimators.checks import tell_copies
from fourierkernels.estimators.inference.bias import check_bias, check_order
from fourierkernels.estimators.inference.limits import (
    Band,
    check_level,
    check_replicates,
    pointwise,
    simultaneous,
)
from fourierkernels.estimators.weights import SampleRows
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import check_number
from fourierkernels.kernels import Kernel
from fourierkernels.sums import Frame
from fourierkernels.sums.factors import radii_of, sample_sum, shape_matrix
from fourierkernels.sums.parts import log_scale

_BLOCK = 2**22  # entries of the matrix of kernels held at once


@dataclass(frozen=True)
class SampleKernels:
    """K_i(x) = Σ over sample i and its images of a ∏_d R_d K(R_d(x_d - x_id)), 0 out of bounds.

    With a matrix R, |det R| ∏_d K((R (x - x_i))_d).

    Attributes
    ----------
    images : Images
        Of samples with weight one: `images.weights` are the a, which make each K_i integrate to
        one on the box.
    box : array of shape (2, dim)
    kernel, radius : Kernel, array of shape (dim,) or (dim, dim)
    periods : array of shape (dim,)
    method, tol, device
        As of the estimator.
    factors : array of shape (n,), optional
        On the radius, of each sample; on lines and beside a vector R only.
    """

    images: Images
    box: FloatArray
    kernel: Kernel
    radius: FloatArray
    periods: FloatArray
    method: str
    tol: float
    device: str
    factors: FloatArray | None = None

    @property
    def n(self) -> int:
        """Number of samples."""
        return int(self.images.source.max()) + 1

    def rows(self, queries: FloatArray) -> FloatArray:
        """Return K_i(x), shape ``(m, n)``."""
        points, weights, _ = self.images
        matrix, exponent = shape_matrix(
            self._frame, points, queries, kernel=self.kernel, factors=self._own
        )
        scale = self._scale * inside(queries, self.box)
        each = np.ldexp(matrix * weights * scale[:, None], exponent[:, None])
        return np.asarray(each.reshape(len(queries), -1, self.n).sum(axis=1))

    def sums(self, queries: FloatArray, columns: FloatArray) -> FloatArray:
        """Return Σ_i c_i K_i(x) for columns ``(n, k)``, shape ``(m, k)``."""
        sums = sample_sum(
            self.images.points,
            factors=self._own,
            kernel=self.kernel,
            radius=self.radius,
            weights=self.images.weights,
            responses=columns[self.images.source],
            method=self.method,
            tol=self.tol,
            device=self.device,
            periods=self.periods,
        ).at(queries)
        total = np.ldexp(sums.numerator, sums.exponent[:, None])
        return np.asarray(total * (self._scale * inside(queries, self.box))[:, None])

    def squares(self, queries: FloatArray, variances: FloatArray) -> FloatArray:
        """Return Σ_i v_i K_i(x)², shape ``(m,)``.

        By a sum of the squared kernel, which is a kernel again. With images of a sample, or on a
        circle, the squares have cross terms: then from the kernels themselves.
        """
        if len(self.images.points) > self.n or np.isfinite(self.periods).any():
            cut = in_blocks(queries, len(self.images.points))
            return np.concatenate([np.square(self.rows(block)) @ variances for block in cut])
        kernel, factor = self.kernel.squared
        if self.factors is not None:  # a sum has one of the two powers of the factors
            variances = variances * self.factors ** len(self.radius)
        squared = sample_sum(
            self.images.points,
            factors=self._own,
            kernel=kernel,
            radius=factor * self.radius,
            weights=variances,
            responses=np.zeros((self.n, 0)),
            method=self.method,
            tol=self.tol,
        ).at(queries)
        return np.asarray(np.maximum(squared.totals(), 0.0) * self._scale**2)

    @property
    def _own(self) -> FloatArray | None:
        """Factors of the images."""
        return None if self.factors is None else self.factors[self.images.source]

    @property
    def _scale(self) -> float:
        names, frame = ("value",) * len(self.radius), self._frame
        return float(np.exp(log_scale(self.kernel, frame.radius, names) + frame.log_determinant))

    @property
    def _frame(self) -> Frame:
        return Frame.of(self.radius, self.images.points, self.periods)


def in_blocks(queries: FloatArray, length: int) -> list[FloatArray]:
    """Return the queries in blocks of as many rows of that length as are held at once."""
    rows = max(1, _BLOCK // length)
    return [queries[start : start + rows] for start in range(0, len(queries), rows)]


class FittedDensity(Protocol):
    """A fitted density estimate for which limits can be computed; see `KernelDensity`."""

    points_: FloatArray
    weights_: FloatArray
    kernel_: Kernel
    radius_: FloatArray
    bounds_: FloatArray
    periods_: FloatArray
    weighting: str
    method: str
    tol: float
    device: str

    @property
    def sample_factors(self) -> FloatArray | None:
        """Factors on the radius of each sample ``(n,)``; None if all have one radius."""

    def sample_rows(self) -> SampleRows:
        """Return how the rows of the sample count."""


@dataclass(frozen=True)
class CentredKernels:
    """p̂ = Σ_i v_i K_i as an estimate linear in its terms, centred: Σ_i c_i (K_i - p̂).

    Attributes
    ----------
    terms : sequence of (factor, SampleKernels)
        K_i is the sum of factor times kernel over them.
    shares : array of shape (n,)
        v_i.
    """

    terms: tuple[tuple[float, SampleKernels], ...]
    shares: FloatArray

    def fit_at(self, queries: FloatArray) -> FloatArray:
        """Return p̂, shape ``(m,)``."""
        return self._sums(queries, self.shares[:, None])[:, 0]

    def smooth(self, queries: FloatArray, responses: FloatArray) -> FloatArray:
        """Return Σ_i c_i (K_i - p̂) for columns ``(n, k)``, shape ``(m, k)``."""
        both = self._sums(queries, np.column_stack([responses, self.shares]))
        return np.asarray(both[:, :-1] - both[:, -1:] * responses.sum(axis=0))

    def squared_weight_sums(self, queries: FloatArray, variances: FloatArray) -> FloatArray:
        """Return Σ_i q_i (K_i - p̂)², shape ``(m,)``; 0 where it is within rounding of that."""
        first, fit = self._sums(queries, np.column_stack([variances, self.shares])).T
        second, total = self._squares(queries, variances), variances.sum()
        spread = second - 2.0 * fit * first + np.square(fit) * total
        return np.where(spread > self._digits * second, spread, 0.0)

    @property
    def _digits(self) -> float:
        """Share of Σ q K² below which a difference of such sums is rounding."""
        return 10.0 * max(kernels.tol for _, kernels in self.terms)

    def _sums(self, queries: FloatArray, columns: FloatArray) -> FloatArray:
        each = [factor * kernels.sums(queries, columns) for factor, kernels in self.terms]
        return np.asarray(np.sum(each, axis=0))

    def _squares(self, queries: FloatArray, variances: FloatArray) -> FloatArray:
        if len(self.terms) == 1:
            return self.terms[0][1].squares(queries, variances)
        blocks = []
        for block in in_blocks(queries, len(self.terms[0][1].images.points)):
            rows = np.sum([factor * kernels.rows(block) for factor, kernels in self.terms], axis=0)
            blocks.append(np.square(rows) @ variances)
        return np.concatenate(blocks)


def density_interval(
    model: FittedDensity, queries: FloatArray, *, level: float, bias: str, undersmooth: float
) -> Band:
    """Return pointwise limits at checked queries; arguments as of `KernelDensity.interval`."""
    level = check_level(level)
    fit, scatter = _prepare(model, bias, undersmooth)
    return pointwise(fit, scatter, queries, level)


def density_band(
    model: FittedDensity,
    queries: FloatArray,
    *,
    rng: np.random.Generator,
    level: float,
    bias: str,
    undersmooth: float,
    replicates: int,
) -> Band:
    """Return simultaneous limits at checked queries; arguments as of `KernelDensity.band`."""
    count, level = check_replicates(replicates, rng), check_level(level)
    fit, scatter = _prepare(model, bias, undersmooth)
    return simultaneous(fit, scatter, queries, level, count, rng)


def _prepare(
    model: FittedDensity, bias: str, undersmooth: float
) -> tuple[CentredKernels, FloatArray]:
    """Return the estimate and the squared share of each sample, unbiased; shape ``(n,)``."""
    corrected, factor = check_bias(bias), check_number("undersmooth", undersmooth, above=0.0)
    radius = factor * model.radius_
    terms = [(1.0, radius)]
    if corrected:
        if model.sample_factors is not None:
            raise ValueError(
                "bias must be 'ignore' with a radius of each sample, whose bias is of another "
                "order than the kernel's, got 'corrected'"
            )
        terms = [(2.0, radius), (-1.0, radius / 2.0 ** (1.0 / check_order(model.kernel_)))]
    used, rows = model.weights_ > 0, model.sample_rows()
    tell_copies(model, rows)
    points, weights = np.ascontiguousarray(model.points_[used]), model.weights_[used]
    factors = model.sample_factors
    used_factors = None if factors is None else np.ascontiguousarray(factors[used])
    kernels = tuple(
        (share, _sample_kernels(model, points, radius, used_factors)) for share, radius in terms
    )
    shares = weights / weights.sum()
    return CentredKernels(kernels, shares), _scatter(shares, rows, used)


def _sample_kernels(
    model: FittedDensity, points: FloatArray, radius: FloatArray, factors: FloatArray | None
) -> SampleKernels:
    box, kernel = model.bounds_, model.kernel_
    each = radii_of(radius, factors)
    images = reflect(points, np.ones(len(points)), box, kernel=kernel, radius=each)
    options = model.periods_, model.method, model.tol, model.device
    return SampleKernels(images, box, kernel, radius, *options, factors)


def _scatter(shares: FloatArray, rows: SampleRows, used: NDArray[np.bool_]) -> FloatArray:
    """Return the squared share of each row, for copies with that of their sum; unbiased."""
    size = rows.size
    if not size > 1.0:
        raise ValueError(
            f"sample_weight must leave an effective size above 1 for limits, got {size:g}"
        )
    return np.asarray(np.square(shares) * rows.variances[used] * (size / (size - 1.0)))
