"""The measures of GLUE, its average, and what share of BERT's a model has.

[leethorp2021fnet]_ table 4: accuracy, but the mean of accuracy and F1 for QQP and MRPC, and
Spearman's correlation for STS-B. Its column of CoLA is accuracy too: 67 and 69 are about what one
class alone would give, where Matthews' correlation, which GLUE itself asks for, is 0.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from sklearn import metrics

Numbers = NDArray[np.float64]


def _accuracy(guessed: Numbers, given: Numbers) -> float:
    return float(metrics.accuracy_score(given, guessed))


def _f1(guessed: Numbers, given: Numbers) -> float:
    return float(metrics.f1_score(given, guessed, zero_division=0.0))


def _matthews(guessed: Numbers, given: Numbers) -> float:
    return float(metrics.matthews_corrcoef(given, guessed))


def _correlation(rank: Callable[[Any, Any], Any]) -> Callable[[Numbers, Numbers], float]:
    def found(guessed: Numbers, given: Numbers) -> float:
        if len(given) < 2 or np.ptp(guessed) == 0 or np.ptp(given) == 0:
            return 0.0  # a constant is correlated with nothing
        return float(rank(guessed, given).statistic)

    return found


# In percent, of numbers of classes or of scores; from what is guessed and what is given.
MEASURES: dict[str, Callable[[Numbers, Numbers], float]] = {
    "accuracy (%)": lambda guessed, given: 100 * _accuracy(guessed, given),
    "F1 (%)": lambda guessed, given: 100 * _f1(guessed, given),
    "accuracy-F1 mean (%)": lambda guessed, given: (
        50 * (_accuracy(guessed, given) + _f1(guessed, given))
    ),
    "Matthews correlation (%)": lambda guessed, given: 100 * _matthews(guessed, given),
    "Spearman correlation (%)": lambda guessed, given: (
        100 * _correlation(stats.spearmanr)(guessed, given)
    ),
    "Pearson correlation (%)": lambda guessed, given: (
        100 * _correlation(stats.pearsonr)(guessed, given)
    ),
}

# Table 4, in percent; the only failure is STS-B of the encoder without mixing.
COLUMNS = (
    "mnli, matched",
    "mnli, mismatched",
    "qqp",
    "qnli",
    "sst2",
    "cola",
    "stsb",
    "mrpc",
    "rte",
)
_NONE = math.nan
TABLE_4: dict[str, dict[str, tuple[float, ...]]] = {
    "base": {
        "softmax": (84, 81, 87, 91, 93, 73, 89, 83, 69),
        "linear": (74, 75, 84, 80, 94, 67, 67, 83, 69),
        "fnet": (72, 73, 83, 80, 95, 69, 79, 76, 63),
        "random": (51, 50, 70, 61, 76, 67, 4, 73, 57),
        "none": (34, 35, 31, 52, 48, 67, _NONE, 73, 54),
        "fnet_hybrid": (78, 79, 85, 88, 94, 76, 86, 79, 60),
    },
    "large": {
        "softmax": (88, 88, 88, 92, 95, 71, 88, 86, 66),
        "linear": (35, 36, 84, 80, 79, 67, 24, 73, 60),
        "fnet": (78, 76, 85, 85, 94, 78, 84, 88, 69),
    },
}


def glue_average(scores: Mapping[str, float]) -> float:
    """Return the mean over the columns of table 4, MNLI counting twice, failures left out.

    Parameters
    ----------
    scores : mapping of str to float
        By :data:`COLUMNS`, in percent; NaN for a failure.

    Raises
    ------
    ValueError
        If a column is missing.

    Examples
    --------
    >>> round(glue_average(dict(zip(COLUMNS, TABLE_4["base"]["fnet"]))), 1)
    76.7
    """
    missing = [name for name in COLUMNS if name not in scores]
    if missing:
        raise ValueError(f"scores must have all of {', '.join(COLUMNS)}, got no {missing[0]}")
    return float(np.nanmean([scores[name] for name in COLUMNS]))


def share_of_bert(scores: Mapping[str, float], size: str = "base") -> float:
    """Return the GLUE average over that of the paper's BERT of a size, in percent.

    Examples
    --------
    >>> round(share_of_bert(dict(zip(COLUMNS, TABLE_4["base"]["fnet_hybrid"]))))
    97
    """
    bert = dict(zip(COLUMNS, TABLE_4[size]["softmax"], strict=True))
    return 100 * glue_average(scores) / glue_average(bert)
