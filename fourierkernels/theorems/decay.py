"""Exponential decay of the transforms of p and f p, as Theorems 3(a) and 4 have it."""

import math

import numpy as np

from fourierkernels.theorems.measure import Setting
from fourierkernels.theory.densities.contract import BAND_LIMITED


def common_order(setting: Setting) -> float:
    """Return α for p and f p alike: a density of order 2 is one of order 1 as well."""
    orders = (setting.density.smoothness.exponent, setting.response.smoothness.exponent)
    return min(orders)


def decay(setting: Setting) -> float:
    """Return c in |p̂(t)| ~ exp(-c Σ|t_d|^α), measured where |p̂| is small but representable.

    The slope of -log |p̂| against |t|^α between half and nine tenths of the spectral range, over the
    directions of the coordinates and their diagonals; the smallest.
    """
    p = setting.density
    alpha = p.smoothness.exponent
    if not math.isfinite(p.spectral_range):
        raise ValueError(f"density must be supersmooth to have a decay, got {p!r}")
    lengths = p.spectral_range * np.linspace(0.5, 0.9, 41)
    rates = []
    for direction in _directions(p.dim):
        t = np.outer(lengths, direction / np.abs(direction).max()) / math.sqrt(p.dim)
        log = np.log(np.maximum(np.abs(p.cf(t if p.dim > 1 else t[:, 0])), 1e-300))
        sums = (np.abs(t) ** alpha).sum(axis=1)
        first, last = int(log[:10].argmax()), 31 + int(log[-10:].argmax())  # crests, if it waves
        rates.append((log[first] - log[last]) / (sums[last] - sums[first]))
    return float(min(rates))


def polynomial_degree(setting: Setting) -> float:
    """Return deg Q in |(f p)^(t)| <= C Q(|t|) exp(-c Σ|t|^α): g (α - 1) for f = x^g, 0 otherwise.

    A factor x of f p is a derivative of p̂, hence a factor |t|^{α-1}.
    """
    f, alpha = setting.response, setting.density.smoothness.exponent
    return f.growth * max(alpha - 1.0, 0.0) if f.smoothness == BAND_LIMITED else 0.0


def product_decay(setting: Setting) -> float:
    """Return a c with |(f p)^(t)| <= C Q(|t|) exp(-c|t|^α), α the common order of p and f p.

    For a polynomial f that of p. Where f is the less smooth, half of what a quadrature of f p shows
    between t = 4 and 16; else half the decay of p: (f p)^ is p̂ shifted, which costs any c below.
    """
    if setting.response.growth > 0.0 and setting.response.smoothness == BAND_LIMITED:
        return decay(setting)
    if common_order(setting) == setting.density.smoothness.exponent:
        return 0.5 * decay(setting)
    x = np.linspace(-40.0, 40.0, 2**15 + 1) / setting.density.spectral_scale
    weighted = setting.response.value(x) * setting.density.pdf(x) * (x[1] - x[0])
    t = setting.density.spectral_scale * np.array([4.0, 16.0])[:, None] * np.linspace(0.8, 1.2, 9)
    log = np.log(np.abs(np.exp(1j * t[..., None] * x) @ weighted).max(axis=1))
    alpha = common_order(setting)
    return 0.5 * float((log[0] - log[1]) / (t[1].mean() ** alpha - t[0].mean() ** alpha))


def _directions(dim: int) -> list[np.ndarray]:
    grid = np.stack(np.meshgrid(*([-1.0, 0.0, 1.0],) * dim, indexing="ij"), axis=-1)
    return [v for v in grid.reshape(-1, dim) if v.any() and v[np.flatnonzero(v)[0]] > 0]
