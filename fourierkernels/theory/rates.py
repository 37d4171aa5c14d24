"""Rates of the best exact MISE in n: what the paper proves, what is sharp, and the evidence.

Sharp rates come from balancing variance ~ R^D/n with squared bias. A kernel of order r has bias²
~ R^{-2r} as long as ∫|t|^{2r}|p̂|² is finite; a density with |p̂|² ~ t^{-2β} leaves at least the
energy beyond the cutoff, ~ R^{-(2β-1)}. The slower of the two decides: bias² ~ R^{-q} gives
n^{-q/(D+q)}.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from fourierkernels.densities import Density, as_density
from fourierkernels.kernels import FourierKernel, Kernel, as_kernel
from fourierkernels.theory.optimum import Optimum, optimum
from fourierkernels.validation import check_integer

SIZES = tuple(10**e for e in range(2, 9))


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
class RateRow:
    """One line of a rate table: the optimum at one n, and the rates it is held against."""

    density: str
    kernel: str
    optimum: Optimum
    paper: Rate | None
    sharp: Rate


def sharp_rate(density: Density | str, kernel: Kernel | str, *, dim: int = 1) -> Rate:
    """Return the sharp rate of the best MISE over radii.

    Raises
    ------
    ValueError
        If `dim` is below 1.

    Examples
    --------
    >>> str(sharp_rate("laplace", "fourier1")), str(sharp_rate("gaussian", "fourier1"))
    ('n^-3/4', '(log n)^1/2 n^-1')
    """
    density, kernel = as_density(density), as_kernel(kernel)
    dim = max(check_integer("dim", dim), density.dim)
    smooth = density.smoothness
    by_kernel = 2.0 * kernel.order
    if smooth.kind == "supersmooth":
        if math.isinf(by_kernel):
            return Rate(1.0, dim / smooth.exponent, "K̂ = 1 near 0: bias falls like |p̂| itself")
        return Rate(by_kernel / (dim + by_kernel), 0.0, "order of the kernel")
    by_density = 2.0 * smooth.exponent - 1.0
    q = min(by_kernel, by_density)
    reason = "order of the kernel" if by_kernel < by_density else "smoothness of the density"
    log_power = dim / (dim + q) if by_kernel == by_density else 0.0  # bias² ~ R^-q log R
    return Rate(q / (dim + q), log_power, reason)


def paper_rate(density: Density | str, kernel: Kernel | str, *, dim: int = 1) -> Rate | None:
    """Return the rate proved in [nguyen2022fourierformer]_, or None where it states none.

    Theorem 3(a) for l = 1, 3(b) for l = 2 (it asks β > 3), Theorem 1 with m = 1 for l >= 4 (it
    asks a bounded second derivative: β > 3 is enough). l = 3 and the Gaussian are not covered.

    Examples
    --------
    >>> str(paper_rate("laplace", "fourier1")), paper_rate("laplace", "fourier2")
    ('n^-1/2', None)
    """
    density, kernel = as_density(density), as_kernel(kernel)
    dim = max(check_integer("dim", dim), density.dim)
    if not isinstance(kernel, FourierKernel) or kernel.power == 3:
        return None
    if kernel.power == 1:
        return _theorem_3a(density, dim)
    smooth = density.smoothness
    if smooth.kind == "ordinary_smooth" and smooth.exponent <= 3:
        return None
    source = "Theorem 3(b)" if kernel.power == 2 else "Theorem 1, m = 1"
    return Rate(2.0 / (dim + 2.0), 0.0, source)


def _theorem_3a(density: Density, dim: int) -> Rate | None:
    smooth = density.smoothness
    if smooth.kind == "supersmooth":
        return Rate(1.0, dim / smooth.exponent, "Theorem 3(a), supersmooth")
    if smooth.exponent <= 1:
        return None
    q = smooth.exponent - 1.0
    return Rate(q / (dim + q), 0.0, "Theorem 3(a), ordinary smooth")


def rate_table(
    density: Density | str,
    kernels: Iterable[Kernel | str],
    *,
    sizes: Iterable[int] = SIZES,
    dim: int = 1,
) -> list[RateRow]:
    """Return the optimum for every kernel and sample size, kernels outermost.

    Examples
    --------
    >>> rows = rate_table("laplace", ["fourier1"], sizes=[10**7, 10**8])
    >>> print(f"{rows[-1].optimum.radius:.1f} {rows[-1].optimum.slope:.3f}")
    100.0 -0.749
    """
    target = as_density(density)
    label = density if isinstance(density, str) else repr(density)
    rows = []
    for kernel in map(as_kernel, kernels):
        paper = paper_rate(target, kernel, dim=dim)
        sharp = sharp_rate(target, kernel, dim=dim)
        for n in sizes:
            best = optimum(target, kernel, n=n, dim=dim)
            rows.append(RateRow(label, kernel.name, best, paper, sharp))
    return rows


def _short(x: float) -> str:
    """Write a fraction with a small denominator as one."""
    fraction = Fraction(x).limit_denominator(12)
    return str(fraction) if abs(float(fraction) - x) < 1e-9 else f"{x:.4g}"
