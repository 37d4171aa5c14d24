"""The work behind ``fourierkernels heads``: files and a terminal around :mod:`.heads`."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from fourierkernels.diagnostics.comparison import head_difference
from fourierkernels.diagnostics.folders import find_checkpoint, weights_digest
from fourierkernels.diagnostics.heads import compare_networks
from fourierkernels.diagnostics.report import (
    caption,
    check_drawing,
    difference_caption,
    difference_table,
    heads_table,
    provenance,
    write_report,
)
from fourierkernels.diagnostics.summary import SPREADS
from fourierkernels.diagnostics.texts import TextFile, read_texts
from fourierkernels.validation import check_choice


def run_heads(
    checkpoint: str,
    *,
    text: Path | None,
    ids: Path | None,
    output: Path | None,
    over: str,
    given: Mapping[str, object],
    tokens: str,
    against: str | None = None,
    **options: Any,
) -> None:
    """Measure, show the table on standard output, write the files if `output` is given.

    Parameters
    ----------
    text, ids : Path or None
        Exactly one of them: texts, or token ids.
    over : str
        What the ± of the table runs over.
    against : str or None
        Another checkpoint to compare with.
    given : mapping
        All options as given, for the provenance.
    **options
        Passed to :func:`fourierkernels.diagnostics.heads.compare_networks`.

    Raises
    ------
    ValueError, TypeError, OSError, ImportError
        Whatever is wrong with the input, before anything is written.
    """
    check_choice("std", over, list(SPREADS))
    if output is not None:
        check_drawing()
        if output.exists() and not output.is_dir():
            raise ValueError(f"output must be a folder, got the file {output}")
    texts, tokens = _texts(text, ids, tokens)
    with _progress(len(texts)) as progress:
        summaries = compare_networks(
            checkpoint, texts, tokens=tokens, against=against, progress=progress, **options
        )
    console = Console()
    console.print(heads_table(summaries, over=over))
    notes = [f"checkpoint: {checkpoint}", *caption(summaries, over=over)]
    if against is not None:
        difference = head_difference(summaries["trained"], summaries["other"])
        console.print(difference_table(difference))
        notes += [f"other: {against}", difference_caption(difference)]
    if texts.n_skipped:
        notes.append(f"empty lines skipped: {texts.n_skipped}")
    console.print("\n".join(notes), soft_wrap=True, highlight=False, markup=False)
    if output is not None:
        digests = {"text": texts.sha256, "weights": weights_digest(find_checkpoint(checkpoint))}
        if against is not None:
            digests["other"] = weights_digest(find_checkpoint(against))
        origin = {**provenance(given), "sha256": digests}
        paths = write_report(output, summaries, title=checkpoint, origin=origin, over=over)
        written = f"written: {', '.join(map(str, paths))}"
        console.print(written, soft_wrap=True, highlight=False, markup=False)


def _texts(text: Path | None, ids: Path | None, tokens: str) -> tuple[TextFile, str]:
    """Return the texts and how they become ids."""
    if text is not None and ids is None:
        return read_texts(text), tokens
    if ids is not None and text is None:
        return read_texts(ids), "ids"
    raise ValueError("text or ids must be given, one of them: --text FILE or --ids FILE")


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
