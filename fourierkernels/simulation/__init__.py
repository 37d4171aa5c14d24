"""Monte Carlo: the error of estimators by simulation, with standard errors."""

from fourierkernels.simulation.mise import Estimate, draw, ise, mise

__all__ = ["Estimate", "draw", "ise", "mise"]
