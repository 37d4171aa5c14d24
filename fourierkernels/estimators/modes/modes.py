"""The modes of a density estimate, and which samples belong to each."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fourierkernels.estimators.density import KernelDensity
from fourierkernels.estimators.modes.ascent import climb
from fourierkernels.estimators.modes.critical import Extrema, curve_of, extrema, search_range
from fourierkernels.estimators.modes.names import without_names
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import check_number


@dataclass(frozen=True)
class Modes:
    """Local maxima of a density estimate, the highest first.

    Attributes
    ----------
    points : array of shape (k, dim)
    densities : array of shape (k,)
    labels : integer array of shape (n,)
        The mode whose basin each sample lies in, a clustering; -1 for samples that lead to none:
        to a maximum below the floor, or a saddle.
    """

    points: FloatArray
    densities: FloatArray
    labels: NDArray[np.intp]

    def __len__(self) -> int:
        """Return the number of modes."""
        return len(self.densities)


def modes(model: KernelDensity, *, floor: float = 0.01) -> Modes:
    """Return the local maxima of a fitted density, with the basin of each sample.

    In one dimension all of them, by sign changes of the exact derivative on a grid that the band
    limit justifies: what it could miss is a maximum that rises by less than 1e-7 of the largest
    density above the minimum beside it. A basin reaches from the lowest point on one side of its
    mode to that on the other. A bound where the density falls inwards is a mode.

    In more dimensions the maxima that a gradient ascent from some sample reaches, saddle points
    excluded. For the Gaussian the ascent is mean shift [comaniciu2002mean]_; for powers of sinc,
    whose side lobes leave mean shift undefined, its steps are shortened until they climb.

    Parameters
    ----------
    model : KernelDensity
    floor : float
        Share of the largest density, from 0 to 1. Maxima below it are left out: side lobes of
        sinc^l make ripples around a sample, of 4.7 % of its peak for l = 2 and 0.2 % for l = 4.

    Raises
    ------
    ValueError
        If the floor is out of range; in one dimension, if the range of the samples has more than
        a million bandwidths.

    Examples
    --------
    >>> x = np.array([[-2.0], [-1.9], [-2.1], [3.0], [3.2]])
    >>> found = modes(KernelDensity("gaussian", bandwidth=0.5).fit(x))
    >>> found.points[:, 0].round(3), found.labels
    (array([-2. ,  3.1]), array([0, 0, 0, 1, 1]))
    """
    model = without_names(model)
    share = check_number("floor", floor)
    if not 0.0 <= share < 1.0:
        raise ValueError(f"floor must be at least 0 and below 1, got {floor}")
    search = _on_line if len(model.radius_) == 1 else _in_space
    return search(model, share)


def _on_line(model: KernelDensity, floor: float) -> Modes:
    within = search_range(model, 1.0 / float(model.radius_[0]))
    found = extrema(curve_of(model), within, floor=floor)
    highest = float(found.densities[found.maxima].max(initial=0.0))
    peaks = found.maxima & (found.densities >= floor * highest)
    order = np.argsort(-found.densities[peaks], kind="stable")
    rank = np.argsort(order)  # of the modes from left to right
    basin = np.searchsorted(_boundaries(found, np.flatnonzero(peaks)), model.points_[:, 0])
    points = found.points[peaks][order]
    labels = rank[basin] if peaks.any() else np.full(len(basin), -1)
    return Modes(points[:, None], found.densities[peaks][order], labels)


def _boundaries(found: Extrema, peaks: NDArray[np.intp]) -> FloatArray:
    """Return the lowest minimum between each mode and the next."""
    between = pairwise(peaks)
    return np.array([found.points[a + np.argmin(found.densities[a:b])] for a, b in between])


def _in_space(model: KernelDensity, floor: float) -> Modes:
    starts, place = np.unique(model.points_, axis=0, return_inverse=True)
    found = climb(model, starts)
    order = np.argsort(-found.densities, kind="stable")
    high = found.densities[order] >= floor * found.densities.max(initial=0.0)
    number = np.full(len(order) + 1, -1)  # the last entry serves the label -1
    number[order[high]] = np.arange(high.sum())
    labels = number[found.reached[place.ravel()]]
    kept = order[high]
    return Modes(found.points[kept], found.densities[kept], labels)
