"""The work behind ``fourierkernels heads``: files and a terminal around :mod:`.heads`."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from fourierkernels.diagnostics.comparison import head_difference
from fourierkernels.diagnostics.distances import DEFAULT_METRIC
from fourierkernels.diagnostics.heads import profile_networks
from fourierkernels.diagnostics.loading.folders import find_checkpoint, weights_digest
from fourierkernels.diagnostics.loading.images import read_images
from fourierkernels.diagnostics.loading.texts import Pairs, read_texts
from fourierkernels.diagnostics.measures import ALL_STATISTICS, STATISTIC_SETS
from fourierkernels.diagnostics.need import HeadNeed, head_need
from fourierkernels.diagnostics.report.figures import check_drawing
from fourierkernels.diagnostics.report.files import HeadReport, provenance, write_report
from fourierkernels.diagnostics.report.terminal import (
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
from fourierkernels.diagnostics.summary import SPREADS
from fourierkernels.validation import check_choice


@dataclass(frozen=True)
class HeadsCommand:
    """Options of ``fourierkernels heads``; see its help.

    Attributes
    ----------
    measuring : mapping
        Options that every pass over the inputs takes.
    loading : mapping
        Options of :func:`~fourierkernels.diagnostics.loading.checkpoint.load_checkpoint`.
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
    check_choice("std", options.over, list(SPREADS))
    _check_output(options.output)
    inputs, tokens = _inputs(options)
    need = _need(options, inputs, tokens)  # first: it is the likelier to be refused
    common = {**options.measuring, **options.loading, "tokens": tokens}
    with _progress(len(inputs)) as progress:
        profiles = profile_networks(
            options.checkpoint,
            inputs,
            metrics=list(dict.fromkeys(options.metrics)),
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
    for shown in _shown(report, options, inputs):
        Console().print(shown, soft_wrap=isinstance(shown, str), highlight=False, markup=False)
    if options.output:
        written = ", ".join(map(str, write_report(options.output, report)))
        Console().print(f"written: {written}", soft_wrap=True, highlight=False, markup=False)


def _check_output(output: Path | None) -> None:
    if output is None:
        return
    check_drawing()
    if output.exists() and not output.is_dir():
        raise ValueError(f"output must be a folder, got the file {output}")


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
    known = [*STATISTIC_SETS, *ALL_STATISTICS]
    return [check_choice("statistic", name, known) for name in names]


def _need(options: HeadsCommand, inputs: Any, tokens: str) -> HeadNeed | None:
    if options.importance is None:
        return None
    context, seed = options.measuring.get("context"), options.measuring.get("seed", 0)
    return head_need(
        options.checkpoint, inputs, method=options.importance, loss=options.loss,
        tokens=tokens, context=context, seed=seed, **options.loading,
    )  # fmt: skip


def _origin(options: HeadsCommand, inputs: Any) -> dict[str, Any]:
    digests = {
        "inputs": inputs.sha256,
        "weights": weights_digest(find_checkpoint(options.checkpoint)),
    }
    if options.against is not None:
        digests["other"] = weights_digest(find_checkpoint(options.against))
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
        yield null_caption(first.null)
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
