"""Sample weights: repetitions if they are whole numbers, shares if they are not."""

import numpy as np

from fourierkernels.arrays import FloatArray


def counts_repetitions(weights: FloatArray) -> bool:
    """Return whether the weights are whole numbers, so that they count repetitions."""
    return np.array_equal(weights, np.round(weights))


def effective_size(weights: FloatArray) -> float:
    """Return Σw for whole-number weights (repetitions), else (Σw)²/Σw²."""
    total = float(weights.sum())
    if counts_repetitions(weights):
        return total
    shares = weights / total
    return float(1.0 / (shares @ shares))
