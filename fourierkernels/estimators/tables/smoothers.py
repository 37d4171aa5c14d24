"""The regression of each degree."""

from fourierkernels.estimators.local_polynomial import LocalPolynomial
from fourierkernels.estimators.regression import NadarayaWatson
from fourierkernels.estimators.smoother import LinearSmoother
from fourierkernels.kernels import Kernel


def new_smoother(
    kernel: Kernel | str, *, degree: int, radius: float | str | None
) -> LinearSmoother:
    """Return a regression that is not fitted yet: Nadaraya-Watson, or a local polynomial."""
    if degree == 0:
        return NadarayaWatson(kernel, radius=radius)
    return LocalPolynomial(kernel, degree=degree, radius=radius)
