"""Default bandwidths of other libraries for the Gaussian kernel, as formulas, in one dimension.

The constants are those of R's ``bw.nrd0``, ``bw.nrd`` and ``bw.SJ``, of statsmodels'
``bw_normal_reference`` and of KDEpy's and scikit-learn's constructors. SciPy's default is the
package's rule ``"scott"``, KDEpy's ISJ its ``"improved_sheather_jones"``.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.sums.spectrum import Axis, empirical_transform, fitted_axis

_NEGLIGIBLE = 10.0  # t^6 exp(-t²/2) is below 1e-15 of its maximum beyond
_PHASE = 8.0  # panel length times range of data, which 16 nodes integrate to rounding
_LEAST = 0.02  # smallest bandwidth looked at, in the largest that R starts with


@dataclass(frozen=True)
class Peer:
    """A rule of another library.

    Attributes
    ----------
    function : callable
        Samples of shape ``(n,)`` to the bandwidth h = 1/R.
    source : str
        Key of book/references.bib.
    """

    name: str
    function: Callable[[FloatArray], float]
    source: str


def _spread(x: FloatArray, quartiles: float) -> float:
    """Return min(s, IQR/`quartiles`), s with divisor n - 1."""
    low, high = np.quantile(x, (0.25, 0.75))
    return min(float(x.std(ddof=1)), float(high - low) / quartiles)


class PairMeans:
    """Means over all pairs of derivatives of the Gaussian, ψ_r(h) = Σ_ij φ_h^(r)(x_i - x_j)/n².

    In frequency, i^r (2π)^{-1} ∫ t^r |φ_n(t)|² exp(-h²t²/2) dt, from one transform for all h from
    `least` on. R puts the samples into 1,000 bins and sums over pairs of these.
    """

    def __init__(self, x: FloatArray, least: float) -> None:
        reach = float(np.ptp(x))
        axis: Axis = fitted_axis(_NEGLIGIBLE / least, reach, _PHASE, mirrored=False)
        centred = (x - 0.5 * (x.min() + x.max()))[:, None]
        values = empirical_transform(centred, np.full(len(x), 1.0 / len(x)), [axis], accuracy=1e-12)
        weights = axis.weights((np.ones_like, np.array([_NEGLIGIBLE / least])))
        self._nodes, self._power = axis.nodes, weights * np.abs(values) ** 2

    def __call__(self, order: int, h: float) -> float:
        """Return ψ_r(h) for an even r."""
        smooth = self._nodes**order * np.exp(-0.5 * np.square(h * self._nodes))
        return (-1.0) ** (order // 2) * float(np.einsum("k,k", self._power, smooth))


def sheather_jones(x: FloatArray) -> float:
    """Return R's ``bw.SJ(x, method = "ste")``, with sums over the samples, not over bins.

    The root of h = (2√π n S(g(h)))^{-1/5}, g(h) = 1.357 (S(a)/T(b))^{1/7} h^{5/7}, where S and -T
    are ψ_4 and ψ_6 times n/(n - 1). Source: [sheather1991reliable]_.

    Raises
    ------
    ValueError
        If there is no root between a fiftieth and twice the bandwidth at which R begins.
    """
    n, scale = len(x), _spread(x, 1.349)
    first, second = 1.24 * scale * n ** (-1 / 7), 1.23 * scale * n ** (-1 / 9)
    top = 1.144 * scale * n**-0.2
    unbiased = n / (n - 1.0)
    pilot = PairMeans(x, min(first, second))
    ratio = pilot(4, first) / -pilot(6, second)
    if not ratio > 0:
        raise ValueError(f"x must give a positive ratio of its two pilots, got {ratio}")
    constant = 1.357 * ratio ** (1 / 7)
    means = PairMeans(x, constant * (_LEAST * top) ** (5 / 7))

    def excess(h: float) -> float:
        curvature = unbiased * means(4, constant * h ** (5 / 7))
        return math.pow(2.0 * math.sqrt(math.pi) * n * curvature, -0.2) - h

    if excess(_LEAST * top) * excess(2.0 * top) > 0:
        raise ValueError(f"x must give a root between {_LEAST * top:.3g} and {2 * top:.3g}")
    return float(brentq(excess, _LEAST * top, 2.0 * top, xtol=1e-10 * top))


PEERS = (
    Peer("R nrd0", lambda x: 0.9 * _spread(x, 1.34) * len(x) ** -0.2, "rcore_bandwidth"),
    Peer("R nrd", lambda x: 1.06 * _spread(x, 1.34) * len(x) ** -0.2, "rcore_bandwidth"),
    Peer("R SJ", sheather_jones, "sheather1991reliable"),
    Peer(
        "statsmodels normal_reference",
        lambda x: (4 / 3) ** 0.2 * _spread(x, 1.349) * len(x) ** -0.2,
        "statsmodels_bandwidths",
    ),
    Peer("h = 1", lambda x: 1.0, "kdepy_bandwidth"),
)
