"""Monte Carlo: the error of estimators by simulation, with standard errors."""

from fourierkernels.simulation.mise import Estimate, draw, ise, mise
from fourierkernels.simulation.mse import mse
from fourierkernels.simulation.noise import NOISES, Noise, as_noise
from fourierkernels.simulation.regression_errors import RegressionError, central_box, quadrature

__all__ = [
    "NOISES",
    "Estimate",
    "Noise",
    "RegressionError",
    "as_noise",
    "central_box",
    "draw",
    "ise",
    "mise",
    "mse",
    "quadrature",
]
