"""``fourierkernels train --list``, and the rows of data behind it."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from study_modules import EXPERIMENTS
from tiny_bitext import lines, write_lines
from tiny_series import write_problem
from training_runs import Call, error_of, short_run, train_here

from fourierkernels.studies.engine.data_sets import DataSet, find_row
from fourierkernels.studies.engine.overview import overview
from fourierkernels.studies.registry import STUDIES


def states(data: Path | None = None, runs: Path = Path("nowhere")) -> dict:
    return {state.name: state for state in overview(data, runs)}


def test_every_study_and_preset_is_listed() -> None:
    found = states()
    assert {name: state.presets for name, state in found.items()} == {
        name: tuple(study.presets) for name, study in STUDIES.items()
    }


def test_data_are_found_in_a_folder_and_in_those_within(tmp_path: Path) -> None:
    write_problem(tmp_path / "waves")
    (tmp_path / "pairs").mkdir()
    write_lines(tmp_path / "pairs", lines(10))
    found = states(tmp_path)
    assert found["series"].data == (f"uea: {tmp_path}, {tmp_path / 'waves'}",)
    assert f"lines: {tmp_path / 'pairs'}" in found["translation"].data
    assert "idx: not found" in found["images"].data
    assert f"uea: {tmp_path / 'waves'}" in states(tmp_path / "waves")["series"].data


def test_data_that_nobody_looked_for_are_not_said_to_be_missing() -> None:
    assert states()["series"].data == ("uea: not looked for, --data names no folder",)
    assert "digits: in scikit-learn" in states()["images"].data


def test_runs_are_listed_with_their_first_number_or_their_last_update(
    texts: Path, tmp_path: Path
) -> None:
    run = short_run(texts)
    train_here(run, tmp_path / "whole", tmp_path / "cache")
    train_here(run, tmp_path / "part", tmp_path / "cache", limit=2)
    part, whole = states(runs=tmp_path)["language"].results[:2]
    assert part.startswith(f"{tmp_path / 'part'}: ")
    assert ": tiny, softmax, seed 0: 2 of 12 updates: test" in part
    assert re.search(r"seed 0: test \S.* \d+\.\d\d$", whole), whole
    assert states(runs=tmp_path / "whole")["language"].results[0] == whole


def test_committed_comparisons_are_named_in_a_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(EXPERIMENTS.parent)
    compared = {name: study.experiment for name, study in STUDIES.items() if study.experiment}
    assert len(compared) >= 8
    for name, experiment in compared.items():
        assert "results are committed" in overview(study=name)[0].results[-1], name
        assert (EXPERIMENTS / "results" / f"{experiment}.csv").is_file(), name


def test_command_lists_studies_and_needs_no_name_for_it(call: Call, tmp_path: Path) -> None:
    status, out, _ = call("train", "--list")
    assert status == 0
    assert all(f"{name}:" in " ".join(out.split()) for name in STUDIES)
    status, _, err = call("train")
    assert (status, err) == (2, "error: study must be named (--list shows them), got none\n")
    status, _, err = call("train", "--list", "--data", tmp_path / "x")
    assert (status, "data must be a folder to look through" in err) == (2, True)


DATA_SETS = {name: row for study in STUDIES.values() for name, row in study.data_sets().items()}


@pytest.mark.parametrize("name", DATA_SETS)
def test_every_row_says_where_it_is_had_and_how_it_lies(name: str) -> None:
    row = DATA_SETS[name]
    assert all(len(text) > 5 for text in (row.title, row.source, row.layout))
    for script in re.findall(r"experiments/\w+\.py", row.source):
        assert (EXPERIMENTS.parent / script).is_file()


def test_no_two_rows_have_one_name() -> None:
    names = [name for study in STUDIES.values() for name in study.data_sets()]
    tables = {id(study.data_sets()): len(study.data_sets()) for study in STUDIES.values()}
    assert len(set(names)) == sum(tables.values())


def test_first_row_that_recognises_a_folder_reads_it(tmp_path: Path) -> None:
    row = DataSet(title="t", source="h", layout="x.dat", open=lambda folder: folder)
    known = replace(row, recognises=lambda folder: True)
    rows = {"never": row, "first": known, "second": known}
    assert find_row(rows, tmp_path) == ("first", tmp_path)
    assert "(never: x.dat), got" in error_of(lambda: find_row({"never": row}, tmp_path))
    free = replace(row, needs_folder=False)
    assert find_row({"free": free}, "free") == ("free", Path("free"))
    assert error_of(lambda: find_row({"free": free}, "other")) == (
        "ValueError: data must be a folder or one of free, got other"
    )
    assert (
        error_of(lambda: find_row(rows, "other")) == "ValueError: data must be a folder, got other"
    )
