"""The command around ``head_report``: inputs from its options, and what it shows and writes."""

import shutil
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path

from fourierkernels.checkpoints import TextFile, read_images, read_sounds, read_texts
from fourierkernels.checkpoints.input_files import FileFolder, Pairs
from fourierkernels.foundation.console import standard_output
from fourierkernels.report.files import check_folder
from fourierkernels.report.heads import HeadReport
from fourierkernels.report.inputs import keeps_blank_lines, own_inputs
from fourierkernels.report.measuring import make_report
from fourierkernels.report.request import HeadsRequest, filled, split_presets
from fourierkernels.report.sharing import KEPT
from fourierkernels.report.terminal import print_report, progress_bars

FOLDERS: dict[str, Callable[[Path], FileFolder]] = {"images": read_images, "sounds": read_sounds}
Inputs = TextFile | Pairs | FileFolder


def prepared(
    request: HeadsRequest, *, presets: Collection[str], given: Collection[str]
) -> HeadsRequest:
    """Return what the command asks for with the options that presets fill.

    Parameters
    ----------
    presets : collection of str
        Of a model, of a table, or both.
    given : collection of str
        Names of the parameters on the command line, which stay as they are.

    Raises
    ------
    ImportError, ValueError
        If the folder cannot be written, or presets do not fit each other.
    """
    if request.output is not None:
        check_folder(request.output)
    model, table = split_presets(presets)
    options = request.options
    loaded = replace(options, load=replace(options.load, preset=model))
    return replace(request, options=filled(loaded, table, given=given), table=table)


def choose_inputs(request: HeadsRequest) -> Inputs:
    """Return the inputs that one of the options names, or those that a training run keeps.

    Raises
    ------
    ValueError
        If several are given, or none for a checkpoint that keeps none, or what they name cannot be
        read.
    """
    named, files = request.inputs.named, request.files
    if not named:
        return own_inputs(files, request.other)
    if len(named) > 1:
        raise ValueError(
            "text, ids, images or sounds must be given, one of them: --text FILE, --ids FILE, "
            f"--images FOLDER or --sounds FOLDER, got {' and '.join(named)}"
        )
    ((name, path),) = named.items()
    if name in FOLDERS:
        return FOLDERS[name](path)
    blank = name == "text" and keeps_blank_lines(files, request.options)
    texts, target = read_texts(path, blank_lines=blank), request.inputs.target
    return texts if target is None else Pairs(texts, read_texts(target))


def choose_splits(request: HeadsRequest) -> Mapping[str, Inputs]:
    """Return what is read by the split that it is; "" for what options name.

    A table is measured on all splits that a checkpoint brings.

    Raises
    ------
    ValueError
        As for :func:`choose_inputs`, and for options of texts where none are read.
    """
    _check_texts(request)
    table = request.table
    if table is not None and not request.inputs.named:
        places = {split: request.files.own_ids(split) for split in table.splits}
        splits = {
            split: read_texts(path)
            for split, path in places.items()
            if path is not None and path.is_file()
        }
        if splits:
            return splits
    return {"": choose_inputs(request)}


def _check_texts(request: HeadsRequest) -> None:
    """Refuse options of texts where none are read."""
    given, tokens = request.inputs, request.options.read.tokens
    if given.target is not None and given.text is None and given.ids is None:
        raise ValueError(f"target must be given with --text or --ids, got {given.target} alone")
    if given.text is None and tokens not in ("auto", "ids"):
        raise ValueError(f"tokens must be auto or ids without --text, got {tokens!r}")


def announce(request: HeadsRequest, splits: Collection[str]) -> None:
    """Print what the preset of a table has filled, and on which texts it is measured."""
    table, options = request.table, request.options
    if table is None:
        return
    texts = " and ".join(f"{split} text" for split in splits if split)
    standard_output().print(
        f"preset {table.name} ({table.description}): "
        f"metrics {' '.join(options.measure.metrics)}, context {options.read.context}, "
        f"spread {options.spread}; "
        f"{texts + ' of the checkpoint' if texts else 'on what is given'}",
        soft_wrap=True,
        markup=False,
    )


def measure(request: HeadsRequest, inputs: Inputs, *, split: str = "") -> HeadReport:
    """Return the report that was asked for; several workers keep shards in the output.

    Parameters
    ----------
    split : str
        What the texts are of; see :func:`show`.

    Raises
    ------
    ValueError, TypeError, OSError, ImportError
        As :func:`~fourierkernels.report.head_report`.
    """
    options, team, output = request.options, request.team, request.output
    if request.inputs.text is None and request.inputs.images is None:
        options = replace(options, read=replace(options.read, tokens="ids"))
    if output is None:
        options = replace(options, measure=replace(options.measure, examples=0))
    elif team.shares:
        team = replace(team, resume=output / split)
    with progress_bars(len(inputs)) as progress:
        options.check()
        return make_report(
            request.files,
            inputs,
            options,
            against=request.other,
            team=team,
            progress=progress,
        )


def show(
    report: HeadReport,
    output: Path | None,
    *,
    record: Mapping[str, object],
    split: str = "",
) -> None:
    """Write the files of a report if an output is named, then print it on standard output.

    Parameters
    ----------
    record : mapping
        The command line as JSON, to be written with the report.
    split : str
        What the texts are of, printed above; empty for not at all. The files of a split are in a
        folder of that name.
    """
    written = ""
    if output is not None:
        report = replace(report, origin={**report.origin, "options": record})
        folder = output / split
        written = ", ".join(map(str, report.save(folder)))
        shutil.rmtree(folder / KEPT, ignore_errors=True)  # all is in the report
    console = standard_output()
    if split:
        console.print(f"{split} text", markup=False)
    print_report(report, console)
    if written:
        console.print(f"written: {written}", soft_wrap=True, markup=False)
