"""Figures in one style: rates, simulated errors, fits and weight maps; labels and notes in them.

Figures are made without pyplot: they belong to no window and no backend. Save them, or let a
notebook display them. matplotlib is imported on first use.
"""

from fourierkernels.plotting.described import (
    DensityCurve,
    RegressionCurve,
    plot_densities,
    plot_left_out,
    plot_regressions,
)
from fourierkernels.plotting.error_curves import SimulatedCurve, plot_rates, plot_simulated
from fourierkernels.plotting.fits_and_maps import plot_fits, plot_grid, plot_weight_maps
from fourierkernels.plotting.labels import label_curves, point_out, text_colour
from fourierkernels.plotting.look import COLOURS, LINES, MARKERS, style

__all__ = [
    "COLOURS",
    "LINES",
    "MARKERS",
    "DensityCurve",
    "RegressionCurve",
    "SimulatedCurve",
    "label_curves",
    "plot_densities",
    "plot_fits",
    "plot_grid",
    "plot_left_out",
    "plot_rates",
    "plot_regressions",
    "plot_simulated",
    "plot_weight_maps",
    "point_out",
    "style",
    "text_colour",
]
