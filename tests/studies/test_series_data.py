"""A problem of time series is split, filled and standardised without a look at the test."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tiny_series import HEADER, LABELS, write_problem
from training_runs import error_of

from fourierkernels.studies.engine.epochs import Batch, Epochs
from fourierkernels.studies.engine.mixers import ChosenMixer
from fourierkernels.studies.series.problems import PROBLEMS
from fourierkernels.studies.series.series_data import (
    HELD_OUT,
    SeriesData,
    SeriesSplit,
    fill_gaps,
    held_out,
    read_series,
    statistics,
)
from fourierkernels.studies.series.study import PRESETS, STUDY, collate
from fourierkernels.studies.series.ts_files import TsFile, read_ts


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_problem(tmp_path_factory.mktemp("waves"))


@pytest.fixture(scope="module")
def data(folder: Path) -> SeriesData:
    return read_series(folder)


def write(folder: Path, train: str, test: str, name: str = "P") -> Path:
    folder.mkdir(exist_ok=True)
    for part, lines in (("TRAIN", train), ("TEST", test)):
        (folder / f"{name}_{part}.ts").write_text(HEADER + lines)
    return folder


def all_series(split: SeriesSplit) -> list[np.ndarray]:
    return [split.series(place) for place in range(len(split))]


def test_a_fifth_of_each_class_is_held_out(data: SeriesData) -> None:
    assert data.counts == {"train": 48, "valid": 12, "test": 30}
    assert np.bincount(data.splits["valid"].labels).tolist() == [4, 4, 4]
    labels = np.array([0] * 50 + [1] * 4 + [2] * 2 + [3])
    held = np.bincount(labels[held_out(labels)], minlength=4)
    assert held.tolist() == [10, 1, 1, 0]
    assert np.array_equal(held_out(labels), held_out(labels))
    assert HELD_OUT == 0.2


def test_every_series_is_in_one_split_with_its_label(data: SeriesData, folder: Path) -> None:
    file = read_ts(folder / "Waves_TRAIN.ts")
    known = {
        (np.float32((series - data.mean) / data.deviation)).tobytes(): label
        for series, label in zip(file.series, file.labels, strict=True)
    }
    found = {
        series.tobytes(): label
        for name in ("train", "valid")
        for series, label in zip(
            all_series(data.splits[name]), data.splits[name].labels, strict=True
        )
    }
    assert found == known


def test_channels_are_standardised_by_the_training_steps_alone(
    data: SeriesData, folder: Path, tmp_path: Path
) -> None:
    values = data.splits["train"].values
    np.testing.assert_allclose(values.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(values.std(axis=0, ddof=1), 1, rtol=1e-5)
    train, test = (
        (folder / f"Waves_{part}.ts").read_text().partition("@data\n")[2]
        for part in ("TRAIN", "TEST")
    )
    other = read_series(write(tmp_path / "p", train, "1e6,2e6:3e6,4e6:slow\n" + test))
    assert np.array_equal(other.mean, data.mean)
    assert np.array_equal(other.deviation, data.deviation)
    held = read_series(folder).splits["valid"].values.mean()
    assert abs(held) > 1e-5


def test_gaps_are_interpolated_in_their_channel() -> None:
    gap = np.nan
    series = np.float32([[gap, 1], [2, gap], [gap, gap], [5, 7], [gap, gap]])
    other = np.float32([[1, gap], [2, gap]])
    file = TsFile(Path("f"), ("a", "b"), [series, other], np.array([0, 1]))
    assert fill_gaps(file) == 8
    np.testing.assert_allclose(series[:, 0], [2, 2, 3.5, 5, 5])
    np.testing.assert_allclose(series[:, 1], [1, 3, 5, 7, 7])
    assert np.isnan(other[:, 1]).all()


def test_a_channel_without_values_is_at_its_mean(tmp_path: Path) -> None:
    lines = "1,2:?,?:slow\n3,4:5,6:slow\n5,6:7,8:fast\n" * 3
    data = read_series(write(tmp_path, lines, "1,2:?,?:fast\n"))
    assert np.isfinite(data.splits["train"].values).all()
    assert np.array_equal(data.splits["test"].series(0)[:, 1], [0, 0])
    assert data.missing == {"train": 6, "test": 2}
    nowhere = read_series(write(tmp_path / "n", "1,2:?,?:slow\n" * 3, "1,2:3,4:fast\n"))
    assert (nowhere.mean[1], nowhere.deviation[1]) == (0.0, 1.0)


def test_a_constant_channel_is_not_blown_up() -> None:
    mean, deviation = statistics(np.full((1000, 1), 0.1, dtype=np.float32))
    assert (mean[0], deviation[0]) == (pytest.approx(0.1), 1.0)
    assert statistics(np.zeros((1, 1), dtype=np.float32))[1][0] == 1.0


def test_longer_test_series_are_cut_off_and_counted(tmp_path: Path) -> None:
    test = "1,2,3:4,5,6:slow\n1:2:fast\n"
    data = read_series(write(tmp_path, "1,2:3,4:slow\n5,7:6,9:fast\n" * 2, test))
    assert (data.length, data.cut) == (2, {"train": 0, "test": 1})
    assert [len(series) for series in all_series(data.splits["test"])] == [2, 1]


def test_files_lie_in_the_folder_or_in_one_of_the_problem_s_name(tmp_path: Path) -> None:
    write_problem(tmp_path / "Waves")
    write_problem(tmp_path / "Waves", "Other", train=9, test=3)
    assert read_series(tmp_path, "Waves").corpus == "Waves"
    assert read_series(tmp_path / "Waves", "Other").counts["test"] == 3
    for call, message in (
        (lambda: read_series(tmp_path / "Waves"), "Waves with Other, Waves"),
        (lambda: read_series(tmp_path), r"with none"),
        (lambda: read_series(tmp_path / "x"), "data must be a folder of .ts files, got"),
        (lambda: read_series(tmp_path, "Y"), "got no Y_TRAIN.ts and no Y_TEST.ts"),
    ):
        assert message in error_of(call)
    (tmp_path / "Waves" / "Waves_TEST.ts").unlink()
    message = error_of(lambda: read_series(tmp_path, "Waves"))
    assert message.endswith("got no Waves_TEST.ts")


def test_files_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    write(tmp_path, "1:2:slow\n" * 2, "1:2:fast\n")
    file = tmp_path / "P_TEST.ts"
    text = file.read_text()
    file.write_text(text.replace("slow fast", "fast slow"))
    assert "must have the classes of P_TRAIN.ts" in error_of(lambda: read_series(tmp_path))
    file.write_text(text.replace("dimensions 2", "dimensions 1").replace("1:2", "1"))
    assert "must have the channels of P_TRAIN.ts, 2, got 1" in error_of(
        lambda: read_series(tmp_path)
    )


def test_classes_of_one_series_each_cannot_be_validated(tmp_path: Path) -> None:
    write(tmp_path, "1:2:slow\n1:2:fast\n", "1:2:fast\n")
    assert "must have two series of a class" in error_of(lambda: read_series(tmp_path))


@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_problem_of_the_archive_that_is_cut_off_is_refused(problem: str, tmp_path: Path) -> None:
    write(tmp_path, "1:2:slow\n" * 2, "1:2:fast\n", problem)
    message = error_of(lambda: read_series(tmp_path, problem))
    assert f"must have {PROBLEMS[problem].train} series, as the archive's {problem}" in message
    assert "got 2: the file is cut off" in message


def updates(data: SeriesData, seed: int) -> Epochs:
    recipe = replace(PRESETS["tiny"].recipe, steps=30, batch=10, seed=seed)
    return STUDY.batches(PRESETS["tiny"], data, recipe)


def test_order_is_of_the_seed_alone_wherever_a_run_goes_on(data: SeriesData) -> None:
    one, other = (updates(data, seed=3) for _ in range(2))
    whole = [one.__getitems__(range(10 * i, 10 * i + 10)) for i in range(30)]
    for step in (29, 4, 5, 20):
        halves = [other.__getitems__(range(10 * step + k, 10 * step + k + 5)) for k in (0, 5)]
        classes = np.concatenate([half["classes"] for half in halves])
        assert np.array_equal(classes, whole[step]["classes"])
    fresh = updates(data, seed=4).__getitems__(range(10))
    assert fresh["series"].shape != whole[0]["series"].shape or not np.array_equal(
        fresh["series"], whole[0]["series"]
    )


def test_batch_has_zeros_and_padding_behind_the_end(data: SeriesData) -> None:
    split = data.splits["test"]
    batch = collate(split, [0, 5, 3])
    longest = max(len(split.series(place)) for place in (0, 5, 3))
    assert batch["series"].shape == (3, longest, 2)
    for row, padding, label, place in zip(
        batch["series"], batch["padding"], batch["classes"], (0, 5, 3), strict=True
    ):
        assert np.array_equal(row[~padding], split.series(place))
        assert not row[padding].any()
        assert LABELS[int(label)] == data.classes[split.labels[place]]


def test_a_measurement_has_every_series_once_in_order(
    data: SeriesData, monkeypatch: pytest.MonkeyPatch
) -> None:
    split, seen = data.splits["test"], []

    def read(preset: object, data: object, name: str, members: Sequence[int]) -> Batch:
        seen.append(collate(split, members)["classes"])
        return collate(split, members)

    monkeypatch.setattr(STUDY, "examples", read)
    monkeypatch.setattr(STUDY, "at_a_time", 8)
    model = STUDY.build(PRESETS["tiny"], data, ChosenMixer("softmax"))
    STUDY.sums(model, PRESETS["tiny"], data, "test", range(30))
    assert [len(classes) for classes in seen] == [8, 8, 8, 6]
    assert np.array_equal(np.concatenate(seen), split.labels)
    assert STUDY.sums(model, PRESETS["tiny"], data, "test", []) == (0, 0)
