"""What a report found, in two or three sentences that its intervals bear out."""

import math
from dataclasses import dataclass

import numpy as np

from fourierkernels.diagnostics.comparison import HeadDifference, head_difference
from fourierkernels.diagnostics.resampling import LEVEL, percentile_interval
from fourierkernels.diagnostics.summary import HeadSummary
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.report.content import AS_SHARP, ReportContent
from fourierkernels.report.notes import decimals

# What the heads are compared with, the first of these that was measured.
_CONTROLS = {AS_SHARP: "equally sharp random heads", "random": "heads with random weights"}
# Distances of maps in single precision that differ by less, relatively, are equal.
_ROUNDING = 1e-5


@dataclass(frozen=True)
class Finding:
    """What was found.

    Attributes
    ----------
    sentences : tuple of str
        The first compares the heads with a control; the others are on another network, and on
        the layer that stands out.
    layer : int or None
        That layer, counted from 0; None if the intervals let none stand out.
    """

    sentences: tuple[str, ...]
    layer: int | None = None


def head_finding(report: ReportContent) -> Finding:
    """Return what the distances of the first metric say, as far as their intervals allow.

    A difference is claimed only if its interval excludes zero by more than rounding. The layer
    that stands out is the one of ``outstanding_layer``, by its distance as a share of that of
    equally sharp random heads where those were measured, and by the distance itself otherwise.
    """
    summaries = report.summaries()
    if not summaries:
        return Finding(("No distances between heads were measured.",))
    first = next(iter(summaries.values()))
    control = next((name for name in _CONTROLS if name in summaries), None)
    sentences = [_alone(first)]
    if control is not None:
        other = summaries[control]
        sentences = [_compared(head_difference(first, other), first, other, _CONTROLS[control])]
    if (difference := report.difference()) is not None:
        than = f"those of {report.against_name}"
        sentences.append(_compared(difference, first, summaries["other"], than))
    layer, said = _layer(first, summaries.get(AS_SHARP))
    return Finding((*sentences, *said), layer)


def _alone(first: HeadSummary) -> str:
    low, high = first.layer_average_interval()
    places = decimals(first.layer_average)
    ends = _interval(f"{LEVEL:.0%} interval", low, high, places)
    return f"Averaged over layers, two heads are {first.layer_average:.{places}f} apart ({ends})."


def _compared(found: HeadDifference, first: HeadSummary, other: HeadSummary, than: str) -> str:
    places = max(decimals(first.layer_average, other.layer_average), decimals(found.average))
    how = "not seen to be nearer to each other or farther apart than"
    rounding = _ROUNDING * max(first.layer_average, other.layer_average)
    if found.low > rounding:
        how = "farther apart than"
    elif found.high < -rounding:
        how = "nearer to each other than"
    title = f"{found.level:.0%} interval of the difference"
    ends = _interval(title, found.low, found.high, places, sign="+")
    return (
        f"Averaged over layers, the heads are {how} {than}: {first.layer_average:.{places}f} "
        f"against {other.layer_average:.{places}f} ({ends})."
    )


def _interval(title: str, low: float, high: float, places: int, *, sign: str = "") -> str:
    if math.isnan(low):
        return "one input: no interval"
    return f"{title} {low:{sign}.{places}f} to {high:{sign}.{places}f}"


def _layer(first: HeadSummary, sharp: HeadSummary | None) -> tuple[int | None, tuple[str, ...]]:
    """Return the layer that stands out, and the sentence on it; none on a single layer."""
    if len(first.mean) < 2:
        return None, ()
    if np.isnan(first.replicates).all():
        return None, ("One input gives no intervals: no layer is said to stand out.",)
    shares = sharp is not None and bool((sharp.mean > 0).all())
    values, replicates = first.mean, first.replicates
    if sharp is not None and shares:
        with np.errstate(divide="ignore", invalid="ignore"):
            values, replicates = values / sharp.mean, replicates / sharp.replicates
        replicates = np.where(np.isfinite(replicates), replicates, np.nan)
    layer = outstanding_layer(values, replicates)
    if layer is None:
        return None, ("No layer stands out: by the intervals none differs from all others.",)
    return layer, (_stands_out(values, layer, shares=shares),)


def _stands_out(values: FloatArray, layer: int, *, shares: bool) -> str:
    places = decimals(values)
    shown = [f"{value:.1%}" if shares else f"{value:.{places}f}" for value in values]
    order = [k for k in np.argsort(values, kind="stable") if k != layer]
    ends = " to ".join(dict.fromkeys(shown[k] for k in (order[0], order[-1])))
    others = "in the other layer" if len(order) == 1 else "in the other layers"
    how = "nearest to each other" if values[layer] < values[order[0]] else "farthest apart"
    said = f"of the distance of {_CONTROLS[AS_SHARP]} it has" if shares else f"its heads are {how},"
    return f"Layer {layer + 1} stands out: {said} {shown[layer]}, {others} {ends}."


def outstanding_layer(
    values: FloatArray, replicates: FloatArray, *, level: float = LEVEL
) -> int | None:
    """Return the layer of the largest or the smallest value, if it differs from every other.

    It differs if the interval of each of its differences excludes zero by more than rounding; all
    of them have to, so that their number makes no layer stand out by chance. If both ends do, it is
    the one farther from its neighbour, and of two that are equally far the layer of the largest
    value.

    Parameters
    ----------
    values : ndarray, shape (L,)
    replicates : ndarray, shape (B, L)
        Bootstrap replicates, of all layers on the same texts.

    Examples
    --------
    >>> drawn = np.random.default_rng(0).normal([1.0, 1.0, 2.0], 0.1, (200, 3))
    >>> outstanding_layer(np.array([1.0, 1.0, 2.0]), drawn)
    2
    """
    if len(values) < 2:
        return None
    order = np.argsort(values, kind="stable")
    rounding = _ROUNDING * float(np.abs(values).max())
    gaps = np.diff(values[order])
    ends = order[::-1] if gaps[-1] >= gaps[0] - rounding else order
    stand_out = (k for k in (ends[0], ends[-1]) if _differs(replicates, k, level, rounding))
    return next(map(int, stand_out), None)


def _differs(replicates: FloatArray, layer: int, level: float, rounding: float) -> bool:
    others = np.delete(replicates, layer, axis=1)
    low, high = percentile_interval(replicates[:, [layer]] - others, level)
    return bool((low > rounding).all() or (high < -rounding).all())
