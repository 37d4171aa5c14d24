"""Exponential decay of the transforms of p and f p, as Theorems 3(a) and 4 have it."""

import math
from functools import lru_cache
from itertools import product

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize

from fourierkernels.theorems.measure import Setting
from fourierkernels.theory.densities import Density
from fourierkernels.theory.densities.contract import BAND_LIMITED

_UNDERFLOW = 1e-250
_SEARCHES = 8  # for the direction of least decay


def common_order(setting: Setting) -> float:
    """Return α for p and f p alike: a density of order 2 is one of order 1 as well."""
    orders = (setting.density.smoothness.exponent, setting.response.smoothness.exponent)
    return min(orders)


def decay(setting: Setting) -> float:
    """Return the c of Theorem 3(a): the largest with |p̂(t)| <= C exp(-c Σ|t_d|^α)."""
    return _slowest(setting.density, over_sum=True)


def face_decay(setting: Setting) -> float:
    """Return the c with |p̂| ~ exp(-c R^α) where it is largest over max|t_d| = R.

    The transform of a kernel with l = 1 ends there, which makes it the c of the best radius
    (:func:`~fourierkernels.theory.sharp_radius`). For a product of densities it is that of one.
    """
    return _slowest(setting.density, over_sum=False)


@lru_cache(maxsize=256)
def _slowest(p: Density, *, over_sum: bool) -> float:
    """Return the least decay of |p̂| in Σ|t_d|^α or max|t_d|^α over all directions.

    Directions are points of the faces t_d = 1 of the box; |p̂(-t)| = |p̂(t)|. Of those whose other
    coordinates are 0 and ±1 the best few start a search on their face: there may be more than one
    place of least decay.
    """
    if not math.isfinite(p.spectral_range):
        raise ValueError(f"density must be supersmooth to have a decay, got {p!r}")

    def on_face(rest: ArrayLike, d: int) -> float:
        direction = np.insert(np.asarray(rest, float), d, 1.0)
        size = (np.abs(direction) ** p.smoothness.exponent).sum() if over_sum else 1.0
        return _decay_along(p, direction) / float(size)

    corners = product(product((-1.0, 0.0, 1.0), repeat=p.dim - 1), range(p.dim))
    starts = sorted((on_face(rest, d), rest, d) for rest, d in corners)[:_SEARCHES]
    if p.dim == 1:
        return starts[0][0]
    box = [(-1.0, 1.0)] * (p.dim - 1)
    return min(
        float(optimize.minimize(on_face, rest, (d,), bounds=box).fun) for _, rest, d in starts
    )


def _decay_along(p: Density, direction: np.ndarray) -> float:
    """Return c in |p̂| ~ exp(-c r^α) along r times a direction, where |p̂| is small enough.

    The slope of -log |p̂| between half and nine tenths of the spectral range, from crest to crest;
    further in where |p̂| falls so fast that it would underflow.
    """
    end = 0.9 * p.spectral_range / math.sqrt(p.dim)
    while np.abs(_on_ray(p, direction, np.array([end])))[0] < _UNDERFLOW:
        end *= 0.5
    r = np.linspace(5.0 / 9.0, 1.0, 41) * end  # 5/9 of nine tenths is half
    log = np.log(np.maximum(np.abs(_on_ray(p, direction, r)), _UNDERFLOW))
    first, last = int(log[:10].argmax()), 31 + int(log[-10:].argmax())  # crests, if it waves
    alpha = p.smoothness.exponent
    return float((log[first] - log[last]) / (r[last] ** alpha - r[first] ** alpha))


def _on_ray(p: Density, direction: np.ndarray, r: np.ndarray) -> np.ndarray:
    return np.asarray(p.cf(np.outer(r, direction) if p.dim > 1 else r * direction))


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
    # More than 100 nodes to the shortest wave of t below.
    x = np.linspace(-40.0, 40.0, 2**15 + 1) / setting.density.spectral_scale
    weighted = setting.response.value(x) * setting.density.pdf(x) * (x[1] - x[0])
    t = setting.density.spectral_scale * np.array([4.0, 16.0])[:, None] * np.linspace(0.8, 1.2, 9)
    log = np.log(np.abs(np.exp(1j * t[..., None] * x) @ weighted).max(axis=1))
    alpha = common_order(setting)
    return 0.5 * float((log[0] - log[1]) / (t[1].mean() ** alpha - t[0].mean() ** alpha))
