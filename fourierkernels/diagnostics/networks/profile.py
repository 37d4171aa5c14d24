"""One pass of a checkpoint over inputs, for any number of measures: inputs in, numbers out."""

import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from fourierkernels.checkpoints.checkpoint import Checkpoint
from fourierkernels.checkpoints.inputs import read_items
from fourierkernels.checkpoints.load import load_tokenizer
from fourierkernels.checkpoints.options import ReadOptions
from fourierkernels.checkpoints.tokens import InputCounts, check_known
from fourierkernels.diagnostics.controls import CONTROLS
from fourierkernels.diagnostics.distances import DEFAULT_METRIC
from fourierkernels.diagnostics.moments import State
from fourierkernels.diagnostics.networks.control import ControlDistances, control_distances
from fourierkernels.diagnostics.networks.measures import (
    Distances,
    Measure,
    PermutationNull,
    SharedMeasure,
    Statistics,
)
from fourierkernels.diagnostics.networks.passes import Examples, Modules, SlabMeasure, pass_over
from fourierkernels.diagnostics.networks.roles import Roles, measure_repeated
from fourierkernels.diagnostics.networks.samples import head_samples
from fourierkernels.diagnostics.profile import HeadProfile, MeasureOptions
from fourierkernels.diagnostics.role_summary import RoleSummary
from fourierkernels.diagnostics.summary import HeadSummary

Progress = Callable[[float], None]

_WARN_UNKNOWN = 0.1
_HINTS = re.compile(r"; what needs none| \(without")  # what to ask for instead, where all fails


def measure_heads(
    checkpoint: Checkpoint,
    inputs: Iterable[Any],
    measures: Sequence[Measure],
    read: ReadOptions,
    *,
    progress: Progress | None = None,
    share: tuple[int, int] = (0, 1),
    repeated: Roles | None = None,
    seed: int = 0,
) -> InputCounts:
    """Run a checkpoint over inputs once and give every sample to every measure.

    Memory does not depend on the number of inputs.

    Parameters
    ----------
    inputs : iterable
        See :func:`~fourierkernels.checkpoints.inputs.read_items`.
    measures : sequence
        Of ``fourierkernels.diagnostics.networks.measures``, or with their `add`.
    progress : callable, optional
        Called after each sample with the number of inputs finished so far, fractions included.
    share : (int, int)
        See :func:`~fourierkernels.diagnostics.networks.samples.head_samples`; all inputs are read
        and counted.
    repeated : Roles, optional
        Measured on random tokens that come twice, after the inputs.
    seed : int
        Of those tokens.

    Returns
    -------
    InputCounts
        What was read.

    Raises
    ------
    ValueError
        For inputs that cannot be used, or whose tokens are mostly unknown.
    """
    counts, tokenizer = InputCounts(), None
    checkpoint, context = checkpoint.with_limit(read.max_tokens), read.context
    if checkpoint.reads_texts:
        tokenizer = load_tokenizer(checkpoint, tokens=read.tokens)
        checkpoint = checkpoint.with_tokenizer(tokenizer)
        counts.notes = (tokenizer.note,) if tokenizer.note else ()
    items = read_items(checkpoint, inputs, tokenizer=tokenizer, context=context, counts=counts)
    samples = head_samples(checkpoint, items, batch_size=read.batch_size, share=share)
    done = count(1)  # not by enumerate, which holds on to the sample, and with it its batch
    for sample in samples:
        check_known(counts)
        pass_over(sample, [measure for measure in measures if isinstance(measure, SlabMeasure)])
        for measure in measures:
            if not isinstance(measure, SlabMeasure):
                measure.add(sample)
        del sample
        if progress is not None:
            progress(counts.texts * next(done) / counts.windows)
    if repeated is not None and counts.windows:
        measure_repeated(checkpoint, repeated, tokenizer=tokenizer, seed=seed, share=share)
    if context is None and tokenizer is not None and tokenizer.stream:
        context = checkpoint.limit
    check_counts(counts, context)
    return counts


def check_counts(counts: InputCounts, context: int | None) -> None:
    """Refuse inputs that fill no window, and warn if many tokens are unknown."""
    if counts.windows == 0:
        raise ValueError(
            f"texts must fill at least one window of tokens, got {counts.tokens} tokens of "
            f"{counts.texts} texts for context={context}"
        )
    if counts.unknown_share > _WARN_UNKNOWN:
        warnings.warn(f"{counts.unknown_share:.0%} of the tokens are unknown", stacklevel=4)


def profile_heads(
    checkpoint: Checkpoint,
    inputs: Iterable[Any],
    *,
    metrics: Sequence[str] = (DEFAULT_METRIC,),
    statistics: Sequence[str] | str = "all",
    permutations: int = 0,
    examples: int = 0,
    context: int | None = None,
    max_tokens: int | None = None,
    batch_size: int = 16,
    tokens: str = "auto",
    seed: int = 0,
    progress: Progress | None = None,
    controls: Sequence[str] = (),
    random: Checkpoint | None = None,
    roles: Sequence[str] | str = "none",
) -> HeadProfile:
    """Measure distances between heads, what each attends to, and whether chance explains it.

    Parameters
    ----------
    checkpoint : Checkpoint
        What :func:`~fourierkernels.checkpoints.load.load_checkpoint` returned.
    inputs : iterable
        Texts, pairs of texts or paths of images, as the checkpoint reads; read lazily.
    metrics : sequence of str
        Keys of :data:`~fourierkernels.diagnostics.distances.METRICS`.
    statistics : sequence of str, or str
        Keys of :data:`~fourierkernels.diagnostics.statistics.STATISTICS`, or one of
        :data:`~fourierkernels.diagnostics.statistics.SETS`. The Gaussian kernel of those that
        read keys has the variance that belongs to the scale of the layer.
    permutations : int
        Of the permutation null of the first metric; 0 for none.
    examples : int
        How many of the first inputs to keep with their maps.
    context, batch_size, tokens, progress
        How inputs become items: see :func:`~fourierkernels.checkpoints.inputs.read_items` and
        :func:`~fourierkernels.checkpoints.tokenizers.load_tokenizer`; how many share a batch;
        what is called with the number of inputs finished.
    max_tokens : int, optional
        Longer texts are cut into windows of at most so many tokens.
    seed : int
        Of permutations and draws.
    controls : sequence of str
        Keys of ``fourierkernels.diagnostics.controls.CONTROLS``: what the distances of maps would
        be by chance is measured beside them.
    random : Checkpoint, optional
        The same architecture with random weights, for the controls that are made of one.
    roles : sequence of str, or str
        Keys of :data:`~fourierkernels.diagnostics.roles.ROLES`, "all" or "none".

    Raises
    ------
    ValueError
        For a checkpoint or inputs that cannot be used.
    """
    asked = MeasureOptions(metrics, statistics, permutations, examples, seed, controls, roles)
    read = ReadOptions(tokens, context, max_tokens, batch_size)
    return make_profile(checkpoint, inputs, asked, read, progress=progress, random=random)


def make_profile(
    checkpoint: Checkpoint,
    inputs: Iterable[Any],
    asked: MeasureOptions,
    read: ReadOptions,
    *,
    progress: Progress | None = None,
    random: Checkpoint | None = None,
) -> HeadProfile:
    """Measure what was asked for; see :func:`profile_heads`."""
    for name in asked.control_names:
        if CONTROLS[name].needs_random and random is None:
            raise ValueError(f"random must be given for the control {name}, got None")
    taken = head_measures(asked, random)
    counts = measure_heads(
        checkpoint,
        inputs,
        taken.measures,
        read,
        progress=progress,
        repeated=taken.repeated,
        seed=asked.seed,
    )
    return taken.profile(counts)


def head_measures(asked: MeasureOptions, random: Checkpoint | None) -> "HeadMeasures":
    """Return what :func:`profile_heads` measures with these options, before the first sample.

    Without `random`, controls made of a random network only merge what others have taken in.
    """
    metrics, seed = asked.metric_names, asked.seed
    if asked.permutations and not metrics:
        raise ValueError(f"permutations need a metric, got {asked.permutations} and no metrics")
    return HeadMeasures(
        distances={name: Distances(name) for name in metrics},
        statistics=Statistics(asked.statistics),
        null=_null(metrics, asked.permutations, seed),
        controls=control_distances(asked.control_names, metrics, random=random, seed=seed),
        examples=Examples(asked.examples),
        roles=Roles(asked.roles),
        repeated=Roles(asked.roles, repeated=True),
    )


def _null(metrics: Sequence[str], permutations: int, seed: int) -> PermutationNull | None:
    if not permutations:
        return None
    return PermutationNull(metrics[0], permutations=permutations, seed=seed)


@dataclass(frozen=True)
class HeadMeasures:
    """What is measured in one pass; None for what was not asked for.

    Attributes
    ----------
    repeated : Roles
        Measured on random tokens that come twice, in a pass of its own.
    """

    distances: dict[str, Distances]
    statistics: Statistics
    null: PermutationNull | None
    controls: list[ControlDistances]
    examples: Examples
    roles: Roles
    repeated: Roles
    modules: Modules = field(default_factory=Modules)

    @property
    def measures(self) -> list[SharedMeasure]:
        """What is measured on the inputs, the distances first."""
        measures: list[SharedMeasure] = [*self.distances.values(), self.statistics]
        if self.null is not None:
            measures.append(self.null)
        return [*measures, *self.controls, self.roles, self.examples, self.modules]

    def states(self) -> list[State]:
        """Return what each measure has taken in."""
        return [measure.state() for measure in (*self.measures, self.repeated)]

    def merge(self, states: Sequence[State]) -> None:
        """Take in what the same measures have taken in of other inputs."""
        for measure, state in zip((*self.measures, self.repeated), states, strict=True):
            measure.merge(state)

    def profile(self, counts: InputCounts) -> HeadProfile:
        """Return what was measured.

        Raises
        ------
        ValueError
            If nothing that was asked for has a meaning for the network: the first reason.
        """
        statistics = self.statistics.summary()
        known = {name: measure for name, measure in self.distances.items() if not measure.left_out}
        if not (known or statistics or self.examples.count):
            for measure in self.distances.values():
                measure.check_applies()
        return HeadProfile(
            distances={name: measure.summary(counts) for name, measure in known.items()},
            statistics=statistics,
            null=None if self.null is None else self.null.summary(),
            examples=self.examples.summary(),
            controls=self._under_controls(counts),
            layers=self.modules.layers,
            unread=self.modules.unread,
            notes=(*counts.notes, *self.modules.all_notes),
            left_out=tuple(self._left_out()),
            shapes=self.modules.shapes,
            roles=self._roles(),
        )

    def _roles(self) -> dict[str, RoleSummary]:
        together = len(self.roles.asked) + len(self.repeated.asked)
        return self.roles.summaries(together) | self.repeated.summaries(together)

    def _under_controls(self, counts: InputCounts) -> dict[str, dict[str, HeadSummary]]:
        """Return distances by control and metric, of those that apply."""
        summaries: dict[str, dict[str, HeadSummary]] = {}
        for control in self.controls:
            if not (
                control.left_out or control.redundant or self.distances[control.metric].left_out
            ):
                summaries.setdefault(control.control.name, {})[control.metric] = control.summary(
                    counts
                )
        return summaries

    def _left_out(self) -> Iterator[str]:
        """Yield what was asked for and does not apply, with the reason."""
        reasons = {name: measure.left_out for name, measure in self.distances.items()}
        reasons["statistics"] = self.statistics.left_out
        if self.null is not None:
            reasons["permutations"] = self.null.left_out
        reasons["roles"] = self.roles.left_out
        reasons[" and ".join(self.repeated.asked)] = self.repeated.left_out
        for control in (x for x in self.controls if not self.distances[x.metric].left_out):
            reasons[f"control {control.control.name} of {control.metric}"] = control.left_out
        for name, reason in reasons.items():
            if reason:
                yield f"{name}: {_HINTS.split(reason)[0]}"
        for name in (*self.roles.unseen, *self.repeated.unseen):
            yield f"{name}: no input has rows with such keys and others"
        for name in self.statistics.without_meaning:
            yield f"{name}: it has no meaning for this network and these inputs"
