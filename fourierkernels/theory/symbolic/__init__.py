"""Derivations carried out by computer algebra: constants, transforms, expansions, best radii.

Nothing here is quoted: every formula is the result of an integration, a limit or an equation that
runs when it is asked for. The numeric code of the package computes the same facts another way, and
the tests compare the two.
"""

from fourierkernels.foundation.extras import needed_for

with needed_for("fourierkernels.theory.symbolic"):
    import sympy  # noqa: F401

from fourierkernels.theory.symbolic.asymptotics import Asymptotics, asymptotics
from fourierkernels.theory.symbolic.expansion import (
    RegressionExpansion,
    expansion,
    regression_bias,
    regression_variance,
)
from fourierkernels.theory.symbolic.formula import Balance, Formula, balance
from fourierkernels.theory.symbolic.integral import (
    Reproduction,
    band_identity,
    dirichlet_integral,
    reproduction,
    wave_response,
)
from fourierkernels.theory.symbolic.spectra import SPECTRA, Spectrum
from fourierkernels.theory.symbolic.splines import (
    constant,
    constant_series,
    flatness,
    order,
    roughness,
    second_moment,
    transform,
    uniform_sum,
)

__all__ = [
    "SPECTRA",
    "Asymptotics",
    "Balance",
    "Formula",
    "RegressionExpansion",
    "Reproduction",
    "Spectrum",
    "asymptotics",
    "balance",
    "band_identity",
    "constant",
    "constant_series",
    "dirichlet_integral",
    "expansion",
    "flatness",
    "order",
    "regression_bias",
    "regression_variance",
    "reproduction",
    "roughness",
    "second_moment",
    "transform",
    "uniform_sum",
    "wave_response",
]
