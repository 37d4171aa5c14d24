"""What a density or a regression says of columns of a table: numbers, curves and figure."""

from fourierkernels.estimators.tables.columns import read_columns
from fourierkernels.estimators.tables.density import (
    DensityDescription,
    DensityGroup,
    describe_density,
)
from fourierkernels.estimators.tables.regression import (
    RegressionDescription,
    RegressionGroup,
    describe_regression,
)

__all__ = [
    "DensityDescription",
    "DensityGroup",
    "RegressionDescription",
    "RegressionGroup",
    "describe_density",
    "describe_regression",
    "read_columns",
]
