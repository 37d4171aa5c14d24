"""From a checkpoint and inputs to the report of its heads: find once, load once, measure."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from fourierkernels.checkpoints import (
    CheckpointFiles,
    find_checkpoint,
    load_checkpoint,
)
from fourierkernels.checkpoints.batches import Batches
from fourierkernels.checkpoints.held import unwrapped
from fourierkernels.checkpoints.placing import check_device
from fourierkernels.diagnostics.distances import DEFAULT_METRIC, METRICS
from fourierkernels.diagnostics.networks.importance import IMPORTANCES
from fourierkernels.diagnostics.networks.losses import LOSSES
from fourierkernels.diagnostics.networks.profile import profile_heads
from fourierkernels.diagnostics.networks.pruning import head_pruning
from fourierkernels.diagnostics.statistics import check_statistics
from fourierkernels.diagnostics.summary import DEFAULT_SPREAD, SPREADS
from fourierkernels.foundation.validation import check_choice, check_integer
from fourierkernels.report.heads import HeadReport
from fourierkernels.report.inputs import Inputs, choose_inputs, held_inputs
from fourierkernels.report.networks import LOADING, Progress, Study
from fourierkernels.report.sharing import Team
from fourierkernels.report.sources import FileSource, HeldSource, Source

Network = str | Path | CheckpointFiles | nn.Module


def head_report(
    checkpoint: Network,
    inputs: Any = None,
    *,
    tokenizer: Any = None,
    metrics: Sequence[str] | str = (DEFAULT_METRIC,),
    statistics: Sequence[str] | str = "maps",
    baseline: bool | nn.Module = True,
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
    config: str | Path | Mapping[str, Any] | None = None,
    preset: str | None = None,
    vocabulary: str | Path | None = None,
    seed: int = 0,
    spread: str = DEFAULT_SPREAD,
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
        Measure the same architecture with random weights too, and the same random heads sharpened
        to the entropy of the trained rows. A distance between heads means little without them:
        some metrics do not tell a trained network from noise, others mostly tell how sharp it is.
        A model in memory whose class is not one of transformers or of this package cannot be drawn
        anew: give one with random weights.
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
        Of everything random: weights, bootstrap, permutations, masked tokens.
    spread : str
        Key of :data:`~fourierkernels.diagnostics.summary.SPREADS`: what ± runs over.
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
    asked = {name: value for name, value in locals().items() if name not in _NOT_OPTIONS}
    asked["tokens"] = "ids" if inputs is None else tokens
    if not isinstance(tokenizer, str | Path | None):
        asked["tokenizer"] = type(tokenizer).__name__
    team = Team(
        check_integer("workers", workers), scheduler, None if resume is None else Path(resume)
    )
    return _plan(checkpoint, inputs, tokenizer, asked, team, progress).report()


_NOT_OPTIONS = ("inputs", "workers", "scheduler", "resume", "progress")


def _plan(
    checkpoint: Network,
    inputs: Any,
    tokenizer: Any,
    asked: dict[str, Any],
    team: Team,
    progress: Progress | None,
) -> Study:
    """Check the options, and find the checkpoints and what is measured on."""
    names, chosen = _check_options(asked)
    read = {name: asked[name] for name in ("tokens", "context", "max_tokens", "seed")}
    profile = partial(profile_heads, metrics=names, statistics=chosen, **read)
    prune = partial(head_pruning, loss=asked["loss"], method=asked["importance"], **read)
    found = _found("checkpoint", checkpoint)
    other = None if asked["against"] is None else _found("against", asked["against"])
    chosen_inputs = _inputs(inputs, found, other, asked)
    is_path = isinstance(tokenizer, str | Path | None)
    if not is_path and not any(isinstance(one, nn.Module) for one in (found, other)):
        raise TypeError(
            f"tokenizer must be a folder or a file for {found}, got {type(tokenizer).__name__}"
        )
    here = asked["device"] if team.scheduler is None else None
    if here is not None:
        check_device(here)
    make = partial(_source, inputs=chosen_inputs, tokenizer=tokenizer, asked=asked, device=here)
    source, against = make(found), None if other is None else make(other)
    named = ("checkpoint", "against", "baseline")
    held = {n: type(asked[n]).__name__ for n in named if isinstance(asked[n], nn.Module)}
    untrained = _untrained(asked["baseline"], source)
    return Study(
        source=source,
        other=against,
        untrained=None if untrained is None else make(untrained),
        inputs=chosen_inputs,
        prune=None if asked["importance"] is None else prune,
        profile=partial(profile, batch_size=asked["batch_size"]),
        options=asked | held,
        team=team,
        progress=progress,
    )


def _found(name: str, network: Network) -> CheckpointFiles | nn.Module:
    if not isinstance(network, str | Path | CheckpointFiles | nn.Module):
        raise TypeError(f"{name} must be a path or a torch module, got {type(network).__name__}")
    return unwrapped(network) if isinstance(network, nn.Module) else find_checkpoint(network)


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


def _inputs(
    inputs: Any,
    found: CheckpointFiles | nn.Module,
    other: CheckpointFiles | nn.Module | None,
    asked: Mapping[str, Any],
) -> Inputs:
    """Return what all networks read."""
    if isinstance(found, nn.Module):
        return held_inputs(inputs)
    return choose_inputs(inputs, found, None if isinstance(other, nn.Module) else other, asked)


def _source(
    found: CheckpointFiles | nn.Module,
    *,
    inputs: Inputs,
    tokenizer: Any,
    asked: Mapping[str, Any],
    device: str | None,
) -> Source:
    given = {name: asked[name] for name in LOADING}
    if not isinstance(found, nn.Module):
        if isinstance(inputs, Batches):
            raise TypeError(f"inputs must be texts or paths for {found}, got batches of tensors")
        own = tokenizer if isinstance(tokenizer, str | Path) else None
        return FileSource(found, partial(load_checkpoint, **given | {"tokenizer": own}), device)
    of_files = [name for name in (*LOADING, "device") if name not in ("part", "tokenizer")]
    if strange := [name for name in of_files if asked[name] is not None]:
        raise ValueError(
            f"{strange[0]} must be left out for a model in memory, got {asked[strange[0]]!r}"
        )
    _check_loss(inputs, asked)
    return HeldSource(found, inputs, tokenizer, asked["part"], asked["tokens"], asked["seed"])


def _check_loss(inputs: Inputs, asked: Mapping[str, Any]) -> None:
    if isinstance(inputs, Batches) and asked["importance"] and asked["loss"] != "states":
        raise ValueError(f"loss must be states for ready batches, got {asked['loss']}")


def _check_options(asked: Mapping[str, Any]) -> tuple[list[str], list[str] | str]:
    """Refuse what is wrong with the options themselves; return names of metrics and statistics."""
    check_choice("spread (--std)", asked["spread"], list(SPREADS))
    check_choice("loss", asked["loss"], ["auto", *LOSSES])
    if asked["importance"] is not None:
        check_choice("importance", asked["importance"], list(IMPORTANCES))
    elif asked["loss"] != "auto":
        raise ValueError(f"loss needs an importance to be measured, got {asked['loss']} without")
    metrics, statistics = _check_metrics(asked["metrics"]), check_statistics(asked["statistics"])
    described = len(statistics) > 0 and statistics != "none"
    if not (metrics or described or asked["importance"] or asked["examples"]):
        raise ValueError(
            "metrics, statistics or importance must name something to measure, got none"
        )
    if asked["permutations"] and not metrics:
        raise ValueError(f"permutations need a metric, got {asked['permutations']} and none")
    for name in ("permutations", "examples", "seed"):
        check_integer(name, asked[name], least=0)
    check_integer("batch_size", asked["batch_size"])
    if asked["max_tokens"] is not None:
        check_integer("max_tokens", asked["max_tokens"])
    return metrics, statistics


def _check_metrics(names: Sequence[str] | str) -> list[str]:
    """Return names of metrics, each once; none where only other things are to be measured."""
    if not isinstance(names, Iterable):
        raise TypeError(f"metrics (--metric) must be names of metrics, got {names!r}")
    given = [names] if isinstance(names, str) else list(names)
    if given == ["none"]:
        return []
    return [check_choice("metric", name, list(METRICS)) for name in dict.fromkeys(given)]
