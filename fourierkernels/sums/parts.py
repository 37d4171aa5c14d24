"""The factor of a kernel sum in each dimension: the shape itself, its slope, or its integral.

Slopes give gradients, integrals give cumulative distributions. To add a part, write a row; the
reference takes it from there, and the band-limited sums from its series.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fourierkernels.arrays import FloatArray
from fourierkernels.kernels import Kernel
from fourierkernels.validation import check_choice


@dataclass(frozen=True)
class KernelPart:
    """A function g of u = R(x - x_i) that stands in one factor of the product.

    Attributes
    ----------
    log : callable
        (kernel, u) -> (log|g(u)|, sign of g(u)).
    noise : callable
        (kernel, u, error of u) -> bound on the relative error of g(u).
    radius_power : int
        The power of R that turns g into its counterpart in x: R K, its derivative R² K', and the
        integral of R K.
    """

    log: Callable[[Kernel, FloatArray], tuple[FloatArray, FloatArray]]
    noise: Callable[[Kernel, FloatArray, FloatArray], FloatArray]
    radius_power: int


def _log_cumulative(kernel: Kernel, u: FloatArray) -> tuple[FloatArray, FloatArray]:
    integral = kernel.constant * kernel.cumulative(u)
    with np.errstate(divide="ignore"):
        return np.log(np.abs(integral)), np.sign(integral)


def _slope_noise(kernel: Kernel, u: FloatArray, u_error: FloatArray) -> FloatArray:
    """|shape''| <= cutoff² by Bernstein's inequality; relative to the slope itself."""
    return _relative(kernel.cutoff**2 * u_error, kernel.log_slope(u)[0])


def _cumulative_noise(kernel: Kernel, u: FloatArray, u_error: FloatArray) -> FloatArray:
    return _relative(u_error, _log_cumulative(kernel, u)[0])


def _relative(error: FloatArray, log: FloatArray) -> FloatArray:
    return np.where(np.isneginf(log), 0.0, error * np.exp(np.minimum(-log, 600.0)))


PARTS: dict[str, KernelPart] = {
    "value": KernelPart(
        lambda kernel, u: kernel.log_shape(u),
        lambda kernel, u, e: np.minimum(kernel.noise(u, e), 1.0),
        1,
    ),
    "slope": KernelPart(lambda kernel, u: kernel.log_slope(u), _slope_noise, 2),
    "cumulative": KernelPart(_log_cumulative, _cumulative_noise, 0),
}


def check_parts(parts: Sequence[str] | None, dim: int) -> tuple[str, ...]:
    """Return one name of :data:`PARTS` per dimension; None stands for the shape in all.

    Raises
    ------
    ValueError
        If a name is unknown or their number is not `dim`.
    """
    if parts is None:
        return ("value",) * dim
    if isinstance(parts, str) or len(parts) != dim:
        raise ValueError(f"parts must have one name per dimension, {dim}, got {parts!r}")
    return tuple(check_choice("parts", part, list(PARTS)) for part in parts)


def slopes(dim: int) -> list[tuple[str, ...]]:
    """Return the parts of the partial derivatives: the slope in one dimension at a time."""
    names = ("value", "slope")
    return [tuple(names[int(d == e)] for e in range(dim)) for d in range(dim)]


def log_scale(kernel: Kernel, radius: FloatArray, parts: Sequence[str]) -> float:
    """Return the log of ∏_d R_d^{power of the part} / constant: from shapes to densities in x."""
    powers = np.array([PARTS[part].radius_power for part in parts])
    return float(powers @ np.log(radius) - len(radius) * np.log(kernel.constant))
