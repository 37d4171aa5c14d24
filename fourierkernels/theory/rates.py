"""Rates (log n)^a n^{-e}, and the sharp ones of density estimation and regression.

Sharp rates come from balancing variance ~ R^D/n with squared bias ~ R^{-q}: n^{-q/(D+q)}. What
limits q is the order r of the kernel (2r) or the smoothness of the target; the constants beside the
rates are in `fourierkernels.theory.symbolic`.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

from fourierkernels.foundation.validation import check_number
from fourierkernels.kernels import Kernel, as_kernel
from fourierkernels.theory.densities import (
    Density,
    RegressionFunction,
    Smoothness,
    as_density,
    as_regression_function,
)
from fourierkernels.theory.density_error import dimension
from fourierkernels.theory.optimum import Optimum


@dataclass(frozen=True)
class Rate:
    """(log n)^log_power · n^{-exponent}, with the statement it comes from."""

    exponent: float
    log_power: float
    source: str

    def __call__(self, n: float) -> float:
        """Value at n, up to the unknown constant."""
        return float(math.log(n) ** self.log_power * n**-self.exponent)

    def slope(self, n: float) -> float:
        """Local slope at n: d log / d log n."""
        return self.log_power / math.log(n) - self.exponent

    def __str__(self) -> str:
        power = "" if self.log_power == 1 else f"^{_short(self.log_power)}"
        log = f"(log n){power} " if self.log_power else ""
        return f"{log}n^-{_short(self.exponent)}"


@dataclass(frozen=True)
class RadiusLaw:
    """How a radius grows with n: n^exponent · (c log n)^log_power, up to its constant.

    Where `exponent` is 0 the constant is part of the law: it is 1, in units of the density.
    """

    exponent: float
    log_power: float
    factor: float  # c
    source: str

    def __call__(self, n: float) -> float:
        """Value at n."""
        return float(n**self.exponent * (self.factor * math.log(n)) ** self.log_power)

    def __str__(self) -> str:
        factor = "" if self.factor == 1.0 else f"{self.factor:.3g} "
        power = "" if self.log_power == 1 else f"^{_short(self.log_power)}"
        log = f"({factor}log n){power}" if self.log_power else ""
        growth = f"n^{_short(self.exponent)}" if self.exponent else ""
        return f"{log} {growth}".strip()


def balanced_radius(q: float, dim: int, source: str) -> RadiusLaw:
    """Return the radius n^{1/(D+q)} that balances squared bias R^{-q} with variance R^D/n."""
    return RadiusLaw(1.0 / (dim + q), 0.0, 1.0, source)


def balanced_rate(q: float, dim: int, source: str) -> Rate:
    """Return the rate n^{-q/(D+q)} of squared bias R^{-q} against variance R^D/n."""
    return Rate(q / (dim + q), 0.0, source)


def sharp_rate(density: Density | str, kernel: Kernel | str, *, dim: int = 1) -> Rate:
    """Return the sharp rate of the best MISE over radii.

    A kernel of order r has bias² ~ R^{-2r} as long as ∫|t|^{2r}|p̂|² is finite; a density with
    |p̂|² ~ t^{-2β} leaves at least the energy beyond the cutoff, ~ R^{-(2β-1)}.

    Raises
    ------
    ValueError
        If `dim` is below 1 or not that of the density, and for a density that is not square
        integrable (β <= 1/2), whose MISE is infinite.

    Examples
    --------
    >>> str(sharp_rate("laplace", "fourier1")), str(sharp_rate("gaussian", "fourier1"))
    ('n^-3/4', '(log n)^1/2 n^-1')
    """
    density = as_density(density)
    return rate_of_smoothness(density.smoothness, kernel, dim=dimension(density, dim))


def rate_of_smoothness(smooth: Smoothness, kernel: Kernel | str, *, dim: int = 1) -> Rate:
    """Return :func:`sharp_rate` of the densities of a smoothness class whose bound is reached.

    Raises
    ------
    ValueError
        For a class of densities that are not square integrable.
    """
    kernel = as_kernel(kernel)
    by_kernel = 2.0 * kernel.order
    if smooth.kind == "supersmooth":
        if math.isinf(by_kernel):
            return Rate(1.0, dim / smooth.exponent, "K̂ = 1 near 0: bias falls like |p̂| itself")
        return balanced_rate(by_kernel, dim, "order of the kernel")
    by_density = 2.0 * smooth.exponent - 1.0
    if by_density <= 0.0:
        raise ValueError(f"density must be square integrable, got β = {smooth.exponent:g}")
    q = min(by_kernel, by_density)
    reason = "order of the kernel" if by_kernel < by_density else "smoothness of the density"
    log_power = dim / (dim + q) if by_kernel == by_density else 0.0  # bias² ~ R^-q log R
    return Rate(q / (dim + q), log_power, reason)


def sharp_radius(
    density: Density | str, kernel: Kernel | str, *, dim: int = 1, decay: float = math.nan
) -> RadiusLaw:
    """Return how the radius of the best MISE grows with n: n^{1/(D+q)}, at the rate n^{-q/(D+q)}.

    Where squared bias is R^{-q} log R, it grows like (n log n)^{1/(D+q)}. Where nothing but |p̂|
    limits the bias, the radius solves |p̂(R)|² ~ 1/n: (log n/(2c))^{1/α} with c the `decay` of
    |p̂| ~ exp(-c R^α), the slowest one over max|t_d| = R.

    Raises
    ------
    ValueError, TypeError
        If the law depends on `decay` and it is not given, or no positive number.

    Examples
    --------
    >>> str(sharp_radius("laplace", "fourier1")), str(sharp_radius("gamma(1.5)", "fourier2"))
    ('n^1/4', '(log n)^1/3 n^1/3')
    >>> str(sharp_radius("gaussian", "fourier1", decay=0.5))
    '(log n)^1/2'
    """
    density, kernel = as_density(density), as_kernel(kernel)
    rate = sharp_rate(density, kernel, dim=dim)
    if rate.exponent == 1.0:
        factor = 0.5 / _check_decay(decay, density)
        return RadiusLaw(0.0, 1.0 / density.smoothness.exponent, factor, rate.source)
    dim = dimension(density, dim)
    growth = (1.0 - rate.exponent) / dim
    return RadiusLaw(growth, rate.log_power and growth, 1.0, rate.source)


def _check_decay(decay: float, density: Density) -> float:
    if isinstance(decay, float) and math.isnan(decay):
        order = density.smoothness.exponent
        rule = f"the c of |p̂| ~ exp(-c R^{order:g}), on which this radius depends"
        raise ValueError(f"decay must be given, {rule}, got {decay}")
    return check_number("decay", decay, above=0.0)


def sharp_regression_rate(
    density: Density | str,
    function: RegressionFunction | str,
    kernel: Kernel | str,
    *,
    dim: int = 1,
) -> Rate:
    """Return the sharp rate of the mean squared error at a point away from breaks, p(x) > 0.

    Kernels of order 2 see f and p near the point only, the cusp of l = 2 costs a whole order, and
    l = 1 feels the least smooth place of f p, wherever it is: there a jump of the derivative of
    order β - 1 leaves a wave of size R^{-β}.

    Examples
    --------
    >>> str(sharp_regression_rate("gaussian", "sine", "fourier4"))
    'n^-4/5'
    >>> str(sharp_regression_rate("gaussian", "kink", "fourier1"))
    'n^-4/5'
    """
    density, kernel = as_density(density), as_kernel(kernel)
    dim = dimension(density, dim)
    if not math.isinf(kernel.order):
        return balanced_rate(2.0 * kernel.order, dim, "order of the kernel")
    parts = (density.smoothness, as_regression_function(function).smoothness)
    rough = [part.exponent for part in parts if part.kind == "ordinary_smooth"]
    if rough:
        return balanced_rate(2.0 * min(rough), dim, "least smooth place of f p")
    return Rate(1.0, dim / min(part.exponent for part in parts), "K̂ = 1 near 0")


@dataclass(frozen=True)
class RateRow:
    """One line of a rate table: the optimum at one n, and the laws that it is compared with."""

    density: str
    kernel: str
    optimum: Optimum
    paper: Rate | None
    sharp: Rate
    paper_radius: RadiusLaw | None
    sharp_radius: RadiusLaw


def _short(x: float) -> str:
    """Write a fraction with a small denominator as one."""
    fraction = Fraction(x).limit_denominator(20)
    return str(fraction) if abs(float(fraction) - x) < 1e-9 else f"{x:.4g}"
