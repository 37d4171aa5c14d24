"""From a checkpoint and inputs to the report of its heads: find once, load once, measure."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from fourierkernels.checkpoints.batches import Batches
from fourierkernels.checkpoints.contexts import check_device
from fourierkernels.checkpoints.find import CheckpointFiles
from fourierkernels.checkpoints.in_memory import unwrapped
from fourierkernels.checkpoints.options import Config, LoadOptions, ReadOptions
from fourierkernels.diagnostics.controls import DEFAULT_CONTROLS
from fourierkernels.diagnostics.distances import DEFAULT_METRIC
from fourierkernels.diagnostics.profile import MeasureOptions
from fourierkernels.diagnostics.summary import DEFAULT_SPREAD
from fourierkernels.report.heads import HeadReport
from fourierkernels.report.inputs import Inputs, choose_inputs, inputs_in_memory
from fourierkernels.report.lens import HeadLens
from fourierkernels.report.networks import Plan, Progress
from fourierkernels.report.opened import Found, Network, find_network
from fourierkernels.report.options import ReportOptions, Team
from fourierkernels.report.sources import FileSource, ModelSource, Source


def head_report(
    checkpoint: Network,
    inputs: Any = None,
    *,
    tokenizer: Any = None,
    metrics: Sequence[str] | str = (DEFAULT_METRIC,),
    statistics: Sequence[str] | str = "maps",
    baseline: bool | nn.Module = True,
    controls: Sequence[str] | str = DEFAULT_CONTROLS,
    against: Network | None = None,
    permutations: int = 0,
    importance: str | None = None,
    loss: str = "auto",
    examples: int = 8,
    context: int | None = None,
    max_tokens: int | None = None,
    batch_size: int = 16,
    tokens: str = "auto",
    part: str | None = None,
    model_class: str | None = None,
    config: str | Path | Config | None = None,
    preset: str | None = None,
    vocabulary: str | Path | None = None,
    seed: int = 0,
    spread: str = DEFAULT_SPREAD,
    roles: Sequence[str] | str = "all",
    workers: int = 1,
    scheduler: str | None = None,
    device: str | None = None,
    resume: str | Path | None = None,
    progress: Progress | None = None,
) -> HeadReport:
    """Measure how different the attention heads of a checkpoint are, and what they attend to.

    Parameters
    ----------
    checkpoint : str, Path, CheckpointFiles or nn.Module
        A folder saved by transformers, the folder of a training run, a file of weights, or
        ``PACKAGE:PATH`` for one of these in an installed package. Nothing is downloaded and no
        code of the checkpoint is run. Or a model in memory: it is measured where it is, with the
        weights and the precision that it has, and left as it was.
    inputs : str, Path or iterable that can be read again, optional
        Texts, (source, target) pairs of texts, or paths of images, as the checkpoint reads; or the
        path of a file with one text per line, or of a folder of images or of WAV files. May be left
        out for a training run, which keeps token ids of its test text. For a model in memory also
        ready batches: dictionaries of tensors, with which it is called (labels are left out, and
        padding that an ``attention_mask`` hides is cut away), or tensors, each row of which is
        taken to be one text or image without padding.
    tokenizer : str, Path or tokenizer of transformers, optional
        Folder or file of a tokenizer. For a model in memory also the tokenizer itself; by default
        what lies at the model's ``name_or_path``, a folder or a name in the local cache. Nothing is
        downloaded.
    metrics : sequence of str, or str
        Keys of :data:`~fourierkernels.diagnostics.distances.METRICS`; the first is drawn. "none"
        for none.
    statistics : sequence of str, or str
        Keys of :data:`~fourierkernels.diagnostics.statistics.STATISTICS`, or one of
        :data:`~fourierkernels.diagnostics.statistics.SETS`.
    baseline : bool or nn.Module
        Measure the same architecture with random weights too. It says how flat untrained heads are,
        and whether a metric tells a trained network from noise; it is no control of a distance.
        A model in memory whose class is not one of transformers or of this package cannot be drawn
        anew: give one with random weights.
    controls : sequence of str, or str
        Keys of ``fourierkernels.diagnostics.controls.CONTROLS``, or "none". A distance between
        heads means little without one: it depends first of all on how their rows spread their
        weight. "rows" is what heads with the same rows on unrelated keys would have; "all_keys" the
        same with special tokens among the keys, measured where there are some; "position" what is
        left where heads share no more than positions.
    against : str, Path, CheckpointFiles or nn.Module, optional
        Another checkpoint, to be compared with on the same inputs.
    permutations : int
        Compare with heads that attend to unrelated keys, that number of times; 0 for not at all.
    importance : str, optional
        A key of :data:`~fourierkernels.diagnostics.networks.importance.IMPORTANCES`: find the heads
        that can be pruned.
    loss : str
        Loss used for importance: a key of
        :data:`~fourierkernels.diagnostics.networks.losses.LOSSES`, or "auto" for the one of the
        model's class.
    examples : int
        Number of first inputs kept with their maps, for inspection.
    context : int, optional
        Join the texts and cut windows of exactly this many tokens.
    max_tokens : int, optional
        Cut texts that are longer into windows of at most so many tokens.
    batch_size : int
        Inputs that share a batch, at most.
    tokens : str
        How texts become ids; see :func:`~fourierkernels.checkpoints.tokenizers.load_tokenizer`.
    part, model_class, config, preset, vocabulary
        See :func:`~fourierkernels.checkpoints.load.load_checkpoint`.
    seed : int
        Of everything random: weights, permutations, draws of controls, masked tokens.
    spread : str
        Key of :data:`~fourierkernels.diagnostics.summary.SPREADS`: what ± runs over.
    roles : sequence of str, or str
        Keys of :data:`~fourierkernels.diagnostics.roles.ROLES`, "all" or "none": how much weight
        each head gives to the previous token, the first, delimiters, pieces of an image, other
        places of the same token and what followed it there, beside chance. The last two are
        measured on random tokens that come twice.
    workers : int
        Processes on this machine, each with one thread and the network in its memory; each measures
        shares of the inputs, and the numbers are those of one process with one thread.
    scheduler : str, optional
        Address of a Dask scheduler, ``tcp://host:8786``, whose workers measure the shares instead.
        They need this package, the checkpoint and the files of inputs under the same paths.
    device : str, optional
        Where a network from files computes, ``"cuda"`` say; the processor by default.
    resume : str or Path, optional
        A folder that keeps finished shares, so that the same call goes on where another one was
        interrupted; it holds them in ``.shards``, which may be removed afterwards.
    progress : callable, optional
        Called with the name of a network and the number of its inputs finished.

    Raises
    ------
    ValueError, TypeError
        For options that are not known or do not fit each other, before anything is loaded; then
        for a checkpoint or inputs that cannot be used.
    """
    load = LoadOptions(model_class, config, preset, vocabulary, tokenizer, part)
    read = ReadOptions("ids" if inputs is None else tokens, context, max_tokens, batch_size)
    measure = MeasureOptions(metrics, statistics, permutations, examples, seed, controls, roles)
    options = ReportOptions(load, read, measure, baseline, importance, loss, spread, device)
    options.check()
    team, network = Team(workers, scheduler, resume), find_network("checkpoint", checkpoint)
    other = None if against is None else find_network("against", against)
    return make_report(network, inputs, options, against=other, team=team, progress=progress)


def make_report(
    network: Found,
    inputs: Any,
    options: ReportOptions,
    *,
    against: Found | None,
    team: Team,
    progress: Progress | None,
) -> HeadReport:
    """Measure a network that was found; see :func:`head_report`."""
    chosen = _inputs(inputs, network, against, options)
    in_memory = any(isinstance(network, nn.Module) for network in (network, against))
    if not options.load.names_tokenizer and not in_memory:
        raise TypeError(
            f"tokenizer must be a folder or a file for {network}, "
            f"got {type(options.load.tokenizer).__name__}"
        )
    here = options if team.scheduler is None else replace(options, device=None)
    if here.device is not None:
        check_device(here.device)
    source = _source(network, chosen, here)
    other = None if against is None else _source(against, chosen, here)
    untrained = _untrained(options.baseline, source)
    report = Plan(
        source=source,
        other=other,
        untrained=None if untrained is None else _source(untrained, chosen, here),
        inputs=chosen,
        options=options,
        team=team,
        progress=progress,
    ).report()
    return replace(report, lens=HeadLens.of(network, options))


def _untrained(baseline: bool | nn.Module, source: Source) -> nn.Module | None:
    """Return the model with random weights, if one is given."""
    if not isinstance(baseline, nn.Module):
        return None
    if isinstance(source, FileSource):
        raise ValueError(
            f"baseline must be True or False for {source.name}, which is drawn anew from its "
            f"files, got {type(baseline).__name__}"
        )
    return unwrapped(baseline)


def _inputs(inputs: Any, network: Found, against: Found | None, options: ReportOptions) -> Inputs:
    """Return what all networks read."""
    if isinstance(network, nn.Module):
        return inputs_in_memory(inputs)
    other = against if isinstance(against, CheckpointFiles) else None
    return choose_inputs(inputs, network, other, options)


def _source(network: Found, inputs: Inputs, options: ReportOptions) -> Source:
    load = options.load
    if isinstance(network, CheckpointFiles):
        if isinstance(inputs, Batches):
            raise TypeError(f"inputs must be texts or paths for {network}, got batches of tensors")
        named = load if load.names_tokenizer else replace(load, tokenizer=None)
        return FileSource(network, named, options.device)
    for name, value in (*load.of_files(), ("device", options.device)):
        if value is not None:
            raise ValueError(f"{name} must be left out for a model in memory, got {value!r}")
    if isinstance(inputs, Batches) and options.importance and options.loss != "states":
        raise ValueError(f"loss must be states for ready batches, got {options.loss}")
    tokens, seed = options.read.tokens, options.measure.seed
    return ModelSource(network, inputs, load.tokenizer, load.part, tokens, seed)
