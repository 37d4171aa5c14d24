"""An estimate on a grid: where it is evaluated, its values, and their picture."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import RegressorMixin

from fourierkernels.estimators.boxes import Bounds, check_ends
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import check_integer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LENGTHS = {1: 512, 2: 512, 3: 64}  # of the axes, by default
_MARGIN = 3.0  # bandwidths of the grid of a density beyond the samples
_MOST = 2**26  # places: half a gigabyte of values


@dataclass(frozen=True)
class Gridded:
    """An estimate where the values of axes meet.

    Attributes
    ----------
    axes : tuple of dim arrays
        The values of each column, equally spaced.
    values : array of shape (length of each axis, and what the estimate has at one query)
    columns : tuple of dim str
    label : str
        What the values are.
    """

    axes: tuple[FloatArray, ...]
    values: FloatArray
    columns: tuple[str, ...]
    label: str

    def figure(self) -> "Figure":
        """Draw a curve over one axis, or a map with contours over two.

        Raises
        ------
        ValueError
            For more axes than two, or several values at a query.
        ImportError
            If matplotlib is missing.
        """
        from fourierkernels.plotting import plot_grid

        if self.values.shape != tuple(map(len, self.axes)) or len(self.axes) > 2:
            raise ValueError(
                "a figure must have one or two axes and one value at each place, got values of "
                f"shape {self.values.shape} over {len(self.axes)} axes"
            )
        return plot_grid(self.axes, self.values, columns=self.columns, label=self.label)


def model_axes(
    model: Any, points: int | Sequence[int] | None, within: Bounds | None
) -> tuple[FloatArray, ...]:
    """Return the axes of a grid for a fitted estimator.

    By default they cover the range of the samples, for a density three bandwidths more, within the
    bounds; a whole circle; after a fit to a stream, the range that it was summed for.

    Raises
    ------
    ValueError, TypeError
        As :func:`axes_over`, and for `within` that is no pair per dimension.
    """
    asked = check_ends(within, len(model.radius_), "within")
    if np.isfinite(asked).all():
        return axes_over(asked[0], asked[1], points)
    if "modes_" in vars(model):
        seen = np.array(model.modes_.grid.box)
    else:
        margin = 0.0 if isinstance(model, RegressorMixin) else _MARGIN
        seen = beyond(model.points_, model.radius_, margin)
    circles = np.stack([np.zeros_like(model.periods_), model.periods_])
    seen = np.where(np.isfinite(model.periods_), circles, np.clip(seen, *model.bounds_))
    low, high = np.where(np.isfinite(asked), asked, seen)
    return axes_over(low, high, points)


def gridded(model: Any, axes: tuple[FloatArray, ...], values: FloatArray) -> Gridded:
    """Return what an estimator gives at the meeting places of axes, with the names it knows."""
    names = getattr(model, "feature_names_in_", [f"x{d}" for d in range(len(axes))])
    label = "fit" if isinstance(model, RegressorMixin) else "density"
    shaped = values.reshape(*map(len, axes), *values.shape[1:])
    return Gridded(axes, shaped, tuple(map(str, names)), label)


def axes_over(
    low: FloatArray, high: FloatArray, points: int | Sequence[int] | None
) -> tuple[FloatArray, ...]:
    """Return equally spaced axes from `low` to `high`, shape ``(dim,)`` each.

    Raises
    ------
    ValueError, TypeError
        For a dimension above 3, lengths that are no integers of at least 2 or not one per
        dimension, and for more than 2^26 places.
    """
    dim = len(low)
    if dim not in LENGTHS:
        raise ValueError(f"X must have at most 3 columns for a grid, got {dim}")
    given = LENGTHS[dim] if points is None else points
    lengths = list(given) if isinstance(given, Sequence) else [given] * dim
    lengths = [check_integer("points", each, least=2) for each in lengths]
    if len(lengths) != dim:
        raise ValueError(f"points must be one number or {dim}, one per column, got {points!r}")
    if math.prod(lengths) > _MOST:
        raise ValueError(f"points must make at most {_MOST:,} places, got {points!r} ({dim} axes)")
    ends = zip(low, high, lengths, strict=True)
    return tuple(np.linspace(start, stop, count) for start, stop, count in ends)


def beyond(points: FloatArray, radius: FloatArray, bandwidths: float) -> FloatArray:
    """Return the range of points and so many bandwidths more, lower and upper ends ``(2, dim)``."""
    inverse = np.linalg.inv(radius) if radius.ndim == 2 else np.diag(1.0 / radius)
    margin = bandwidths * np.linalg.norm(inverse, axis=1)
    return np.stack([points.min(axis=0) - margin, points.max(axis=0) + margin])


def meeting_places(axes: Sequence[FloatArray]) -> FloatArray:
    """Return all combinations of the values of the axes, the last one changing most quickly."""
    places = np.meshgrid(*axes, indexing="ij", copy=False)
    return np.stack(places, axis=-1).reshape(-1, len(axes))
