"""Error theory: exact MISE, optimal radii, rates."""

from fourierkernels.theory.ise import ise
from fourierkernels.theory.mise import Mise, Optimum, mise, optimal_radius, optimum
from fourierkernels.theory.rates import Rate, RateRow, paper_rate, rate_table, sharp_rate

__all__ = [
    "Mise",
    "Optimum",
    "Rate",
    "RateRow",
    "ise",
    "mise",
    "optimal_radius",
    "optimum",
    "paper_rate",
    "rate_table",
    "sharp_rate",
]
