"""How the radius is found: a number, a bandwidth, or a rule.

To add a rule, write a function (points, weights, kernel) -> radius of shape (dim,), with responses
as a fourth argument for regression, and put a :class:`Rule` into the registry that fits:
:data:`RADIUS_RULES` for every kernel, :data:`GAUSSIAN_RULES` for the Gaussian alone,
:data:`REGRESSION_RULES` for what looks at responses.
"""

from numpy.typing import ArrayLike

from fourierkernels.arrays import FloatArray
from fourierkernels.estimators.radius.cross_validation import gcv, loo
from fourierkernels.estimators.radius.reference import normal_reference, scott, silverman
from fourierkernels.estimators.radius.rule import Rule
from fourierkernels.estimators.radius.sample import robust_scale
from fourierkernels.estimators.radius.sheather_jones import improved_sheather_jones
from fourierkernels.estimators.radius.spectral import lscv, plugin
from fourierkernels.kernels import Kernel
from fourierkernels.validation import check_choice, check_positive, check_radius

__all__ = [
    "GAUSSIAN_RULES",
    "RADIUS_RULES",
    "REGRESSION_RULES",
    "Rule",
    "choose_radius",
    "normal_reference",
    "robust_scale",
]


def _rows(*rules: Rule) -> dict[str, Rule]:
    return {rule.name: rule for rule in rules}


RADIUS_RULES: dict[str, Rule] = _rows(
    Rule(
        "normal_reference", normal_reference, "exact MISE optimum of Gaussian data", "derived here"
    ),
    Rule(
        "lscv",
        lscv,
        "least squares cross-validation, all radii from one transform",
        "rudemo1982empirical",
    ),
    Rule(
        "plugin",
        plugin,
        "exact MISE of the sample's spectrum, cut where it is noise",
        "chiu1992automatic",
    ),
)

GAUSSIAN_RULES: dict[str, Rule] = _rows(
    Rule(
        "silverman",
        silverman,
        "asymptotic optimum of Gaussian data",
        "silverman1986density",
        gaussian_only=True,
    ),
    Rule(
        "scott", scott, "the same without the constant", "scott1992multivariate", gaussian_only=True
    ),
    Rule(
        "improved_sheather_jones",
        improved_sheather_jones,
        "fixed point of seven plug-in stages, D = 1",
        "botev2010kernel",
        gaussian_only=True,
    ),
)

REGRESSION_RULES: dict[str, Rule] = _rows(
    Rule("loo", loo, "leave-one-out error", "hardle1985optimal", needs_responses=True),
    Rule("gcv", gcv, "generalised cross-validation", "craven1979smoothing", needs_responses=True),
)


def choose_radius(
    points: FloatArray,
    weights: FloatArray,
    kernel: Kernel,
    *,
    radius: ArrayLike | str | None,
    bandwidth: ArrayLike | None,
    responses: FloatArray | None = None,
) -> FloatArray:
    """Return the radius per dimension, shape ``(dim,)``.

    Parameters
    ----------
    points : array of shape (n, dim)
    weights : array of shape (n,)
    responses : array of shape (n,) or (n, k), optional
        Of a regression; the rules of :data:`REGRESSION_RULES` need them.

    Raises
    ------
    ValueError
        If both `radius` and `bandwidth` are given, either is not positive and finite, or the rule
        is unknown or does not apply to the data or the kernel.
    """
    dim = points.shape[1]
    if radius is not None and bandwidth is not None:
        raise ValueError(f"radius and bandwidth exclude each other, got {radius} and {bandwidth}")
    if bandwidth is not None:
        return check_radius(1.0 / check_positive("bandwidth", bandwidth), dim)
    if radius is None or isinstance(radius, str):
        known = RADIUS_RULES | GAUSSIAN_RULES | REGRESSION_RULES
        name = check_choice("radius", radius or "normal_reference", list(known))
        return known[name](points, weights, kernel, responses)
    return check_radius(radius, dim)
