"""The small table of the arena compares like with like, and says what was measured."""

import csv
import json
import math
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from scipy.stats import ttest_rel
from study_modules import RESULTS, study_module

from fourierkernels.studies.lra.sets import read_arena


@pytest.fixture(scope="module")
def study() -> Iterator[ModuleType]:
    with study_module("lra_small") as module:
        yield module


def read(name: str) -> list[dict[str, str]]:
    with (RESULTS / f"{name}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def rows_of(values: dict[str, np.ndarray]) -> list[dict]:
    same = {"part": "compared", "task": "text", "rate": 1.0, "test_sequences": 40}
    return [
        {**same, "mixer": mixer, "seed": seed, "accuracy": value, "loss": value / 100}
        | {"largest_class": 50.0}
        for mixer, column in values.items()
        for seed, value in enumerate(column)
    ]


def test_every_mixer_gets_the_same_trials(study: ModuleType) -> None:
    settings = study.Settings()
    given = defaultdict(set)
    for own in study.trials(settings):
        given[own.task, own.mixer].add((own.rate, own.steps, own.seed))
    assert set(given) == {(task, m) for task, _ in settings.steps for m in study.MIXERS}
    for task, _ in settings.steps:
        assert len({frozenset(given[task, mixer]) for mixer in study.MIXERS}) == 1
    assert settings.trial_seed not in settings.seeds


def test_intervals_are_those_of_the_paired_t_test_at_the_corrected_level(study: ModuleType) -> None:
    rng = np.random.default_rng(0)
    seeds = 40 + rng.normal(size=3)
    values = {mixer: seeds + rng.normal(size=3) for mixer in study.MIXERS}
    rows = study.table(rows_of(values))
    assert len(rows) == len(study.MIXERS)
    for row in rows:
        assert row["comparisons"] == len(study.MIXERS) - 1
        if row["mixer"] == "softmax":
            assert row["difference"] == 0
            continue
        result = ttest_rel(values[row["mixer"]], values["softmax"])
        expected = result.confidence_interval(1 - (1 - study.LEVEL) / row["comparisons"])
        assert (row["low"], row["high"]) == pytest.approx(tuple(expected), rel=1e-9)


@pytest.mark.parametrize(("loss", "learnt"), [(0.5, True), (0.65, False)])
def test_a_task_is_learnt_if_each_seed_is_below_chance(
    study: ModuleType, loss: float, learnt: bool
) -> None:
    rows = rows_of({"softmax": np.array([40.0, 41.0, 42.0])})
    for row in rows:
        row["loss"] = 0.5
    rows[1]["loss"] = loss
    assert study.table(rows)[0]["learnt"] is learnt


def test_choice_is_that_of_the_least_validation_loss(study: ModuleType) -> None:
    networks = study.trials(study.Settings())
    rows = [{"valid_loss": own.rate * (own.mixer != "fnet") or 1e-3 / own.rate} for own in networks]
    chosen = study.best(rows, networks)
    rates = study.Settings().rates
    assert {key for key, rate in chosen.items() if rate == max(rates)} == {
        (task, "fnet") for task, _ in study.Settings().steps
    }


def test_a_study_goes_on_where_it_was_interrupted(
    study: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = []

    def train_network(network) -> dict:
        if len(trained) == 4:
            raise KeyboardInterrupt
        trained.append(network)
        return {"seed": network.seed}

    monkeypatch.setattr(study, "train_network", train_network)
    networks = study.trials(study.QUICK)[:6]
    with pytest.raises(KeyboardInterrupt):
        study.train_all(networks, study.Finished(tmp_path / "f.jsonl"))
    trained.clear()
    study.train_all(networks, study.Finished(tmp_path / "f.jsonl"))
    assert trained == networks[4:]


def test_published_table_follows_from_the_published_networks(study: ModuleType) -> None:
    published = read("lra_small")
    numbers = {"accuracy", "loss", "rate", "largest_class", "valid_loss"}
    networks = [
        {name: float(value) if name in numbers else value for name, value in row.items()}
        for row in read("lra_networks")
    ]
    found = study.table(networks)
    assert len(found) == len(published) == len(study.MIXERS) * len(study.Settings().steps)
    for ours, theirs in zip(found, published, strict=True):
        assert (ours["task"], ours["mixer"]) == (theirs["task"], theirs["mixer"])
        assert str(ours["learnt"]) == theirs["learnt"]
        for name in ("accuracy", "loss", "difference", "low", "high", "chance_loss"):
            assert ours[name] == pytest.approx(float(theirs[name]), rel=1e-9, abs=1e-9)


def test_published_accuracies_are_whole_numbers_of_sequences(study: ModuleType) -> None:
    drawn = read_arena("listops_small").counts["test"]
    for row in read("lra_networks"):
        correct = float(row["accuracy"]) / 100 * int(row["test_sequences"])
        assert correct == pytest.approx(round(correct), abs=1e-9)
        assert float(row["chance_loss"]) == pytest.approx(math.log(study.CLASSES[row["task"]]))
        if row["task"] == "listops":
            assert int(row["test_sequences"]) == drawn


def test_published_choices_are_those_of_least_validation_loss(study: ModuleType) -> None:
    settings = json.loads((RESULTS / "lra_small.json").read_text(encoding="utf-8"))["config"]
    trials = defaultdict(dict)
    for row in read("lra_networks"):
        if row["part"] == "trials":
            trials[row["task"], row["mixer"]][float(row["rate"])] = float(row["valid_loss"])
    for row in read("lra_small"):
        found = trials[row["task"], row["mixer"]]
        assert sorted(found) == sorted(settings["rates"])
        assert float(row["rate"]) == min(found, key=found.get)
        assert int(row["seeds"]) == len(settings["seeds"])


def test_costs_beyond_a_limit_are_said_in_the_table() -> None:
    with study_module("lra_costs", threads=False) as costs:
        rows = read("lra_costs")
        assert {row["mixer"] for row in rows} == set(costs.MIXERS)
        for mixer in costs.MIXERS:
            states = [row["status"] for row in rows if row["mixer"] == mixer]
            assert len(states) == len(costs.SIZES)
            measured = sum(state == "ok" for state in states)
            assert states[:measured] == ["ok"] * measured
            assert all(state in {"FAIL", "skipped", "timeout"} for state in states[measured:])
        for row in rows:
            assert math.isnan(float(row["steps_per_second"])) == (row["status"] != "ok")
        known = costs.with_paper(costs.Cell("softmax", 4096, "cpu", 1.0, 1.0, "ok"))
        assert (known.paper_steps_per_second, known.paper_gb) == ("FAIL", "FAIL")
