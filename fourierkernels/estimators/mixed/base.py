"""What density and regression of mixed data share: columns, cells, sums and slices."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from fourierkernels.estimators.base import KernelEstimator
from fourierkernels.estimators.boxes import (
    Images,
    check_bounds,
    check_circles,
    check_ends,
    inside,
    reflect,
)
from fourierkernels.estimators.checks import validated
from fourierkernels.estimators.kept import Kept, Sources
from fourierkernels.estimators.mixed.categories import (
    Cells,
    ColumnNames,
    OrderedColumns,
    as_numbers,
    cell_weights,
    find_categories,
)
from fourierkernels.estimators.mixed.choice import MixedSample, given_smoothing
from fourierkernels.estimators.radius import Rule, radius_or_rule
from fourierkernels.estimators.weights import fitted_weights
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.kernels import Kernel, as_kernel
from fourierkernels.kernels.periodic import kernels_along, wrapped
from fourierkernels.sums.cells import CellSums
from fourierkernels.sums.result import KernelSums

E = TypeVar("E", bound=KernelEstimator)


class MixedEstimator(BaseEstimator, ABC):  # type: ignore[misc]
    """Base of the estimators of mixed data.

    Attributes
    ----------
    points_ : array of shape (n, columns)
        X with the place of each level among those of its column, numbers on circles wrapped.
    categories_ : tuple of Category
    weights_ : array of shape (n,)
    kernel_ : Kernel
    radius_ : array of shape (dim,)
        Of the columns of numbers.
    periods_ : array of shape (dim,)
        Likewise, infinite for lines.
    bounds_ : array of shape (2, dim)
        Likewise, infinite where there is none.
    smoothing_ : array of shape (k,)
        λ of the columns of categories.
    """

    _weightings: tuple[str, ...] = ("frequency", "importance")

    def __init__(
        self,
        estimator: KernelEstimator | None = None,
        *,
        unordered: ColumnNames | None = None,
        ordered: OrderedColumns | None = None,
        smoothing: float | Sequence[float] | None = None,
    ) -> None:
        self.estimator = estimator
        self.unordered = unordered
        self.ordered = ordered
        self.smoothing = smoothing

    def given(self, levels: Mapping[Any, Any]) -> Any:
        """Return the fit at given levels of all categories, an estimator of the numbers alone.

        Its samples are all samples, weighted by the kernels of the categories, at the radius in
        use: `KernelDensity` of the conditional density, or `NadarayaWatson`, with all they offer.
        Counts become importances.

        Raises
        ------
        ValueError
            If a category is not given, a level did not occur, or no sample has a weight there.
        """
        check_is_fitted(self)
        names = [category.name for category in self.categories_]
        if set(levels) != set(names):
            raise ValueError(f"levels must be given for {names}, got {list(levels)}")
        codes = [float(category.codes([levels[category.name]])[0]) for category in self.categories_]
        return self._slice(np.array(codes))

    @property
    def weighting(self) -> str:
        """What sample weights mean, as of the estimator."""
        return str(self._plain.weighting)

    def _encoded(self, X: ArrayLike, **options: Any) -> Any:
        """Check X and find its categories; return it as numbers, and the responses if there are."""
        self.categories_ = find_categories(X, self.unordered, self.ordered)
        return validated(self, as_numbers(X, self.categories_), **options)

    def check_queries(self, X: ArrayLike) -> FloatArray:
        """Return checked queries as numbers, shape ``(m, columns)``."""
        check_is_fitted(self)
        queries: FloatArray = validated(self, as_numbers(X, self.categories_), reset=False)
        return self._wrapped(queries)

    def _prepare(self, points: FloatArray, sample_weight: ArrayLike | None) -> FloatArray | Rule:
        """Keep the samples; return the radius that is given, or its rule."""
        plain = self._plain
        self.weights_ = fitted_weights(
            sample_weight, len(points), plain.weighting, self._weightings
        )
        self.kernel_: Kernel = as_kernel(plain.kernel)
        box = check_ends(plain.bounds, points.shape[1] - len(self.categories_))
        self.periods_ = check_circles(plain.period, box)
        points = self._wrapped(points)
        self.bounds_ = check_bounds(plain.bounds, self._numbers(points))
        self.points_, self._kept = points, Kept()
        self._cells = Cells.of(self._codes(points))
        self._given = given_smoothing(self.smoothing, self.categories_)
        chosen = radius_or_rule(self._dim, radius=plain.radius, bandwidth=plain.bandwidth)
        if not isinstance(chosen, Rule) and chosen.ndim == 2:
            raise ValueError("radius must be a vector for mixed data, got a matrix")
        return chosen

    def _sample(self, rows: Any, weights: FloatArray) -> MixedSample:
        points = self.points_[rows]
        cells = Cells.of(self._codes(points))
        return MixedSample(self._numbers(points), weights, self.categories_, cells, self.periods_)

    @property
    @abstractmethod
    def _plain(self) -> Any: ...

    @property
    def _dim(self) -> int:
        return len(self.points_[0]) - len(self.categories_)

    @property
    def _places(self) -> list[int]:
        return [category.column for category in self.categories_]

    def _codes(self, points: FloatArray) -> FloatArray:
        return points[:, self._places]

    def _numbers(self, points: FloatArray) -> FloatArray:
        """Return the columns of numbers, contiguous."""
        return np.ascontiguousarray(np.delete(points, self._places, axis=1))

    def _wrapped(self, points: FloatArray) -> FloatArray:
        """Return rows with the columns that are circles in one period."""
        periods = np.full(points.shape[1], np.inf)
        periods[np.delete(np.arange(len(periods)), self._places)] = self.periods_
        return wrapped(points, periods)

    @property
    def _named(self) -> Any:
        """The columns of numbers, a data frame if X had names."""
        numbers = self._numbers(self.points_)
        if not hasattr(self, "feature_names_in_"):
            return numbers
        import pandas as pd

        return pd.DataFrame(numbers, columns=np.delete(self.feature_names_in_, self._places))

    def _factors(self, queries: FloatArray) -> tuple[NDArray[np.intp], FloatArray]:
        """Return the cell of each query, and the weights of the samples' cells there."""
        cells = Cells.of(self._codes(queries))
        factors = cell_weights(self.categories_, self.smoothing_, cells.table, self._cells.table)
        return cells.place, factors

    def _sums(self, queries: FloatArray, responses: FloatArray) -> KernelSums:
        """Return the sums at queries, of responses ``(n, k)``; no weight out of bounds."""

        def build() -> CellSums:
            return self._cell_sums(self.weights_, responses, self.kernel_, self.radius_)

        small = tuple(each.tobytes() for each in (self.radius_, self.smoothing_, self.bounds_))
        sources = Sources((self.points_, self.weights_, responses), small)
        kept: CellSums = self._kept.get(responses.shape[1] > 0, sources, build)
        return self._at(kept, queries)

    def _at(self, sums: CellSums, queries: FloatArray) -> KernelSums:
        numbers = self._numbers(queries)
        found = sums.at(numbers, *self._factors(queries))
        within = inside(numbers, self.bounds_)
        return found if within.all() else replace(found, denominator=found.denominator * within)

    def _images(self, weights: FloatArray, kernel: Kernel, radius: FloatArray) -> Images:
        """Return the numbers of the samples and their mirror images."""
        numbers = self._numbers(self.points_)
        return reflect(numbers, weights, self.bounds_, kernel=kernel, radius=radius)

    def _cell_sums(
        self, weights: FloatArray, responses: FloatArray, kernel: Kernel, radius: FloatArray
    ) -> CellSums:
        plain, (points, mirrored, source) = self._plain, self._images(weights, kernel, radius)
        return CellSums(
            points,
            mirrored,
            responses[source],
            self._cells.place[source],
            kernel=kernel,
            radius=radius,
            method=plain.method,
            tol=plain.tol,
            device=plain.device,
            periods=self.periods_,
        )

    def _own_terms(self) -> FloatArray:
        """Return w L(c, c) ∏ shape of each sample and its images at itself, shape ``(n,)``."""
        table = self._cells.table
        factors = np.diag(cell_weights(self.categories_, self.smoothing_, table, table))
        points, weights, source = self._images(self.weights_, self.kernel_, self.radius_)
        gaps = self.radius_ * (self._numbers(self.points_)[source] - points)
        along = kernels_along(self.kernel_, self.radius_, self.periods_)
        for kernel, gap in zip(along, gaps.T, strict=True):
            weights = weights * (kernel.value(gap) * kernel.constant)
        return np.asarray(factors[self._cells.place] * np.bincount(source, weights))

    def _weights_at(self, codes: FloatArray) -> FloatArray:
        """Return w L of all samples at levels, shape ``(n,)``."""
        at = codes[None].astype(np.intp)
        factors = cell_weights(self.categories_, self.smoothing_, at, self._cells.table)[0]
        return np.asarray(self.weights_ * factors[self._cells.place])

    def _slice_of(self, plain: E) -> E:
        changed = {"radius": self.radius_, "bandwidth": None, "weighting": "importance"}
        model: E = clone(plain).set_params(**changed)
        return model

    @abstractmethod
    def _slice(self, codes: FloatArray) -> Any: ...

    def _with(self, **changed: Any) -> Any:
        """Return this fit with other attributes."""
        other = copy.copy(self)
        other.__dict__.update(changed, _kept=Kept())
        return other

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_kept"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._kept = Kept()


def check_estimator(estimator: object, kind: type) -> None:
    """Refuse an estimator of another kind, or with a radius of each sample.

    Raises
    ------
    TypeError
    """
    if not isinstance(estimator, kind):
        raise TypeError(f"estimator must be a {kind.__name__}, got {type(estimator).__name__}")
    if hasattr(estimator, "adaptive"):
        raise TypeError(f"estimator must have one radius, got {type(estimator).__name__}")
