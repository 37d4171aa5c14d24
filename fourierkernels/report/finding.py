"""What a report found, in a few sentences that its intervals bear out."""

import math
from dataclasses import dataclass

import numpy as np

from fourierkernels.diagnostics.comparison import HeadDifference, HeadShare, head_difference
from fourierkernels.diagnostics.controls import ALL_KEYS, CONTROLS, POSITION
from fourierkernels.diagnostics.distances import METRICS
from fourierkernels.diagnostics.moments import LEAST_TEXTS, LEVEL, mean_interval
from fourierkernels.diagnostics.summary import HeadSummary
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.report.content import ReportContent
from fourierkernels.report.notes import LEAST, decimals

# Distances of maps in single precision that differ by less, relatively, are equal.
_ROUNDING = 1e-5
_NOTHING = 0.01  # a share that is less at the upper end is said to be none
_SUBJECTS = {
    ALL_KEYS: "With special tokens counted among the keys, they",
    POSITION: "Beyond positions, they",
}
_FEW = f"fewer than {LEAST_TEXTS} inputs: no interval"


@dataclass(frozen=True)
class Finding:
    """What was found.

    Attributes
    ----------
    sentences : tuple of str
        The first compares the heads with a control; the others are on what is left beyond
        position, on another network, and on the layer that stands out.
    layer : int or None
        That layer, counted from 0; None if the intervals let none stand out.
    """

    sentences: tuple[str, ...]
    layer: int | None = None


def head_finding(report: ReportContent) -> Finding:
    """Return what the distances of the first metric say, as far as their intervals allow.

    A difference is claimed only if its interval excludes zero by more than rounding, and that there
    is none only if a share of 1 % lies above the interval. The layer
    that stands out is the one of ``outstanding_layer``, by the share that its heads have in common
    beyond the first control where one was measured, and by the distance itself otherwise.
    """
    summaries = report.summaries()
    if not summaries:
        return Finding(("No distances between heads were measured.",))
    first, shares = next(iter(summaries.values())), report.shares()
    sentences = [
        _beside(first, control, shares[name], name) for name, control in report.controls().items()
    ]
    if not sentences and "random" in summaries:
        other = summaries["random"]
        than = "heads with random weights"
        sentences = [_compared(head_difference(first, other), first, other, than)]
    sentences = sentences or [_alone(first)]
    if report.first.unread:
        limited = f"Of the attention that is accounted for, {_inside(sentences[0])}"
        sentences = [limited, *sentences[1:]]
    if (difference := report.difference()) is not None:
        than = f"those of {report.against_name}"
        sentences.append(_compared(difference, first, summaries["other"], than))
    measured = (share for name, share in shares.items() if not CONTROLS[name].needs_random)
    layer, said = _layer(first, next(measured, None))
    return Finding((*sentences, *said), layer)


def _inside(sentence: str) -> str:
    """Return a sentence as it stands within another one."""
    return f"{sentence[0].lower()}{sentence[1:]}"


def _alone(first: HeadSummary) -> str:
    low, high = first.layer_average_interval()
    places = decimals(first.layer_average)
    ends = _interval(f"{LEVEL:.0%} interval", low, high, f".{places}f")
    return f"Averaged over layers, two heads are {first.layer_average:.{places}f} apart ({ends})."


def _beside(first: HeadSummary, control: HeadSummary, share: HeadShare, name: str) -> str:
    """Return the sentence on what heads share, beside what they would by chance."""
    places = decimals(first.layer_average, control.layer_average)
    apart = f"{first.layer_average:.{places}f} against {control.layer_average:.{places}f}"
    if math.isnan(share.average):
        return f"{CONTROLS[name].heads.capitalize()} have no distance: nothing can be compared."
    ends = _interval(f"{share.level:.0%} interval", share.low, share.high, ".1%")
    if CONTROLS[name].needs_random:  # nearer than those need not be shared
        than = CONTROLS[name].heads
        return _compared(head_difference(first, control), first, control, than)
    measure = "mean squared distance" if METRICS[first.metric].power == 2 else "mean distance"
    than = CONTROLS[name].heads
    subject = _SUBJECTS.get(name, "The heads")
    if share.low > _ROUNDING:
        return (
            f"{subject} share {share.average:.1%} ({ends}): by so much their {measure} is below "
            f"that of {than} (distance {apart}, averaged over layers)."
        )
    how = "are not seen to be nearer to each other than"
    if share.high < -_ROUNDING:
        how = "are farther apart than"
    elif share.high < _NOTHING:
        how = "are no nearer to each other than"
    return f"{subject} {how} {than}: they share {share.average:.1%} ({ends}; distance {apart})."


def _compared(difference: HeadDifference, first: HeadSummary, other: HeadSummary, than: str) -> str:
    places = decimals(first.layer_average, other.layer_average)
    how = "not seen to be nearer to each other or farther apart than"
    rounding = _ROUNDING * max(first.layer_average, other.layer_average)
    if difference.low > rounding:
        how = "farther apart than"
    elif difference.high < -rounding:
        how = "nearer to each other than"
    title = f"{difference.level:.0%} interval of the difference"
    digits = (
        LEAST
        if math.isnan(difference.low)
        else max(LEAST, decimals(difference.low, difference.high) - 1)
    )
    ends = _interval(title, difference.low, difference.high, f"+.{digits}f")
    return (
        f"Averaged over layers, the heads are {how} {than}: {first.layer_average:.{places}f} "
        f"against {other.layer_average:.{places}f} ({ends})."
    )


def _interval(title: str, low: float, high: float, form: str) -> str:
    return _FEW if math.isnan(low) else f"{title} {low:{form}} to {high:{form}}"


def _layer(first: HeadSummary, share: HeadShare | None) -> tuple[int | None, tuple[str, ...]]:
    """Return the layer that stands out, and the sentence on it; none on a single layer."""
    if len(first.mean) < 2:
        return None, ()
    if first.n_windows < LEAST_TEXTS:
        few = f"Fewer than {LEAST_TEXTS} inputs give no intervals: no layer is said to stand out."
        return None, (few,)
    shares = share is not None and bool(np.isfinite(share.texts).all())
    texts = share.texts if share is not None and shares else first.texts
    layer = outstanding_layer(texts)
    if layer is None:
        return None, ("No layer stands out: by the intervals none differs from all others.",)
    return layer, (_stands_out(texts.mean(axis=0), layer, shares=shares),)


def _stands_out(values: FloatArray, layer: int, *, shares: bool) -> str:
    places = decimals(values)
    shown = [f"{value:.1%}" if shares else f"{value:.{places}f}" for value in values]
    order = [k for k in np.argsort(values, kind="stable") if k != layer]
    ends = " to ".join(dict.fromkeys(shown[k] for k in (order[0], order[-1])))
    others = "in the other layer" if len(order) == 1 else "in the other layers"
    how = "nearest to each other" if values[layer] < values[order[0]] else "farthest apart"
    said = "its heads share" if shares else f"its heads are {how},"
    return f"Layer {layer + 1} stands out: {said} {shown[layer]}, {others} {ends}."


def outstanding_layer(texts: FloatArray, *, level: float = LEVEL) -> int | None:
    """Return the layer of the largest or the smallest mean, if it differs from every other.

    It differs if the interval of each of its differences excludes zero by more than rounding. All
    of them have to, and any of the L layers could be the one, so that intervals have the level
    1 - (1 - level) / L: by chance a layer stands out with a probability of 1 - level at most. If
    both ends do, it is the one farther from its neighbour, and of two that are equally far the
    layer of the largest mean.

    Parameters
    ----------
    texts : ndarray, shape (T, L)
        A value of each text and layer.

    Examples
    --------
    >>> drawn = np.random.default_rng(0).normal([1.0, 1.0, 2.0], 0.1, (20, 3))
    >>> outstanding_layer(drawn)
    2
    """
    count = texts.shape[1]
    if count < 2:
        return None
    values = texts.mean(axis=0)
    order = np.argsort(values, kind="stable")
    rounding = _ROUNDING * float(np.abs(values).max())
    gaps = np.diff(values[order])
    ends = order[::-1] if gaps[-1] >= gaps[0] - rounding else order
    each = 1 - (1 - level) / count
    stand_out = (k for k in (ends[0], ends[-1]) if _differs(texts, k, each, rounding))
    return next(map(int, stand_out), None)


def _differs(texts: FloatArray, layer: int, level: float, rounding: float) -> bool:
    others = np.delete(texts, layer, axis=1)
    low, high = mean_interval(texts[:, [layer]] - others, level)
    return bool((low > rounding).all() or (high < -rounding).all())
