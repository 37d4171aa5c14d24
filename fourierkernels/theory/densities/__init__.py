"""Densities of known smoothness: pdf, characteristic function, sampler, smoothness class.

They are the targets for which rates are verified. To add one, write a frozen dataclass with the
members of :class:`Density`, its breaks among them, and put an instance into :data:`DENSITIES`; the
contract tests, the exact errors and the command line pick it up from there, by its name or by the
name with other parameters.
"""

import re
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
    if re.search(r"[+×*]\s*[\d.(A-Za-z]|^\s*[\d.(]", re.sub(r"\(.*?\)", "()", density)):
        return read_density(density, _named)
    match = re.fullmatch(r"(\w+)\s*\(([^()]*)\)", density.strip())
    name = density if match is None else match[1]
    registered = as_density(families()[check_choice("density", name, list(families()))])
    return registered if match is None else _member(registered, density, match[2].split(","))


def _named(name: str, numbers: Sequence[float]) -> Density:
    """Return a density of a text, by its name and its numbers."""
    registered = families()[check_choice("density", name, list(families()))]
    return _member(registered, name, [repr(x) for x in numbers]) if numbers else registered


def _member(registered: Density, density: str, numbers: Sequence[str]) -> Density:
    """Return the density of the same family with other parameters."""
    family: Callable[..., Density] = type(registered)
    try:
        return family(*map(_number, numbers))
    except (TypeError, ValueError) as error:
        rule = f"density must be a family with its numbers, got {density!r}"
        raise ValueError(f"{rule}: {error}") from None


def _number(text: str) -> float:
    return int(text) if text.strip().lstrip("+-").isdecimal() else float(text)
