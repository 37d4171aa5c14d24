"""Confidence intervals and simultaneous bands, of regressions and of densities."""

from fourierkernels.estimators.inference.bias import Linear, Twicing, check_order
from fourierkernels.estimators.inference.density_limits import density_band, density_interval
from fourierkernels.estimators.inference.limits import Band, band, interval

__all__ = [
    "Band",
    "Linear",
    "Twicing",
    "band",
    "check_order",
    "density_band",
    "density_interval",
    "interval",
]
