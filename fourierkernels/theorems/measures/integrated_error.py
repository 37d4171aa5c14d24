"""The mean integrated squared error of a density: exact, so that nothing is simulated."""

from collections.abc import Sequence

import numpy as np

from fourierkernels.theorems.measures.measure import Bound, ErrorMeasure, Measured, decades
from fourierkernels.theory.mise import mise
from fourierkernels.theory.optimum import optimum
from fourierkernels.theory.setting import Setting


def exact_mise(setting: Setting, sizes: Sequence[int]) -> Measured:
    """Return the exact MISE at its best radius."""
    best = [optimum(setting.density, setting.kernel, n=n, dim=setting.dim) for n in sizes]
    radii, errors = [b.radius for b in best], [b.mise.total for b in best]
    return Measured(np.array(sizes, float), np.array(radii), np.array(errors), None, "exact MISE")


def mise_at(setting: Setting, n: float, radius: float) -> float:
    """Return the exact MISE at a radius."""
    return mise(setting.density, setting.kernel, n=int(n), radius=radius, dim=setting.dim).total


def _over_bound(bound: Bound, setting: Setting, n: float, radius: float) -> float:
    return mise_at(setting, n, radius) / bound(setting, n, radius)


INTEGRATED_ERROR = ErrorMeasure(
    name="mean integrated squared error",
    about_regression=False,
    compute=exact_mise,
    sizes=decades(6, 14),
    log_sizes=decades(6, 14),
    over_bound=_over_bound,
    factors=tuple(np.geomspace(0.25, 4.0, 9).tolist()),
)
