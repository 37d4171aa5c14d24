"""Density and regression summaries of table columns: numbers, curves and figures."""

from fourierkernels.estimators.tables.density import (
    DensityDescription,
    DensityGroup,
    describe_density,
)
from fourierkernels.estimators.tables.grid import GridDescription, describe_grid
from fourierkernels.estimators.tables.reading import Marks, read_columns
from fourierkernels.estimators.tables.regression import (
    RegressionDescription,
    RegressionGroup,
    describe_regression,
)

__all__ = [
    "DensityDescription",
    "DensityGroup",
    "GridDescription",
    "Marks",
    "RegressionDescription",
    "RegressionGroup",
    "describe_density",
    "describe_grid",
    "describe_regression",
    "read_columns",
]
