"""A radius rule: a function, and the facts about it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fourierkernels.estimators.design import FitDesign, nadaraya_watson_design
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.kernels import GaussianKernel, Kernel


@dataclass(frozen=True)
class Rule:
    """A rule that finds the radius from the data.

    Attributes
    ----------
    name : str
    function : callable
        (points, weights, kernel) to a radius of shape (dim,) or (dim, dim). If it needs responses
        it takes two arguments more: the responses, and the function that fits the smoother at its
        design points for a radius, see `fourierkernels.estimators.DesignFit`.
    description : str
    source : str
        Key of book/references.bib, or "derived here".
    gaussian_only : bool
        Whether it fits no kernel but the Gaussian.
    needs_responses : bool
        Whether it is a rule of regression.
    of_sample : callable, optional
        (sample, kernel) to the same radius, from a `Standardised` sample, which may be a stream
        that is read anew for each sum over it; None for rules that need the samples themselves.
    """

    name: str
    function: Callable[..., FloatArray]
    description: str
    source: str
    gaussian_only: bool = False
    needs_responses: bool = False
    of_sample: Callable[[Any, Kernel], FloatArray] | None = None

    def __call__(
        self,
        points: FloatArray,
        weights: FloatArray,
        kernel: Kernel,
        responses: FloatArray | None = None,
        fit_design: FitDesign = nadaraya_watson_design,
    ) -> FloatArray:
        """Return the radius per dimension, shape ``(dim,)``.

        Raises
        ------
        ValueError
            If the rule does not apply to the kernel, to a density, or to the data.
        """
        self.check_kernel(kernel)
        if not self.needs_responses:
            return self.function(points, weights, kernel)
        if responses is None:
            raise ValueError(
                f"radius must be a rule that needs no responses, got {self.name!r}, "
                "which is for regression"
            )
        return self.function(points, weights, kernel, responses, fit_design)

    def check_kernel(self, kernel: Kernel) -> None:
        """Refuse a kernel that the rule does not fit.

        Raises
        ------
        ValueError
        """
        if self.gaussian_only and not isinstance(kernel, GaussianKernel):
            raise ValueError(
                f"kernel must be gaussian for radius={self.name!r}, got {kernel.name!r}"
            )
