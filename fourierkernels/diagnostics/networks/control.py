"""Random heads as sharp as the trained ones: what of a distance between heads is sharpness.

How far apart two maps can be depends on how sharp their rows are, and random weights attend almost
evenly. The control gives every row of a random head the entropy of the same row of the trained
head, so that a distance beyond it is about diversity alone.
"""

from collections.abc import Sequence
from dataclasses import replace

from fourierkernels.checkpoints.checkpoint import Checkpoint
from fourierkernels.checkpoints.isolating import isolated
from fourierkernels.checkpoints.tokens import InputCounts
from fourierkernels.diagnostics.distances import MAPS, METRICS
from fourierkernels.diagnostics.maps import row_entropies
from fourierkernels.diagnostics.moments import State
from fourierkernels.diagnostics.networks.passes import SlabMeasure
from fourierkernels.diagnostics.networks.samples import HeadSample, head_samples
from fourierkernels.diagnostics.sharpening import sharpened_maps
from fourierkernels.diagnostics.slabs import MapSlab, SlabDistances
from fourierkernels.diagnostics.summary import HeadAccumulator, HeadSummary


class SharpnessControl(SlabMeasure):
    """Distances between random heads whose rows have the entropies of the rows measured.

    Parameters
    ----------
    random : Checkpoint or None
        The same architecture with random weights; it is run on every item. None for what only
        merges the states of others.
    metrics : sequence of str
        Keys of :data:`~fourierkernels.diagnostics.distances.METRICS`; only those of maps have a
        control.
    seed : int
        Of the bootstrap.
    """

    def __init__(self, random: Checkpoint | None, metrics: Sequence[str], *, seed: int = 0) -> None:
        self._random, self._applies = random, True
        self._accumulators = {
            name: HeadAccumulator(metric=name, seed=seed)
            for name in metrics
            if METRICS[name].of == MAPS
        }
        self._slabs = {name: SlabDistances(name) for name in self._accumulators}
        self._drawn: HeadSample | None = None

    def reads_maps(self) -> bool:
        """Return whether there is anything to measure."""
        return self._applies and bool(self._accumulators)

    def start(self, sample: HeadSample) -> None:
        """Run the random network on the same item."""
        if not self.reads_maps():
            return
        if self._random is None:
            raise ValueError("random must be given for a control that takes in samples, got None")
        self._random = isolated(self._random, sample.item)
        (self._drawn,) = head_samples(self._random, [sample.item], batch_size=1)

    def take(self, slab: MapSlab, sample: HeadSample) -> None:
        """Take in the next slab; maps that are no probabilities end the control."""
        if not self.reads_maps() or self._drawn is None:
            return
        layer = self._drawn.by_layer[slab.layer]
        drawn = layer.slab(slab.window, slab.first, slab.stop)
        if not (slab.probabilities and drawn.probabilities):
            self._applies = False
            return
        maps = sharpened_maps(drawn.maps, row_entropies(slab.maps))
        sharp = replace(slab, maps=maps)
        for one in self._slabs.values():
            one.take(sharp)

    def end(self, sample: HeadSample) -> None:
        """Take in the distances of all layers."""
        self._drawn = None
        if self.reads_maps():
            for name, one in self._slabs.items():
                found = one.finish()
                self._accumulators[name].add_distances(found, sample.span[0], number=sample.index)

    def summary(self, counts: InputCounts) -> dict[str, HeadSummary]:
        """Return the distances by metric; none where rows are no probabilities."""
        if not self._applies or self.left_out:
            return {}
        share = counts.unknown_share
        return {
            name: accumulator.summary(n_texts=counts.texts, unknown=share)
            for name, accumulator in self._accumulators.items()
        }

    def state(self) -> State:
        """Return what has been taken in."""
        taken = {name: one.state() for name, one in self._accumulators.items()}
        return {"applies": self._applies, "left_out": self.left_out, "taken": taken}

    def merge(self, state: State) -> None:
        """Take in what another one has taken in of other inputs."""
        self._applies = self._applies and state["applies"]
        self.left_out = self.left_out or state["left_out"]
        for name, one in state["taken"].items():
            self._accumulators[name].merge(one)
