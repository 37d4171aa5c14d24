"""Outputs that depend neither on the batch nor on earlier inputs.

Some networks do not keep to that: convolutions read the padding beside a text, random numbers are
drawn although nothing is trained, or layers are exchanged for good after a short text. Before a
network is measured it is tried on one input; ``isolated`` returns it with the remedy.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from fourierkernels.checkpoints.checkpoint import Checkpoint
from fourierkernels.checkpoints.contexts import Isolation
from fourierkernels.checkpoints.recorders.recording import recording

_TRIED = 16  # tokens of the text that a network is tried on; half of them are padded
_ROUNDINGS = 30.0  # times what the last digit of the embeddings changes: no rounding any more
_DIGITS = 10.0  # last digits of a weight, which rounding may change whatever the embeddings do
_FAINT = 2.0**-18  # of the spread of a row: 32 units of single precision
_SEED = 0  # of an isolated run

_ALONE = "inputs are run one by one, each with the same random numbers"
_ALIKE = "only texts of equal length share a batch"


@dataclass(frozen=True)
class Trial:
    """The attention maps of one input in several runs of a network.

    Attributes
    ----------
    short, long : object
        The input tried, and a longer one of the same kind to share a batch with; None for none.
    """

    checkpoint: Checkpoint
    isolation: Isolation
    short: Any
    long: Any = None

    def maps(self, items: Sequence[Any], *, seed: int = _SEED) -> list[Tensor]:
        """Return the maps of the first item, one per call of attention, without padding."""
        model, spans = self.checkpoint.model, [self.checkpoint.spans(item) for item in items]
        with torch.inference_mode(), recording(model) as calls:
            self.isolation.run(self.checkpoint.run, items, seed)
        kept = self.checkpoint.own_calls(calls)
        n, m = spans[0] or (None, None)
        return [call.maps[0, :, :n, :m].clone() for call in kept]

    @cached_property
    def alone(self) -> list[Tensor]:
        """The maps of the short input in a batch of its own."""
        return self.maps([self.short])

    def beside(self, seed: int) -> float:
        """Return the largest change of a weight beside the long input."""
        return _largest_change(self.alone, self.maps([self.short, self.long], seed=seed))

    @cached_property
    def padded(self) -> tuple[float, str]:
        """That change with other random numbers, and what a network raises that does not run so."""
        try:
            return self.beside(_SEED + 1), ""
        except Exception as error:  # whatever it is: one text after another it may run
            return math.inf, type(error).__name__

    @property
    def pads(self) -> bool:
        """Whether texts of both lengths share a batch, so that the short one is padded."""
        key = self.checkpoint.padding_key
        return self.long is not None and bool(self.alone) and key(self.short) == key(self.long)

    @property
    def faint(self) -> float:
        """A change of a weight by which no finding would differ, whatever the network's dtype."""
        spreads = (part.amax(-1) - part.where(part > 0, math.inf).amin(-1) for part in self.alone)
        return _FAINT * max(float(spread.max()) for spread in spreads)

    def is_rounding(self, change: float) -> bool:
        """Tell whether a change of a weight is what rounding makes of it."""
        digit = max(torch.finfo(part.dtype).eps * float(part.max()) for part in self.alone)
        return change <= _DIGITS * digit or change <= _ROUNDINGS * self.rounded

    @cached_property
    def rounded(self) -> float:
        """The largest change where the last digit of embeddings does, in a batch of two."""
        with _nudged(self.checkpoint.model):
            return _largest_change(self.alone, self.maps([self.short, self.short]))


@contextmanager
def _nudged(model: nn.Module) -> Iterator[None]:
    """Change every embedding by one unit of its rounding."""

    def nudge(_: Any, inputs: Any, output: Tensor) -> Tensor:
        unit = torch.finfo(output.dtype).eps / 2
        return output + unit * output.roll(1, dims=-1)

    hooks = [m.register_forward_hook(nudge) for m in model.modules() if isinstance(m, nn.Embedding)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _largest_change(one: list[Tensor], other: list[Tensor]) -> float:
    """Return the largest change of a weight; infinite between maps of other shapes."""
    if [part.shape for part in one] != [part.shape for part in other]:
        return float("inf")
    changes = [
        (a.double() - b.double()).abs().nan_to_num(0.0) for a, b in zip(one, other, strict=True)
    ]
    return max((float(change.max()) for change in changes if change.numel()), default=0.0)


def _draws(trial: Trial) -> str:
    """Say that two runs on one input differ.

    One run with other random numbers that is padded, too, mostly shows that neither matters.
    """
    if trial.pads and trial.padded[0] <= trial.faint:
        return ""
    if _largest_change(trial.alone, trial.maps([trial.short], seed=_SEED + 1)) == 0.0:
        return ""
    again = _largest_change(trial.alone, trial.maps([trial.short]))
    found = f"two runs on one input differ, as the network draws random numbers: {_ALONE}"
    return found if again == 0.0 else f"{found}; even so weights differ by up to {again:.2g}"


def _exchanges(trial: Trial) -> str:
    """Say that a network exchanges its modules."""
    if not trial.alone or not trial.isolation.exchanged:
        return ""
    return f"the network exchanges its layers by the length of a text, which is undone: {_ALIKE}"


def _leaks(trial: Trial) -> str:
    """Say that padding changes the maps of a text beyond rounding, or cannot be run."""
    if not trial.pads:
        return ""
    change, failed = trial.padded
    if failed:
        return f"the network does not run on a padded batch ({failed}): {_ALIKE}"
    if trial.is_rounding(change) or trial.is_rounding(change := trial.beside(_SEED)):
        return ""
    return f"padding changes attention weights, by up to {change:.2g} in a trial: {_ALIKE}"


@dataclass(frozen=True)
class Fault:
    """Something that a network does to the inputs of a batch.

    Attributes
    ----------
    seen : callable
        From a trial to one sentence; empty if the network does not do it.
    alone, by_length : bool
        With which it does no harm, see :class:`~fourierkernels.checkpoints.contexts.Isolation`.
    """

    seen: Callable[[Trial], str]
    alone: bool = False
    by_length: bool = False


# The first that a network does decides how its inputs share batches.
FAULTS = (
    Fault(_draws, alone=True),
    Fault(_exchanges, by_length=True),
    Fault(_leaks, by_length=True),
)


def isolated(checkpoint: Checkpoint, item: Any) -> Checkpoint:
    """Return a checkpoint whose results depend neither on the batch nor on earlier inputs.

    The network is run a few times on one input: alone, with other random numbers, and padded. What
    was found is a note of the checkpoint. A network that does not run is returned as it is; it
    fails where it is measured.

    Parameters
    ----------
    item : object
        What the checkpoint reads.
    """
    if checkpoint.isolation is not None:
        return checkpoint
    isolation = Isolation(checkpoint.model)
    trial = Trial(checkpoint, isolation, *_tried(checkpoint, item))
    try:
        for fault in FAULTS:
            if note := fault.seen(trial):
                kept = replace(isolation, alone=fault.alone, by_length=fault.by_length)
                return replace(checkpoint, isolation=kept, notes=(*checkpoint.notes, note))
    except Exception:  # the same is raised again where the network is measured, and reported there
        return replace(checkpoint, isolation=isolation)
    return replace(checkpoint, isolation=isolation)


def _tried(checkpoint: Checkpoint, item: Any) -> tuple[Any, Any]:
    """Return a short text and a long one out of an item; the item itself where it is no text."""
    if checkpoint.reads == "pairs":
        sides = [_cut(side, checkpoint.limit) for side in item]
        return tuple(short for short, _ in sides), tuple(long for _, long in sides)
    if checkpoint.reads == "tokens":
        return _cut(item, checkpoint.limit)
    return item if checkpoint.spans(item) is None else checkpoint.beginning(item, _TRIED), None


def _cut(ids: Sequence[int], limit: int | None) -> tuple[list[int], list[int]]:
    """Return the first half of a text, repeated if it is too short to be tried, and the whole."""
    most = _TRIED if limit is None else min(_TRIED, limit)
    whole = (list(ids) * (most // max(len(ids), 1) + 1))[:most]
    return whole[: (most + 1) // 2], whole
