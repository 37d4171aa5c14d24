"""How fast a characteristic function decays, estimated from a sample, which proves nothing.

Up to the frequency where the noise 1/n hides |p̂|², two shapes are fitted to its unbiased estimate
(n|φ_n|² - 1)/(n - 1): (1 + s²t²)^{-β}, ordinary smooth, and exp(-(s|t|)^α), supersmooth. Beyond
that frequency every decay agrees with the sample: the class of a density is no function of what a
sample shows of it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize

from fourierkernels.estimators.lattice import lattice_step
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import as_real, check_finite, check_integer
from fourierkernels.kernels import Kernel, as_kernel
from fourierkernels.theory.densities import Smoothness
from fourierkernels.theory.densities.contract import squared_modulus
from fourierkernels.theory.rates import rate_of_smoothness

if TYPE_CHECKING:
    from rich.table import Table

_FEWEST = 100
_FREQUENCIES = 48
_HIDDEN = 3.0  # n |φ_n|² in the mean of a window, where noise alone has 1
_STEP, _WINDOW, _MOST_STEPS = 0.25, 4, 4000  # of the search for the last frequency
_ROWS = 2**15
_MISFIT = 3.0  # beyond, a shape does not fit: of samples that have it, one in a hundred has 2
_EXPONENTS = (0.05, 50.0)  # ends of the search
_FALLEN = 0.3  # to which |p̂|² has to fall before it is hidden


@dataclass(frozen=True)
class DecayFit:
    """One shape, fitted.

    Attributes
    ----------
    smoothness : Smoothness
        The class and its exponent, β or α; 0.05 and 50, the ends of the search, mean at most and
        at least that.
    low, high : float
        95 % interval of the exponent, by the bootstrap: it is right only if p̂ has this shape. An
        end at that of the search is open: 0 or infinity.
    misfit : float
        Sum of squared residuals over their variances, by the number of frequencies.
    """

    smoothness: Smoothness
    low: float
    high: float
    misfit: float

    @property
    def fits(self) -> bool:
        """Whether p̂ can have this shape: exp(-|t|^α) with α > 2 is no characteristic function."""
        possible = self.smoothness.kind == "ordinary_smooth" or self.low <= 2.0
        return self.misfit <= _MISFIT and possible


@dataclass(frozen=True)
class SampleDecay:
    """What a sample shows of the decay of its characteristic function.

    Attributes
    ----------
    n : int
    last : float
        Frequency up to which it is seen.
    fits : tuple of DecayFit
        Ordinary smooth, supersmooth.
    ordinary : float
        Share of the resamples that the ordinary smooth shape fits better.
    """

    n: int
    last: float
    fits: tuple[DecayFit, DecayFit]
    ordinary: float

    @property
    def lines(self) -> tuple[str, str]:
        """Which shape fits better, and what the sample cannot prove: a sentence each."""
        share = f"{100 * self.ordinary:.0f} % of resamples fit ordinary smooth better"
        if not any(fit.fits for fit in self.fits):
            share = "neither shape fits (where one does, misfits are below 2, and α is at most 2)"
        return (
            share,
            f"{self.n:,} samples show p̂ up to t = {self.last:.3g}; how it decays beyond, which "
            "the rate depends on, no sample shows: an estimate, which proves nothing",
        )


def estimate_decay(sample: ArrayLike, *, replicates: int = 199, seed: int = 0) -> SampleDecay:
    """Return the decay of p̂ as a sample shows it.

    Parameters
    ----------
    sample : array of shape (n,)
    replicates : int
        Resamples of the bootstrap, at least 19.
    seed : int
        Of the bootstrap.

    Raises
    ------
    ValueError
        For fewer than 100 samples, values that are not finite, constant, or rounded so coarsely
        that p̂ is not seen to decay, and a sample that hides p̂ before it has decayed.

    Examples
    --------
    >>> found = estimate_decay(np.random.default_rng(0).laplace(size=20_000))
    >>> found.fits[0].low < 2.0 < found.fits[0].high
    True
    """
    x = check_finite("sample", as_real("sample", sample))
    count = check_integer("replicates", replicates, least=19)
    if x.ndim != 1 or len(x) < _FEWEST:
        raise ValueError(f"sample must be at least {_FEWEST} numbers, got shape {x.shape}")
    spread = float(np.subtract(*np.quantile(x, [0.75, 0.25]))) / 1.349
    if not spread > 0.0:
        raise ValueError("sample must vary in its middle half, got equal quartiles")
    x = (x - np.median(x)) / spread
    last = _last_frequency(x)
    t = last * np.arange(1, _FREQUENCIES + 1) / _FREQUENCIES
    whole, drawn = _transforms(x, t, count, np.random.default_rng(seed))
    n = len(x)
    seen = (n * squared_modulus(whole) - 1.0) / (n - 1.0)
    error = np.sqrt(2.0 / n * np.clip(seen * (1.0 - seen), 0.0, None) + 1.0 / n**2)
    if seen.min() > _FALLEN:
        raise ValueError(f"sample must show p̂ decay, got it hidden from t = {last / spread:.3g} on")
    resampled = (squared_modulus(drawn) - 2.0 / n) / (1.0 - 2.0 / n)  # of a resample of n values
    fitted = [[_fit(shape, t, each, error) for shape in _SHAPES] for each in (seen, *resampled)]
    exponents, misfits = np.array(fitted).transpose(2, 0, 1)  # (1 + replicates, 2)
    fits = []
    for k, kind in enumerate(("ordinary_smooth", "supersmooth")):
        low, high = np.quantile(exponents[1:, k], [0.025, 0.975])
        low, high = 0.0 if _at_edge(low) < 0 else low, math.inf if _at_edge(high) > 0 else high
        smooth = Smoothness(kind, float(exponents[0, k]))  # type: ignore[arg-type]
        fits.append(DecayFit(smooth, float(low), float(high), float(misfits[0, k])))
    ordinary = float((misfits[1:, 0] < misfits[1:, 1]).mean())
    return SampleDecay(n, last / spread, (fits[0], fits[1]), ordinary)


def decay_table(
    title: str, found: SampleDecay, kernels: Sequence[Kernel | str], *, dim: int = 1
) -> "Table":
    """Return the estimated decay of a sample and, if it were that, the rate of each kernel.

    There is none ("–") at an end of the search, and where the MISE would be infinite.
    """
    from rich import box
    from rich.table import Table

    shapes = [as_kernel(kernel) for kernel in kernels]
    header = ("if p were", "exponent", "95 %", "misfit", *(shape.name for shape in shapes))
    table = Table(*header, title=f"{title}, n = {found.n:,}", box=box.SIMPLE_HEAD)
    for fit in found.fits:
        exponent = fit.smoothness.exponent
        edge = _at_edge(exponent)
        infinite = fit.smoothness.kind == "ordinary_smooth" and exponent <= 0.5
        rates = [
            "–" if edge or infinite else str(rate_of_smoothness(fit.smoothness, shape, dim=dim))
            for shape in shapes
        ]
        name = fit.smoothness.kind.replace("_", " ")
        interval = f"{fit.low:.2f} to {'∞' if math.isinf(fit.high) else f'{fit.high:.2f}'}"
        sign = {-1: "≤ ", 0: "", 1: "≥ "}[edge]
        table.add_row(name, f"{sign}{exponent:.2f}", interval, f"{fit.misfit:.1f}", *rates)
    return table


def _at_edge(exponent: float) -> int:
    """Return -1 at the lower end of the search, 1 at the upper one, 0 within."""
    lowest, highest = _EXPONENTS
    return int(exponent > 0.999 * highest) - int(exponent < 1.001 * lowest)


def _last_frequency(x: FloatArray) -> float:
    """Return where n |φ_n|² falls to that of noise, in the mean over a window."""
    step = lattice_step(x)
    window: list[float] = []
    for k in range(1, _MOST_STEPS):
        t = _STEP * k
        if step * t > 1.0:
            raise ValueError(
                "sample must be rounded less: p̂ of values on a lattice is periodic, and here it "
                "is not hidden by noise before that shows"
            )
        wave = np.exp(1j * t * x).mean()
        window.append(len(x) * abs(wave) ** 2)
        if len(window) >= _WINDOW and np.mean(window[-_WINDOW:]) < _HIDDEN:
            return t - _STEP * _WINDOW / 2
    raise ValueError(f"sample must show p̂ decay, got none up to t = {t:g} in units of its width")


def _transforms(
    x: FloatArray, t: FloatArray, count: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return φ_n, shape (k,), and that of resamples by Poisson counts, shape (count, k)."""
    whole, drawn, total = np.zeros(len(t), complex), np.zeros((count, len(t)), complex), 0.0
    for i in range(0, len(x), _ROWS):
        waves = np.exp(1j * np.outer(x[i : i + _ROWS], t))
        counts = rng.poisson(1.0, (count, len(waves))).astype(float)
        whole += waves.sum(axis=0)
        drawn += counts @ waves
        total = total + counts.sum(axis=1, keepdims=True)
    return whole / len(x), drawn / total


def _ordinary(t: FloatArray, scale: float, exponent: float) -> FloatArray:
    return np.asarray((1.0 + np.square(scale * t)) ** -exponent)


def _super(t: FloatArray, scale: float, exponent: float) -> FloatArray:
    return np.asarray(np.exp(-((scale * t) ** exponent)))


_SHAPES = (_ordinary, _super)


def _fit(
    shape: Callable[[FloatArray, float, float], FloatArray],
    t: FloatArray,
    seen: FloatArray,
    error: FloatArray,
) -> tuple[float, float]:
    """Return exponent and misfit of the weighted least squares fit."""

    def residuals(logs: FloatArray) -> FloatArray:
        return (shape(t, *np.exp(logs)) - seen) / error

    bounds = (np.log([1e-3, _EXPONENTS[0]]), np.log([1e2, _EXPONENTS[1]]))
    found = optimize.least_squares(residuals, np.log([0.7, 1.5]), bounds=bounds)
    return float(np.exp(found.x[1])), float(2.0 * found.cost / len(t))
