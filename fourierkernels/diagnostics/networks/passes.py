"""One pass over the maps of an input for any number of measures: layer by layer, slab by slab.

Rows of maps that are not in memory are computed once for all measures. Beside numbers, a pass keeps
the first inputs with their maps, and which modules were measured.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch

from fourierkernels.diagnostics.maps import InapplicableError
from fourierkernels.diagnostics.moments import State
from fourierkernels.diagnostics.networks.layers import HeadLayer
from fourierkernels.diagnostics.networks.samples import HeadSample
from fourierkernels.diagnostics.profile import Example
from fourierkernels.diagnostics.slabs import MapSlab
from fourierkernels.diagnostics.statistic_summary import check_tokens, token_distances
from fourierkernels.diagnostics.statistics import Heads
from fourierkernels.foundation.arrays import BoolArray, FloatArray
from fourierkernels.foundation.validation import check_integer

_KEPT = 16  # slabs whose distances between tokens are kept for the next layer


class SlabMeasure:
    """A measure that takes in maps slab by slab, in memory for one slab.

    Attributes
    ----------
    left_out : str
        Why it does not apply to the network, found on some input; empty if it does.
    """

    left_out: str = ""

    def reads_maps(self) -> bool:
        """Return whether it takes in slabs of maps at all."""
        return True

    def start(self, sample: HeadSample) -> None:
        """Begin an input."""

    def take(self, slab: MapSlab, sample: HeadSample) -> None:
        """Take in the next slab of its maps; layers come in turn, and rows of a layer too."""

    def end(self, sample: HeadSample) -> None:
        """Finish the input."""

    def add(self, sample: HeadSample) -> None:
        """Take in one more sample."""
        pass_over(sample, [self])

    def check_applies(self) -> None:
        """Refuse to sum up what was left out.

        Raises
        ------
        ValueError
            With the reason.
        """
        if self.left_out:
            raise InapplicableError(self.left_out)


def pass_over(sample: HeadSample, measures: Sequence[SlabMeasure]) -> None:
    """Give the maps of an input to measures; one that does not apply is left out from then on.

    An input of one key is passed over: attention has no choice, and its heads are not alike for it.
    """
    if has_no_choice(sample):
        return
    _each(measures, lambda measure: measure.start(sample))
    for layer in sample.by_layer:
        if not any(measure.reads_maps() and not measure.left_out for measure in measures):
            break
        for slab in layer.slabs():
            _each(measures, lambda measure, slab=slab: measure.take(slab, sample))  # type: ignore[misc]
    _each(measures, lambda measure: measure.end(sample))


def has_no_choice(sample: HeadSample) -> bool:
    """Return whether there is one key only, in every layer."""
    return all(layer.keys < 2 for layer in sample.by_layer)


def _each(measures: Sequence[SlabMeasure], call: Callable[[SlabMeasure], None]) -> None:
    for measure in measures:
        if measure.left_out:
            continue
        try:
            call(measure)
        except InapplicableError as error:
            measure.left_out = str(error)


class HeadsOfSlabs:
    """What statistics read, for slabs of one sample; what slabs have in common is kept."""

    def __init__(self, sample: HeadSample | None = None, *, reads_keys: bool = False) -> None:
        self._sample, self._reads_keys = sample, reads_keys
        self._at = (-1, -1)  # layer and window of the keys and places below
        self._keys: FloatArray = np.zeros(())
        self._places: FloatArray = np.zeros(())
        self._marks: BoolArray = np.zeros((), dtype=bool)
        self._distances: dict[tuple[int, int, int], FloatArray] = {}

    def of(self, slab: MapSlab) -> Heads:
        """Return what statistics read of a slab."""
        if self._sample is None:
            raise ValueError("a sample must have been begun, got none")
        layer = self._sample.by_layer[slab.layer]
        if self._at != (slab.layer, slab.window):
            self._at = (slab.layer, slab.window)
            self._begin(layer, slab.window)
        return Heads(
            maps=slab.maps,
            distances=self._between(slab),
            special=self._marks,
            keys=self._keys,
            scale=layer.call.scale,
            first=slab.first,
        )

    def _begin(self, layer: HeadLayer, window: int) -> None:
        sample, m = self._sample, layer.keys
        positions = special = None
        if sample is not None and layer.windows == 1 and m == sample.span[1]:
            positions, special = sample.checkpoint.positions, sample.special
        self._places, self._marks = check_tokens(m, positions, special)
        none = np.zeros((layer.heads, m, 0))
        self._keys = layer.part("keys", window) if self._reads_keys else none

    def _between(self, slab: MapSlab) -> FloatArray:
        """Return distances of tokens, kept as long as slabs are those of short inputs."""
        m = slab.maps.shape[2]
        place = (slab.first, slab.stop, m)
        if place not in self._distances:
            if len(self._distances) > _KEPT:
                self._distances.clear()
            self._distances[place] = token_distances(self._places, slab.first, slab.stop)
        return self._distances[place]


@dataclass
class Modules:
    """Which modules the heads belong to, which attention was not understood, and how it was run.

    Attributes
    ----------
    notes : tuple of str
        Of the checkpoint.
    shapes : tuple
        Heads, windows, queries and keys of each layer, where layers differ in them or have windows.
    forced : int
        Inputs of one key, of which nothing is measured.
    padded, padding : int
        Inputs whose padding was cut away, and the most tokens of one.
    unseen : str
        The longest sentence on keys that get no weight.
    pooled : tuple of str
        Modules of one query, which are not measured.
    """

    layers: tuple[str, ...] = ()
    unread: str = ""
    notes: tuple[str, ...] = ()
    shapes: tuple[tuple[int, int, int, int], ...] = ()
    forced: int = 0
    padded: int = 0
    padding: int = 0
    unseen: str = ""
    pooled: tuple[str, ...] = ()

    def add(self, sample: HeadSample) -> None:
        """Take in one more sample."""
        self.forced += has_no_choice(sample)
        self.padded += sample.padding > 0
        self.padding = max(self.padding, sample.padding)
        self.unseen = max(self.unseen, sample.unseen, key=len)
        self.pooled = max(self.pooled, sample.pooled, key=len)
        self.layers, self.notes, shapes = sample.layers, sample.checkpoint.notes, sample.shapes
        if len(set(shapes)) > 1 or shapes[0][1] > 1:
            self.shapes = tuple(shapes)
        self.unread = max(self.unread, sample.unread, key=len)

    def state(self) -> State:
        """Return what has been taken in."""
        return asdict(self)

    def merge(self, state: State) -> None:
        """Take in what another one has taken in of other inputs."""
        self.layers = tuple(state["layers"]) or self.layers
        self.notes = tuple(state["notes"]) or self.notes
        self.shapes = tuple(map(tuple, state["shapes"])) or self.shapes
        self.unread = max(self.unread, state["unread"], key=len)
        self.forced += state["forced"]
        self.padded += state["padded"]
        self.padding = max(self.padding, state["padding"])
        self.unseen = max(self.unseen, state["unseen"], key=len)
        self.pooled = max(self.pooled, tuple(state["pooled"]), key=len)

    @property
    def all_notes(self) -> tuple[str, ...]:
        """Those of the checkpoint, and on padding, keys without weight, pooling and one key."""
        notes = [*self.notes]
        if self.padded:
            most = f"at most {self.padding} tokens of one"
            notes.append(f"inputs whose padding at the end is cut away: {self.padded}, {most}")
        if self.unseen:
            notes.append(self.unseen)
        if self.pooled:
            notes.append(
                f"attention of one query, which pools, is left out: {', '.join(self.pooled)}"
            )
        if self.forced:
            notes.append(f"inputs of one key, of which nothing is measured: {self.forced}")
        return tuple(notes)


@dataclass
class Examples:
    """Keeps the first `count` inputs with their maps, for inspection.

    Attributes
    ----------
    most : int
        Weights to keep in all; inputs that do not fit any more are left out.
    """

    count: int = 8
    most: int = 32_000_000
    _found: dict[int, Example] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_integer("examples", self.count, least=0)

    def add(self, sample: HeadSample) -> None:
        """Keep the sample if it is one of the first."""
        if sample.index >= self.count or len(set(sample.shapes)) > 1 or sample.shapes[0][1] > 1:
            return
        weights = sum(example.maps.size for example in self._found.values())
        if weights + sample.size <= self.most:
            named = sample.checkpoint.labels(sample.item)
            queries, keys = map(_fitting, named, sample.maps.shape[2:])
            label = _label(sample.item, queries)
            # Finer than the bytes of a page. numpy rounds to half precision 40 times as slowly.
            maps = torch.from_numpy(sample.maps).half().numpy()
            self._found[sample.index] = Example(label, keys, queries, maps)

    def summary(self) -> list[Example]:
        """Return what was kept, in the order of the inputs."""
        return [self._found[index] for index in sorted(self._found)]

    def state(self) -> State:
        """Return what has been taken in."""
        rows = [
            [i, example.label, example.keys, example.queries, example.maps]
            for i, example in self._found.items()
        ]
        return {"found": rows}

    def merge(self, state: State) -> None:
        """Take in what another one has kept, as far as there is room: the shortest inputs first."""
        both = dict(self._found)
        for index, label, keys, queries, maps in state["found"]:
            both[index] = Example(label, tuple(keys), tuple(queries), maps)
        self._found, weights = {}, 0
        for index, example in sorted(both.items(), key=lambda pair: (pair[1].maps.size, pair[0])):
            if weights + example.maps.size <= self.most:
                self._found[index] = example
                weights += example.maps.size


def _fitting(names: tuple[str, ...], count: int) -> tuple[str, ...]:
    """Return names of tokens; numbers where names are not known."""
    return names if len(names) == count else tuple(map(str, range(1, count + 1)))


def _label(item: Any, tokens: Sequence[str]) -> str:
    return item.name if hasattr(item, "name") else " ".join(tokens)
