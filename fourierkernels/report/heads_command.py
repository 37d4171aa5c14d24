"""The command around ``head_report``: inputs from its options, and what it shows and writes."""

import inspect
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fourierkernels.checkpoints import TextFile, find_checkpoint, read_images, read_texts
from fourierkernels.checkpoints.images import ImageFolder
from fourierkernels.checkpoints.texts import Pairs
from fourierkernels.console import standard_output
from fourierkernels.report.files import check_folder
from fourierkernels.report.heads import HeadReport
from fourierkernels.report.inputs import keeps_blank_lines, own_inputs
from fourierkernels.report.measuring import head_report
from fourierkernels.report.sharing import KEPT
from fourierkernels.report.terminal import print_report, progress_bars

__all__ = ["INPUTS", "KEYWORDS", "choose_inputs", "measure", "show"]

INPUTS = ("text", "ids", "images")  # options, one of which names what is read
_FROM_PYTHON = frozenset({"progress", "tokenizer", "resume"})  # what the command knows itself
# Each is an option of the command of the same name.
KEYWORDS = frozenset(
    parameter.name
    for parameter in inspect.signature(head_report).parameters.values()
    if parameter.kind is parameter.KEYWORD_ONLY and parameter.name not in _FROM_PYTHON
)


def choose_inputs(options: Mapping[str, Any]) -> TextFile | Pairs | ImageFolder:
    """Return the inputs that one of the options names, or those that a training run keeps.

    Parameters
    ----------
    options : mapping
        Of the command, by name.

    Raises
    ------
    ValueError
        If several are given, or none for a checkpoint that keeps none, or what they name cannot be
        read.
    """
    found = {name: options[name] for name in INPUTS if options[name] is not None}
    files, against = find_checkpoint(options["checkpoint"]), options["against"]
    if not found:
        return own_inputs(files, None if against is None else find_checkpoint(against))
    if len(found) > 1:
        raise ValueError(
            "text, ids or images must be given, one of them: --text FILE, --ids FILE or "
            f"--images FOLDER, got {' and '.join(found)}"
        )
    ((name, path),) = found.items()
    if name == "images":
        return read_images(path)
    blank = name == "text" and keeps_blank_lines(files, options)
    texts, target = read_texts(path, blank_lines=blank), options["target"]
    return texts if target is None else Pairs(texts, read_texts(target))


def measure(options: Mapping[str, Any]) -> HeadReport:
    """Return the report that the options ask for; several workers keep shards in the output.

    Parameters
    ----------
    options : mapping
        Of the command, by name.

    Raises
    ------
    ValueError, TypeError, OSError, ImportError
        As :func:`check_folder`, :func:`choose_inputs` and
        :func:`~fourierkernels.report.head_report`.
    """
    output: Path | None = options["output"]
    if output is not None:
        check_folder(output)
    inputs = choose_inputs(options)
    asked = {name: options[name] for name in KEYWORDS}
    if options["text"] is None and options["images"] is None:
        asked["tokens"] = "ids"
    if output is None:
        asked["examples"] = 0
    shared = asked["workers"] > 1 or asked["scheduler"] is not None
    with progress_bars(len(inputs)) as progress:
        return head_report(
            options["checkpoint"],
            inputs,
            progress=progress,
            resume=output if shared else None,
            **asked,
        )


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
        shutil.rmtree(output / KEPT, ignore_errors=True)  # all is in the report
        console.print(f"written: {written}", soft_wrap=True, markup=False)
