"""|φ_n|² integrated against products, from the pairs of samples: for more than three columns.

(2π)^{-D} ∫ |φ_n(t)|² ∏_d f_d(t_d) dt = Σ_ij p_i p_j ∏_d G_d(x_id - x_jd) with the cosine transforms
G_d(δ) = (1/π) ∫_0^∞ f_d(t) cos(t δ) dt, so that no grid of frequencies is needed.
"""

import math

import numpy as np
from scipy.interpolate import CubicSpline

from fourierkernels.estimators.radius.sample import Sample
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.sums.spectrum import Axis, Factor

_MOST = 2**26  # gaps held at once
_PROBES = np.linspace(0.05, 0.95, 7)  # of the end of a factor: where two are compared
_PHASE = 8.0  # panel length times largest gap, for which 16 nodes integrate to rounding
_COARSE, _FINE = 0.1, 16  # step of the table in 1/frequency, and how often the spline divides it


class PairSpectrum:
    """The same as `SampleSpectrum`, from gaps: O(n² D) for each integral, in any dimension.

    Raises
    ------
    ValueError
        For more than 2^26 gaps, or a column that is a circle.
    """

    def __init__(self, sample: Sample, ends: FloatArray, *, rule: str) -> None:
        n, dim = sample.points.shape
        if n * (n - 1) // 2 * dim > _MOST:
            raise ValueError(
                f"X must have at most {math.isqrt(2 * _MOST // dim)} samples in {dim} columns for "
                f"radius={rule!r}, which sums over pairs in more than 3 columns, got {n}; use "
                "'normal_reference' or give radius as a number"
            )
        if sample.periods is not None:
            raise ValueError(
                f"period must be None in more than 3 columns for radius={rule!r}, got {dim} columns"
            )
        one, other = np.triu_indices(n, 1)
        self.size, self.ends = sample.size, ends
        self.periods = np.full(dim, math.inf)
        self._gaps = np.abs(sample.points[one] - sample.points[other]).T.copy()
        self._reach = float(self._gaps.max(initial=0.0))
        self._shares = 2.0 * sample.weights[one] * sample.weights[other]
        self._own = float(sample.weights @ sample.weights)

    def integral(self, factors: list[Factor]) -> float:
        """Return (2π)^{-D} ∫ |φ_n(t)|² ∏_d f_d(t_d) dt, one factor per dimension."""
        total, own, tables = self._shares.copy(), self._own, {}
        for gaps, (function, knots) in zip(self._gaps, factors, strict=True):
            key = knots.tobytes(), function(_PROBES * knots[-1]).tobytes()
            if key not in tables:  # columns often have one factor
                tables[key] = _cosine_transform((function, knots), self._reach)
            places, values = tables[key]
            total *= np.interp(gaps, places, values)
            own *= float(values[0])
        return float(total.sum() + own)


def _cosine_transform(factor: Factor, reach: float) -> tuple[FloatArray, FloatArray]:
    """Return G on a fine grid of gaps up to `reach`."""
    end = float(factor[1][-1])
    count = max(8, math.ceil(end * reach / _COARSE))
    places = np.linspace(0.0, max(reach, 8 * _COARSE / end), count + 1)
    panels = max(8, math.ceil(end * places[-1] / _PHASE))
    axis = Axis(end / panels, panels, mirrored=False)
    values = np.cos(np.outer(places, axis.nodes)) @ axis.weights(factor)
    fine = np.linspace(0.0, places[-1], _FINE * count + 1)
    return fine, np.asarray(CubicSpline(places, values)(fine))
