"""The work behind ``fourierkernels heads``: files and a terminal around :mod:`.heads`."""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from fourierkernels.checkpoints.find import find_checkpoint
from fourierkernels.checkpoints.images import read_images
from fourierkernels.checkpoints.texts import Pairs, read_texts
from fourierkernels.console import standard_output
from fourierkernels.diagnostics.comparison import head_difference
from fourierkernels.diagnostics.distances import DEFAULT_METRIC, METRICS
from fourierkernels.diagnostics.networks.heads import profile_networks
from fourierkernels.diagnostics.networks.importance import IMPORTANCES
from fourierkernels.diagnostics.networks.losses import LOSSES
from fourierkernels.diagnostics.networks.measures import ALL_STATISTICS, STATISTIC_SETS
from fourierkernels.diagnostics.networks.pruning import HeadNeed, head_need
from fourierkernels.diagnostics.summary import SPREADS
from fourierkernels.report.content import HeadReport, provenance
from fourierkernels.report.figures import check_drawing
from fourierkernels.report.files import write_report
from fourierkernels.report.terminal import (
    STATISTICS_CAPTION,
    caption,
    difference_caption,
    difference_table,
    heads_table,
    need_caption,
    need_table,
    null_caption,
    null_table,
    statistics_table,
)
from fourierkernels.validation import check_choice, check_integer


@dataclass(frozen=True)
class HeadsCommand:
    """Options of ``fourierkernels heads``; see its help.

    Attributes
    ----------
    measuring : mapping
        Options that every pass over the inputs takes.
    loading : mapping
        Options of :func:`~fourierkernels.checkpoints.load.load_checkpoint`.
    given : mapping
        All options as given, for the provenance.
    """

    checkpoint: str
    against: str | None = None
    text: Path | None = None
    target: Path | None = None
    ids: Path | None = None
    images: Path | None = None
    output: Path | None = None
    metrics: Sequence[str] = (DEFAULT_METRIC,)
    statistics: Sequence[str] = ("maps",)
    importance: str | None = None
    loss: str = "auto"
    over: str = "pairs-texts"
    tokens: str = "auto"
    baseline: bool = True
    permutations: int = 0
    examples: int = 8
    measuring: Mapping[str, Any] = field(default_factory=dict)
    loading: Mapping[str, Any] = field(default_factory=dict)
    given: Mapping[str, object] = field(default_factory=dict)


def run_heads(options: HeadsCommand) -> None:
    """Measure, show the tables on standard output, write the files if an output is named.

    Raises
    ------
    ValueError, TypeError, OSError, ImportError
        Whatever is wrong with the input, before anything is written.
    """
    _check(options)
    _check_output(options.output)
    inputs, tokens = _inputs(options)
    for checkpoint in (options.checkpoint, *([options.against] if options.against else [])):
        find_checkpoint(checkpoint)
    need = _need(options, inputs, tokens)  # first: it is the likelier to be refused
    common = {**options.measuring, **options.loading, "tokens": tokens}
    with _progress(len(inputs)) as progress:
        profiles = profile_networks(
            options.checkpoint,
            inputs,
            metrics=_metrics(options.metrics),
            statistics=_statistics(options.statistics),
            baseline=options.baseline,
            against=options.against,
            permutations=options.permutations,
            examples=options.examples if options.output else 0,
            progress=progress,
            **common,
        )
    origin = _origin(options, inputs) if options.output else None
    kind = "image" if options.images else "text"
    report = HeadReport(options.checkpoint, profiles, options.over, need, origin, kind)
    console = standard_output()
    for shown in _shown(report, options, inputs):
        console.print(shown, soft_wrap=isinstance(shown, str), markup=False)
    if options.output:
        written = ", ".join(map(str, write_report(options.output, report)))
        console.print(f"written: {written}", soft_wrap=True, markup=False)


def _check(options: HeadsCommand) -> None:
    """Refuse what is wrong with the options themselves, before anything takes time."""
    check_choice("std", options.over, list(SPREADS))
    check_choice("loss", options.loss, ["auto", *LOSSES])
    if options.importance is not None:
        check_choice("importance", options.importance, list(IMPORTANCES))
    elif options.loss != "auto":
        raise ValueError(f"loss needs an importance to be measured, got {options.loss} without")
    if not _metrics(options.metrics) and options.permutations:
        raise ValueError(f"permutations need a metric, got {options.permutations} and none")
    _statistics(options.statistics)
    counts = {"permutations": options.permutations, "examples": options.examples}
    for name, count in (counts | {"seed": options.measuring.get("seed", 0)}).items():
        check_integer(name, count, least=0)
    check_integer("batch_size", options.measuring.get("batch_size", 1))


def _check_output(output: Path | None) -> None:
    """Refuse a folder that could not be written, by making another where it would be made."""
    if output is None:
        return
    check_drawing()
    if output.exists() and not output.is_dir():
        raise ValueError(f"output must be a folder, got the file {output}")
    there = next(parent for parent in output.absolute().parents if parent.exists())
    try:
        Path(tempfile.mkdtemp(dir=there)).rmdir()
    except OSError as error:
        raise ValueError(
            f"output must be in a folder that can be written, got {output}: {error.strerror}"
        ) from error


def _metrics(names: Sequence[str]) -> list[str]:
    """Return names of metrics, each once; none where only other things are to be measured."""
    if list(names) == ["none"]:
        return []
    return [check_choice("metric", name, list(METRICS)) for name in dict.fromkeys(names)]


def _inputs(options: HeadsCommand) -> tuple[Any, str]:
    """Return the inputs, which can be read again, and how they become ids."""
    given = {name: getattr(options, name) for name in ("text", "ids", "images")}
    found = [name for name, path in given.items() if path is not None]
    if len(found) != 1:
        raise ValueError(
            "text, ids or images must be given, one of them: --text FILE, --ids FILE or "
            f"--images FOLDER, got {' and '.join(found) or 'none'}"
        )
    if options.images is not None:
        return read_images(options.images), options.tokens
    texts = read_texts(given[found[0]])
    tokens = "ids" if options.ids is not None else options.tokens
    return texts if options.target is None else Pairs(texts, read_texts(options.target)), tokens


def _statistics(names: Sequence[str]) -> Sequence[str] | str:
    """Return names of statistics, or that of a set."""
    if len(names) == 1 and names[0] in STATISTIC_SETS:
        return names[0]
    known = list(ALL_STATISTICS) if len(names) > 1 else [*STATISTIC_SETS, *ALL_STATISTICS]
    return [check_choice("statistic", name, known) for name in names]


def _need(options: HeadsCommand, inputs: Any, tokens: str) -> HeadNeed | None:
    if options.importance is None:
        return None
    context, seed = options.measuring.get("context"), options.measuring.get("seed", 0)
    return head_need(
        options.checkpoint,
        inputs,
        method=options.importance,
        loss=options.loss,
        tokens=tokens,
        context=context,
        seed=seed,
        **options.loading,
    )


def _origin(options: HeadsCommand, inputs: Any) -> dict[str, Any]:
    digests = {
        "inputs": inputs.sha256,
        "weights": find_checkpoint(options.checkpoint).digest(),
    }
    if options.against is not None:
        digests["other"] = find_checkpoint(options.against).digest()
    return {**provenance(options.given), "sha256": digests}


def _shown(report: HeadReport, options: HeadsCommand, inputs: Any) -> Iterator[RenderableType]:
    """Yield tables, each followed by what must stand beside it."""
    first = report.first
    for metric in report.metrics:
        summaries = report.summaries(metric)
        yield heads_table(summaries, over=options.over)
        notes = [f"checkpoint: {options.checkpoint}", *caption(summaries, over=options.over)]
        if options.images is None and inputs.n_skipped:
            notes.append(f"empty lines skipped: {inputs.n_skipped}")
        yield "\n".join(notes)
        if options.against is not None:
            difference = head_difference(summaries["trained"], summaries["other"])
            yield difference_table(difference)
            yield f"other: {options.against}\n{difference_caption(difference)}"
    if first.statistics:
        yield statistics_table(first.statistics)
        yield STATISTICS_CAPTION
    if first.null is not None:
        yield null_table(first.null)
        yield null_caption(first.null, report.metrics[0])
    if report.need is not None:
        yield need_table(report.need)
        yield "\n".join(need_caption(report.need))


@contextmanager
def _progress(total: int) -> Iterator[Callable[[str, float], None]]:
    """Show a bar for each network on standard error; yield what to call as texts are finished."""
    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,  # nothing but messages goes into a file or a pipe
    )
    tasks: dict[str, Any] = {}

    def advance(network: str, done: float) -> None:
        if network not in tasks:
            tasks[network] = bar.add_task(f"{network} weights", total=total)
        bar.update(tasks[network], completed=done)

    with bar:
        yield advance
