"""Features of an estimated density: modes, highest-density regions, Silverman's test."""

from fourierkernels.estimators.modes.contours import (
    Contours,
    density_contours,
    highest_density_contours,
)
from fourierkernels.estimators.modes.mode_seeking import Modes, modes
from fourierkernels.estimators.modes.regions import (
    Intervals,
    density_level,
    highest_density_intervals,
)
from fourierkernels.estimators.modes.silverman import (
    SilvermanTest,
    critical_bandwidth,
    number_of_modes,
    silverman_test,
)

__all__ = [
    "Contours",
    "Intervals",
    "Modes",
    "SilvermanTest",
    "critical_bandwidth",
    "density_contours",
    "density_level",
    "highest_density_contours",
    "highest_density_intervals",
    "modes",
    "number_of_modes",
    "silverman_test",
]
