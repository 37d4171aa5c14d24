"""The part of a map that position explains: offsets from query to key, and the first key.

Of all maps with a head's row sums, totals of offsets and total on the first key, the one of largest
entropy is P_ij = a_i w_c(i, j) u_j, c the offset's class and u one but for the first key. It is the
fit of a conditional logit, whose convex negative log likelihood Newton's method minimises: where a
class takes nearly all of its rows, proportional fitting would need any number of rounds.
Scores that add up a bias of the offset and one of the first key give maps of this form.

Each class shares its total out over its rows, whatever a and u are, so that n + 1 unknowns are left
instead of one for each class, of which a text has up to twice as many. Heads are fitted side by
side: maps of a text are small, and a head at a time most time would pass between the operations.
"""

from dataclasses import dataclass, replace

import numpy as np

from fourierkernels.diagnostics.maps import InapplicableError
from fourierkernels.foundation.arrays import BoolArray, FloatArray, IntArray

_ROUNDS, _FITTED = 200, 1e-11  # of Newton's method; when sums are met, a share of a row
_ENOUGH = 1e-7  # where rounding keeps a step from going down: as single precision is off
_FLOOR = 1e-13  # curvature, in rows, below which a row is left as it is
_SHIFT = 1e-10  # of the scaled curvature: all logarithms may be shifted together
_HALVINGS = 40
_CELLS = 2**17  # of heads fitted side by side, what the cache of a core holds


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
        Numbers from 0; tokens of one place have keys of one class.

    Raises
    ------
    InapplicableError
        If the row sums of a head are not met to 1e-7 of a row.

    Examples
    --------
    >>> causal, offsets = np.tri(2, dtype=bool), np.array([[1, 2], [0, 1]])
    >>> mean_positions(np.array([[[1.0, 0.0], [0.5, 0.5]]]), causal, offsets).round(3)
    array([[[1. , 0. ],
            [0.5, 0.5]]])
    """
    seen = np.where(visible, np.asarray(maps, dtype=np.float64), 0.0)
    size = max(1, _CELLS // (len(classes) * (int(classes.max()) + 1)))
    parts = [_means(seen[i : i + size], visible, classes) for i in range(0, len(maps), size)]
    return np.concatenate(parts)


def _means(maps: FloatArray, visible: BoolArray, classes: IntArray) -> FloatArray:
    count, cells = int(classes.max()) + 1, classes.ravel()
    totals = np.array([np.bincount(cells, layer.ravel(), count) for layer in maps])  # (H, C)
    given = np.asarray((totals > 0).any(axis=0))
    if not given.any():
        return np.zeros_like(maps)
    layout, totals = _Layout(visible, classes, given), totals[:, given]
    goals = np.column_stack([maps.sum(axis=-1), maps[:, :, 0].sum(axis=-1)])
    others, first = layout.shares(_Fits(layout, totals, goals).logs())
    others, first = others * totals[:, None], first * totals[:, layout.first]
    worst = float(np.abs(_masses(others.sum(axis=-1), first) - goals).max())
    if not worst <= _ENOUGH:
        raise InapplicableError(
            f"the control position needs maps whose row sums can be met, got sums off by "
            f"{worst:.1g} of a row"
        )
    return layout.maps(others, first)


def _masses(others: FloatArray, first: FloatArray) -> FloatArray:
    """Return row sums and the total on the first key ``(h, n + 1)``, from both parts ``(h, n)``."""
    masses: FloatArray = np.column_stack([others + first, first.sum(axis=-1)])
    return masses


class _Layout:
    """Where weights lie by row and class, ``(n, C)``, of the classes `given`; the first key apart.

    Attributes
    ----------
    others, at_first : ndarray, shape (n, C)
        How many keys but the first a row sees of a class; whether its first key is of the class.
    first : ndarray of int, shape (n,)
        Class of each row's first key.
    """

    def __init__(self, visible: BoolArray, classes: IntArray, given: BoolArray) -> None:
        n, count = len(classes), int(given.sum())
        self._visible = visible & given[classes]
        self._classes = np.maximum(np.cumsum(given) - 1, 0)[classes]
        self.rows, self.first = np.arange(n), self._classes[:, 0]
        rows, columns = np.nonzero(self._visible[:, 1:])
        cells = rows * count + self._classes[rows, columns + 1]
        self.others = np.bincount(cells, minlength=n * count).reshape(n, count)
        self.at_first = np.zeros((n, count))
        self.at_first[self.rows, self.first] = self._visible[:, 0]

    def shares(self, logs: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return how classes are shared out, ``(h, n, C)`` and ``(h, n)`` for the first key.

        Parameters
        ----------
        logs : ndarray, shape (h, n + 1)
            Of a, and of u.
        """
        rows, first = logs[:, :-1], logs[:, :-1] + logs[:, -1:]
        scores = np.where(self.others > 0, rows[..., None], -np.inf)
        at_first = np.where(self.at_first > 0, first[..., None], -np.inf)
        most = np.maximum(scores.max(axis=1), at_first.max(axis=1))
        most = np.where(np.isfinite(most), most, 0.0)  # (h, C)
        others = self.others * np.exp(scores - most[:, None])
        first = np.exp(np.where(self._visible[:, 0], first - most[:, self.first], -np.inf))
        total = others.sum(axis=1) + first @ self.at_first
        total = np.where(total > 0, total, 1.0)
        return others / total[:, None], first / total[:, self.first]

    def maps(self, others: FloatArray, first: FloatArray) -> FloatArray:
        """Return weights ``(h, n, C)``, and ``(h, n)`` of the first key, as maps."""
        each = others / np.maximum(self.others, 1)
        maps = np.where(self._visible, each[:, self.rows[:, None], self._classes], 0.0)
        maps[:, :, 0] = first
        return maps


@dataclass(frozen=True)
class _Heads:
    """Heads that are not fitted yet; `others` and `first` as of :meth:`_Layout.shares`."""

    number: IntArray  # (h,)
    totals: FloatArray  # of classes, (h, C)
    goals: FloatArray  # row sums, and the total on the first key, (h, n + 1)
    others: FloatArray
    first: FloatArray

    def only(self, chosen: BoolArray) -> "_Heads":
        """Return some of them."""
        return self if chosen.all() else _Heads(*(values[chosen] for values in vars(self).values()))


class _Fits:
    """Newton's method for several heads side by side; what one takes does not depend on another."""

    def __init__(self, layout: _Layout, totals: FloatArray, goals: FloatArray) -> None:
        self._layout, given = layout, goals > 0
        masses = np.where(given, self._even(totals), 1.0)
        self._logs = np.where(given, np.log(np.where(given, goals, 1.0) / masses), -np.inf)
        # Without those of classes that a head gives nothing to: nothing would keep them in bounds.
        others, first = layout.shares(self._logs)
        others, first = others * (totals > 0)[:, None], first * (totals > 0)[:, layout.first]
        self._heads = _Heads(np.arange(len(goals)), totals, goals, others, first)

    def _even(self, totals: FloatArray) -> FloatArray:
        """Return row sums, and the total on the first key, of classes shared out evenly."""
        others, at_first = self._layout.others, self._layout.at_first
        each = totals / (others + at_first).sum(axis=0)
        return _masses(each @ others.T, each @ at_first.T)

    def logs(self) -> FloatArray:
        """Return logarithms of a, and of u, ``(H, n + 1)``."""
        for _ in range(_ROUNDS):
            gaps = self._gaps()
            unmet = (np.abs(gaps) / self._sizes()).max(axis=-1) > _FITTED
            if not unmet.any():
                break
            self._heads, gaps = self._heads.only(unmet), gaps[unmet]
            self._move(self._steps(gaps), gaps)
        return self._logs

    def _sizes(self) -> FloatArray:
        """Return what gaps are a share of: the largest row sum, and the total on the first key."""
        sizes: FloatArray = np.maximum(1.0, self._heads.goals)
        sizes[:, :-1] = sizes[:, :-1].max(axis=-1, keepdims=True)
        return sizes

    def _gaps(self) -> FloatArray:
        """Return by how much row sums, and the total on the first key, are exceeded."""
        heads = self._heads
        others = (heads.others @ heads.totals[..., None])[..., 0]
        return _masses(others, heads.first * heads.totals[:, self._layout.first]) - heads.goals

    def _steps(self, gaps: FloatArray) -> FloatArray:
        """Return the steps of Newton's method, ``(h, n + 1)``."""
        masses, curvature = self._heads.goals + gaps, self._less()
        scale = 1 / np.sqrt(masses + _FLOOR)
        curvature *= -scale[:, :, None]
        curvature *= scale[:, None]
        diagonal = np.arange(curvature.shape[1])
        curvature[:, diagonal, diagonal] += masses * scale**2 + _SHIFT
        steps: FloatArray = -scale * np.linalg.solve(curvature, (scale * gaps)[..., None])[..., 0]
        return steps

    def _less(self) -> FloatArray:
        """Return by what the curvature is less than its diagonal, ``(h, n + 1, n + 1)``."""
        layout, heads = self._layout, self._heads
        every = heads.others.copy()  # shares with the first key, (h, n, C)
        every[:, layout.rows, layout.first] += heads.first
        weights, first = every * heads.totals[:, None], heads.first @ layout.at_first  # and (h, C)
        n = len(layout.rows)
        less = np.empty((len(first), n + 1, n + 1))
        np.matmul(weights, every.swapaxes(1, 2), out=less[:, :n, :n])
        across = (weights @ first[..., None])[..., 0]
        across -= heads.first * heads.totals[:, layout.first]
        less[:, :n, n] = less[:, n, :n] = across
        less[:, n, n] = (heads.totals * first**2).sum(axis=-1)
        return less

    def _move(self, steps: FloatArray, gaps: FloatArray) -> None:
        """Take the longest of the halved steps that goes down; leave heads that have none."""
        heads, slopes = self._heads, (steps * gaps).sum(axis=-1)
        lengths = 8 / np.maximum(8.0, np.abs(steps).max(axis=-1))
        rounding = 1e-14 * np.maximum(1.0, heads.totals.sum(axis=-1))
        for _ in range(_HALVINGS):
            moves = lengths[:, None] * steps
            factors, first, total = self._moved(moves)
            change = (heads.totals * np.log(total)).sum(axis=-1)
            change -= (heads.goals * moves).sum(axis=-1)
            down = change <= 1e-4 * lengths * slopes + rounding
            if down.all():
                break
            lengths = np.where(down, lengths, lengths / 2)
        self._logs[heads.number[down]] += moves[down]
        others = heads.others * factors[..., None] / total[:, None]
        first = first / total[:, self._layout.first]
        self._heads = replace(heads, others=others, first=first).only(down)

    def _moved(self, moves: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return factors of rows, shares of the first key, and what shares of classes add up to."""
        heads, layout = self._heads, self._layout
        factors = np.exp(moves[:, :-1])
        first = heads.first * factors * np.exp(moves[:, -1:])  # (h, n)
        total = (factors[:, None] @ heads.others)[:, 0] + first @ layout.at_first  # (h, C)
        return factors, first, np.where(heads.totals > 0, total, 1.0)
