"""The command around ``head_report``: inputs from its options, and what it shows and writes."""

import inspect
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fourierkernels.checkpoints import TextFile, read_images, read_texts
from fourierkernels.checkpoints.images import ImageFolder
from fourierkernels.checkpoints.texts import Pairs
from fourierkernels.console import standard_output
from fourierkernels.report.files import check_folder
from fourierkernels.report.heads import HeadReport
from fourierkernels.report.measuring import head_report
from fourierkernels.report.terminal import print_report, progress_bars

__all__ = ["KEYWORDS", "check_folder", "choose_inputs", "progress_bars", "show"]

# Each is an option of the command of the same name.
KEYWORDS = frozenset(
    parameter.name
    for parameter in inspect.signature(head_report).parameters.values()
    if parameter.kind is parameter.KEYWORD_ONLY and parameter.name != "progress"
)


def choose_inputs(
    *, text: Path | None, target: Path | None, ids: Path | None, images: Path | None
) -> TextFile | Pairs | ImageFolder:
    """Return the inputs that one of the options names.

    Raises
    ------
    ValueError
        If none or several are given, or what they name cannot be read.
    """
    given = {"text": text, "ids": ids, "images": images}
    found = {name: path for name, path in given.items() if path is not None}
    if len(found) != 1:
        raise ValueError(
            "text, ids or images must be given, one of them: --text FILE, --ids FILE or "
            f"--images FOLDER, got {' and '.join(found) or 'none'}"
        )
    ((name, path),) = found.items()
    if name == "images":
        return read_images(path)
    texts = read_texts(path)
    return texts if target is None else Pairs(texts, read_texts(target))


def show(report: HeadReport, output: Path | None, *, given: Mapping[str, Any]) -> None:
    """Print a report on standard output; write its files if an output is named.

    Parameters
    ----------
    given : mapping
        The options of the command, to be written with the report.
    """
    console = standard_output()
    print_report(report, console)
    if output is not None:
        report = replace(report, origin={**report.origin, "options": given})
        written = ", ".join(map(str, report.save(output)))
        console.print(f"written: {written}", soft_wrap=True, markup=False)
