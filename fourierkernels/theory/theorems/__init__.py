"""The theorems of the papers as objects: assumptions, bounds, rates, and the evidence for them.

``THEOREMS[name].check(setting)`` tells whether a theorem applies and why not, :func:`verify` tests
it, and :func:`table` tests every theorem in the settings that it names.
"""

from fourierkernels.theory.measures.error_at_points import ERROR_AT_POINTS, simulated_mse
from fourierkernels.theory.measures.integrated_error import INTEGRATED_ERROR
from fourierkernels.theory.measures.measure import ErrorMeasure, Measured
from fourierkernels.theory.measures.tail_quantile import TAIL_QUANTILE, simulated_quantile
from fourierkernels.theory.setting import Setting
from fourierkernels.theory.theorems.evidence import Evidence
from fourierkernels.theory.theorems.registry import THEOREMS, as_theorem
from fourierkernels.theory.theorems.table import entries, table
from fourierkernels.theory.theorems.theorem import (
    NOT_IN_THE_PAPERS,
    Assumption,
    Case,
    Check,
    Theorem,
)
from fourierkernels.theory.theorems.verification import verify

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
    "simulated_mse",
    "simulated_quantile",
    "table",
    "verify",
]
