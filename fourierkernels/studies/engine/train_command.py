"""The commands around training: a run from options, and tables for the terminal."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fourierkernels.foundation.validation import check_choice
from fourierkernels.studies.engine.overview import overview, overview_table, study_text
from fourierkernels.studies.engine.planning import plan
from fourierkernels.studies.engine.run import evaluate, train
from fourierkernels.studies.engine.run_setup import Setup, folder_name, load_setup, setup
from fourierkernels.studies.engine.settings import amended, read_settings
from fourierkernels.studies.engine.study import Measured
from fourierkernels.studies.engine.teacher import Lesson, amend_teacher, choose_start

if TYPE_CHECKING:
    from rich.table import Table

__all__ = [
    "Lesson",
    "choose_run",
    "choose_splits",
    "evaluate",
    "folder_name",
    "plan_table",
    "read_options",
    "read_settings",
    "results_table",
    "studies_table",
    "train",
]

_MEASURED = ("valid", "test")


def read_options(given: Iterable[str]) -> dict[str, Any]:
    """Return options given as NAME=VALUE; a value is JSON or else a string.

    Raises
    ------
    ValueError
        If one has no name or no value, or is named twice.

    Examples
    --------
    >>> read_options(["power=2", "radius_shape=head"])
    {'power': 2, 'radius_shape': 'head'}
    """
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise ValueError(f"mixer-option must be NAME=VALUE, got {text!r}")
        if name in found:
            raise ValueError(f"mixer-option must name each option once, got {name} twice")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found


def choose_run(
    study: str | None,
    *,
    data: str | None,
    mixer: str | None,
    mixer_options: Mapping[str, Any],
    preset: str | None,
    resumed: Path | None,
    lesson: Lesson,
    settings: Mapping[str, Any] | None = None,
    start: Path | None = None,
    pair: str | None = None,
) -> Setup:
    """Return the run that options describe; what a resumed run was asked for need not be repeated.

    Parameters
    ----------
    resumed : Path or None
        Folder of the run to resume, if one is named.
    settings : mapping or None
        Settings of the recipe other than those of the preset, or of the resumed run.
    lesson : Lesson
        A trained model to learn from, with its share of the loss and its temperature.
    start : Path or None
        A trained model to begin with.
    pair : str or None
        Source and target of a translation.

    Raises
    ------
    ValueError
        If no study is named, or something is unknown.
    """
    if study is None:
        raise ValueError("study must be named (--list shows them), got none")
    changes = dict(settings or {})
    given = {"preset": preset, "mixer": mixer, "data": data, "pair": pair}
    named: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if resumed is None:
        named["teacher"] = amend_teacher(None, lesson)
        run = setup(study, mixer_options=mixer_options, start=start, **named)
        return replace(run, recipe=amended(run.recipe, changes))
    earlier, _ = load_setup(resumed)
    named["teacher"] = amend_teacher(earlier.teacher, lesson)
    if start is not None:
        named["start"] = choose_start(start)
    if data is not None:
        named["data"] = setup(study, data=data).data
    recipe = amended(earlier.recipe, changes)
    options = dict(mixer_options) or earlier.mixer_options
    return replace(earlier, study=study, recipe=recipe, mixer_options=options, **named)


def choose_splits(given: Iterable[str] | None) -> tuple[str, ...]:
    """Return the texts to measure on, each once, both if none are given."""
    names = dict.fromkeys(given or _MEASURED)
    return tuple(check_choice("split", name, list(_MEASURED)) for name in names)


def plan_table(run: Setup) -> "Table":
    """Return what a run will cost."""
    from rich.table import Table

    table = Table(title=f"{run.study}, {run.preset}, {run.mixer}", show_header=False)
    for name, value in plan(run).rows():
        table.add_row(name, value)
    return table


def studies_table(study: str | None, data: str | None, runs: Path | None) -> "Table | str":
    """Return what there is of each study, with the data in a folder and the runs in another.

    Of a study that is named, all that can be chosen in it is shown as well.
    """
    states = overview(None if data is None else Path(data), runs or Path(), study=study)
    return overview_table(states) if study is None else study_text(states[0])


def results_table(measured: Iterable[Measured]) -> "Table":
    """Return the numbers of a model beside those of the paper."""
    from rich.table import Table

    table = Table("split", "measure", "value", "count", "paper")
    for row in measured:
        paper = "" if row.published is None else f"{row.published:.2f}"
        table.add_row(row.split, row.metric, f"{row.value:.2f}", f"{row.positions:,}", paper)
    return table
