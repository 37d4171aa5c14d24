"""The small table of control compares like with like, and says what was measured."""

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

from fourierkernels.studies.control.environments import ENVIRONMENTS


@pytest.fixture(scope="module")
def study() -> Iterator[ModuleType]:
    with study_module("control_small") as module:
        yield module


def read(name: str) -> list[dict[str, str]]:
    with (RESULTS / f"{name}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def networks(part: str) -> list[dict[str, str]]:
    return [row for row in read("control_networks") if row["part"] == part]


def test_every_kernel_gets_the_same_trials(study: ModuleType) -> None:
    settings = study.Settings()
    given = defaultdict(set)
    for own in study.trials(settings):
        given[own.kernel].add((own.sharpness, own.steps, own.seed, own.preset))
    assert set(given) == set(study.KERNELS)
    assert len({frozenset(found) for found in given.values()}) == 1
    assert settings.trial_seed not in settings.seeds


def test_intervals_are_those_of_the_paired_t_test_at_the_corrected_level(study: ModuleType) -> None:
    rng = np.random.default_rng(0)
    seeds = rng.normal(size=5)
    values = {
        (kernel, measure): seeds + rng.normal(size=5)
        for kernel in study.KERNELS
        for measure in study.MEASURES
    }
    rows = [
        {"part": "compared", "kernel": kernel, "seed": seed, "sharpness": 1.0}
        | {measure: values[kernel, measure][seed] for measure in study.MEASURES}
        for kernel in study.KERNELS
        for seed in range(5)
    ]
    found = study.table(rows)
    assert len(found) == 9
    for row in found:
        assert row["comparisons"] == 6
        if row["kernel"] == "softmax":
            assert row["difference"] == 0
            continue
        ours, softmax = (values[kernel, row["measure"]] for kernel in (row["kernel"], "softmax"))
        expected = ttest_rel(ours, softmax).confidence_interval(1 - (1 - study.LEVEL) / 6)
        assert (row["low"], row["high"]) == pytest.approx(tuple(expected), rel=1e-12)


def test_choice_is_that_of_the_least_validation_error(study: ModuleType) -> None:
    given = study.trials(study.QUICK)
    rows = [{"valid_error": own.sharpness * (own.kernel != "l = 4") or 0.1} for own in given]
    assert study.best(rows, given) == dict.fromkeys(study.KERNELS, 0.2)


def test_a_network_is_trained_and_plays(study: ModuleType, tmp_path: Path) -> None:
    pytest.importorskip("mujoco")
    data = study.write_few(tmp_path)
    row = study.train_network(study.Network("trials", "gaussian", 1.0, "tiny", 10, 0), data)
    assert row["episodes"] == 20
    assert row["test_error"] > 0
    hopper = ENVIRONMENTS["hopper"]
    for name in ("high", "low"):
        score = hopper.normalised(row[f"return_{name}"])
        assert row[f"score_{name}"] == pytest.approx(score)


def test_published_table_follows_from_the_published_networks(study: ModuleType) -> None:
    published, found = read("control_small"), study.table(read("control_networks"))
    assert len(found) == len(published) == len(study.KERNELS) * len(study.MEASURES)
    for ours, theirs in zip(found, published, strict=True):
        assert (ours["kernel"], ours["measure"]) == (theirs["kernel"], theirs["measure"])
        for name in ("mean", "deviation", "difference", "low", "high"):
            assert ours[name] == pytest.approx(float(theirs[name]), rel=1e-9, abs=1e-9)


def test_published_choices_are_those_of_least_validation_error() -> None:
    settings = json.loads((RESULTS / "control_small.json").read_text(encoding="utf-8"))["config"]
    trials: dict[str, dict[float, float]] = defaultdict(dict)
    for row in networks("trials"):
        trials[row["kernel"]][float(row["sharpness"])] = float(row["valid_error"])
    for row in read("control_small"):
        found = trials[row["kernel"]]
        assert sorted(found) == sorted(settings["sharpness"])
        assert float(row["sharpness"]) == min(found, key=found.__getitem__)
        assert int(row["seeds"]) == len(settings["seeds"])


def test_published_networks_have_learned() -> None:
    """Well below the mean action, which is what a network without a clue can say."""
    for row in networks("compared"):
        assert float(row["test_error"]) < 0.6 * float(row["mean_action_error"])
        assert float(row["score_high"]) == pytest.approx(
            ENVIRONMENTS["hopper"].normalised(float(row["return_high"]))
        )
