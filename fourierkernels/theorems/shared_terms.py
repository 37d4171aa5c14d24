"""Terms that several theorems share: the variance, and the sharp rates of a setting."""

from fourierkernels.theory.rates import Rate, sharp_rate, sharp_regression_rate
from fourierkernels.theory.setting import Setting


def variance(setting: Setting, n: float, radius: float) -> float:
    """Return R^D/n."""
    return float(radius**setting.dim) / n


def sharp_density(setting: Setting) -> Rate:
    """Return the sharp rate of the integrated error of a density."""
    return sharp_rate(setting.density, setting.kernel, dim=setting.dim)


def sharp_regression(setting: Setting) -> Rate:
    """Return the sharp rate of the mean squared error of a regression at a point."""
    return sharp_regression_rate(setting.density, setting.response, setting.kernel, dim=setting.dim)
