"""What a theorem is applied to: a density, a kernel, a dimension, a regression function."""

from dataclasses import dataclass

from fourierkernels.foundation.validation import check_integer
from fourierkernels.kernels import Kernel, as_kernel
from fourierkernels.theory.densities import (
    Density,
    RegressionFunction,
    as_density,
    as_regression_function,
)


@dataclass(frozen=True)
class Setting:
    """What a theorem is applied to: a product of `dim` copies, a kernel, a regression function."""

    density: Density
    kernel: Kernel
    dim: int = 1
    function: RegressionFunction | None = None

    @classmethod
    def of(
        cls,
        density: Density | str,
        kernel: Kernel | str,
        function: RegressionFunction | str | None = None,
        *,
        dim: int = 1,
    ) -> "Setting":
        """Return the setting of names or objects.

        Raises
        ------
        ValueError, TypeError
            For unknown names and a `dim` below 1.
        """
        target = as_density(density)
        f = None if function is None else as_regression_function(function)
        return cls(target, as_kernel(kernel), max(check_integer("dim", dim), target.dim), f)

    @property
    def response(self) -> RegressionFunction:
        """The regression function.

        Raises
        ------
        ValueError
            If there is none.
        """
        if self.function is None:
            raise ValueError("function must be given for a theorem on regression, got None")
        return self.function
