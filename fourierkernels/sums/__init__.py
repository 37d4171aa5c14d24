"""The one numerical core: weighted kernel sums, Σ_i w_i y_i ∏_d shape(R_d(x_d - x_id)).

Density scales the sum of weights, regression and attention divide the sum of responses by it.
"""

import numpy as np
from numpy.typing import ArrayLike

from fourierkernels.kernels import FloatArray, Kernel, as_kernel
from fourierkernels.sums.plan import METHODS, choose_method
from fourierkernels.sums.reference import kernel_matrix
from fourierkernels.sums.result import KernelSums
from fourierkernels.validation import (
    as_real,
    check_finite,
    check_points,
    check_radius,
    check_weights,
)

__all__ = ["METHODS", "KernelSums", "choose_method", "kernel_matrix", "kernel_sum"]


def kernel_sum(
    points: ArrayLike,
    at: ArrayLike,
    *,
    kernel: Kernel | str,
    radius: ArrayLike,
    weights: ArrayLike | None = None,
    responses: ArrayLike | None = None,
    method: str = "auto",
) -> KernelSums:
    """Return weighted sums of the kernel's shape over `points`, at the queries `at`.

    Parameters
    ----------
    points : array of shape (n, dim)
    at : array of shape (m, dim)
    kernel : Kernel or str
    radius : float or array of shape (dim,)
        R = 1/bandwidth.
    weights : array of shape (n,), optional
        Non-negative, 1 each by default.
    responses : array of shape (n,) or (n, k), optional
        What the numerators sum.
    method : {"auto", "direct", "reference"}

    Returns
    -------
    KernelSums

    Raises
    ------
    ValueError, TypeError
        For arrays that are empty, not finite or do not fit together, a radius that is not
        positive, an unknown method or one that does not have the kernel.

    Examples
    --------
    >>> sums = kernel_sum([[0.0], [1.0]], [[0.0]], kernel="fourier2", radius=3.0)
    >>> float(sums.totals()[0].round(6))
    1.002213
    """
    kernel = as_kernel(kernel)
    points = check_points("points", points)
    n, dim = points.shape
    at = check_points("at", at, dim=dim)
    radius = check_radius(radius, dim)
    weights = np.ones(n) if weights is None else check_weights("weights", weights, n)
    columns = as_responses(responses, n)
    if not weights.all():  # a point without weight must not set the scale of a row
        points, columns, weights = points[weights > 0], columns[weights > 0], weights[weights > 0]
    function = choose_method(method, kernel).load()
    return function(points, weights, columns, at, kernel=kernel, radius=radius)


def as_responses(responses: ArrayLike | None, n: int) -> FloatArray:
    """Return responses as a finite array of shape ``(n, k)``; None becomes k = 0 columns."""
    if responses is None:
        return np.zeros((n, 0))
    array = check_finite("responses", as_real("responses", responses))
    if array.ndim not in {1, 2} or len(array) != n:
        raise ValueError(f"responses must have shape ({n},) or ({n}, k), got {array.shape}")
    return array.reshape(n, -1)
