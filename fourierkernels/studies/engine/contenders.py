"""What a comparison trains: contenders, the hyperparameters they are tried with, and the networks.

Kernels are compared at equal sharpness s, the curvature of -log w at q = k in units of softmax's.
Softmax of s q·k/√D is regression with weights exp(-s |q - k|²/(2√D)) if the keys have one norm;
a Gaussian has the same curvature at σ = D^(1/4)/√s, and ∏ sinc^l(R(q - k)) at R = √(3 s/(l √D)).
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from torch import nn

from fourierkernels.mixing import FourierMixer
from fourierkernels.studies.engine.controls import CONTROL_MIXERS
from fourierkernels.studies.engine.mixers import ChosenMixer, mixer_of_kernel

POWERS = (1, 2, 3, 4, 5, 6)
KERNELS = ("softmax", "gaussian", *(f"l = {power}" for power in POWERS))
TRIALS, COMPARED = "trials", "compared"  # parts that most comparisons have
PILOT = "pilot"  # the part of networks that tell the deviation over seeds, and are in no table


def learned_radii(model: nn.Module) -> str:
    """Return the mean R of each layer, separated by spaces; empty for a model without radii."""
    radii = [m.mean_radius.item() for m in model.modules() if isinstance(m, FourierMixer)]
    return " ".join(f"{radius:.4f}" for radius in radii)


@dataclass(frozen=True)
class Tuning:
    """Hyperparameters that trials choose.

    None stands for what earlier trials have chosen or, without any, for the preset's value.
    """

    rate: float | None = None
    sharpness: float | None = None

    def completed(self, chosen: "Tuning") -> "Tuning":
        """Return these hyperparameters, with chosen ones for those that are None."""
        return Tuning(
            chosen.rate if self.rate is None else self.rate,
            chosen.sharpness if self.sharpness is None else self.sharpness,
        )

    def edges(self, tried: Iterable["Tuning"]) -> tuple[str, ...]:
        """Return the hyperparameters that are the least or the largest of several tried.

        >>> Tuning(1e-3, 1.0).edges([Tuning(1e-3, 1.0), Tuning(2e-3, 1.0)])
        ('rate',)
        """
        known = list(tried)
        columns = {name: _values(name, known) for name in ("rate", "sharpness")}
        return tuple(
            name
            for name, values in columns.items()
            if len(values) > 1 and getattr(self, name) in (values[0], values[-1])
        )

    def beyond(self, tried: Iterable["Tuning"]) -> list["Tuning"]:
        """Return what to try next where these lie at an edge: one step of the grid further.

        >>> Tuning(2e-3).beyond([Tuning(1e-3), Tuning(2e-3)])
        [Tuning(rate=0.004, sharpness=None)]
        """
        further, tried = [], list(tried)
        for name in self.edges(tried):
            values = _values(name, tried)
            values = values[::-1] if getattr(self, name) == values[0] else values
            further.append(replace(self, **{name: values[-1] * (values[-1] / values[-2])}))
        return further


def _values(name: str, tried: Iterable[Tuning]) -> list[float]:
    found = {getattr(tuning, name) for tuning in tried} - {None}
    return sorted(found)


@dataclass(frozen=True)
class Contender:
    """A mixer with its options, under the name that tables give it.

    Attributes
    ----------
    reference : str
        The contender from which its differences are taken; the comparison's first one if empty.
    tuned_as : str
        The contender whose hyperparameters it takes where it has had no trials of its own.
    kernel : str
        One of :data:`KERNELS`, whose options at a sharpness it has besides; none if empty.
    names_sign : bool
        Whether these have ``allow_signed``, or leave it to the mixer's default.
    """

    name: str
    mixer: str
    options: Mapping[str, Any] = field(default_factory=dict)
    reference: str = ""
    tuned_as: str = ""
    kernel: str = ""
    names_sign: bool = True

    def at(self, tuning: Tuning) -> ChosenMixer:
        """Return the mixer with its options at some hyperparameters."""
        options = dict(self.options)
        if self.kernel and tuning.sharpness is not None:
            options |= mixer_of_kernel(self.kernel, tuning.sharpness).options
        if not self.names_sign:
            options.pop("allow_signed", None)
        return ChosenMixer(self.mixer, options)


def kernel_contenders(names: Iterable[str], *, names_sign: bool = True) -> tuple[Contender, ...]:
    """Return kernels of attention as contenders under their own names."""
    return tuple(
        Contender(name, mixer_of_kernel(name, 1.0).name, kernel=name, names_sign=names_sign)
        for name in names
    )


# What mixes nothing, and what mixes whatever the tokens are, under the names of their mixers.
CONTROLS = tuple(Contender(name, name) for name in CONTROL_MIXERS)


@dataclass(frozen=True)
class Part:
    """Contenders that are trained alike.

    Attributes
    ----------
    problem : str
        The task or data set, in a comparison of several.
    name : str
        What the networks are for; the column "part" of most comparisons.
    tunings : tuple of Tuning
        What every contender is tried with; by default the one that earlier trials have chosen.
    study : str
        Whose preset it is; that of the comparison if empty.
    """

    contenders: tuple[Contender, ...]
    preset: str
    steps: int
    problem: str = ""
    name: str = COMPARED
    tunings: tuple[Tuning, ...] = (Tuning(),)
    study: str = ""


@dataclass(frozen=True, eq=False)
class Network:
    """One network: what it is for, what it is and how it is trained."""

    part: Part
    contender: Contender
    tuning: Tuning
    seed: int

    @property
    def facts(self) -> dict[str, Any]:
        """All that tells it from other networks of a comparison."""
        return {
            "part": self.part.name,
            "problem": self.part.problem,
            "contender": self.contender.name,
            "mixer": self.contender.mixer,
            "options": json.dumps(self.contender.at(self.tuning).options),
            "rate": self.tuning.rate,
            "sharpness": self.tuning.sharpness,
            "preset": self.part.preset,
            "steps": self.part.steps,
            "seed": self.seed,
        }

    @property
    def key(self) -> str:
        """A text that no other network of a comparison has."""
        return json.dumps(self.facts)

    def __str__(self) -> str:
        return " ".join(str(value) for value in self.facts.values() if value not in ("", None))


Choices = dict[tuple[str, str], Tuning]  # by problem and contender


@dataclass(frozen=True)
class Stage:
    """Networks that can be trained at one time, because the same choices precede them.

    Attributes
    ----------
    chooses : bool
        Whether they are trials, the best of which sets the hyperparameters of later stages.
    """

    parts: tuple[Part, ...]
    seeds: tuple[int, ...]
    chooses: bool = False

    def networks(self, chosen: Choices) -> list[Network]:
        """Return all networks, seed by seed."""
        return [
            Network(part, contender, tuning.completed(_chosen(chosen, part, contender)), seed)
            for seed in self.seeds
            for part in self.parts
            for contender in part.contenders
            for tuning in part.tunings
        ]


def _chosen(chosen: Choices, part: Part, contender: Contender) -> Tuning:
    names = (contender.name, contender.tuned_as)
    known = (chosen.get((part.problem, name)) for name in names)
    return next((tuning for tuning in known if tuning is not None), Tuning())


def grid(
    rates: Iterable[float | None] = (None,), sharpness: Iterable[float | None] = (None,)
) -> tuple[Tuning, ...]:
    """Return all pairs of learning rates and sharpnesses."""
    return tuple(Tuning(*pair) for pair in product(rates, sharpness))


def trials(
    parts: Iterable[Part], tunings: tuple[Tuning, ...], seed: int, *, name: str = TRIALS
) -> Stage:
    """Return a stage that tries all contenders of some parts with the same hyperparameters."""
    tried = (replace(part, name=name, tunings=tunings) for part in parts)
    return Stage(tuple(tried), (seed,), chooses=True)


def further_trials(networks: Iterable[Network], chosen: Choices) -> list[Network]:
    """Return a trial beyond each edge at which the best of some trials lies."""
    found = []
    for key, trials in by_contender(networks).items():
        if key in chosen:
            further = chosen[key].beyond(network.tuning for network in trials)
            found += [replace(trials[0], tuning=tuning) for tuning in further]
    return found


def chosen_edges(networks: Iterable[Network], chosen: Choices) -> dict[str, str]:
    """Return the hyperparameters chosen at an edge of what was tried, by problem and contender."""
    trialled = [network for network in networks if len(network.part.tunings) > 1]
    edges = {
        " ".join(filter(None, key)): " ".join(chosen[key].edges(n.tuning for n in trials))
        for key, trials in by_contender(trialled).items()
        if key in chosen
    }
    return {name: columns for name, columns in edges.items() if columns}


def by_contender(networks: Iterable[Network]) -> dict[tuple[str, str], list[Network]]:
    """Return networks by problem and contender."""
    groups: dict[tuple[str, str], list[Network]] = {}
    for network in networks:
        groups.setdefault((network.part.problem, network.contender.name), []).append(network)
    return groups
