"""The networks of a report: each is loaded once and measured, here or by several workers."""

import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from operator import length_hint

from fourierkernels.checkpoints import Checkpoint
from fourierkernels.checkpoints.contexts import computing_on, device_of
from fourierkernels.diagnostics.networks.profile import make_profile
from fourierkernels.diagnostics.networks.pruning import head_pruning
from fourierkernels.diagnostics.profile import HeadProfile, HeadPruning, MeasureOptions
from fourierkernels.report.content import provenance
from fourierkernels.report.heads import HeadReport
from fourierkernels.report.inputs import Inputs, inputs_digest
from fourierkernels.report.options import ReportOptions, Team
from fourierkernels.report.shards import Pass
from fourierkernels.report.sharing import measure_together
from fourierkernels.report.sources import FileSource, Source

Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class Plan:
    """The validated request for a report; nothing is loaded yet.

    Attributes
    ----------
    source, other, untrained : Source
        The network asked about, another one to compare with, and one with random weights, if it
        was given.
    team : Team
        Who measures.
    """

    source: Source
    other: Source | None
    untrained: Source | None
    inputs: Inputs
    options: ReportOptions
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
        trained = self.source.load(task_head=self.options.importance is not None)
        kind = "image" if trained.reads == "images" else "text"
        # Importance comes first: it is more likely to be refused.
        with computing_on(device_of(trained.model)):
            pruning = self._prune(trained)
        network = trained.without_task_head()
        del trained
        profiles = self._together(digests) if self.team.shares else self._in_turn(network)
        return HeadReport(
            title=self.source.name,
            profiles=profiles,
            spread=self.options.spread,
            pruning=pruning,
            against=self._against,
            skipped=getattr(self.inputs, "n_skipped", 0),
            kind=kind,
            origin=provenance(self.options.record(self.source.name, self._against), digests),
        )

    @property
    def _against(self) -> str | None:
        return None if self.other is None else self.other.name

    def _prune(self, network: Checkpoint) -> HeadPruning | None:
        options, read = self.options, self.options.read
        if options.importance is None:
            return None
        return head_pruning(
            network,
            self.inputs,
            method=options.importance,
            loss=options.loss,
            tokens=read.tokens,
            context=read.context,
            max_tokens=read.max_tokens,
            seed=options.measure.seed,
        )

    def _in_turn(self, network: Checkpoint) -> dict[str, HeadProfile]:
        """Measure one network after the other in this process."""
        random, measure = self._random(), self.options.measure
        profiles = {"trained": self._profile("trained", network, measure, random=random)}
        del network
        if random is not None:
            profiles["random"] = self._profile("random", random, _without_extras(measure))
        del random  # another network has no room beside it
        if self.other is not None:
            matched = _without_controls(measure)  # heads are matched on the examples
            profiles["other"] = self._profile("other", self.other.load(), matched)
        return profiles

    def _random(self) -> Checkpoint | None:
        if self.untrained is not None:
            return self.untrained.load().without_task_head()
        return self.source.draw(self.options.measure.seed) if self.options.baseline else None

    def _profile(
        self,
        name: str,
        network: Checkpoint,
        measure: MeasureOptions,
        *,
        random: Checkpoint | None = None,
    ) -> HeadProfile:
        done = None if self.progress is None else partial(self.progress, name)
        read = self.options.read
        return make_profile(network, self.inputs, measure, read, progress=done, random=random)

    def _together(self, digests: Mapping[str, str]) -> dict[str, HeadProfile]:
        """Measure all networks by several workers."""
        facts, total = self._facts(digests), length_hint(self.inputs)
        told = self.progress or (lambda network, done: None)
        identity, measure = json.dumps(facts, default=str), self.options.measure
        first = self._pass("trained", self.source, measure, digests, identity)
        passes = [replace(first, controlled=self.options.needs_random)]
        if self.options.baseline:
            bare = _without_extras(measure)
            passes.append(replace(first, network="random", drawn=True, measure=bare))
        if self.other is not None:
            matched = _without_controls(measure)
            passes.append(self._pass("other", self.other, matched, digests, identity))
        return measure_together(
            passes, self.team, facts, lambda network, share: told(network, share * total)
        )

    def _pass(
        self,
        network: str,
        source: Source,
        measure: MeasureOptions,
        digests: Mapping[str, str],
        identity: str,
    ) -> Pass:
        if not isinstance(source, FileSource):
            raise ValueError(
                f"workers must be 1, without scheduler and resume, for a model in memory, "
                f"got {source.name}"
            )
        return Pass(
            network=network,
            source=replace(source, device=self.options.device),
            inputs=self.inputs,
            measure=measure,
            read=self.options.read,
            digests={
                "inputs": digests["inputs"],
                "weights": digests["other" if network == "other" else "weights"],
            },
            identity=identity,
        )

    def _facts(self, digests: Mapping[str, str]) -> dict[str, object]:
        """Return all that the numbers of a shard depend on, by names for a message."""
        versions = provenance({}, {})["versions"]
        return {
            **self.options.of_shards().record(self.source.name, self._against),
            **{f"SHA-256 of {name}": digest for name, digest in digests.items()},
            **{f"version of {name}": version for name, version in versions.items()},
        }

    def _digests(self) -> dict[str, str]:
        """Digest what is measured while it is: files may be gone when the report is read."""
        digests = {"inputs": inputs_digest(self.inputs), "weights": self.source.digest()}
        return digests if self.other is None else digests | {"other": self.other.digest()}


def _without_extras(measure: MeasureOptions) -> MeasureOptions:
    """Return what is measured of random weights: no controls, no roles, nothing to look at."""
    return replace(_without_controls(measure), examples=0)


def _without_controls(measure: MeasureOptions) -> MeasureOptions:
    """Return what is measured of a network that is itself compared with."""
    return replace(measure, permutations=0, controls=(), roles="none")
