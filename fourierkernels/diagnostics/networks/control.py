"""How far apart the heads of a network would be by chance, measured beside their distances.

A control of :data:`~fourierkernels.diagnostics.controls.CONTROLS` either keeps the heads' own rows,
or gives rows of a network with random weights the entropies of the rows measured.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from fourierkernels.checkpoints.checkpoint import Checkpoint
from fourierkernels.checkpoints.isolating import isolated
from fourierkernels.checkpoints.tokens import InputCounts
from fourierkernels.diagnostics.chance import DRAWS, expected_part, row_sums, visible_keys
from fourierkernels.diagnostics.controls import ALL_KEYS, CONTROLS, POSITION
from fourierkernels.diagnostics.distances import MAPS, METRICS
from fourierkernels.diagnostics.maps import InapplicableError, row_entropies, row_products
from fourierkernels.diagnostics.moments import State
from fourierkernels.diagnostics.networks.measures import Accumulating
from fourierkernels.diagnostics.networks.samples import HeadSample, head_samples
from fourierkernels.diagnostics.positions import position_classes
from fourierkernels.diagnostics.sharpening import sharpened_maps
from fourierkernels.diagnostics.slabs import MapSlab, SlabDistances
from fourierkernels.diagnostics.statistic_summary import check_tokens
from fourierkernels.diagnostics.summary import HeadAccumulator, HeadSummary
from fourierkernels.foundation.arrays import BoolArray, FloatArray, IntArray

_MOST_FITTED = 2**20  # weights of a head to whose positions a map is fitted: some seconds a layer


class ControlDistances(Accumulating):
    """Distances by one metric of maps, under one control.

    Parameters
    ----------
    control : str
        A key of :data:`~fourierkernels.diagnostics.controls.CONTROLS`.
    metric : str
        A key of :data:`~fourierkernels.diagnostics.distances.METRICS`, of maps.
    part : callable, optional
        See :class:`~fourierkernels.diagnostics.slabs.SlabDistances`.
    """

    def __init__(
        self, control: str, metric: str, part: Callable[[MapSlab], FloatArray] | None = None
    ) -> None:
        self.control, self.metric = CONTROLS[control], metric
        self._accumulator: HeadAccumulator = HeadAccumulator(metric=metric)
        self._slabs = SlabDistances(metric, part)

    def take(self, slab: MapSlab, sample: HeadSample) -> None:
        """Take in the next slab."""
        self._slabs.take(slab)

    def end(self, sample: HeadSample) -> None:
        """Take in the distances of all layers."""
        distances = self._slabs.finish()
        self._accumulator.add_distances(distances, sample.span[0], number=sample.index)

    def summary(self, counts: InputCounts) -> HeadSummary:
        """Return the distances averaged over the samples so far."""
        self.check_applies()
        return self._accumulator.summary(n_texts=counts.texts, unknown=counts.unknown_share)

    @property
    def redundant(self) -> bool:
        """Whether it says what another control says."""
        return False


class OwnRows(ControlDistances):
    """Under a control that keeps the heads' own rows.

    Parameters
    ----------
    control, metric
        As of :class:`ControlDistances`.
    seed : int
        Of the draws, for metrics without a closed form; each text has its own.
    """

    def __init__(self, control: str, metric: str, *, seed: int = 0) -> None:
        super().__init__(control, metric, self._expected)
        self._seed = seed
        self._sample: HeadSample | None = None
        self._at = (-1, -1)  # layer and window of the generators below
        self._draws: list[np.random.Generator] = []
        self._rows: list[FloatArray] = []  # of a layer whose positions are fitted
        self._classes: dict[int, IntArray] = {}
        self._marked = False

    def start(self, sample: HeadSample) -> None:
        """Begin an input."""
        self._sample, self._at, self._classes, self._rows = sample, (-1, -1), {}, []
        self._marked |= sample.special is not None and bool(sample.special.any())

    def end(self, sample: HeadSample) -> None:
        """Take in the distances of all layers, and let go of the sample."""
        self._sample, self._classes, self._rows = None, {}, []
        super().end(sample)

    @property
    def redundant(self) -> bool:
        """Whether no special tokens have been seen that would tell it from the control of rows."""
        return self.control.name == ALL_KEYS and not self._marked

    def state(self) -> State:
        """Return what has been taken in."""
        return {**super().state(), "marked": self._marked}

    def merge(self, state: State) -> None:
        """Take in what another one has taken in of other inputs."""
        super().merge(state)
        self._marked |= state["marked"]

    def _expected(self, slab: MapSlab) -> FloatArray:
        """Return what the metric's sum over rows of a slab is by chance, ``(H, H)``."""
        if self._sample is None:
            raise ValueError("a sample must have been begun, got none")
        at = (slab.layer, slab.window)
        if self._at != at:
            self._at, key = at, [self._seed, self._sample.index, *at]
            count = DRAWS if row_sums(self.metric).of_products is None else 0
            self._draws = [np.random.default_rng([*key, draw]) for draw in range(count)]
        maps, classes = slab.maps, None
        if self.control.name == POSITION:
            classes = self._positions(slab)
            self._rows.append(maps)
            if slab.stop < maps.shape[2]:  # what is expected is known with the last rows
                return np.zeros(2 * maps.shape[:1])
            if slab.first:
                maps = np.concatenate(self._rows, axis=1)
            self._rows = []
        return expected_part(
            maps,
            visible=visible_keys(maps) if maps is not slab.maps else slab.visible,
            metric=self.metric,
            control=self.control.name,
            kept=self._special(slab),
            classes=classes,
            draws=self._draws,
        )

    def _special(self, slab: MapSlab) -> BoolArray | None:
        """Return which keys are special tokens, where that is known of the keys of the slab."""
        special = None if self._sample is None else self._sample.special
        return special if special is not None and len(special) == slab.maps.shape[2] else None

    def _positions(self, slab: MapSlab) -> IntArray:
        """Return the class of each query and key, ``(n, n)``."""
        m, sample = slab.maps.shape[2], self._sample
        layer = None if sample is None else sample.by_layer[slab.layer]
        if sample is None or layer is None or sample.cross or layer.windows > 1:
            raise InapplicableError("positions need queries that are the keys, without windows")
        if layer.queries != m or m * m > _MOST_FITTED:
            raise InapplicableError(
                f"positions need queries that are the keys, {math.isqrt(_MOST_FITTED)} at most, "
                f"got {layer.queries} queries and {m} keys"
            )
        if m not in self._classes:
            positions = sample.checkpoint.positions
            known = positions is not None and len(positions) == m
            places, _ = check_tokens(m, positions if known else None, None)
            self._classes = {m: position_classes(places)}
        return self._classes[m]


class RandomRows(ControlDistances):
    """Between random heads whose rows have the entropies of the rows measured.

    Parameters
    ----------
    control, metric
        As of :class:`ControlDistances`.
    random : Checkpoint or None
        The same architecture with random weights; it is run on every item. None for what only
        merges the states of others.
    """

    def __init__(self, control: str, metric: str, random: Checkpoint | None) -> None:
        super().__init__(control, metric)
        self._random = random
        self._drawn: HeadSample | None = None

    def start(self, sample: HeadSample) -> None:
        """Run the random network on the same item."""
        if self._random is None:
            raise ValueError("random must be given for a control that takes in samples, got None")
        self._random = isolated(self._random, sample.item)
        (self._drawn,) = head_samples(self._random, [sample.item], batch_size=1)

    def end(self, sample: HeadSample) -> None:
        """Take in the distances of all layers."""
        self._drawn = None
        super().end(sample)

    def take(self, slab: MapSlab, sample: HeadSample) -> None:
        """Take in random rows for those of the next slab."""
        if self._drawn is None:
            raise ValueError("a sample must have been begun, got none")
        layer = self._drawn.by_layer[slab.layer]
        drawn = layer.slab(slab.window, slab.first, slab.stop)
        for measure in (slab, drawn):
            measure.check(f"the control {self.control.name}")
        order = self.control.order
        wanted = np.maximum(
            _ENTROPIES[order](slab.maps), 0.0
        )  # rows add up to one but for rounding
        super().take(replace(slab, maps=sharpened_maps(drawn.maps, wanted, order=order)), sample)


def _of_order_2(maps: FloatArray) -> FloatArray:
    """-log Σp² of each row, from ``(..., n, m)`` to ``(..., n)``."""
    entropies: FloatArray = -np.log(row_products(maps, maps))
    return entropies


_ENTROPIES = {1: row_entropies, 2: _of_order_2}  # by the Rényi order


def control_distances(
    names: Sequence[str], metrics: Sequence[str], *, random: Checkpoint | None, seed: int
) -> list[ControlDistances]:
    """Return the measures of all controls, for those metrics that compare maps."""
    of_maps = [metric for metric in metrics if METRICS[metric].of == MAPS]
    return [
        RandomRows(name, metric, random)
        if CONTROLS[name].needs_random
        else OwnRows(name, metric, seed=seed)
        for name in names
        for metric in of_maps
    ]
