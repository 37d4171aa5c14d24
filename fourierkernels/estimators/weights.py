"""Meaning of sample weights: how many samples a row stands for, or its importance.

``weighting="frequency"``, the default and scikit-learn's contract: a weight of 3 is three equal
rows, a weight of 0 none, and fractions lie between. The weights sum to the number of samples. One
copy is left out in leave-one-out, and the copies of a row have independent noise.

``weighting="importance"``: only ratios matter, as for survey weights or importance sampling. A row
is one sample however heavy, left out as a whole; together they count as (Σw)²/Σw² samples.

Estimates with a given radius are the same in both; rules, scores, leave-one-out and intervals
differ. The fitted attribute `weights_` has the weights scaled so that they sum to that number of
samples, and all code that follows goes by their sum.
"""

import numpy as np
from numpy.typing import ArrayLike

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import check_choice, check_weights

WEIGHTINGS = ("frequency", "importance")

_FEWEST = 2.0 - 1e-9  # samples that a rule needs


def fitted_weights(sample_weight: ArrayLike | None, n: int, weighting: str) -> FloatArray:
    """Return checked weights that sum to the number of samples they stand for, shape ``(n,)``.

    Raises
    ------
    ValueError
        For an unknown `weighting`, or weights that are negative, not finite or all zero.
    """
    check_choice("weighting", weighting, WEIGHTINGS)
    if sample_weight is None:
        return np.ones(n)
    weights = check_weights("sample_weight", sample_weight, n)
    if weighting == "frequency":
        return weights
    shares = weights / weights.max()
    return np.asarray(shares * (shares.sum() / (shares @ shares)))


def left_out(weights: FloatArray, weighting: str) -> FloatArray:
    """Return the weight of each row that leave-one-out takes away: one copy, or the whole row."""
    return weights if weighting == "importance" else np.minimum(weights, 1.0)


def row_variances(variances: FloatArray, weights: FloatArray, weighting: str) -> FloatArray:
    """Return the variance of each row's response, the mean of its copies, from that of a copy.

    Rows without weight have none.
    """
    if weighting == "importance":
        return variances
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(weights > 0, variances / weights, 0.0)


def effective_size(weights: FloatArray) -> float:
    """Return the number of samples that fitted weights stand for, their sum."""
    return float(weights.sum())


def check_size(weights: FloatArray) -> None:
    """Refuse fitted weights that stand for fewer than two samples.

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
