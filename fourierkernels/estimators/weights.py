"""What the rows of a sample stand for: distinct rows, and the meaning of their weights.

Equal rows (of X and y together) are independent samples that coincide, unless the numbers of times
that rows occur show that they were copied, as by joining a file to itself, in a way that no
distribution explains (`fourierkernels.estimators.lattice`). Copies are one row with their joint
weight. So zeros, rounded values and their logarithms count as often as they occur, and half as
often in a file that was joined to itself. What a weight means is said by `weighting`:

``"frequency"``, the default and scikit-learn's contract: a weight of 3 is three equal rows, a
weight of 0 none. Weights count samples only where values are rounded in every column, so that
independent samples can coincide: as in a table of counts they sum to the number of samples, and
leave-one-out leaves one out. Of other data a row is one sample whatever its weight, as an
importance.

``"precision"``, of regressions: the response of a row has the variance σ²/w, as the mean of w
measurements has, or a measured value with its error bar. Only ratios matter, σ² is estimated. Each
distinct row is one sample.

``"importance"``: only ratios matter, as for survey weights or importance sampling, and the noise
does not depend on them. A row is one sample, left out as a whole; together they count as
(Σw)²/Σw² samples.

Estimates with a given radius are the same in all of them, and copies are the same as weights that
count them; rules, scores, leave-one-out and limits go by distinct rows. The fitted attribute
`weights_` has weights as given, or scaled: importances sum to that number of samples, precisions to
the number of rows.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fourierkernels.estimators.lattice import coincide_by_rounding, copied_places, distinct_places
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import check_choice, check_weights

#: Meanings of the weights of a density, and of those of a regression.
WEIGHTINGS = ("frequency", "importance")
REGRESSION_WEIGHTINGS = ("frequency", "precision", "importance")

_LIGHTEST = 1e-290
_FEWEST = 2.0 - 1e-9  # samples that a rule needs


def fitted_weights(
    sample_weight: ArrayLike | None,
    n: int,
    weighting: str,
    known: tuple[str, ...] = REGRESSION_WEIGHTINGS,
) -> FloatArray:
    """Return a checked copy of the weights, scaled if only their ratios matter, shape ``(n,)``.

    Raises
    ------
    ValueError
        For an unknown `weighting`, or weights that are negative, not finite or all zero; for
        frequencies so small that one over their sum may be infinite.
    """
    check_choice("weighting", weighting, known)
    if sample_weight is None:
        return np.ones(n)
    weights = np.array(check_weights("sample_weight", sample_weight, n))
    if weighting == "frequency":
        if weights.max() < _LIGHTEST:
            raise ValueError(
                f"sample_weight must reach {_LIGHTEST:g} somewhere, got {weights.max():g} at most; "
                "use weighting='importance' if only the ratios of the weights matter"
            )
        return weights
    shares = weights / weights.max()
    if weighting == "precision":
        return np.asarray(shares / shares[shares > 0].mean())
    return np.asarray(shares * (shares.sum() / (shares @ shares)))


def whole_rows(points: FloatArray, responses: FloatArray | None) -> FloatArray:
    """Return X and y side by side, ``(n, dim + columns)``: rows are copies if both are."""
    if responses is None:
        return points
    return np.column_stack([points, responses.reshape(len(points), -1)])


@dataclass(frozen=True, eq=False)
class SampleRows:
    """How the rows of a sample count.

    Attributes
    ----------
    weights : array of shape (n,)
        As fitted.
    place : integer array of shape (n,) or None
        The sample that each row is a copy of; None if all are samples of their own. Rows without
        weight are rows of their own.
    meaning : {"frequency", "precision", "importance"}
        Of the weights of distinct rows; frequencies whose copies are one sample are importances.
    """

    weights: FloatArray
    place: NDArray[np.intp] | None
    meaning: str

    @classmethod
    def of(cls, rows: FloatArray, weights: FloatArray, weighting: str) -> "SampleRows":
        """Return how rows ``(n, k)``, of X and y together, with fitted weights count."""
        used = weighted_rows(weights)
        counting = weighting == "frequency"
        if counting and (weights[used] != 1.0).any():
            place, samples = _counted(rows[used], weights[used])
        else:  # the weights of copies are the same
            place = copied_places(rows[used] if counting else np.c_[rows, weights][used])
            samples = place is None
        if samples:
            return cls(weights, None, weighting)
        everywhere = None
        if place is not None:  # those without weight come last
            everywhere = np.empty(len(rows), np.intp)
            everywhere[weights == 0] = place.max() + 1 + np.arange(len(rows) - len(place))
            everywhere[used] = place
        return cls(weights, everywhere, "importance" if counting else weighting)

    @cached_property
    def joint(self) -> FloatArray:
        """Weight of all copies of each row, shape ``(n,)``."""
        return self.over_copies(self.weights)

    def over_copies(self, values: FloatArray) -> FloatArray:
        """Return, for each row, the sum of values ``(n,)`` over its copies; shape ``(n,)``."""
        if self.place is None:
            return values
        return np.asarray(np.bincount(self.place, weights=values)[self.place])

    @property
    def left(self) -> FloatArray:
        """Weight that leave-one-out takes away at each row, shape ``(n,)``."""
        return left_out(self.joint, self.meaning)

    @property
    def left_share(self) -> FloatArray:
        """The same, in units of the weight of all copies; 0 without weight."""
        return self._over(self.left, self.joint)

    @property
    def unit_variances(self) -> FloatArray:
        """Variance of the response of each sample over σ², shape ``(n,)``."""
        if self.meaning != "precision":
            return np.ones(len(self.weights))
        return self._over(self.over_copies(np.ones(len(self.weights))), self.joint)

    @property
    def variances(self) -> FloatArray:
        """Variances v_j over σ² for which Σ_j W_j² v_j is that of Σ_j W_j y_j, shape ``(n,)``.

        Copies have the same noise: each carries its share of that of their sum. Rows without weight
        have none.
        """
        samples = (
            self.weights if self.meaning == "frequency" else self._over(self.weights, self.joint)
        )
        return self._over(self.unit_variances, samples)

    @property
    def counts(self) -> FloatArray:
        """Number of samples that each row stands for, shape ``(n,)``."""
        if self.meaning == "frequency":
            return self.weights
        if self.meaning == "precision":
            return self._over(self.weights, self.joint)
        return np.asarray(self.weights * (self.weights.sum() / (self.weights @ self.joint)))

    @property
    def size(self) -> float:
        """Number of samples."""
        return effective_size(self.counts)

    @property
    def distinct(self) -> tuple[NDArray[np.intp] | slice, FloatArray]:
        """One row of each sample, and their weights, scaled to sum to the number of samples."""
        first: NDArray[np.intp] | slice = weighted_rows(self.weights)
        if self.place is not None:
            rows = np.sort(np.unique(self.place, return_index=True)[1])
            first = rows[self.weights[rows] > 0]
        weights = self.joint[first]
        if self.meaning != "frequency":
            weights = weights * (self.size / weights.sum())
        return first, weights

    def _over(self, values: FloatArray, weights: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            return np.where(weights > 0, values / weights, 0.0)


def weighted_rows(weights: FloatArray) -> NDArray[np.intp] | slice:
    """Return the rows with a weight; a slice, which copies nothing, if all have one."""
    return slice(None) if weights.min() > 0 else np.flatnonzero(weights > 0)


def _counted(rows: FloatArray, weights: FloatArray) -> tuple[NDArray[np.intp] | None, bool]:
    """Return the place of each row among the distinct ones, and whether weights count samples."""
    place = distinct_places(rows)
    if place is None:
        return None, coincide_by_rounding(rows, weights)
    first = np.unique(place, return_index=True)[1]
    joint = np.bincount(place, weights=weights).astype(np.float64)
    return place, coincide_by_rounding(rows[first], joint)


def left_out(weights: FloatArray, meaning: str) -> FloatArray:
    """Return the weight of each row that leave-one-out takes away: one copy, or the whole row."""
    return np.minimum(weights, 1.0) if meaning == "frequency" else weights


def effective_size(weights: FloatArray) -> float:
    """Return the number of samples that weights of distinct rows stand for, their sum."""
    return float(weights.sum())


def check_size(weights: FloatArray) -> None:
    """Refuse weights that stand for fewer than two samples.

    Raises
    ------
    ValueError
    """
    size = effective_size(weights)
    if size < _FEWEST:
        raise ValueError(
            f"sample_weight must stand for at least 2 samples for a radius rule, got a sum of "
            f"{size:g}; use weighting='importance' if only the ratios of the weights matter"
        )
