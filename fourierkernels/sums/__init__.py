"""The one numerical core: weighted kernel sums, Σ_i w_i y_i ∏_d shape(R_d(x_d - x_id)).

Density scales the sum of weights, regression and attention divide the sum of responses by it.
"""

from collections.abc import Sequence

from numpy.typing import ArrayLike

from fourierkernels.kernels import Kernel
from fourierkernels.sums.coordinates import Frame
from fourierkernels.sums.parts import PARTS
from fourierkernels.sums.plan import METHODS, Plan, plan_sum
from fourierkernels.sums.prepared import PreparedSum
from fourierkernels.sums.reference import kernel_matrix
from fourierkernels.sums.result import KernelSums, Units
from fourierkernels.sums.samples import SampleSum, check_tolerance

__all__ = [
    "METHODS",
    "PARTS",
    "Frame",
    "KernelSums",
    "Plan",
    "PreparedSum",
    "SampleSum",
    "Units",
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
    parts: Sequence[str] | None = None,
    period: float | Sequence[float | None] | None = None,
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
        The values that the numerators sum.
    method : {"auto", "direct", "direct_float32", "bandlimited", "split", "reference", "torch"}
        "auto" takes the method that a cost model finds cheapest.
    tol : float
        Accuracy relative to the largest sum, 1e-12 at best. Band-limited sums are cut to it, and
        at 1e-5 or so direct sums may use single precision. The error of the others is rounding,
        which grows with radius times range (see ``Plan.accuracy``).
    refine : bool
        Whether rows whose denominator is faint, below √tol of the largest, are summed directly in
        double precision afterwards, so that ratios and logarithms keep √tol. Not needed for
        absolute errors.
    parts : sequence of str, optional
        The factor in each dimension, a name of ``PARTS``: the shape ("value", by default), its
        slope shape'(u) ("slope"), its integral from -∞ to u ("cumulative"), u^j shape(u) for j up
        to 6 ("moment<j>") or the slope of that ("slope_of_moment<j>"); u = R_d(x_d - x_id).
    period : float or sequence of float or None, optional
        Per dimension, None for a line. On a circle the shape is the sum over its images a period
        apart, its integral that of what remains without the mean, and u^j in moments is the power
        of (p/2π) sin(2πu/p), p = R_d times the period.

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
    prepared = PreparedSum(
        points,
        kernel=kernel,
        radius=radius,
        weights=weights,
        responses=responses,
        method=method,
        tol=tol,
        period=period,
    )
    return prepared.at(at, parts=parts, refine=refine)
