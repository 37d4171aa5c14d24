"""The files of a report: tables as CSV, all numbers as JSON, figures, and a page.

To add a file, write a function from a :class:`.content.ReportContent` and a path and add a row to
:data:`FILES`.
"""

import json
import shutil
import tempfile
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fourierkernels.report.content import ReportContent
from fourierkernels.report.figures import (
    check_drawing,
    heads_figure,
    pruning_figure,
    statistics_figure,
)
from fourierkernels.report.numbers import csv_table, report_numbers
from fourierkernels.report.page import write_page

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def check_folder(output: Path) -> None:
    """Refuse a folder that could not be written, by making another where it would be made.

    Raises
    ------
    ImportError
        If matplotlib is missing.
    ValueError
        If `output` is a file, or in a folder that cannot be written.
    """
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


def write_report(report: ReportContent, folder: str | Path) -> list[Path]:
    """Write the files of :data:`FILES` that there is something for; return their paths.

    All are written to a folder next to `folder` first and moved there when complete. Files of those
    names that an earlier report left are replaced or removed; others stay.

    Raises
    ------
    ImportError
        If matplotlib is missing.
    ValueError
        If it is not a folder, or cannot be written.
    """
    target = Path(folder)
    check_folder(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    made = target.parent / f".{target.name}.{uuid.uuid4().hex}"
    made.mkdir()
    try:
        for row in FILES.values():
            if row.applies(report):
                row.write(report, made / row.name)
        return _move(made, target)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _move(made: Path, target: Path) -> list[Path]:
    target.mkdir(exist_ok=True)
    names = sorted(path.name for path in made.iterdir())
    for row in FILES.values():
        if row.name not in names:
            (target / row.name).unlink(missing_ok=True)
    for name in names:
        (made / name).replace(target / name)
    return [target / name for name in names]


def _write_json(report: ReportContent, path: Path) -> None:
    text = json.dumps(report_numbers(report), indent=1, allow_nan=False, default=str)
    path.write_text(text + "\n", encoding="utf-8")  # default=str: paths are among the options


def _write_page(report: ReportContent, path: Path) -> None:
    write_page(path, report)


def _draw(figure_of: "Callable[[ReportContent], Figure]") -> Callable[[ReportContent, Path], None]:
    """Return how to write a figure; the same numbers give the same file, and text stays text."""

    def write(report: ReportContent, path: Path) -> None:
        import matplotlib as mpl

        options: Any = {"svg.hashsalt": "fourierkernels", "svg.fonttype": "none", "font.size": 8}
        plain = {"metadata": {"Date": None}} if path.suffix == ".svg" else {"dpi": 150}
        with mpl.rc_context(options):
            figure_of(report).savefig(path, **plain)

    return write


def _draw_distances(report: ReportContent) -> "Figure":
    return heads_figure(report.summaries(report.metrics[0]), title=report.name)


def _draw_statistics(report: ReportContent) -> "Figure":
    return statistics_figure(report.first.statistics, title=report.name)


def _draw_pruning(report: ReportContent) -> "Figure":
    if report.pruning is None:
        raise ValueError("report must have importance for its pruning curves, got none")
    return pruning_figure(report.pruning, title=report.name)


def _always(report: ReportContent) -> bool:
    return True


def _has_metrics(report: ReportContent) -> bool:
    return bool(report.metrics)


@dataclass(frozen=True)
class ReportFile:
    """A file of the report: its name, how it is written, and whether there is something for it.

    A table without rows is not written either.
    """

    name: str
    write: Callable[[ReportContent, Path], None]
    applies: Callable[[ReportContent], bool] = _always


FILES = {
    row.name: row
    for row in (
        ReportFile("heads.csv", csv_table("heads")),
        ReportFile("heads.json", _write_json),
        ReportFile("heads.html", _write_page),
        ReportFile("heads.png", _draw(_draw_distances), _has_metrics),
        ReportFile("heads.svg", _draw(_draw_distances), _has_metrics),
        ReportFile("shares.csv", csv_table("shares")),
        ReportFile("difference.csv", csv_table("difference")),
        ReportFile("matches.csv", csv_table("matches")),
        ReportFile("statistics.csv", csv_table("statistics")),
        ReportFile(
            "statistics.svg", _draw(_draw_statistics), lambda report: bool(report.first.statistics)
        ),
        ReportFile("roles.csv", csv_table("roles")),
        ReportFile("null.csv", csv_table("null")),
        ReportFile("importance.csv", csv_table("importance")),
        ReportFile("pruning.csv", csv_table("pruning")),
        ReportFile("pruning.svg", _draw(_draw_pruning), lambda report: report.pruning is not None),
    )
}
