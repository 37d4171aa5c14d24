"""The commands around training: a run from options, and tables for the terminal."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fourierkernels.foundation.validation import check_choice
from fourierkernels.studies.engine.mixers import ChosenMixer, read_options
from fourierkernels.studies.engine.overview import overview, overview_table, study_text
from fourierkernels.studies.engine.planning import plan
from fourierkernels.studies.engine.run import evaluate, train
from fourierkernels.studies.engine.run_setup import Setup, folder_name, load_setup, setup
from fourierkernels.studies.engine.settings import read_settings
from fourierkernels.studies.engine.study import Measured
from fourierkernels.studies.engine.teacher import Lesson, amend_teacher, choose_start
from fourierkernels.studies.registry import choose_study

if TYPE_CHECKING:
    from rich.table import Table

__all__ = [
    "Lesson",
    "choose_run",
    "choose_splits",
    "evaluate",
    "folder_name",
    "plan_table",
    "results_table",
    "studies_table",
    "train",
]

_MEASURED = ("valid", "test")


def choose_run(
    study: str | None,
    *,
    data: str | None,
    mixer: str | None,
    mixer_options: Iterable[str],
    preset: str | None,
    resumed: Path | None,
    lesson: Lesson,
    settings: Iterable[str] = (),
    seed: int | None = None,
    start: Path | None = None,
    pair: str | None = None,
) -> Setup:
    """Return the run that options describe; what a resumed run was asked for need not be repeated.

    Parameters
    ----------
    mixer_options : iterable of str
        As NAME=VALUE; if none are given, those of the resumed run.
    resumed : Path or None
        Folder of the run to resume, if one is named.
    settings : iterable of str
        As NAME=VALUE, those of the recipe other than in the preset, or in the resumed run.
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
    options, changes = read_options(mixer_options), read_settings(settings, seed=seed)
    if study is None:
        raise ValueError("study must be named (--list shows them), got none")
    given = {"preset": preset, "data": data, "pair": pair}
    named: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if resumed is None:
        named["teacher"] = amend_teacher(None, lesson)
        run = setup(study, mixer=mixer, start=start, **named)
        own = replace(run.mixer, options=options)
        return replace(run, mixer=own, recipe=changes.over(run.recipe))
    earlier, _ = load_setup(resumed)
    named["teacher"] = amend_teacher(earlier.teacher, lesson)
    if start is not None:
        named["start"] = choose_start(start)
    if data is not None:
        named["data"] = setup(study, data=data).data
    recipe = changes.over(earlier.recipe)
    own = ChosenMixer(mixer or earlier.mixer.name, options or earlier.mixer.options)
    chosen = earlier.study if study == earlier.study.name else choose_study(study)
    return replace(earlier, study=chosen, recipe=recipe, mixer=own, **named)


def choose_splits(given: Iterable[str] | None) -> tuple[str, ...]:
    """Return the texts to measure on, each once, both if none are given."""
    names = dict.fromkeys(given or _MEASURED)
    return tuple(check_choice("split", name, list(_MEASURED)) for name in names)


def plan_table(run: Setup) -> "Table":
    """Return what a run will cost."""
    from rich.table import Table

    table = Table(title=f"{run.study.name}, {run.preset}, {run.mixer.name}", show_header=False)
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
