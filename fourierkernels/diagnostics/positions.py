"""The part of a map that position explains: offsets from query to key, and the first key.

Of all maps with a head's row sums, totals of offsets and total on the first key, the one of largest
entropy is P_ij = r_i w_c(i, j) u_j, c the offset's class and u one but for the first key. It is the
fit of a conditional logit, whose convex negative log likelihood Newton's method minimises: where a
class takes nearly all of its rows, proportional fitting would need any number of rounds.
Scores that add up a bias of the offset and one of the first key give maps of this form.
"""

import numpy as np

from fourierkernels.diagnostics.maps import InapplicableError
from fourierkernels.foundation.arrays import BoolArray, FloatArray, IntArray

_ROUNDS, _FITTED = 200, 1e-11  # of Newton's method; when totals are met, a share of a row
_ENOUGH = 1e-7  # where rounding keeps a step from going down: as single precision is off
_FLOOR = 1e-13  # curvature, in rows, below which a class is left as it is
_HALVINGS = 40


def position_classes(places: FloatArray) -> IntArray:
    """Return the class of every query and key ``(n, n)``: their offset.

    Parameters
    ----------
    places : ndarray, shape (n, dim)
        Where tokens are: their number in a text, row and column of a patch.
    """
    classes = np.zeros(2 * (len(places),), dtype=np.int64)
    for axis in places.T:
        steps = np.unique(axis - axis[:, None], return_inverse=True)[1].reshape(classes.shape)
        classes = classes * (int(steps.max()) + 1) + steps
    return np.unique(classes, return_inverse=True)[1].reshape(classes.shape)


def mean_positions(maps: FloatArray, visible: BoolArray, classes: IntArray) -> FloatArray:
    """Return maps ``(H, n, m)`` of the same row sums, totals of classes and total on the first key.

    Parameters
    ----------
    maps : ndarray, shape (H, n, m)
        Not negative.
    visible : ndarray of bool, shape (n, m)
    classes : ndarray of int, shape (n, m)
        Numbers from 0; a row has one key of each at most.

    Raises
    ------
    InapplicableError
        If the totals of a head are not met to 1e-7 of a row.

    Examples
    --------
    >>> causal, offsets = np.tri(2, dtype=bool), np.array([[1, 2], [0, 1]])
    >>> mean_positions(np.array([[[1.0, 0.0], [0.5, 0.5]]]), causal, offsets).round(3)
    array([[[1. , 0. ],
            [0.5, 0.5]]])
    """
    return np.stack([_Fit(np.where(visible, one, 0.0), visible, classes).mean() for one in maps])


class _Fit:
    """The fit of one head, in logarithms of w (and of u, the last)."""

    def __init__(self, head: FloatArray, visible: BoolArray, classes: IntArray) -> None:
        totals = np.bincount(classes.ravel(), head.ravel(), int(classes.max()) + 1)
        first = float(head[:, 0].sum())
        self.visible = visible & (totals > 0)[classes]
        self.visible[:, 0] &= first > 0
        self.sums = head.sum(axis=-1)  # (n,)
        number = np.maximum(np.cumsum(totals > 0) - 1, 0)  # of the classes that have weight
        self.classes = number[classes]
        self.totals = np.append(totals[totals > 0], first)
        counts = np.bincount(self.classes[self.visible], minlength=len(self.totals) - 1)
        self.logs = np.append(np.log(self.totals[:-1] / np.maximum(counts, 1)), 0.0)

    def mean(self) -> FloatArray:
        """Return the map of largest entropy, ``(n, m)``."""
        if not self.sums.any():
            return np.zeros(self.visible.shape)
        for _ in range(_ROUNDS):
            shares, value = self._at(self.logs)
            placed = self._by_class(shares)
            gaps = self.sums @ placed - self.totals
            if np.abs(gaps).max() <= _FITTED * max(1.0, float(self.sums.max())):
                break
            if not self._moved(self._step(placed, gaps), gaps, value):
                break
        worst = float(np.abs(gaps).max())
        if worst > _ENOUGH:
            raise InapplicableError(
                f"the control position needs maps whose totals of offsets can be met, got totals "
                f"off by {worst:.1g} of a row"
            )
        mean: FloatArray = self.sums[:, None] * shares
        return mean

    def _at(self, logs: FloatArray) -> tuple[FloatArray, float]:
        """Return what each row gives to each key, ``(n, m)``, and the negative log likelihood."""
        scores = np.where(self.visible, logs[:-1][self.classes], -np.inf)
        scores[:, 0] += logs[-1]
        most = scores.max(axis=-1, keepdims=True)
        most = np.where(np.isfinite(most), most, 0.0)
        shares = np.exp(scores - most)
        total = shares.sum(axis=-1, keepdims=True)
        total = np.where(total > 0, total, 1.0)
        norms = (most + np.log(total))[:, 0]
        return shares / total, float(self.sums @ norms - self.totals @ logs)

    def _by_class(self, shares: FloatArray) -> FloatArray:
        """Return what each row gives to each class, and to the first key, ``(n, C + 1)``."""
        rows = np.arange(len(shares))[:, None]
        count = len(self.totals)
        cells = (rows * count + self.classes).ravel()
        flat: FloatArray = np.asarray(
            np.bincount(cells, shares.ravel(), len(shares) * count), dtype=np.float64
        )
        placed = flat.reshape(-1, count)
        placed[:, -1] = shares[:, 0]
        return placed

    def _step(self, placed: FloatArray, gaps: FloatArray) -> FloatArray:
        curvature = -(placed.T * self.sums) @ placed
        sizes = self.sums @ placed
        at_first = np.bincount(self.classes[:, 0], self.sums * placed[:, -1], len(sizes))
        curvature[:, -1] += at_first
        curvature[-1] += at_first
        curvature[np.diag_indices_from(curvature)] += sizes
        scale = 1 / np.sqrt(sizes + _FLOOR)
        scaled = curvature * scale[:, None] * scale
        # All logarithms may be shifted together, and a class with all of a row has no end.
        scaled[np.diag_indices_from(scaled)] += 1e-10
        step: FloatArray = -scale * np.linalg.solve(scaled, scale * gaps)
        return step

    def _moved(self, step: FloatArray, gaps: FloatArray, value: float) -> bool:
        """Take the longest step of those halved that goes down; tell whether there was one."""
        slope, length = float(step @ gaps), min(1.0, 8.0 / float(np.abs(step).max()))
        rounding = 1e-14 * max(1.0, abs(value))
        for _ in range(_HALVINGS):
            if self._at(self.logs + length * step)[1] <= value + 1e-4 * length * slope + rounding:
                self.logs = self.logs + length * step
                return True
            length /= 2
        return False
