"""The choice of the radius: a number, a bandwidth, or a rule.

To add a rule, write a function (points, weights, kernel) -> radius of shape (dim,), or a matrix of
shape (dim, dim), and a :class:`Rule` in `RULES` of the same file. A rule of regression takes two
arguments more, responses and the function that fits a smoother at its design points. Rows appear in
the registry that fits: :data:`RADIUS_RULES` for every kernel, :data:`GAUSSIAN_RULES` for the
Gaussian alone, :data:`REGRESSION_RULES` for what looks at responses.

How rules compare on densities of known error, for five kernels and beside the defaults of other
libraries, is measured by ``experiments/kernel_rules.py``. The default, "normal_reference", is best
for data close to normal; "plugin" is better on average over the densities tried.
"""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fourierkernels.estimators.checks import TiedDataWarning, warn_of_copies
from fourierkernels.estimators.design import FitRows, nadaraya_watson_design
from fourierkernels.estimators.radius import (
    conditional,
    cross_validation,
    matrix,
    reference,
    sheather_jones,
    spectral,
)
from fourierkernels.estimators.radius.matrix import check_matrix
from fourierkernels.estimators.radius.reference import normal_reference
from fourierkernels.estimators.radius.rule import Rule
from fourierkernels.estimators.radius.sample import robust_scale
from fourierkernels.estimators.weights import SampleRows, check_size, whole_rows
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import check_choice, check_positive, check_radius
from fourierkernels.kernels import Kernel

__all__ = [
    "CONDITIONAL_RULES",
    "GAUSSIAN_RULES",
    "RADIUS_RULES",
    "REGRESSION_RULES",
    "Rule",
    "TiedDataWarning",
    "choose_radius",
    "normal_reference",
    "of_distinct",
    "radius_or_rule",
    "robust_scale",
]


_RULES = (
    *reference.RULES,
    *spectral.RULES,
    *sheather_jones.RULES,
    *cross_validation.RULES,
    *matrix.RULES,
)

RADIUS_RULES: dict[str, Rule] = {
    rule.name: rule for rule in _RULES if not (rule.gaussian_only or rule.needs_responses)
}
GAUSSIAN_RULES: dict[str, Rule] = {rule.name: rule for rule in _RULES if rule.gaussian_only}
REGRESSION_RULES: dict[str, Rule] = {rule.name: rule for rule in _RULES if rule.needs_responses}
#: Rules of conditional densities, whose radius is that of x and y together.
CONDITIONAL_RULES: dict[str, Rule] = {rule.name: rule for rule in conditional.RULES}


def choose_radius(
    points: FloatArray,
    weights: FloatArray,
    kernel: Kernel,
    *,
    radius: ArrayLike | str | None,
    bandwidth: ArrayLike | None,
    responses: FloatArray | None = None,
    weighting: str = "frequency",
    fit_design: FitRows = nadaraya_watson_design,
    periods: FloatArray | None = None,
) -> FloatArray:
    """Return the radius per dimension, shape ``(dim,)``, or a matrix ``(dim, dim)``.

    Parameters
    ----------
    points : array of shape (n, dim)
    weights : array of shape (n,)
        As fitted, see `fourierkernels.estimators.weights`.
    responses : array of shape (n,) or (n, k), optional
        Of a regression; the rules of :data:`REGRESSION_RULES` need them.
    weighting : {"frequency", "precision", "importance"}
        Meaning of the weights. A rule sees distinct rows, and warns if some were repeated.
    fit_design : callable
        (points, weights, responses, kernel, radius, weighting=...) to the fit of the smoother whose
        radius this is, at its design points.
    periods : array of shape (dim,), optional
        Of columns that are circles, infinite for lines.

    Raises
    ------
    ValueError
        If both `radius` and `bandwidth` are given, either is not positive and finite, a matrix is
        singular or nearly so, or the rule is unknown or does not apply to the data or the kernel.
    """
    chosen = radius_or_rule(points.shape[1], radius=radius, bandwidth=bandwidth)
    if not isinstance(chosen, Rule):
        return chosen
    return of_distinct(chosen, points, weights, kernel, responses, weighting, fit_design, periods)


def of_distinct(
    rule: Rule,
    points: FloatArray,
    weights: FloatArray,
    kernel: Kernel,
    responses: FloatArray | None,
    weighting: str,
    fit_design: FitRows,
    periods: FloatArray | None = None,
) -> FloatArray:
    """Return the radius by a rule for the distinct rows, and say if rows were repeated."""
    rule.check(kernel, responses)
    columns = whole_rows(points, responses)
    rows = SampleRows.of(columns, weights, weighting)
    first, joint = rows.distinct
    if len(joint) > 1:
        check_size(weights)  # shares that were taken for frequencies
        warn_of_copies(rows, weighting, rule.name)
    if rows.place is not None or (joint != 1.0).any():  # however copies are given, one order
        order = np.lexsort(columns[first].T)
        first, joint = np.arange(len(points))[first][order], joint[order]
    if responses is None:
        return rule(points[first], joint, kernel, periods=periods)
    fit = partial(fit_design, weighting=rows.meaning)
    return rule(points[first], joint, kernel, responses[first], fit, periods)


def radius_or_rule(
    dim: int, *, radius: ArrayLike | str | None, bandwidth: ArrayLike | None
) -> FloatArray | Rule:
    """Return the radius that is given, shape ``(dim,)``, or the rule that is to find it.

    Raises
    ------
    ValueError
        As :func:`choose_radius`.
    """
    if radius is not None and bandwidth is not None:
        raise ValueError(f"radius and bandwidth exclude each other, got {radius} and {bandwidth}")
    if bandwidth is not None:
        if np.ndim(bandwidth) == 2:
            return _as_vector(np.linalg.inv(check_matrix("bandwidth", bandwidth, dim)))
        return check_radius(1.0 / check_positive("bandwidth", bandwidth), dim)
    if radius is None or isinstance(radius, str):
        known = RADIUS_RULES | GAUSSIAN_RULES | REGRESSION_RULES
        return known[check_choice("radius", radius or "normal_reference", list(known))]
    if np.ndim(radius) == 2:
        return _as_vector(check_matrix("radius", radius, dim))
    return check_radius(radius, dim)


def _as_vector(matrix: NDArray[np.floating[Any]]) -> FloatArray:
    """Return a copy of the matrix, that of one column as the vector that it is."""
    return np.array(np.abs(matrix[0]) if len(matrix) == 1 else matrix, dtype=np.float64)
