"""One pass over the maps of an input for any number of measures: layer by layer, slab by slab.

Rows of maps that are not held are computed once for all measures.
"""

from collections.abc import Callable, Sequence

from fourierkernels.diagnostics.maps import InapplicableError
from fourierkernels.diagnostics.networks.samples import HeadSample
from fourierkernels.diagnostics.slabs import MapSlab


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
    """Give the maps of an input to measures; one that does not apply is left out from then on."""
    _each(measures, lambda measure: measure.start(sample))
    for layer in sample.by_layer:
        if not any(one.reads_maps() and not one.left_out for one in measures):
            break
        for slab in layer.slabs():
            _each(measures, lambda measure, slab=slab: measure.take(slab, sample))  # type: ignore[misc]
    _each(measures, lambda measure: measure.end(sample))


def _each(measures: Sequence[SlabMeasure], call: Callable[[SlabMeasure], None]) -> None:
    for measure in measures:
        if measure.left_out:
            continue
        try:
            call(measure)
        except InapplicableError as error:
            measure.left_out = str(error)
