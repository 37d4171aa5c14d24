"""What a pass keeps beside numbers: the first inputs with their maps, and what was measured of."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from fourierkernels.diagnostics.examples import Example
from fourierkernels.diagnostics.moments import State
from fourierkernels.diagnostics.networks.samples import HeadSample
from fourierkernels.foundation.validation import check_integer


@dataclass
class Modules:
    """Which modules the heads belong to, which attention was not understood, and how it was run.

    Attributes
    ----------
    notes : tuple of str
        Of the checkpoint.
    shapes : tuple
        Heads, windows, queries and keys of each layer, where layers differ in them or have windows.
    """

    layers: tuple[str, ...] = ()
    unread: str = ""
    notes: tuple[str, ...] = ()
    shapes: tuple[tuple[int, int, int, int], ...] = ()

    def add(self, sample: HeadSample) -> None:
        """Take in one more sample."""
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
        held = sum(example.maps.size for example in self._found.values())
        if held + sample.size <= self.most:
            named = sample.checkpoint.labels(sample.item)
            queries, keys = map(_fitting, named, sample.maps.shape[2:])
            label = _label(sample.item, queries)
            maps = sample.maps.astype(np.float16)  # finer than the bytes of a page
            self._found[sample.index] = Example(label, keys, queries, maps)

    def summary(self) -> list[Example]:
        """Return what was kept, in the order of the inputs."""
        return [self._found[index] for index in sorted(self._found)]

    def state(self) -> State:
        """Return what has been taken in."""
        rows = [[i, one.label, one.keys, one.queries, one.maps] for i, one in self._found.items()]
        return {"found": rows}

    def merge(self, state: State) -> None:
        """Take in what another one has kept, as far as there is room: the shortest inputs first."""
        both = dict(self._found)
        for index, label, keys, queries, maps in state["found"]:
            both[index] = Example(label, tuple(keys), tuple(queries), maps)
        self._found, held = {}, 0
        for index, one in sorted(both.items(), key=lambda pair: (pair[1].maps.size, pair[0])):
            if held + one.maps.size <= self.most:
                self._found[index] = one
                held += one.maps.size


def _fitting(names: tuple[str, ...], count: int) -> tuple[str, ...]:
    """Return names of tokens; numbers where names are not known."""
    return names if len(names) == count else tuple(map(str, range(1, count + 1)))


def _label(item: Any, tokens: Sequence[str]) -> str:
    return item.name if hasattr(item, "name") else " ".join(tokens)
