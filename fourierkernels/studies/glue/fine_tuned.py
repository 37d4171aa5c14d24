"""Comparisons whose networks begin with an encoder that the same comparison has pre-trained."""

from abc import abstractmethod
from dataclasses import replace

from fourierkernels.foundation.run_folder import BEST
from fourierkernels.studies.engine.comparison import Comparison
from fourierkernels.studies.engine.contenders import Contender, Network, Part
from fourierkernels.studies.engine.run_setup import Setup
from fourierkernels.studies.engine.teacher import choose_start

PRETRAINING = "pretraining"


class FineTuned(Comparison):
    """What the comparisons of study glue have in common."""

    @abstractmethod
    def pretraining_of(self, contender: Contender) -> Part:
        """Return the part that pre-trains an encoder, with one tuning."""

    def beginning(self, network: Network) -> Network | None:
        """Return the pre-training of a network's encoder, of a trial that of the first seed.

        None for a pre-training itself.
        """
        if network.part.name == PRETRAINING:
            return None
        part = self.pretraining_of(network.contender)
        seed = network.seed if network.seed in self.seeds else self.seeds[0]
        return Network(part, network.contender, part.tunings[0], seed)

    def setup(self, network: Network) -> Setup:
        """Return a run, which begins with the encoder of its seed.

        Raises
        ------
        ValueError
            If that encoder has not been trained.
        """
        run, first = super().setup(network), self.beginning(network)
        if first is None:
            return run
        start = super().setup(first)
        folder = self.run_folder(start)
        if folder is None or not (folder / BEST).is_file():
            raise ValueError(
                f"start must be pre-trained first, got no {start.mixer.name} of seed {first.seed}"
            )
        return replace(run, start=choose_start(folder))
