"""Radii of density estimates from the spectrum of the sample: cross-validation and plug-in."""

import math
from collections.abc import Callable

import numpy as np

from fourierkernels.estimators.radius.pairs import PairSpectrum
from fourierkernels.estimators.radius.rule import Rule, minimise
from fourierkernels.estimators.radius.sample import Sample, Standardised, refuse_ties, tie_limit
from fourierkernels.estimators.radius.spectrum import (
    REPEATED,
    KernelScore,
    SampleSpectrum,
    Spectrum,
    box,
    circle_sum,
    comfortable_factor,
    settled,
)
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.kernels import FourierKernel, Kernel
from fourierkernels.theory import optimal_radius
from fourierkernels.theory.densities import Gaussian

_LEAST = 0.1  # smallest radius tried, in normal-reference radii
_FIRST = {1: 16.0, 2: 3.0, 3: 1.6}  # largest radius of the first transform, likewise
_WIDEST = 1024.0
NOISE = 2.5  # the pilot keeps |φ_n|² while it exceeds so many times 1/n


def lscv(
    points: FloatArray,
    weights: FloatArray,
    kernel: Kernel,
    *,
    periods: FloatArray | None = None,
) -> FloatArray:
    """Return the radius that minimises least squares cross-validation, shape ``(dim,)``.

    LSCV(R) = ∫ p̂_R² - 2 Σ_j p_j p̂_{R,-j}(x_j), computed in frequency as :class:`KernelScore`: E
    LSCV(R) + ∫p² is the exact MISE. All radii come from one transform of the sample. The minimum is
    global over a grid of one factor common to all dimensions (15 % apart; 2 % for a kernel of
    infinite order, whose score has many local minima), then local in each dimension. The grid runs
    from a tenth of the normal-reference radius to 16 times it (3 times in D = 2, 1.6 in D = 3, less
    for tails too long), and on while its end is best. For l = 1 minima satisfy u(R) = 1/(n + 1),
    that is |φ_n(R)|² = 2/(n + 1). In D = 3 integrals end where K̂ < 1e-3. Of rounded data, the
    frequencies are used that rounding resolves, and repeated rows are one, with a warning: see
    `fourierkernels.estimators.radius.spectrum`. In more than three dimensions the sums are over
    pairs of samples, O(n² D) each, and one factor is common to all columns. On a circle the
    frequencies are its own, and integrals sums over them. Sources:
    [rudemo1982empirical]_, [bowman1984alternative]_; [davis1977mean]_.

    Raises
    ------
    ValueError
        If there is no minimum within 1024 normal-reference radii, or its transform is too large (D
        = 3 with more than about 1e4 samples, very long tails).
    """
    return cross_validated(points, weights, kernel, periods=periods)[0]


def cross_validated(
    points: FloatArray,
    weights: FloatArray,
    kernel: Kernel,
    *,
    rule: str = "lscv",
    unit: FloatArray | None = None,
    periods: FloatArray | None = None,
) -> tuple[FloatArray, float]:
    """Return the radius of :func:`lscv`, or the best multiple of a `unit`, and its score."""
    sample, end = settled(points, weights, tie_limit(kernel, points.shape[1]), rule, periods)
    return _cross_validated(sample, end, kernel, rule=rule, unit=unit)


def _lscv_of_stream(sample: Standardised, kernel: Kernel) -> FloatArray:
    refuse_ties(sample, REPEATED, "lscv")
    return _cross_validated(sample, _no_end(sample.dim), kernel)[0]


def _no_end(dim: int) -> FloatArray:
    return np.full(dim, math.inf)


def _cross_validated(
    sample: Standardised,
    end: FloatArray,
    kernel: Kernel,
    *,
    rule: str = "lscv",
    unit: FloatArray | None = None,
) -> tuple[FloatArray, float]:
    start = _reference(sample, kernel)
    if unit is not None:
        start = start * unit * sample.scale

    def score(spectrum: Spectrum) -> Callable[[FloatArray], float]:
        return KernelScore(spectrum, kernel, spectrum.ends)

    step = 0.02 if math.isinf(kernel.order) and sample.dim == 1 else 0.14
    cutoff, common = _end(kernel, sample.dim), unit is not None
    radius, spectrum = _widening(sample, start, score, cutoff, step, rule, end, common=common)
    return radius / sample.scale, score(spectrum)(radius) / float(sample.scale.prod())


def plugin(
    points: FloatArray,
    weights: FloatArray,
    kernel: Kernel,
    *,
    periods: FloatArray | None = None,
) -> FloatArray:
    """Return the radius that minimises the exact MISE of an estimate of |p̂|², shape ``(dim,)``.

    |p̂|² is estimated without bias by u = (n|φ_n|² - 1)/(n - 1) up to a cut Λ and by 0 beyond; Λ
    maximises ∫_{|t_d| < Λ_d} (|φ_n|² - 2.5/n) dt, so that it passes over isolated zeros of p̂ and
    stops where only noise follows; of rounded data it is what rounding resolves at most. One code
    for every kernel and order; for l = 1 the radius is Λ itself. In more than three dimensions as
    :func:`lscv`. Sources: [chiu1991bandwidth]_ and
    [chiu1992automatic]_ for cutting |φ_n|², with other rules for the cut; the error is that of
    :func:`fourierkernels.theory.mise`.

    Raises
    ------
    ValueError
        If there is no cut within 1024 normal-reference radii, or the transform is too large.
    """
    sample, end = settled(points, weights, 0.5 * (1.0 + NOISE), "plugin", periods)
    return _plugin(sample, end, kernel)


def _plugin_of_stream(sample: Standardised, kernel: Kernel) -> FloatArray:
    refuse_ties(sample, REPEATED, "plugin")
    return _plugin(sample, _no_end(sample.dim), kernel)


def _plugin(sample: Standardised, end: FloatArray, kernel: Kernel) -> FloatArray:
    spectrum, cut = pilot(sample, end)
    score = KernelScore(spectrum, kernel, cut)
    start = _reference(sample, kernel)
    if math.isinf(kernel.order):  # K̂ = 1 up to its first knot, and what is beyond the cut is noise
        start, low, high = cut / kernel.knots[0], 0.5, 2.0
    else:
        low, high = _LEAST, 4.0 * float((cut / _reference(sample, FourierKernel(1))).max()) + 4.0
    common = sample.dim not in _FIRST
    best, _ = minimise(score, start, low=low, high=high, step=0.14, common=common)
    return best / sample.scale


def pilot(sample: Standardised, last: FloatArray | None = None) -> tuple[Spectrum, FloatArray]:
    """Return the spectrum of a sample, and the cut Λ per dimension beyond which it is noise.

    No cut is beyond `last`, of shape ``(dim,)``, if that is given.
    """
    end = _no_end(sample.dim) if last is None else last

    def loss(spectrum: Spectrum) -> Callable[[FloatArray], float]:
        def value(cut: FloatArray) -> float:
            boxes = [box(float(end)) for end in cut]
            each = zip(spectrum.periods, boxes, cut, strict=True)
            size = math.prod(
                end / math.pi if math.isinf(period) else circle_sum(period, kept)
                for period, kept, end in each
            )
            return float(NOISE / sample.size * size - spectrum.integral(boxes))

        return value

    start = _reference(sample, FourierKernel(1))
    step = 0.02 if sample.dim == 1 else 0.08
    cut, spectrum = _widening(sample, start, loss, 1.0, step, "plugin", end)
    return spectrum, np.minimum(cut, end)


def _widening(
    sample: Standardised,
    start: FloatArray,
    score: Callable[[Spectrum], Callable[[FloatArray], float]],
    cutoff: float,
    step: float,
    rule: str,
    last: FloatArray,
    *,
    common: bool = False,
) -> tuple[FloatArray, Spectrum]:
    """Return the best radius; the range of radii doubles while it ends near the upper edge.

    The spectrum goes up to `last` per dimension at most. In more than three dimensions the factor
    is common to all.
    """
    widest, common = _FIRST.get(sample.dim, _FIRST[3]), common or sample.dim not in _FIRST
    if sample.dim in _FIRST:
        widest = min(widest, comfortable_factor(sample, cutoff * start))
    while widest <= _WIDEST:
        ends = np.minimum(cutoff * widest * start, last)
        spectrum = _spectrum(sample, ends, rule)
        value = score(spectrum)
        radius, _ = minimise(value, start, low=_LEAST, high=widest, step=step, common=common)
        if (radius < 0.85 * widest * start).all():
            return radius, spectrum
        widest *= 2.0 if sample.dim < 3 else 1.5
    raise ValueError(
        f"X must be a sample of a density for radius={rule!r}, got no best radius up to "
        f"{_WIDEST:g} times the normal reference: rounded or repeated values in a column do that"
    )


def _spectrum(sample: Standardised, ends: FloatArray, rule: str) -> Spectrum:
    """Return |φ_n|² on a grid, or from pairs where a grid would have too many dimensions."""
    if sample.dim in _FIRST or not isinstance(sample, Sample):
        return SampleSpectrum(sample, ends, rule=rule)
    return PairSpectrum(sample, ends, rule=rule)


def _end(kernel: Kernel, dim: int) -> float:
    """Return where integrals against K̂ end: its cutoff; in D = 3 where it is below 1e-3."""
    if dim != 3:
        return kernel.cutoff
    s = np.linspace(0.0, kernel.cutoff, 1025)
    return float(s[np.flatnonzero(kernel.transform(s) > 1e-3)[-1]])


def _reference(sample: Standardised, kernel: Kernel) -> FloatArray:
    """Return the best radius for a standard Gaussian of this size, shape ``(dim,)``."""
    n = max(1, round(sample.size))
    best = optimal_radius(Gaussian(), kernel, n=n, dim=sample.dim)
    return np.full(sample.dim, best)


RULES = (
    Rule(
        "lscv",
        lscv,
        "least squares cross-validation, all radii from one transform",
        "rudemo1982empirical",
        on_circles=True,
        of_sample=_lscv_of_stream,
    ),
    Rule(
        "plugin",
        plugin,
        "exact MISE of the sample's spectrum, cut where it is noise",
        "chiu1992automatic",
        on_circles=True,
        of_sample=_plugin_of_stream,
    ),
)
