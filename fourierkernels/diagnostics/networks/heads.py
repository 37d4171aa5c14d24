"""How different are the heads of a checkpoint, and what do they attend to? Inputs in, numbers out.

All goes through :func:`measure_heads`, one pass over the inputs for any number of measures.
"""

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from fourierkernels.checkpoints.inputs import read_items
from fourierkernels.checkpoints.load import (
    Checkpoint,
    load_checkpoint,
    load_tokenizer,
)
from fourierkernels.checkpoints.tokens import InputCounts, check_known
from fourierkernels.diagnostics.distances import DEFAULT_METRIC
from fourierkernels.diagnostics.examples import Example
from fourierkernels.diagnostics.networks.measures import (
    Distances,
    Examples,
    Measure,
    PermutationNull,
    Statistics,
)
from fourierkernels.diagnostics.networks.samples import head_samples
from fourierkernels.diagnostics.profile import StatisticSummary
from fourierkernels.diagnostics.resampling import NullComparison
from fourierkernels.diagnostics.summary import HeadSummary

Progress = Callable[[float], None]

_WARN_UNKNOWN = 0.1


@dataclass(frozen=True, eq=False)
class HeadProfile:
    """All that one pass over the inputs found out about the heads of a network.

    Attributes
    ----------
    distances : dict
        By metric.
    statistics : dict
        By name.
    null : NullComparison or None
        Of the first metric.
    examples : list
        The first inputs with their maps.
    """

    distances: dict[str, HeadSummary]
    statistics: dict[str, StatisticSummary] = field(default_factory=dict)
    null: NullComparison | None = None
    examples: list[Example] = field(default_factory=list)


def measure_heads(
    checkpoint: Checkpoint,
    inputs: Iterable[Any],
    measures: Sequence[Measure],
    *,
    tokens: str = "auto",
    context: int | None = None,
    batch_size: int = 16,
    progress: Progress | None = None,
) -> InputCounts:
    """Run a checkpoint over inputs once and give every sample to every measure.

    Memory does not depend on the number of inputs.

    Parameters
    ----------
    inputs, context
        See :func:`~fourierkernels.checkpoints.inputs.read_items`.
    measures : sequence
        Of ``fourierkernels.diagnostics.networks.measures``, or with their `add`.
    tokens : str
        See :func:`~fourierkernels.checkpoints.load.load_tokenizer`.
    progress : callable, optional
        Called after each sample with the number of inputs finished so far, fractions included.

    Returns
    -------
    InputCounts
        What was read.

    Raises
    ------
    ValueError
        For inputs that cannot be used, or that most tokens of are unknown.
    """
    reading, tokenizer = InputCounts(), None
    if checkpoint.reads_texts:
        tokenizer = load_tokenizer(checkpoint, tokens=tokens)
        checkpoint = checkpoint.with_tokenizer(tokenizer)
    items = read_items(checkpoint, inputs, tokenizer=tokenizer, context=context, counts=reading)
    samples = head_samples(checkpoint, items, batch_size=batch_size)
    done = count(1)  # not by enumerate, which holds on to the sample, and with it its batch
    for sample in samples:
        check_known(reading)
        for measure in measures:
            measure.add(sample)
        del sample
        if progress is not None:
            progress(reading.texts * next(done) / reading.windows)
    if reading.windows == 0:
        raise ValueError(
            f"texts must fill at least one window of tokens, got {reading.tokens} tokens of "
            f"{reading.texts} texts for context={context}"
        )
    if reading.unknown_share > _WARN_UNKNOWN:
        warnings.warn(f"{reading.unknown_share:.0%} of the tokens are unknown", stacklevel=2)
    return reading


def profile_heads(
    checkpoint: str | Path | Checkpoint,
    inputs: Iterable[Any],
    *,
    metrics: Sequence[str] = (DEFAULT_METRIC,),
    statistics: Sequence[str] | str = "all",
    permutations: int = 0,
    examples: int = 0,
    context: int | None = None,
    batch_size: int = 16,
    tokens: str = "auto",
    seed: int = 0,
    progress: Progress | None = None,
    **loading: Any,
) -> HeadProfile:
    """Measure distances between heads, what each attends to, and whether chance explains it.

    Parameters
    ----------
    checkpoint : str, Path or Checkpoint
        What :func:`~fourierkernels.checkpoints.load.load_checkpoint` takes, or
        returned.
    inputs : iterable
        Texts, pairs of texts or paths of images, as the checkpoint reads; read lazily.
    metrics : sequence of str
        Keys of :data:`~fourierkernels.diagnostics.distances.METRICS`.
    statistics : sequence of str, or str
        Of :data:`~fourierkernels.diagnostics.networks.measures.ALL_STATISTICS`, or a key of
        :data:`~fourierkernels.diagnostics.networks.measures.STATISTIC_SETS`.
    permutations : int
        Of the permutation null of the first metric; 0 for none.
    examples : int
        How many of the first inputs to keep with their maps.
    context, batch_size, tokens, progress
        See :func:`measure_heads`.
    seed : int
        Of random weights, bootstrap and permutations.
    **loading
        Passed to :func:`~fourierkernels.checkpoints.load.load_checkpoint`.

    Raises
    ------
    ValueError
        For a checkpoint or inputs that cannot be used.
    """
    distances = {name: Distances(name, seed=seed) for name in metrics}
    if permutations and not distances:
        raise ValueError(f"permutations need a metric, got {permutations} and no metrics")
    wanted = len(statistics) > 0 and statistics != "none"
    described = Statistics(statistics, seed=seed) if wanted else None
    null = (
        PermutationNull(metrics[0], permutations=permutations, seed=seed) if permutations else None
    )
    kept = Examples(examples) if examples else None
    measures = [one for one in (*distances.values(), described, null, kept) if one is not None]
    if not isinstance(checkpoint, Checkpoint):
        checkpoint = load_checkpoint(checkpoint, seed=seed, **loading)
    reading = measure_heads(
        checkpoint,
        inputs,
        measures,
        tokens=tokens,
        context=context,
        batch_size=batch_size,
        progress=progress,
    )
    return HeadProfile(
        distances={name: one.summary(reading) for name, one in distances.items()},
        statistics=described.summary() if described else {},
        null=null.summary() if null else None,
        examples=kept.summary() if kept else [],
    )


def summarise_heads(
    checkpoint: str | Path | Checkpoint,
    texts: Iterable[Any],
    *,
    metric: str = DEFAULT_METRIC,
    **options: Any,
) -> HeadSummary:
    """Measure the distances between the heads of a checkpoint, averaged over texts.

    Parameters
    ----------
    metric : str
        A key of :data:`fourierkernels.diagnostics.distances.METRICS`.
    checkpoint, texts, **options
        As in :func:`profile_heads`.
    """
    profile = profile_heads(checkpoint, texts, metrics=[metric], statistics=(), **options)
    return profile.distances[metric]


def head_statistics(
    checkpoint: str | Path | Checkpoint,
    texts: Iterable[Any],
    *,
    names: Sequence[str] | str = "all",
    **options: Any,
) -> dict[str, StatisticSummary]:
    """Measure what each head attends to, averaged over texts, with intervals.

    The Gaussian kernel has the variance that belongs to the scale of the first layer.

    Parameters
    ----------
    names : sequence of str, or str
        Of :data:`~fourierkernels.diagnostics.networks.measures.ALL_STATISTICS`, or a key of
        :data:`~fourierkernels.diagnostics.networks.measures.STATISTIC_SETS`.
    checkpoint, texts, **options
        As in :func:`profile_heads`.

    Returns
    -------
    dict
        A summary of ``(L, H)`` a name.
    """
    return profile_heads(checkpoint, texts, metrics=(), statistics=names, **options).statistics


def compare_networks(
    checkpoint: str | Path,
    texts: Iterable[Any],
    *,
    metric: str = DEFAULT_METRIC,
    **options: Any,
) -> dict[str, HeadSummary]:
    """Summarise the heads of a checkpoint and of the same architecture with random weights.

    A distance between heads means little without the second: some measures do not tell a trained
    network from noise.

    Parameters
    ----------
    metric : str
        A key of :data:`fourierkernels.diagnostics.distances.METRICS`.
    checkpoint, texts, **options
        As in :func:`profile_networks`.

    Returns
    -------
    dict
        ``{"trained": HeadSummary, "random": HeadSummary, "other": HeadSummary}``, the second if
        `baseline`, the third if there is another checkpoint.
    """
    profiles = profile_networks(checkpoint, texts, metrics=[metric], statistics=(), **options)
    return {name: profile.distances[metric] for name, profile in profiles.items()}


def profile_networks(
    checkpoint: str | Path,
    texts: Iterable[Any],
    *,
    baseline: bool = True,
    against: str | Path | None = None,
    permutations: int = 0,
    examples: int = 0,
    progress: Callable[[str, float], None] | None = None,
    **options: Any,
) -> dict[str, HeadProfile]:
    """Profile a checkpoint, its architecture with random weights, and another checkpoint.

    Parameters
    ----------
    texts : iterable
        Read once for each network, so it must allow that: a list or
        :func:`~fourierkernels.checkpoints.texts.read_texts`.
    baseline : bool
        Whether to measure the random weights too.
    against : str or Path, optional
        Another checkpoint, to be measured on the same texts with the same options; see
        :func:`~fourierkernels.diagnostics.comparison.head_difference`.
    permutations, examples
        As in :func:`profile_heads`; of the checkpoint asked about only.
    progress : callable, optional
        Called with the name of the network and the number of its texts finished.
    **options
        Passed to :func:`profile_heads`.

    Returns
    -------
    dict
        "trained", "random" if `baseline`, and "other" if there is another checkpoint.
    """
    if iter(texts) is texts:
        raise TypeError("texts must be readable twice, a list or a text file, got an iterator")
    networks = {"trained": checkpoint}
    if baseline:
        networks["random"] = checkpoint
    if against is not None:
        networks["other"] = against
    profiles: dict[str, HeadProfile] = {}
    for name, network in networks.items():
        extras: dict[str, Any] = {}
        if not profiles:
            extras = {"permutations": permutations, "examples": examples}
        report = None if progress is None else partial(progress, name)
        profiles[name] = profile_heads(
            network, texts, random_weights=name == "random", progress=report, **extras, **options
        )
    return profiles
