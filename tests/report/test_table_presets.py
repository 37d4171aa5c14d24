"""Networks of the repository by name, and the preset of the table of FourierFormer."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pages import rows_of
from study_modules import RESULTS
from tiny_models_of_ours import language

from fourierkernels.checkpoints import find_checkpoint, load_checkpoint
from fourierkernels.checkpoints.find import PUBLISHED, PublishedCheckpoint
from fourierkernels.checkpoints.options import LoadOptions, ReadOptions
from fourierkernels.diagnostics.profile import MeasureOptions
from fourierkernels.models import save_model
from fourierkernels.report.options import ReportOptions
from fourierkernels.report.request import TABLES, filled, split_presets

Run = Callable[..., tuple[int, str, str]]
TABLE = "fourierformer-table"


@pytest.mark.parametrize("name", PUBLISHED)
def test_networks_of_the_repository_are_found_by_name_and_by_path(name: str) -> None:
    row = PUBLISHED[name]
    found = find_checkpoint(name)
    assert found.name == name
    assert found.path.is_relative_to(RESULTS)
    assert find_checkpoint(RESULTS.parents[1] / row.path).path == found.path
    assert load_checkpoint(name).reads == "tokens"
    for split in ("train", "test"):
        if row.ids:
            assert found.own_ids(split) == row.ids_of(split)
            assert found.own_ids(split).is_file()


def test_a_folder_of_that_name_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "language_softmax").mkdir()
    (tmp_path / "language_softmax" / "config.json").write_text("{}")
    assert find_checkpoint("language_softmax").path == Path("language_softmax")


def test_installation_without_the_repository_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    row = PublishedCheckpoint("away", Path("experiments/results/away"), {})
    monkeypatch.setitem(PUBLISHED, "away", row)
    with pytest.raises(ValueError, match="away must be read in a clone of the repository, where"):
        find_checkpoint("away")


def test_preset_fills_only_what_was_not_given() -> None:
    table = TABLES[TABLE]
    options = ReportOptions(LoadOptions(), ReadOptions(), MeasureOptions(["cosine"], seed=3))
    expected = replace(options, read=ReadOptions(context=256), spread="pairs-texts")
    assert filled(options, table, given={"metrics"}) == expected
    assert filled(options, table, given=()).measure == MeasureOptions(["frobenius"], seed=3)
    assert filled(options, None, given=()) == options
    assert split_presets(["small", TABLE]) == ("small", table)
    assert split_presets([]) == (None, None)
    for names in (["small", "medium"], [TABLE, TABLE]):
        with pytest.raises(ValueError, match="preset must be one of a model and one of a table"):
            split_presets(names)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A published network with two windows per split."""
    row, ids = PUBLISHED["language_softmax"], {}
    for split in ("train", "test"):
        lines = (RESULTS / f"language_heads_{split}.txt").read_text().splitlines(keepends=True)
        ids[split] = tmp_path / f"{split}.txt"
        ids[split].write_text("".join(lines[:2]))
    monkeypatch.setitem(PUBLISHED, row.name, PublishedCheckpoint(row.name, row.path, ids))
    return row.name


@pytest.mark.usefixtures("undrawn")
def test_table_is_measured_on_both_splits_and_says_what_it_has_filled(
    few: str, run: Run, tmp_path: Path
) -> None:
    options = ("--preset", TABLE, "--no-baseline", "--statistic", "none")
    status, out, err = run(few, *options, "--output", tmp_path / "out", "--examples", 0)
    assert (status, err) == (0, "")
    first, *_ = out.splitlines()
    assert first == (
        f"preset {TABLE} (nguyen2022fourierformer, table 6 (3 on arXiv), as we read it): "
        "metrics frobenius, context 256, spread pairs-texts; "
        "train text and test text of the checkpoint"
    )
    assert out.index("train text\n") < out.index("test text\n")
    assert out.count("n: 256 to 256 query tokens") == 2
    of_network = rows_of(RESULTS / "language_heads.csv")
    rows = [row for row in of_network if (row["network"], row["stage"]) == (few, "trained")]
    for split in ("train", "test"):
        written = json.loads((tmp_path / "out" / split / "heads.json").read_text())
        means = written["networks"]["trained"]["frobenius"]["mean"]
        known = [row for row in rows if row["split"] == split]
        for mean, row in zip(means, known, strict=True):  # two windows of 16
            assert mean == pytest.approx(float(row["distance"]), abs=float(row["std"]) / 2)
        assert written["options"]["context"] == 256


def test_given_texts_and_options_go_before_those_of_the_preset(run: Run, tmp_path: Path) -> None:
    save_model(language(), tmp_path / "m.safetensors")
    (tmp_path / "ids.txt").write_text("1 2 3 4 5 6 7 8\n")
    options = ("--ids", tmp_path / "ids.txt", "--context", 4, "--preset", TABLE, "--no-baseline")
    status, out, err = run(tmp_path / "m.safetensors", *options)
    assert (status, err) == (0, "")
    assert out.startswith(f"preset {TABLE} ")
    assert "context 4, spread pairs-texts; on what is given" in out.splitlines()[0]
    assert "metric: frobenius (" in out
    assert "n: 4 to 4 query tokens" in out


def test_checkpoint_without_texts_of_its_own_is_refused(run: Run, tmp_path: Path) -> None:
    save_model(language(), tmp_path / "m.safetensors")
    status, _, err = run(tmp_path / "m.safetensors", "--preset", TABLE)
    assert (status, "text, ids, images or sounds must be given, one of them" in err) == (2, True)
    status, _, err = run("language_softmax", "--preset", "large")
    assert (status, err.count("\n")) == (2, 1)
    assert "preset must be" in err
