"""From a checkpoint and inputs to the report of its heads: find once, load once, measure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from fourierkernels.checkpoints import (
    Checkpoint,
    CheckpointFiles,
    find_checkpoint,
    load_checkpoint,
)
from fourierkernels.diagnostics.distances import DEFAULT_METRIC, METRICS
from fourierkernels.diagnostics.networks.importance import IMPORTANCES
from fourierkernels.diagnostics.networks.losses import LOSSES
from fourierkernels.diagnostics.networks.profile import profile_heads
from fourierkernels.diagnostics.networks.pruning import head_pruning
from fourierkernels.diagnostics.profile import HeadProfile
from fourierkernels.diagnostics.pruning import HeadPruning
from fourierkernels.diagnostics.statistics import check_statistics
from fourierkernels.diagnostics.summary import DEFAULT_SPREAD, SPREADS
from fourierkernels.report.content import AS_SHARP, provenance
from fourierkernels.report.heads import HeadReport
from fourierkernels.report.inputs import Inputs, choose_inputs, inputs_digest
from fourierkernels.validation import check_choice, check_integer

Progress = Callable[[str, float], None]


def head_report(
    checkpoint: str | Path | CheckpointFiles,
    inputs: str | Path | Inputs | None = None,
    *,
    metrics: Sequence[str] | str = (DEFAULT_METRIC,),
    statistics: Sequence[str] | str = "maps",
    baseline: bool = True,
    against: str | Path | CheckpointFiles | None = None,
    permutations: int = 0,
    importance: str | None = None,
    loss: str = "auto",
    examples: int = 8,
    context: int | None = None,
    batch_size: int = 16,
    tokens: str = "auto",
    part: str | None = None,
    model_class: str | None = None,
    config: str | Path | Mapping[str, Any] | None = None,
    preset: str | None = None,
    vocabulary: str | Path | None = None,
    tokenizer: str | Path | None = None,
    seed: int = 0,
    spread: str = DEFAULT_SPREAD,
    progress: Progress | None = None,
) -> HeadReport:
    """Measure how different the attention heads of a checkpoint are, and what they attend to.

    Parameters
    ----------
    checkpoint : str, Path or CheckpointFiles
        A folder saved by transformers, the folder of a training run, a file of weights, or
        ``PACKAGE:PATH`` for one of these in an installed package. Nothing is downloaded and no
        code of the checkpoint is run.
    inputs : str, Path or iterable that can be read again, optional
        Texts, (source, target) pairs of texts, or paths of images, as the checkpoint reads; or the
        path of a file with one text per line, or of a folder of images or of WAV files. May be left
        out for a training run, which keeps token ids of its test text.
    metrics : sequence of str, or str
        Keys of :data:`~fourierkernels.diagnostics.distances.METRICS`; the first is drawn. "none"
        for none.
    statistics : sequence of str, or str
        Keys of :data:`~fourierkernels.diagnostics.statistics.STATISTICS`, or one of
        :data:`~fourierkernels.diagnostics.statistics.SETS`.
    baseline : bool
        Measure the same architecture with random weights too, and the same random heads sharpened
        to the entropy of the trained rows. A distance between heads means little without them:
        some metrics do not tell a trained network from noise, others mostly tell how sharp it is.
    against : str, Path or CheckpointFiles, optional
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
    batch_size : int
        Inputs that share a batch, at most.
    tokens : str
        How texts become ids; see :func:`~fourierkernels.checkpoints.tokenizers.load_tokenizer`.
    part, model_class, config, preset, vocabulary, tokenizer
        See :func:`~fourierkernels.checkpoints.load.load_checkpoint`.
    seed : int
        Of everything random: weights, bootstrap, permutations, masked tokens.
    spread : str
        Key of :data:`~fourierkernels.diagnostics.summary.SPREADS`: what ± runs over.
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
    return _plan(checkpoint, inputs, asked, progress).report()


@dataclass(frozen=True)
class _Study:
    """The validated request; nothing is loaded yet.

    Attributes
    ----------
    load, prune, profile : callable
        :func:`load_checkpoint`, :func:`head_pruning` (None if importance was not asked for) and
        :func:`profile_heads`, with the options that were given.
    options : mapping
        Keywords of :func:`head_report`.
    """

    files: CheckpointFiles
    other: CheckpointFiles | None
    inputs: Inputs
    load: Callable[..., Checkpoint]
    prune: Callable[..., HeadPruning] | None
    profile: Callable[..., HeadProfile]
    options: Mapping[str, Any]
    progress: Progress | None

    def report(self) -> HeadReport:
        """Load every network once, measure it, and put all together."""
        digests = self._digests()
        trained = self.load(self.files, task_head=self.prune is not None)
        kind = "image" if trained.reads == "images" else "text"
        # Importance comes first: it is more likely to be refused.
        pruning = self.prune(trained, self.inputs) if self.prune else None
        first = {name: self.options[name] for name in ("permutations", "examples")}
        random = self._drawn() if self.options["baseline"] else None
        network = trained.without_task_head()
        profiles = {"trained": self._profile("trained", network, random=random, **first)}
        del trained, network
        if random is not None:
            profiles["random"] = self._profile("random", random)
            if sharpened := profiles["trained"].sharpened:
                profiles[AS_SHARP] = HeadProfile(sharpened)
        del random  # another network is not held beside it
        if self.other is not None:
            profiles["other"] = self._profile("other", self.load(self.other))
        return HeadReport(
            title=self.files.name,
            profiles=profiles,
            spread=self.options["spread"],
            pruning=pruning,
            against=None if self.other is None else self.other.name,
            skipped=getattr(self.inputs, "n_skipped", 0),
            kind=kind,
            origin=provenance(self.options, digests),
        )

    def _drawn(self) -> Checkpoint:
        return self.load(self.files, random_weights=True, seed=self.options["seed"])

    def _profile(self, name: str, network: Checkpoint, **extras: Any) -> HeadProfile:
        done = None if self.progress is None else partial(self.progress, name)
        return self.profile(network, self.inputs, progress=done, **extras)

    def _digests(self) -> dict[str, str]:
        """Digest what is measured while it is: files may be gone when the report is read."""
        digests = {"inputs": inputs_digest(self.inputs), "weights": self.files.digest()}
        return digests if self.other is None else digests | {"other": self.other.digest()}


_NOT_OPTIONS = ("inputs", "progress")
_LOADING = ("model_class", "config", "preset", "vocabulary", "tokenizer", "part")


def _plan(
    checkpoint: str | Path | CheckpointFiles,
    inputs: str | Path | Inputs | None,
    asked: Mapping[str, Any],
    progress: Progress | None,
) -> _Study:
    """Check the options, and find the checkpoints and what is measured on."""
    names, chosen = _check_options(asked)
    read = {name: asked[name] for name in ("tokens", "context", "seed")}
    profile = partial(profile_heads, metrics=names, statistics=chosen, **read)
    prune = partial(head_pruning, loss=asked["loss"], method=asked["importance"], **read)
    files, against = find_checkpoint(checkpoint), asked["against"]
    other = None if against is None else find_checkpoint(against)
    return _Study(
        files=files,
        other=other,
        inputs=choose_inputs(inputs, files, other, asked),
        load=partial(load_checkpoint, **{name: asked[name] for name in _LOADING}),
        prune=None if asked["importance"] is None else prune,
        profile=partial(profile, batch_size=asked["batch_size"]),
        options=asked,
        progress=progress,
    )


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
    return metrics, statistics


def _check_metrics(names: Sequence[str] | str) -> list[str]:
    """Return names of metrics, each once; none where only other things are to be measured."""
    if not isinstance(names, Iterable):
        raise TypeError(f"metrics (--metric) must be names of metrics, got {names!r}")
    given = [names] if isinstance(names, str) else list(names)
    if given == ["none"]:
        return []
    return [check_choice("metric", name, list(METRICS)) for name in dict.fromkeys(given)]
