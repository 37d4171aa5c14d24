"""What there is of each study: its models, its data on disk, and the results of its runs."""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fourierkernels.foundation.run_folder import BEST, RESULTS, SETUP
from fourierkernels.foundation.validation import check_choice
from fourierkernels.studies.engine.checkpoints import checkpoint_steps
from fourierkernels.studies.engine.run_setup import Setup, load_setup
from fourierkernels.studies.engine.settings import shown_settings
from fourierkernels.studies.engine.study import Study
from fourierkernels.studies.registry import STUDIES

if TYPE_CHECKING:
    from rich.table import Table

_COMMITTED = Path("experiments/results")
_HELD_OUT = "test"


@dataclass(frozen=True)
class StudyState:
    """What there is of a study.

    Attributes
    ----------
    name, title : str
        Its key in the registry, and what is studied.
    presets, mixers : tuple of str
        What can be trained.
    data : tuple of str
        A line for each row of its data, with where it has been found.
    results : tuple of str
        A line for each run, and one if the comparison of its models is committed here.
    """

    name: str
    title: str
    presets: tuple[str, ...]
    mixers: tuple[str, ...]
    data: tuple[str, ...]
    results: tuple[str, ...]


def overview(
    data: Path | None = None, runs: Path = Path(), *, study: str | None = None
) -> list[StudyState]:
    """Return the state of every study, or of one.

    Parameters
    ----------
    data : Path, optional
        Folder of data, or of folders of data, that is looked through.
    runs : Path
        Folder of a run, or of folders of runs.
    study : str, optional
        Name of the only study that is asked for.

    Raises
    ------
    ValueError
        If there is no such folder of data, or no such study.
    """
    if data is not None and not data.is_dir():
        raise ValueError(f"data must be a folder to look through for --list, got {data}")
    places = [] if data is None else [data, *sorted(p for p in data.iterdir() if p.is_dir())]
    trained = list(_runs(runs))
    names = list(STUDIES) if study is None else [check_choice("study", study, list(STUDIES))]
    return [_state(name, places, trained) for name in names]


def overview_table(states: list[StudyState]) -> "Table":
    """Return the states of studies for the terminal."""
    from rich.table import Table

    table = Table(show_lines=True)
    for heading in ("study", "presets", "data", "results"):
        table.add_column(heading, overflow="fold")
    for state in states:
        described = f"{state.name}: {state.title}"
        presets = f"{', '.join(state.presets)} ({len(state.mixers)} mixers)"
        lines = "\n".join(state.results) or "none here"
        table.add_row(described, presets, "\n".join(state.data), lines)
    return table


def study_text(state: StudyState) -> str:
    """Return all that can be chosen in a study, where to get its data, and what is there."""
    study = STUDIES[state.name]
    presets = (f"  {name}: {preset.summary}" for name, preset in study.presets.items())
    data = (
        f"  {name}: {row.title}. Source: {row.source}. Layout: {row.layout}."
        for name, row in study.data_sets().items()
    )
    return "\n".join(
        (
            f"{state.name}: {state.title}.",
            f"Presets ({study.default} by default):",
            *presets,
            f"Settings (--set NAME=VALUE; those of preset {study.default}):",
            f"  {shown_settings(study.presets[study.default].recipe)}",
            f"Mixers: {', '.join(state.mixers)}",
            "Data:",
            *data,
            "Data found:",
            *(f"  {line}" for line in state.data),
            "Results:",
            *(f"  {line}" for line in state.results or ("none here",)),
        )
    )


def _state(name: str, places: list[Path], runs: list[tuple[Path, Setup]]) -> StudyState:
    study = STUDIES[name]
    return StudyState(
        name,
        STUDIES.rows[name].title,
        tuple(study.presets),
        tuple(study.mixers()),
        tuple(_data_lines(study, places)),
        (*_result_lines(name, runs), *_committed(study)),
    )


def _data_lines(study: Study[Any, Any, Any], places: list[Path]) -> Iterator[str]:
    """Each place is read by the first row that recognises it, as in a training."""
    found: dict[str, list[str]] = {name: [] for name in study.data_sets()}
    for place in places:
        name = next((n for n, row in study.data_sets().items() if row.recognises(place)), None)
        if name is not None:
            found[name].append(str(place))
    missing = "not found" if places else "not looked for, --data names no folder"
    for name, row in study.data_sets().items():
        where = row.source if not row.needs_folder else ", ".join(found[name]) or missing
        yield f"{name}: {where}"


def _runs(folder: Path) -> Iterator[tuple[Path, Setup]]:
    for file in (folder / SETUP, *sorted(folder.glob(f"*/{SETUP}"))):
        if file.is_file():
            yield file.parent, load_setup(file.parent)[0]


def _result_lines(study: str, runs: list[tuple[Path, Setup]]) -> Iterator[str]:
    for folder, run in runs:
        if run.study.name == study:
            asked = f"{folder}: {run.preset}, {run.mixer.name}, seed {run.recipe.seed}"
            yield ": ".join((asked, *_progress(folder, run), *_number(folder)))


def _progress(folder: Path, run: Setup) -> Iterator[str]:
    """Say how far a run is; one without checkpoints that has its model is kept for others."""
    done = max(checkpoint_steps(folder), default=0)
    if done < run.recipe.steps and (done or not (folder / BEST).is_file()):
        yield f"{done} of {run.recipe.steps} updates"


def _number(folder: Path) -> Iterator[str]:
    """Give the first number of a run on held-out data, if it has been measured."""
    file = folder / f"{RESULTS}.csv"
    if not file.is_file():
        return
    with file.open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    first = next((row for row in rows if row["split"] == _HELD_OUT), rows[0])
    yield f"{first['split']} {first['metric']} {float(first['value']):.2f}"


def _committed(study: Study[Any, Any, Any]) -> Iterator[str]:
    """Return where the comparison of the study's models lies, in a checkout of the repository."""
    file = _COMMITTED / f"{study.experiment}.csv"
    if file.is_file():
        yield f"{file}: results are committed"
