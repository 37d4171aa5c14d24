"""How sure a difference between networks is, and the least one that a comparison can show."""

import math
from collections.abc import Mapping

import numpy as np

from fourierkernels.studies.engine.comparison_table import LEVEL

POWER = 0.8  # with which the smallest gain shows
LEAST_SEEDS = 3  # that can decide: with two of them an interval has one degree of freedom
Values = Mapping[int, float]  # by seed
_NODES = 48  # of the integral over deviations
_ROUNDING = 1e-12  # of the larger of two numbers: by less their difference does not deviate


def mean_of(values: Values) -> float:
    """Return the mean over seeds; NaN of none."""
    return float(np.mean(list(values.values()))) if values else math.nan


def paired(own: Values, other: Values) -> np.ndarray:
    """Return the differences by the seeds that both have."""
    return np.array([own[seed] - other[seed] for seed in own if seed in other])


def variance_of(own: Values, other: Values) -> float:
    """Return the variance of the differences over seeds; 0 of rounding alone, NaN of one seed."""
    gaps = paired(own, other)
    if len(gaps) < 2:
        return math.nan
    variance = float(np.var(gaps, ddof=1))
    largest = max(abs(value) for values in (own, other) for value in values.values())
    return variance if variance > (_ROUNDING * largest) ** 2 else 0.0


def binomial_error(first: float, second: float, items: int | None) -> float:
    """Return the standard error of a difference of two percentages of the same test items.

    Both are counted as if each had items of its own, which is too much where they err alike.
    """
    if items is None:
        return 0.0
    variances = (max(p * (100 - p), 0.0) / items for p in (first, second))
    return math.sqrt(sum(variances))


def _freedom(of_seeds: float, of_items: float, seeds: int) -> float:
    """Return the degrees of freedom of two variances, one of them known (Welch, Satterthwaite)."""
    if of_seeds == 0:
        return math.inf
    return (seeds - 1) * (1 + (of_items / of_seeds) ** 2) ** 2


def reach_of(of_seeds: float, of_items: float, seeds: int, comparisons: int) -> float:
    """Return the half width of an interval of a difference, corrected for many comparisons.

    NaN of fewer than two seeds, and where neither error is known: that some seeds give the same
    difference to the last digit does not make it certain.
    """
    from scipy.stats import t as student  # slow to import

    if seeds < 2 or of_seeds == of_items == 0:
        return math.nan
    level = (1 - LEVEL) / max(comparisons, 1)
    quantile = student.ppf(1 - level / 2, min(_freedom(of_seeds, of_items, seeds), 1e6))
    return float(quantile * math.hypot(of_seeds, of_items))


def widest_reach(of_seeds: float, of_items: float, seeds: int, comparisons: int) -> float:
    """Return the half width over seeds and test items, which is never less than over seeds."""
    near, far = (reach_of(of_seeds, error, seeds, comparisons) for error in (0.0, of_items))
    return float(np.fmax(near, far))  # more degrees of freedom may have made it the shorter one


def smallest_gain(
    deviation: float, seeds: int, *, comparisons: int = 1, of_items: float = 0.0
) -> float:
    """Return the least true difference whose interval leaves zero out with a power of 80 %.

    Without test items by the noncentral t distribution; with them by integration over the
    deviations that so many seeds may show, from which the interval takes its width.

    Parameters
    ----------
    deviation : float
        Of the paired difference over seeds.
    seeds : int
        Of the table.
    comparisons : int
        Intervals for which the level is corrected.
    of_items : float
        Standard error of the difference over test items, see :func:`binomial_error`.

    Returns
    -------
    float
        Infinite for one seed, or a deviation that is not known; zero over seeds is not known
        either, unless there is an error over test items.

    Examples
    --------
    >>> round(smallest_gain(1.0, 5), 2)  # a paired t test, 80 %
    1.68
    """
    if seeds < 2 or math.isnan(deviation) or deviation == of_items == 0:
        return math.inf
    of_seeds = deviation / seeds**0.5
    if of_items:
        return _gain_with_items(of_seeds, of_items, seeds, comparisons)
    return _gain_over_seeds(of_seeds, seeds, comparisons)


def _gain_over_seeds(of_seeds: float, seeds: int, comparisons: int) -> float:
    from scipy.optimize import brentq
    from scipy.stats import nct
    from scipy.stats import t as student

    quantile = student.ppf(1 - (1 - LEVEL) / (2 * max(comparisons, 1)), seeds - 1)
    found = brentq(lambda shift: nct.sf(quantile, seeds - 1, shift) - POWER, 0, 20 * quantile)
    return float(of_seeds * found)


def _gain_with_items(of_seeds: float, of_items: float, seeds: int, comparisons: int) -> float:
    from scipy.optimize import brentq
    from scipy.special import ndtr
    from scipy.stats import chi2

    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    shown = of_seeds * np.sqrt(chi2.ppf((1 + nodes) / 2, seeds - 1) / (seeds - 1))
    reaches = np.array([widest_reach(each, of_items, seeds, comparisons) for each in shown])
    error = math.hypot(of_seeds, of_items)

    def excess(gain: float) -> float:
        return float(weights / 2 @ ndtr((gain - reaches) / error)) - POWER

    return float(brentq(excess, 0, reaches.max() + 9 * error))


def pooled_deviation(contenders: Mapping[str, Values], reference: str) -> float:
    """Return the deviation over seeds of differences from a reference, pooled over contenders."""
    other, squares, freedom = contenders.get(reference, {}), 0.0, 0
    for name, own in contenders.items():
        count = len(own.keys() & other.keys())
        if name != reference and count > 1:
            squares += variance_of(own, other) * (count - 1)
            freedom += count - 1
    return math.sqrt(squares / freedom) if freedom else math.nan
