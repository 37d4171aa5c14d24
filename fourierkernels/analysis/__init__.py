"""What a density or a regression says of columns of a table: numbers, curves and figure."""

from fourierkernels.analysis.density import DensityDescription, DensityGroup, describe_density
from fourierkernels.analysis.files import read_columns
from fourierkernels.analysis.regression import (
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
