"""The networks of a report: each is loaded once and measured, here or by several workers."""

import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from operator import length_hint
from typing import Any

from fourierkernels.checkpoints import Checkpoint
from fourierkernels.checkpoints.placing import computing_on, device_of
from fourierkernels.diagnostics.distances import MAPS, METRICS
from fourierkernels.diagnostics.profile import HeadProfile
from fourierkernels.diagnostics.pruning import HeadPruning
from fourierkernels.report.content import AS_SHARP, provenance
from fourierkernels.report.heads import HeadReport
from fourierkernels.report.inputs import Inputs, inputs_digest
from fourierkernels.report.shards import Pass
from fourierkernels.report.sharing import Team, measure_together
from fourierkernels.report.sources import FileSource, Source

Progress = Callable[[str, float], None]

# Options of load_checkpoint.
LOADING = ("model_class", "config", "preset", "vocabulary", "tokenizer", "part")
_READING = ("tokens", "context", "max_tokens", "batch_size")  # options of measure_heads
_OF_THE_WHOLE = ("spread", "importance", "loss")  # options that no shard depends on


@dataclass(frozen=True)
class Study:
    """The validated request for a report; nothing is loaded yet.

    Attributes
    ----------
    source, other, untrained : Source
        The network asked about, another one to compare with, and one with random weights, if it
        was given.
    prune, profile : callable
        ``head_pruning`` (None if importance was not asked for) and ``profile_heads``, with the
        options that were given.
    options : mapping
        Keywords of :func:`~fourierkernels.report.head_report`.
    team : Team
        Who measures.
    """

    source: Source
    other: Source | None
    untrained: Source | None
    inputs: Inputs
    prune: Callable[..., HeadPruning] | None
    profile: "partial[HeadProfile]"
    options: Mapping[str, Any]
    team: Team
    progress: Progress | None

    def report(self) -> HeadReport:
        """Load every network once, measure it, and put all together."""
        with ExitStack() as stack:
            for source in (self.source, self.other, self.untrained):
                if source is not None:
                    stack.enter_context(source.borrowed())
            return self._measured()

    def _measured(self) -> HeadReport:
        digests = self._digests()
        trained = self.source.load(task_head=self.prune is not None)
        kind = "image" if trained.reads == "images" else "text"
        # Importance comes first: it is more likely to be refused.
        with computing_on(device_of(trained.model)):
            pruning = self.prune(trained, self.inputs) if self.prune else None
        network = trained.without_task_head()
        del trained
        profiles = self._together(digests) if self.team.shares else self._in_turn(network)
        return HeadReport(
            title=self.source.name,
            profiles=_with_control(profiles),
            spread=self.options["spread"],
            pruning=pruning,
            against=None if self.other is None else self.other.name,
            skipped=getattr(self.inputs, "n_skipped", 0),
            kind=kind,
            origin=provenance(self.options, digests),
        )

    def _in_turn(self, network: Checkpoint) -> dict[str, HeadProfile]:
        """Measure one network after the other in this process."""
        random = self._random()
        profiles = {"trained": self._profile("trained", network, random=random, **self._first)}
        del network
        if random is not None:
            profiles["random"] = self._profile("random", random)
        del random  # another network is not held beside it
        if self.other is not None:
            kept = {"examples": self.options["examples"]}  # whose heads are matched
            profiles["other"] = self._profile("other", self.other.load(), **kept)
        return profiles

    def _random(self) -> Checkpoint | None:
        if self.untrained is not None:
            return self.untrained.load().without_task_head()
        return self.source.draw(self.options["seed"]) if self.options["baseline"] else None

    def _together(self, digests: Mapping[str, str]) -> dict[str, HeadProfile]:
        """Measure all networks by several workers."""
        facts, total = self._facts(digests), length_hint(self.inputs)
        told = self.progress or (lambda network, done: None)
        shared = partial(self._pass, digests=digests, facts=json.dumps(facts, default=str))
        baseline = self.options["baseline"]
        of_maps = any(METRICS[name].of == MAPS for name in self.profile.keywords["metrics"])
        passes = [shared("trained", self.source, controlled=baseline and of_maps, **self._first)]
        if baseline:
            passes.append(shared("random", self.source, drawn=True))
        if self.other is not None:
            passes.append(shared("other", self.other, examples=self.options["examples"]))
        return measure_together(
            passes, self.team, facts, lambda network, share: told(network, share * total)
        )

    def _pass(
        self,
        network: str,
        source: Source,
        *,
        digests: Mapping[str, str],
        facts: str,
        drawn: bool = False,
        controlled: bool = False,
        permutations: int = 0,
        examples: int = 0,
    ) -> Pass:
        if not isinstance(source, FileSource):
            raise ValueError(
                f"workers must be 1, without scheduler and resume, for a model in memory, "
                f"got {source.name}"
            )
        given = self.profile.keywords
        named = {name: given[name] for name in ("metrics", "statistics", "seed")}
        return Pass(
            network=network,
            files=source.files,
            loading={name: self.options[name] for name in LOADING},
            drawn=drawn,
            controlled=controlled,
            device=self.options["device"],
            inputs=self.inputs,
            measured={**named, "permutations": permutations, "examples": examples},
            reading={name: given[name] for name in _READING},
            digests={
                "inputs": digests["inputs"],
                "weights": digests["other" if network == "other" else "weights"],
            },
            identity=facts,
        )

    def _facts(self, digests: Mapping[str, str]) -> dict[str, Any]:
        """Return all that the numbers of a shard depend on, by names for a message."""
        versions = provenance({}, {})["versions"]
        return {
            **{name: one for name, one in self.options.items() if name not in _OF_THE_WHOLE},
            **{f"SHA-256 of {name}": digest for name, digest in digests.items()},
            **{f"version of {name}": version for name, version in versions.items()},
        }

    @property
    def _first(self) -> dict[str, Any]:
        """What is measured of the first network only."""
        return {name: self.options[name] for name in ("permutations", "examples")}

    def _profile(self, name: str, network: Checkpoint, **extras: Any) -> HeadProfile:
        done = None if self.progress is None else partial(self.progress, name)
        return self.profile(network, self.inputs, progress=done, **extras)

    def _digests(self) -> dict[str, str]:
        """Digest what is measured while it is: files may be gone when the report is read."""
        digests = {"inputs": inputs_digest(self.inputs), "weights": self.source.digest()}
        return digests if self.other is None else digests | {"other": self.other.digest()}


def _with_control(profiles: Mapping[str, HeadProfile]) -> dict[str, HeadProfile]:
    """Return profiles with that of equally sharp random heads behind the one of random heads."""
    found: dict[str, HeadProfile] = {}
    for name, profile in profiles.items():
        found[name] = profile
        if name == "random" and (sharpened := profiles["trained"].sharpened):
            found[AS_SHARP] = HeadProfile(sharpened)
    return found
