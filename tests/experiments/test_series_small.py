"""The small table of time series compares like with like, and says what was measured."""

import csv
import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from scipy.stats import ttest_rel
from study_modules import RESULTS, study_module

from fourierkernels.studies.series.problems import PROBLEMS
from fourierkernels.studies.series.series_data import read_series

MEASURED = ("JapaneseVowels",)  # BasicMotions is run on request, nothing of it is committed
MEASURES = ("accuracy", "accuracy_last", "accuracy_best_of_test")


@pytest.fixture(scope="module")
def study() -> Iterator[ModuleType]:
    with study_module("series_small") as module:
        yield module


def read(name: str) -> list[dict[str, str]]:
    with (RESULTS / f"{name}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def rows_of(values: dict[str, np.ndarray]) -> list[dict]:
    return [
        {"part": "compared", "problem": "P", "kernel": kernel, "seed": seed, "sharpness": 1.0}
        | {"test_series": 40, **dict.fromkeys(MEASURES, value)}
        for kernel, column in values.items()
        for seed, value in enumerate(column)
    ]


def test_every_kernel_gets_the_same_trials(study: ModuleType) -> None:
    settings = study.Settings()
    given = defaultdict(set)
    for own in study.trials(settings):
        given[own.problem, own.kernel].add((own.sharpness, own.steps, own.seed, own.preset))
    assert set(given) == {(p, k) for p in settings.problems for k in study.KERNELS}
    assert len({frozenset(found) for found in given.values()}) == 1
    assert settings.trial_seed not in settings.seeds


def test_intervals_are_those_of_the_paired_t_test_at_the_corrected_level(study: ModuleType) -> None:
    rng = np.random.default_rng(0)
    seeds = rng.normal(size=5)
    values = {kernel: seeds + rng.normal(size=5) for kernel in study.KERNELS}
    for row in study.table(rows_of(values)):
        assert row["comparisons"] == 2
        if row["kernel"] == "softmax":
            assert row["difference"] == 0
            continue
        result = ttest_rel(values[row["kernel"]], values["softmax"])
        expected = result.confidence_interval(1 - (1 - study.LEVEL) / 2)
        assert (row["low"], row["high"]) == pytest.approx(tuple(expected), rel=1e-12)


def test_choice_is_that_of_the_least_validation_loss(study: ModuleType) -> None:
    networks = study.trials(study.QUICK)
    rows = [{"valid_loss": own.sharpness * (own.kernel != "l = 4") or 0.1} for own in networks]
    assert study.best(rows, networks) == {("Waves", kernel): 0.2 for kernel in study.KERNELS}


def test_a_study_goes_on_where_it_was_interrupted(
    study: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = []

    def train_network(network, data: Path) -> dict:
        if len(trained) == 4:
            raise KeyboardInterrupt
        trained.append(network)
        return {"seed": network.seed}

    monkeypatch.setattr(study, "train_network", train_network)
    networks = study.trials(study.QUICK)
    with pytest.raises(KeyboardInterrupt):
        study.train_all(networks, study.Finished(tmp_path / "f.jsonl"), tmp_path)
    trained.clear()
    study.train_all(networks, study.Finished(tmp_path / "f.jsonl"), tmp_path)
    assert trained == networks[4:]


def test_a_network_is_measured_at_three_updates(study: ModuleType, tmp_path: Path) -> None:
    data = study.write_waves(tmp_path)
    own = study.Network("trials", "Waves", "gaussian", 1.0, "tiny", 10, 0)
    row = study.train_network(own, data)
    assert row["test_series"] == 8
    assert row["accuracy_best_of_test"] >= max(row["accuracy"], row["accuracy_last"])
    assert 1 <= row["best_step"] <= 10


def test_fetched_files_can_be_read(tmp_path: Path) -> None:
    with study_module("data_series", threads=False) as fetching:
        fetching.extract(fetching.example(tmp_path), tmp_path / "series")
        for problem in fetching.PROBLEMS:
            files = {path.name: path for path in (tmp_path / "series" / problem).iterdir()}
            assert set(files) == {f"{problem}_TRAIN.ts", f"{problem}_TEST.ts"}
            assert problem in PROBLEMS
            for part in fetching.PARTS:
                files[f"{problem}_{part}.ts"].rename(tmp_path / f"P_{part}.ts")
            assert read_series(tmp_path, "P").counts == {"train": 2, "valid": 2, "test": 4}
        (tmp_path / "empty.whl").write_bytes(b"PK\x05\x06" + bytes(18))
        with pytest.raises(SystemExit, match="must have aeon/datasets/data/BasicMotions"):
            fetching.extract(tmp_path / "empty.whl", tmp_path / "series")


@pytest.mark.parametrize("problem", MEASURED)
def test_published_table_follows_from_the_published_networks(
    study: ModuleType, problem: str
) -> None:
    of_networks, of_kernels = study.NAMES[problem]
    published = read(of_kernels)
    numbers = {*MEASURES, "valid_loss", "sharpness"}
    networks = [
        {name: float(value) if name in numbers else value for name, value in row.items()}
        for row in read(of_networks)
    ]
    found = study.table(networks)
    settings = study.SETTINGS[problem]
    assert len(found) == len(published) == len(study.KERNELS) * len(settings.problems)
    for ours, theirs in zip(found, published, strict=True):
        assert (ours["problem"], ours["kernel"]) == (theirs["problem"], theirs["kernel"])
        assert int(theirs["test_series"]) == PROBLEMS[theirs["problem"]].test
        for name in ("accuracy", "last", "best_of_test", "habit", "difference", "low", "high"):
            assert ours[name] == pytest.approx(float(theirs[name]), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("problem", MEASURED)
def test_published_accuracies_are_whole_numbers_of_series(study: ModuleType, problem: str) -> None:
    for row in read(study.NAMES[problem][0]):
        for name in MEASURES:
            correct = float(row[name]) / 100 * PROBLEMS[row["problem"]].test
            assert correct == pytest.approx(round(correct), abs=1e-9)


@pytest.mark.parametrize("problem", MEASURED)
def test_published_choices_are_those_of_least_validation_loss(
    study: ModuleType, problem: str
) -> None:
    of_networks, of_kernels = study.NAMES[problem]
    settings = json.loads((RESULTS / f"{of_kernels}.json").read_text(encoding="utf-8"))["config"]
    trials = defaultdict(dict)
    for row in read(of_networks):
        if row["part"] == "trials":
            key = row["problem"], row["kernel"]
            trials[key][float(row["sharpness"])] = float(row["valid_loss"])
    for row in read(of_kernels):
        found = trials[row["problem"], row["kernel"]]
        assert sorted(found) == sorted(settings["sharpness"])
        assert float(row["sharpness"]) == min(found, key=found.get)
        assert int(row["seeds"]) == len(settings["seeds"])
