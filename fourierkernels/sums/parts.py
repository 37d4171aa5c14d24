"""The factor of a kernel sum in each dimension: the shape itself, its slope, integral or moment.

Slopes give gradients, integrals cumulative distributions, moments u^j shape(u) the normal equations
of local polynomials. To add a part, write a row; the reference takes it from there, and the
band-limited sums from its series.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import check_choice
from fourierkernels.kernels import Kernel, PeriodicKernel
from fourierkernels.sums.coordinates import Frame

_EPS = float(np.finfo(float).eps)


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
    moment : int
        The power of u that the shape is multiplied by, before any slope is taken.
    """

    log: Callable[[Kernel, FloatArray], tuple[FloatArray, FloatArray]]
    noise: Callable[[Kernel, FloatArray, FloatArray], FloatArray]
    radius_power: int
    moment: int = 0


_LARGEST_MOMENT = 6  # twice the largest degree of a local polynomial


def _log_cumulative(kernel: Kernel, u: FloatArray) -> tuple[FloatArray, FloatArray]:
    integral = kernel.constant * kernel.cumulative(u)
    with np.errstate(divide="ignore"):
        return np.log(np.abs(integral)), np.sign(integral)


def _slope_noise(kernel: Kernel, u: FloatArray, u_error: FloatArray) -> FloatArray:
    """|shape''| <= cutoff² by Bernstein's inequality; relative to the slope itself."""
    return _relative(kernel.cutoff**2 * u_error, kernel.log_slope(u)[0])


def _cumulative_noise(kernel: Kernel, u: FloatArray, u_error: FloatArray) -> FloatArray:
    return _relative(u_error, _log_cumulative(kernel, u)[0])


def _log_moment(kernel: Kernel, u: FloatArray, *, power: int) -> tuple[FloatArray, FloatArray]:
    (log, sign), u = kernel.log_shape(u), _offset(kernel, u)
    return power * _log_size(u) + log, np.sign(u) ** power * sign


def _moment_noise(kernel: Kernel, u: FloatArray, u_error: FloatArray, *, power: int) -> FloatArray:
    """Add the error of u^power to that of the shape."""
    # A difference of exactly 0 has no error.
    size = np.maximum(np.abs(_offset(kernel, u)), _EPS * u_error)
    return np.minimum(kernel.noise(u, u_error), 1.0) + power * u_error / size


def _log_moment_slope(
    kernel: Kernel, u: FloatArray, *, power: int
) -> tuple[FloatArray, FloatArray]:
    """(u^j shape)' = u^(j-1) (j u' shape + u shape'), u' = 1 but on a circle."""
    (log, sign), (log_slope, slope_sign) = kernel.log_shape(u), kernel.log_slope(u)
    turn, u = _turn(kernel, u), _offset(kernel, u)
    log_slope = log_slope + _log_size(u)
    top = np.maximum(np.maximum(log, log_slope), -1e300)  # finite: -∞ - (-∞) would be NaN
    plain = power * turn * sign * np.exp(log - top)
    both = plain + np.sign(u) * slope_sign * np.exp(log_slope - top)
    with np.errstate(divide="ignore"):
        total = np.log(np.abs(both)) + top
    rest = (power - 1) * _log_size(u) if power > 1 else 0.0
    return total + rest, np.sign(both) * np.sign(u) ** (power - 1)


def _moment_slope_noise(
    kernel: Kernel, u: FloatArray, u_error: FloatArray, *, power: int
) -> FloatArray:
    """Bound the second derivative of u^j shape by Bernstein's inequality for the shape."""
    c, size = kernel.cutoff, np.abs(u)
    bend = power * (power - 1) * size ** max(power - 2, 0)
    bend = bend + 2 * power * c * size ** (power - 1) + c * c * size**power
    return _relative(bend * u_error, _log_moment_slope(kernel, u, power=power)[0])


def _offset(kernel: Kernel, u: FloatArray) -> FloatArray:
    """Return what moments take powers of: u, or on a circle the chord that stands for it."""
    return kernel.chord(u) if isinstance(kernel, PeriodicKernel) else u


def _turn(kernel: Kernel, u: FloatArray) -> FloatArray:
    """Return the derivative of the offset."""
    return kernel.chord_slope(u) if isinstance(kernel, PeriodicKernel) else np.ones_like(u)


def _log_size(u: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.abs(u)))


def _relative(error: FloatArray, log: FloatArray) -> FloatArray:
    # exp(600) is finite, so that a term which underflows has no error 0 · ∞.
    return np.where(np.isneginf(log), 0.0, error * np.exp(np.minimum(-log, 600.0)))


PARTS: dict[str, KernelPart] = {
    "value": KernelPart(
        lambda kernel, u: kernel.log_shape(u),
        lambda kernel, u, e: np.minimum(kernel.noise(u, e), 1.0),
        1,
    ),
    "slope": KernelPart(lambda kernel, u: kernel.log_slope(u), _slope_noise, 2),
    "cumulative": KernelPart(_log_cumulative, _cumulative_noise, 0),
    **{
        f"moment{j}": KernelPart(
            partial(_log_moment, power=j), partial(_moment_noise, power=j), 1, moment=j
        )
        for j in range(1, _LARGEST_MOMENT + 1)
    },
    **{
        f"slope_of_moment{j}": KernelPart(
            partial(_log_moment_slope, power=j), partial(_moment_slope_noise, power=j), 2, moment=j
        )
        for j in range(1, _LARGEST_MOMENT + 1)
    },
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


def offsets(frame: Frame, kernel: Kernel, gaps: FloatArray) -> FloatArray:
    """Return u = R (x - x_i) of gaps ``(..., dim)``, on a circle the chord that stands for it."""
    scaled = zip(frame.kernels(kernel), np.moveaxis(frame.radius * gaps, -1, 0), strict=True)
    return np.stack([_offset(along, u) for along, u in scaled], axis=-1)


def offset_slopes(frame: Frame, kernel: Kernel, gaps: FloatArray) -> FloatArray:
    """Return the derivatives of :func:`offsets` in R x: 1, or on a circle a cosine."""
    scaled = zip(frame.kernels(kernel), np.moveaxis(frame.radius * gaps, -1, 0), strict=True)
    return np.stack([_turn(along, u) for along, u in scaled], axis=-1)


def multi_indices(dim: int, degree: int) -> list[tuple[int, ...]]:
    """Return the exponents of all monomials in `dim` variables up to a degree, low degrees first.

    Examples
    --------
    >>> multi_indices(2, 1)
    [(0, 0), (1, 0), (0, 1)]
    """
    return [
        tuple(places.count(d) for d in range(dim))
        for total in range(degree + 1)
        for places in itertools.combinations_with_replacement(range(dim), total)
    ]


def moment_parts(powers: tuple[int, ...], slope_in: int | None = None) -> tuple[str, ...]:
    """Return the parts of ∏_d u_d^{a_d} shape(u_d), or of its slope in one dimension.

    Examples
    --------
    >>> moment_parts((0, 2))
    ('value', 'moment2')
    >>> moment_parts((0, 2), slope_in=1)
    ('value', 'slope_of_moment2')
    """
    names = [f"moment{a}" if a else "value" for a in powers]
    if slope_in is not None:
        power = powers[slope_in]
        names[slope_in] = f"slope_of_moment{power}" if power else "slope"
    return tuple(names)


def log_scale(kernel: Kernel, radius: FloatArray, parts: Sequence[str]) -> float:
    """Return the log of ∏_d R_d^{power of the part} / constant: from shapes to densities in x."""
    powers = np.array([PARTS[part].radius_power for part in parts])
    return float(powers @ np.log(radius) - len(radius) * np.log(kernel.constant))
