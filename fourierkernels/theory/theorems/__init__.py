"""The theorems of the papers as objects: assumptions, bounds, rates, and the evidence for them.

``THEOREMS[name].check(setting)`` tells whether it applies and why not, :func:`verify` puts it to
the test, :func:`table` does so for the settings of the specification.
"""

from fourierkernels.theory.theorems.base import (
    NOT_IN_THE_PAPERS,
    Assumption,
    Check,
    Evidence,
    Measured,
    Setting,
    Theorem,
)
from fourierkernels.theory.theorems.cases import (
    CASES,
    DENSITY_CASES,
    REGRESSION_CASES,
    Case,
    table,
)
from fourierkernels.theory.theorems.evidence import simulated_mse, simulated_quantile
from fourierkernels.theory.theorems.registry import THEOREMS, as_theorem
from fourierkernels.theory.theorems.verification import verify

__all__ = [
    "CASES",
    "DENSITY_CASES",
    "NOT_IN_THE_PAPERS",
    "REGRESSION_CASES",
    "THEOREMS",
    "Assumption",
    "Case",
    "Check",
    "Evidence",
    "Measured",
    "Setting",
    "Theorem",
    "as_theorem",
    "simulated_mse",
    "simulated_quantile",
    "table",
    "verify",
]
