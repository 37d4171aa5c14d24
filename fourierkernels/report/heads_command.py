"""The command around ``head_report``: inputs from its options, and what it shows and writes."""

import inspect
import shutil
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fourierkernels.checkpoints import (
    TextFile,
    find_checkpoint,
    read_images,
    read_sounds,
    read_texts,
)
from fourierkernels.checkpoints.file_folders import FileFolder
from fourierkernels.checkpoints.texts import Pairs
from fourierkernels.foundation.console import standard_output
from fourierkernels.report.files import check_folder
from fourierkernels.report.heads import HeadReport
from fourierkernels.report.inputs import keeps_blank_lines, own_inputs
from fourierkernels.report.measuring import head_report
from fourierkernels.report.sharing import KEPT
from fourierkernels.report.table_presets import TablePreset, filled, own_splits, split_presets
from fourierkernels.report.terminal import print_report, progress_bars

__all__ = [
    "INPUTS",
    "KEYWORDS",
    "announce",
    "check_folder",
    "choose_inputs",
    "choose_splits",
    "fill_presets",
    "measure",
    "show",
]

INPUTS = ("text", "ids", "images", "sounds")  # options, one of which names what is read
FOLDERS: dict[str, Callable[[Path], FileFolder]] = {"images": read_images, "sounds": read_sounds}
_FROM_PYTHON = frozenset({"progress", "resume"})  # what the command knows itself
# Each is an option of the command of the same name.
KEYWORDS = frozenset(
    parameter.name
    for parameter in inspect.signature(head_report).parameters.values()
    if parameter.kind is parameter.KEYWORD_ONLY and parameter.name not in _FROM_PYTHON
)


def choose_inputs(options: Mapping[str, Any]) -> TextFile | Pairs | FileFolder:
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
            "text, ids, images or sounds must be given, one of them: --text FILE, --ids FILE, "
            f"--images FOLDER or --sounds FOLDER, got {' and '.join(found)}"
        )
    ((name, path),) = found.items()
    if name in FOLDERS:
        return FOLDERS[name](path)
    blank = name == "text" and keeps_blank_lines(files, options)
    texts, target = read_texts(path, blank_lines=blank), options["target"]
    return texts if target is None else Pairs(texts, read_texts(target))


def fill_presets(
    options: Mapping[str, Any], *, given: Collection[str]
) -> tuple[dict[str, Any], TablePreset | None]:
    """Return options with those that a preset fills, and the table of it.

    Parameters
    ----------
    options : mapping
        Of the command, by name; "preset" is a list of names.
    given : collection of str
        Names of those on the command line, which stay as they are.

    Raises
    ------
    ValueError
        If presets do not fit each other.
    """
    model, table = split_presets(options["preset"])
    return {**filled(options, table, given=given), "preset": model}, table


def choose_splits(
    options: Mapping[str, Any], table: TablePreset | None
) -> dict[str, TextFile | Pairs | FileFolder]:
    """Return what is read by the split that it is; "" for what options name.

    A table is measured on all splits that a checkpoint brings.

    Raises
    ------
    ValueError
        As for :func:`choose_inputs`.
    """
    given = any(options[name] is not None for name in INPUTS)
    splits = {} if table is None or given else own_splits(options["checkpoint"], table)
    if splits:
        return dict(splits)
    return {"": choose_inputs(options)}


def announce(
    table: TablePreset | None, options: Mapping[str, Any], splits: Collection[str]
) -> None:
    """Print what the preset of a table has filled, and on which texts it is measured."""
    if table is None:
        return
    values = {name: options[name] for name in table.options}
    own = " and ".join(f"{split} text" for split in splits if split)
    standard_output().print(
        f"preset {table.name} ({table.description}): "
        f"{', '.join(f'{name} {_shown(value)}' for name, value in values.items())}; "
        f"{own + ' of the checkpoint' if own else 'on what is given'}",
        soft_wrap=True,
        markup=False,
    )


def _shown(value: Any) -> str:
    return " ".join(value) if isinstance(value, list) else str(value)


def measure(
    options: Mapping[str, Any], inputs: TextFile | Pairs | FileFolder, *, split: str = ""
) -> HeadReport:
    """Return the report that the options ask for; several workers keep shards in the output.

    Parameters
    ----------
    options : mapping
        Of the command, by name, without presets of tables.
    split : str
        What the texts are of; see :func:`show`.

    Raises
    ------
    ValueError, TypeError, OSError, ImportError
        As :func:`~fourierkernels.report.head_report`.
    """
    output: Path | None = options["output"]
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
            resume=output / split if output is not None and shared else None,
            **asked,
        )


def show(
    report: HeadReport, output: Path | None, *, given: Mapping[str, Any], split: str = ""
) -> None:
    """Print a report on standard output; write its files if an output is named.

    Parameters
    ----------
    given : mapping
        The options of the command, to be written with the report.
    split : str
        What the texts are of, printed above; empty for not at all. The files of a split are in a
        folder of that name.
    """
    console = standard_output()
    if split:
        console.print(f"{split} text", markup=False)
    print_report(report, console)
    if output is not None:
        report = replace(report, origin={**report.origin, "options": given})
        folder = output / split
        written = ", ".join(map(str, report.save(folder)))
        shutil.rmtree(folder / KEPT, ignore_errors=True)  # all is in the report
        console.print(f"written: {written}", soft_wrap=True, markup=False)
