"""Densities of known smoothness: pdf, characteristic function, sampler, smoothness class.

They are the targets for which rates are verified. To add one, write a frozen dataclass with the
members of :class:`Density`, its breaks among them, and put an instance into :data:`DENSITIES`; the
contract tests, the exact errors and the command line pick it up from there, by its name or by the
name with other parameters.
"""

from collections.abc import Callable, Sequence

from fourierkernels.foundation.validation import check_choice, lacking
from fourierkernels.theory.densities.beta import Beta
from fourierkernels.theory.densities.characteristic import (
    CharacteristicFunction,
    read_characteristic,
)
from fourierkernels.theory.densities.contract import (
    Density,
    HasComponents,
    HasEdges,
    HasFarField,
    HasMarginals,
    HasSpectralRange,
    HasSpectralTail,
    HasSpectralWindow,
    HasWaves,
    RegressionFunction,
    Smoothness,
)
from fourierkernels.theory.densities.expressions import read_density
from fourierkernels.theory.densities.mixed import Mixture, RoughMixture, mixture
from fourierkernels.theory.densities.mixtures import GaussianMixture, marron_wand
from fourierkernels.theory.densities.multivariate import CorrelatedGaussian, MultivariateMixture
from fourierkernels.theory.densities.product import Product
from fourierkernels.theory.densities.regression_functions import (
    REGRESSION_FUNCTIONS,
    additive,
    as_regression_function,
)
from fourierkernels.theory.densities.stable import Stable
from fourierkernels.theory.densities.uniform import Uniform
from fourierkernels.theory.densities.univariate import Cauchy, Gamma, Gaussian, Laplace

__all__ = [
    "DENSITIES",
    "REGRESSION_FUNCTIONS",
    "Beta",
    "Cauchy",
    "CharacteristicFunction",
    "CorrelatedGaussian",
    "Density",
    "Gamma",
    "Gaussian",
    "GaussianMixture",
    "HasComponents",
    "HasEdges",
    "HasFarField",
    "HasMarginals",
    "HasSpectralRange",
    "HasSpectralTail",
    "HasSpectralWindow",
    "HasWaves",
    "Laplace",
    "Mixture",
    "MultivariateMixture",
    "Product",
    "RegressionFunction",
    "RoughMixture",
    "Smoothness",
    "Stable",
    "Uniform",
    "additive",
    "as_density",
    "as_regression_function",
    "families",
    "marron_wand",
    "mixture",
    "read_characteristic",
]

DENSITIES: dict[str, Density] = {
    "gaussian": Gaussian(),
    "cauchy": Cauchy(),
    "laplace": Laplace(),
    "beta": Beta(),
    "gamma": Gamma(),
    **{f"mw{i}": marron_wand(i) for i in range(1, 16)},
    "correlated": CorrelatedGaussian(),
}


def families() -> dict[str, Density]:
    """Return what a text may name: registered densities, and two common names."""
    return {**DENSITIES, "normal": Gaussian(), "uniform": Uniform()}


def as_density(density: "Density | str") -> Density:
    """Return a density given itself, its name, or a text.

    A text is a name with parameters, ``"beta(2, 5)"``, a mixture, ``"0.3 normal(-2, .5) + 0.7
    laplace(1, 2)"``, or a product of one density per dimension, ``"normal × uniform"``.

    Raises
    ------
    ValueError
        If a name is unknown, parameters do not fit, or the text is neither sum nor product.
    TypeError
        If it is neither a text nor a density.

    Examples
    --------
    >>> as_density("gamma(4)").smoothness.exponent
    4.0
    """
    if isinstance(density, Density):
        return density
    if not isinstance(density, str):
        raise TypeError(
            f"density must be a density or its name, got {density!r}{lacking(Density, density)}"
        )
    name = density.strip()
    return _named(name, ()) if name.isidentifier() else read_density(density, _named)


def _named(name: str, numbers: Sequence[float]) -> Density:
    """Return a density of a text, by its name and its numbers."""
    registered = families()[check_choice("density", name, list(families()))]
    if not numbers:
        return registered
    family: Callable[..., Density] = type(registered)
    try:
        return family(*numbers)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: {error}") from None
