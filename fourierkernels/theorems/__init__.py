"""The theorems of the papers as objects: assumptions, bounds, rates, and the evidence for them.

A theorem has three forms: as printed, as proved (with the conditions of its proof that are not
printed, marked as ours) and as sharp (under the weakest condition, with the rate that is true).
``THEOREMS[name].check(setting)`` tells whether it applies and why not, :func:`verify` answers for
all three forms, and :func:`table` does so for every theorem in the settings that it names.
"""

from fourierkernels.theorems.error_at_points import ERROR_AT_POINTS, simulated_mse
from fourierkernels.theorems.evidence import Answer, Evidence
from fourierkernels.theorems.measure import INTEGRATED_ERROR, ErrorMeasure, Measured, Setting
from fourierkernels.theorems.rate_tables import paper_radius, paper_rate, rate_table
from fourierkernels.theorems.registry import THEOREMS, as_theorem
from fourierkernels.theorems.tail_quantile import TAIL_QUANTILE, simulated_quantile
from fourierkernels.theorems.theorem import (
    NOT_IN_THE_PAPERS,
    Assumption,
    Case,
    Check,
    Form,
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
    "Answer",
    "Assumption",
    "Case",
    "Check",
    "ErrorMeasure",
    "Evidence",
    "Form",
    "Measured",
    "Setting",
    "Theorem",
    "as_theorem",
    "entries",
    "paper_radius",
    "paper_rate",
    "rate_table",
    "simulated_mse",
    "simulated_quantile",
    "table",
    "verify",
]
