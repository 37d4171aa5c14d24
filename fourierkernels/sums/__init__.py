"""The one numerical core: weighted kernel sums, Σ_i w_i y_i ∏_d shape(R_d(x_d - x_id)).

Density scales the sum of weights, regression and attention divide the sum of responses by it.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from fourierkernels.kernels import FloatArray, Kernel, as_kernel
from fourierkernels.sums.plan import METHODS, Plan, Problem, plan_sum, spans
from fourierkernels.sums.reference import kernel_matrix
from fourierkernels.sums.result import KernelSums
from fourierkernels.validation import (
    as_real,
    check_finite,
    check_number,
    check_points,
    check_radius,
    check_weights,
)

__all__ = [
    "METHODS",
    "KernelSums",
    "Plan",
    "check_tolerance",
    "kernel_matrix",
    "kernel_sum",
    "plan_sum",
]


def kernel_sum(
    points: ArrayLike,
    at: ArrayLike,
    *,
    kernel: Kernel | str,
    radius: ArrayLike,
    weights: ArrayLike | None = None,
    responses: ArrayLike | None = None,
    method: str = "auto",
    tol: float = 1e-12,
    refine: bool = True,
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
    method : {"auto", "direct", "bandlimited", "reference"}
        "auto" takes the one that a cost model finds cheapest.
    tol : float
        Accuracy relative to the largest sum, 1e-12 at best; direct sums are exact to rounding.
    refine : bool
        Whether rows whose denominator is below √tol of the largest are summed directly after a
        band-limited sum, so that ratios and logarithms keep √tol. Not needed for absolute errors.

    Returns
    -------
    KernelSums

    Raises
    ------
    ValueError, TypeError
        For arrays that are empty, not finite or do not fit together, a radius that is not
        positive, an unknown method or one that cannot do this sum, a `tol` out of range.

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
    problem = Problem(
        kernel, len(points), len(at), dim, columns.shape[1] + 1, spans(points, at, radius),
        check_tolerance(tol),
    )  # fmt: skip

    def run(queries: FloatArray, path: str) -> KernelSums:
        function = METHODS[path].load()
        return function(points, weights, columns, queries, kernel=kernel, radius=radius, tol=tol)

    plan = plan_sum(problem, method)
    sums = run(at, plan.method)
    if plan.method != "bandlimited" or not refine:
        return sums
    faint = np.flatnonzero(np.abs(sums.denominator) < sums.error / math.sqrt(tol))
    if not len(faint):
        return sums
    exact = "reference" if METHODS["direct"].refusal(problem) else "direct"
    return sums.replaced(faint, run(at[faint], exact))


def check_tolerance(tol: float) -> float:
    """Return `tol` as a float in [1e-12, 1e-2]."""
    value = check_number("tol", tol)
    if not 1e-12 <= value <= 1e-2:
        raise ValueError(f"tol must be in [1e-12, 1e-2], got {tol}")
    return value


def as_responses(responses: ArrayLike | None, n: int) -> FloatArray:
    """Return responses as a finite array of shape ``(n, k)``; None becomes k = 0 columns."""
    if responses is None:
        return np.zeros((n, 0))
    array = check_finite("responses", as_real("responses", responses))
    if array.ndim not in {1, 2} or len(array) != n:
        raise ValueError(f"responses must have shape ({n},) or ({n}, k), got {array.shape}")
    return array.reshape(n, -1)
