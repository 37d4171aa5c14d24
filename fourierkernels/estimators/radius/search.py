"""The minimum of a score over radii: a grid of common factors, then each dimension by itself."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import minimize, minimize_scalar

from fourierkernels.arrays import FloatArray

Score = Callable[[FloatArray], float]

# A radius is found to 1e-4: far below its random error, and far above what rounding decides.
_PRECISION = 1e-4


def minimise(
    score: Score, start: FloatArray, *, low: float, high: float, step: float
) -> tuple[FloatArray, float]:
    """Return the radius per dimension with the least score, and that score.

    First `start` times one common factor: global on the grid exp(`step` · k) within
    [`low`, `high`], refined between neighbours. Then, for D > 1, all dimensions by the simplex of
    Nelder and Mead over log R, from there: a local minimum within the same bounds per dimension.

    Returns
    -------
    radius : array of shape (dim,)
    least : float
        Infinite if every score was.
    """
    logs = np.append(np.arange(math.log(low), math.log(high), step), math.log(high))
    values = [_finite(score(start * math.exp(log))) for log in logs]
    place = int(np.argmin(values))
    if math.isinf(values[place]):
        return start, math.inf
    log, least = _refine(score, start, logs, values, place)
    if len(start) == 1:
        return start * math.exp(log), least
    return _simplex(score, start, log, (math.log(low), math.log(high)))


def _refine(
    score: Score, start: FloatArray, logs: FloatArray, values: list[float], place: int
) -> tuple[float, float]:
    """Return the minimum between the neighbours of the best place of the grid."""
    ends = float(logs[max(place - 1, 0)]), float(logs[min(place + 1, len(logs) - 1)])
    ceiling = max(value for value in values if math.isfinite(value))  # parabolas need numbers

    def value(log: float) -> float:
        return min(_finite(score(start * math.exp(log))), ceiling)

    found = minimize_scalar(value, bounds=ends, method="bounded", options={"xatol": _PRECISION})
    if found.fun < values[place]:
        return float(found.x), float(found.fun)
    return float(logs[place]), values[place]


def _simplex(
    score: Score, start: FloatArray, log: float, bounds: tuple[float, float]
) -> tuple[FloatArray, float]:
    dim = len(start)
    corners = log + 0.2 * np.vstack([np.zeros(dim), np.eye(dim)])
    corners = np.where(corners > bounds[1], corners - 0.4, corners)

    def value(logs: FloatArray) -> float:
        return _finite(score(start * np.exp(logs)))

    options: Any = {
        "initial_simplex": corners,
        "xatol": 1e-3,
        "fatol": math.inf,
        "maxfev": 60 * dim,
    }
    found: Any = minimize(
        value, np.full(dim, log), method="Nelder-Mead", bounds=[bounds] * dim, options=options
    )
    return np.asarray(start * np.exp(found.x)), float(found.fun)


def _finite(value: float) -> float:
    return value if math.isfinite(value) else math.inf
