"""What a report says in sentences: what was found, and the notes that belong with its numbers."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import ArrayLike

from fourierkernels.diagnostics.comparison import HeadDifference, head_difference
from fourierkernels.diagnostics.distances import METRICS
from fourierkernels.diagnostics.moments import DDOF
from fourierkernels.diagnostics.profile import HeadProfile, HeadPruning
from fourierkernels.diagnostics.resampling import LEVEL, NullComparison, percentile_interval
from fourierkernels.diagnostics.summary import DEFAULT_SPREAD, SPREADS, HeadSummary
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.report.content import AS_SHARP, ReportContent

# What the heads are compared with, the first of these that was measured.
_CONTROLS = {AS_SHARP: "equally sharp random heads", "random": "heads with random weights"}
# Distances of maps in single precision that differ by less, relatively, are equal.
_ROUNDING = 1e-5
STATISTICS_NOTE = "heads are named layer.head"
_SHOWN = 5  # heads named at either end of the importance
LEAST = 3  # decimals, and significant digits of the largest value


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


def summary_notes(
    summaries: Mapping[str, HeadSummary], *, spread: str = DEFAULT_SPREAD
) -> list[str]:
    """Return the notes on distances, one per line: metric, spread, lengths, counts."""
    first = next(iter(summaries.values()))
    row = METRICS[first.metric]
    lines = [
        f"metric: {row.name} ({row.unit}); {row.description}",
        *([f"source: {row.source}"] if row.source else []),
        f"normaliser: {row.normaliser}",
        f"±: standard deviation over {SPREADS[spread].description} (ddof = {DDOF})",
        f"intervals: bootstrap of {len(first.replicates)} replicates over windows; "
        "a text that is not cut is one window",
        f"n: {first.n_min} to {first.n_max} query tokens, median {first.n_median:g}; "
        f"{first.n_texts} texts, {first.n_windows} windows; {_heads(first)} heads",
    ]
    if AS_SHARP in summaries:
        lines.append(
            f"{AS_SHARP}: rows of random heads with the entropies of the trained rows; what a "
            "distance has beyond theirs is not sharpness; one draw of weights, and no interval "
            "holds what another would change"
        )
    if first.unknown > 0:
        lines.append(f"unknown tokens: {first.unknown:.1%}")
    return lines


def _heads(summary: HeadSummary) -> str:
    """Return the number of heads of a layer, or the least and the most."""
    ends = dict.fromkeys((min(summary.heads), max(summary.heads)))
    return " to ".join(map(str, ends))


def module_notes(profile: HeadProfile) -> list[str]:
    """Return notes on what was read and measured: how it was run, what was left out, layers."""
    lines = [*profile.notes, *([f"not measured: {profile.unread}"] if profile.unread else [])]
    lines += [f"left out: {reason}" for reason in profile.left_out]
    if profile.shapes:
        lines.append(shapes_note(profile.shapes))
    if profile.layers and (profile.unread or not _in_turn(profile.layers)):
        named = [f"{number} {name}" for number, name in enumerate(profile.layers, start=1)]
        lines.append(f"layers: {', '.join(named)}")
    return lines


def shapes_note(shapes: Sequence[tuple[int, int, int, int]]) -> str:
    """Return the note on layers that have shapes of their own.

    Parameters
    ----------
    shapes : sequence of (heads, windows, queries, keys)

    Examples
    --------
    >>> shapes_note([(3, 64, 49, 49), (3, 64, 49, 49), (6, 1, 49, 16)])[:70]
    'shapes of the layers: 1 to 2: 3 heads, 64 windows of 49 × 49 tokens; 3'
    """
    places = []
    for shape, found in groupby(enumerate(shapes, start=1), key=lambda pair: pair[1]):
        numbers = [number for number, _ in found]
        ends = [str(numbers[0]), *([str(numbers[-1])] if len(numbers) > 1 else [])]
        heads, windows, n, m = shape
        inside = f"{windows} windows of " if windows > 1 else ""
        counted = "1 head" if heads == 1 else f"{heads} heads"
        places.append(f"{' to '.join(ends)}: {counted}, {inside}{n} × {m} tokens")
    lone = "; layers of one head have no distances" if any(one[0] == 1 for one in shapes) else ""
    return (
        f"shapes of the layers: {'; '.join(places)}; averages of layers are over different "
        f"shapes{lone}; no maps of single inputs are kept"
    )


def _in_turn(names: Sequence[str]) -> bool:
    """Tell whether one number in the names counts the layers, so that they need not be named.

    Examples
    --------
    >>> _in_turn(["layer.0.self", "layer.1.self"]), _in_turn(["blocks.10.attn", "blocks.11.attn"])
    (True, False)
    """
    numbers = [[int(digits) for digits in re.findall(r"\d+", name)] for name in names]
    counts = zip(*numbers, strict=False)
    wanted = [tuple(range(start, start + len(names))) for start in (0, 1)]
    return len(set(names)) == 1 or any(count in wanted for count in counts)


def difference_note(difference: HeadDifference) -> str:
    """Return the note on the differences."""
    drawn = "the same windows" if difference.paired else "windows of their own"
    return f"difference: in each replicate both networks get {drawn}"


def null_note(null: NullComparison, metric: str) -> str:
    """Return the note on the permutation null."""
    count = len(null.null)
    return (
        f"permuted keys: {metric}, range of {count} permutations of each row among its visible "
        f"keys; p: (1 + number of them with a distance as small) / (1 + {count}), so "
        f"{1 / (1 + count):.3g} at least"
    )


def pruning_notes(pruning: HeadPruning) -> list[str]:
    """Return the notes on the pruning curves, and the heads at either end."""
    found, order = (
        pruning.importance,
        [f"{layer + 1}.{head + 1}" for layer, head in pruning.curve.order],
    )
    shown = max(1, min(_SHOWN, len(order) // 2))
    return [
        f"loss: {pruning.loss} ({pruning.description})",
        f"importance: {found.method}, {found.n_batches} items; the curves are of other items",
        f"least important heads (layer.head): {', '.join(order[:shown])}; "
        f"most important: {', '.join(reversed(order[-shown:]))}",
    ]


def decimals(*values: ArrayLike) -> int:
    """Return how many decimals show three digits of the largest value, at least three.

    Parameters
    ----------
    *values : array_like
        All that is to be compared; NaN is left out.

    Examples
    --------
    >>> decimals([12.5, 0.25]), decimals([2.5e-4, -1.25e-5])
    (3, 6)
    """
    largest = max(float(np.nanmax(np.abs(one), initial=0.0)) for one in values)
    return max(LEAST, LEAST - 1 - math.floor(math.log10(largest))) if largest > 0 else LEAST
