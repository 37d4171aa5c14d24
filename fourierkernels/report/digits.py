"""How many digits a table shows: one number of decimals for what is compared in it."""

import math

import numpy as np
from numpy.typing import ArrayLike

LEAST = 3  # decimals, and significant digits of the largest value


def decimals(*values: ArrayLike) -> int:
    """Return how many decimals show three digits of the largest value, at least three.

    Parameters
    ----------
    *values : array_like
        All that is to be compared; NaN is left out.

    Examples
    --------
    >>> decimals([12.5, 0.25]), decimals([2.5e-4, -1.25e-5])
    (3, 6)
    """
    largest = max(float(np.nanmax(np.abs(one), initial=0.0)) for one in values)
    return max(LEAST, LEAST - 1 - math.floor(math.log10(largest))) if largest > 0 else LEAST
