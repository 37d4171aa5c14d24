"""Comparisons whose trials choose the learning rate alone, in fewer updates than are compared."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace

from fourierkernels.studies.engine.comparison import Comparison
from fourierkernels.studies.engine.contenders import Choices, Contender, Part, Stage, grid, trials
from fourierkernels.studies.engine.run_setup import Setup


@dataclass(frozen=True)
class TunedRates(Comparison):
    """Budget; the same for all encoders.

    Attributes
    ----------
    encoders : tuple of str
        Names of the contenders that are trained.
    rates : tuple of float
        Of the trials.
    trial_seed : int
        Of the trials.
    steps, trial_steps : int
        Updates of a compared network, and of a trial.
    preset : str
        Of all networks.
    """

    encoders: tuple[str, ...] = ()
    rates: tuple[float, ...] = (2e-3, 4e-3, 8e-3)
    trial_seed: int = 2022
    steps: int = 1_000
    trial_steps: int = 500
    preset: str = ""

    @abstractmethod
    def contenders(self) -> tuple[Contender, ...]:
        """Return all contenders, those that are trained among them."""

    def stages(self) -> tuple[Stage, ...]:
        """Return trials of rates, and the best from several seeds."""
        tuned = tuple(each for each in self.contenders() if each.name in self.encoders)
        tried = Part(tuned, self.preset, self.trial_steps)
        first = trials([tried], grid(self.rates), self.trial_seed)
        return first, Stage((replace(tried, steps=self.steps),), self.seeds)

    def first_setup(self) -> Setup:
        """Return the run of the first trial, whose data all networks have."""
        return self.setup(self.stages()[0].networks({})[0])

    def facts(self, chosen: Choices) -> Mapping[str, object]:
        """Return the rates that trials chose."""
        return {"chosen": {name: tuning.rate for (_, name), tuning in chosen.items()}}
