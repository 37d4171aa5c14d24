"""Random heads as sharp as the trained ones: what of a distance between heads is sharpness.

How far apart two maps can be depends on how sharp their rows are, and random weights attend almost
evenly. The control gives every row of a random head the entropy of the same row of the trained
head, so that a distance beyond it is about diversity alone.
"""

from collections.abc import Sequence

from fourierkernels.arrays import FloatArray
from fourierkernels.checkpoints.checkpoint import Checkpoint
from fourierkernels.checkpoints.steady import steady
from fourierkernels.checkpoints.tokens import InputCounts
from fourierkernels.diagnostics.distances import MAPS, METRICS
from fourierkernels.diagnostics.maps import has_short_rows, row_entropies
from fourierkernels.diagnostics.networks.samples import HeadSample, head_samples
from fourierkernels.diagnostics.sharpening import sharpened_maps
from fourierkernels.diagnostics.summary import HeadAccumulator, HeadSummary


class SharpnessControl:
    """Distances between random heads whose rows have the entropies of the rows measured.

    Parameters
    ----------
    random : Checkpoint
        The same architecture with random weights; it is run on every item.
    metrics : sequence of str
        Keys of :data:`~fourierkernels.diagnostics.distances.METRICS`; only those of maps have a
        control.
    seed : int
        Of the bootstrap.
    """

    def __init__(self, random: Checkpoint, metrics: Sequence[str], *, seed: int = 0) -> None:
        self._random, self._applies = random, True
        self._accumulators = {
            name: HeadAccumulator(metric=name, seed=seed)
            for name in metrics
            if METRICS[name].of == MAPS
        }

    def add(self, sample: HeadSample) -> None:
        """Take in one more sample; maps that are no probabilities end the control."""
        if not self._applies or not self._accumulators:
            return
        maps = self._sharpened(sample)
        if maps is None:
            self._applies = False
            return
        for accumulator in self._accumulators.values():
            accumulator.add(maps, number=sample.index)

    def summary(self, counts: InputCounts) -> dict[str, HeadSummary]:
        """Return the distances by metric; none where rows are no probabilities."""
        if not self._applies:
            return {}
        share = counts.unknown_share
        return {
            name: accumulator.summary(n_texts=counts.texts, unknown=share)
            for name, accumulator in self._accumulators.items()
        }

    def _sharpened(self, sample: HeadSample) -> FloatArray | None:
        self._random = steady(self._random, sample.item)
        (drawn,) = head_samples(self._random, [sample.item], batch_size=1)
        if any(has_short_rows(maps) or maps.min() < 0 for maps in (sample.maps, drawn.maps)):
            return None
        return sharpened_maps(drawn.maps, row_entropies(sample.maps))
