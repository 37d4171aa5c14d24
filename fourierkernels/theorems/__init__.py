"""The theorems of the papers as objects: assumptions, bounds, rates, and the evidence for them.

``THEOREMS[name].check(setting)`` tells whether a theorem applies and why not, :func:`verify` tests
it, and :func:`table` tests every theorem in the settings that it names.
"""

from fourierkernels.theorems.error_at_points import ERROR_AT_POINTS, simulated_mse
from fourierkernels.theorems.measure import INTEGRATED_ERROR, ErrorMeasure, Measured, Setting
from fourierkernels.theorems.rate_tables import paper_rate, rate_table
from fourierkernels.theorems.registry import THEOREMS, as_theorem
from fourierkernels.theorems.tail_quantile import TAIL_QUANTILE, simulated_quantile
from fourierkernels.theorems.theorem import (
    NOT_IN_THE_PAPERS,
    Assumption,
    Case,
    Check,
    Evidence,
    Theorem,
)
from fourierkernels.theorems.theorem_table import entries, table
from fourierkernels.theorems.verification import verify

__all__ = [
    "ERROR_AT_POINTS",
    "INTEGRATED_ERROR",
    "NOT_IN_THE_PAPERS",
    "TAIL_QUANTILE",
    "THEOREMS",
    "Assumption",
    "Case",
    "Check",
    "ErrorMeasure",
    "Evidence",
    "Measured",
    "Setting",
    "Theorem",
    "as_theorem",
    "entries",
    "paper_rate",
    "rate_table",
    "simulated_mse",
    "simulated_quantile",
    "table",
    "verify",
]
