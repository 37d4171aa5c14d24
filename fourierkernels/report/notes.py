"""The notes that belong with the numbers of a report, and how many digits these have."""

import math
import re
from collections.abc import Mapping, Sequence
from itertools import groupby

import numpy as np
from numpy.typing import ArrayLike

from fourierkernels.diagnostics.comparison import HeadDifference
from fourierkernels.diagnostics.controls import CONTROLS
from fourierkernels.diagnostics.distances import METRICS
from fourierkernels.diagnostics.moments import DDOF, LEAST_TEXTS, LEVEL
from fourierkernels.diagnostics.profile import HeadProfile, HeadPruning
from fourierkernels.diagnostics.resampling import NullComparison
from fourierkernels.diagnostics.role_summary import RoleSummary
from fourierkernels.diagnostics.roles import ROLES
from fourierkernels.diagnostics.summary import DEFAULT_SPREAD, SPREADS, HeadSummary

STATISTICS_NOTE = "heads are named layer.head"
SLIGHT, MOSTLY = 0.05, 0.5  # parts of what chance leaves, for words on what a head is for
_SHOWN = 5  # heads named at either end of the importance
LEAST = 3  # decimals, and significant digits of the largest value


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
        "intervals: Student's t over windows, from three on; a text that is not cut is one window",
        f"n: {first.n_min} to {first.n_max} query tokens, median {first.n_median:g}; "
        f"{first.n_texts} texts, {first.n_windows} windows; {_heads(first)} heads",
    ]
    controls = [control for control in CONTROLS.values() if control.title in summaries]
    lines += [
        f"{control.title}: what heads would have that keep {control.kept}" for control in controls
    ]
    if controls:
        of = "squared distance" if row.power == 2 else "distance"
        lines.append(
            f"shared: how far the mean {of} is below that of the control; 0% by chance, 100% if "
            f"all heads are the same{f'; by chance it depends on {row.row}' if row.row else ''}"
        )
    if first.unknown > 0:
        lines.append(f"unknown tokens: {first.unknown:.1%}")
    return lines


def column_title(name: str) -> str:
    """Return the title of a network, or of a control."""
    titles = [row.title for row in CONTROLS.values()]
    return name if name in titles else f"{name} weights"


def share_cell(share: float) -> str:
    """Return a share of what heads have in common, or nothing where there is none."""
    return "" if math.isnan(share) else f"{share:.1%}"


def _heads(summary: HeadSummary) -> str:
    """Return the number of heads of a layer, or the least and the most."""
    ends = dict.fromkeys((min(summary.heads), max(summary.heads)))
    return " to ".join(map(str, ends))


def module_notes(profile: HeadProfile) -> list[str]:
    """Return notes on what was read and measured: how it was run, what was left out, layers."""
    lines = [*profile.notes, *([f"not accounted for: {profile.unread}"] if profile.unread else [])]
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
    for shape, layers in groupby(enumerate(shapes, start=1), key=lambda pair: pair[1]):
        numbers = [number for number, _ in layers]
        ends = [str(numbers[0]), *([str(numbers[-1])] if len(numbers) > 1 else [])]
        heads, windows, n, m = shape
        inside = f"{windows} windows of " if windows > 1 else ""
        counted = "1 head" if heads == 1 else f"{heads} heads"
        places.append(f"{' to '.join(ends)}: {counted}, {inside}{n} × {m} tokens")
    lone = (
        "; layers of one head have no distances" if any(shape[0] == 1 for shape in shapes) else ""
    )
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
    return f"difference: Student's t; both networks read {drawn}"


def role_notes(roles: Mapping[str, RoleSummary]) -> list[str]:
    """Return the notes on what heads are for."""
    counts = {summary.n_texts for name, summary in roles.items() if not ROLES[name].repeated}
    random = {summary.n_texts for name, summary in roles.items() if ROLES[name].repeated}
    over = [*(f"{n} windows" for n in sorted(counts))]
    over += [f"{n} sequences of random tokens that come twice" for n in sorted(random)]
    return [
        "chance: the same rows with their keys permuted among those that the row may see; rows "
        "without a choice do not count",
        f"above chance: at {1 - LEVEL:.0%} for all heads and keys together; over "
        f"{' and '.join(over)}",
        f"mostly: above chance by more than {MOSTLY:.0%} of what chance leaves",
        *(
            [f"–: not tested: fewer than {LEAST_TEXTS} inputs"]
            if not all(summary.tested for summary in roles.values())
            else []
        ),
    ]


def role_sentence(roles: Mapping[str, RoleSummary], layer: int, head: int) -> str:
    """Return the sentence on what a head is for; empty if nothing is known of it.

    Of several kinds of keys that it attends to above chance, the one where its weight is the
    largest part of what chance leaves; a part below :data:`SLIGHT` is not spoken of. Kinds that
    too few inputs were read for are said to be not tested.

    Parameters
    ----------
    layer, head : int
        From 0.
    """
    place = (layer, head)
    known = {
        name: summary for name, summary in roles.items() if not math.isnan(summary.score[place])
    }
    head_name = f"Head {layer + 1}.{head + 1}"
    tested = {name: summary for name, summary in known.items() if summary.tested}
    said = [_tested_sentence(tested, place, head_name)] if tested else []
    if few := "; ".join(ROLES[name].keys for name in known if name not in tested):
        said.append(f"{head_name} is not tested, with fewer than {LEAST_TEXTS} inputs, for: {few}.")
    return " ".join(said)


def _tested_sentence(
    tested: Mapping[str, RoleSummary], place: tuple[int, int], head_name: str
) -> str:
    above = {
        name: summary
        for name, summary in tested.items()
        if summary.above[place] and summary.share[place] > SLIGHT
    }
    if not above:
        keys = "; ".join(ROLES[name].keys for name in tested)
        return f"{head_name} attends to none of these well above chance: {keys}."
    name, best = max(above.items(), key=lambda pair: float(pair[1].share[place]))
    much = "mostly" if best.share[place] > MOSTLY else "partly"
    return (
        f"{head_name} attends {much} to {ROLES[name].keys}: "
        f"{best.score[place]:.3f} of its weight ({best.low[place]:.3f} to {best.high[place]:.3f}), "
        f"{best.chance[place]:.3f} by chance."
    )


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
    importance, order = (
        pruning.importance,
        [f"{layer + 1}.{head + 1}" for layer, head in pruning.curve.order],
    )
    shown = max(1, min(_SHOWN, len(order) // 2))
    return [
        f"loss: {pruning.loss} ({pruning.description})",
        f"importance: {importance.method}, {importance.n_batches} items; "
        "the curves are of other items",
        f"least important heads (layer.head): {', '.join(order[:shown])}; "
        f"most important: {', '.join(reversed(order[-shown:]))}",
    ]


def decimals(*values: ArrayLike) -> int:
    """Return how many decimals show three digits of the largest value, at least three.

    Parameters
    ----------
    *values : array_like
        All that is to be compared; NaN and infinity are left out.

    Examples
    --------
    >>> decimals([12.5, 0.25]), decimals([2.5e-4, -1.25e-5])
    (3, 6)
    """
    sizes = (np.abs(array) for array in values)
    largest = max(float(np.max(size, initial=0.0, where=np.isfinite(size))) for size in sizes)
    return max(LEAST, LEAST - 1 - math.floor(math.log10(largest))) if largest > 0 else LEAST
