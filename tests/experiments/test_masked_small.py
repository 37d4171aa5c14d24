"""The small comparison of encoders compares like with like, and says what was measured."""

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


@pytest.fixture(scope="module")
def study() -> Iterator[ModuleType]:
    with study_module("masked_small") as module:
        yield module


def read(name: str) -> list[dict[str, str]]:
    with (RESULTS / f"{name}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def rows_of(study: ModuleType, values: dict[str, np.ndarray]) -> list[dict]:
    same = dict.fromkeys((*study.NUMBERS, study.TITLES, "step_ms", "valid_loss", "rate"), 1.0)
    return [
        {"part": part, "encoder": encoder, "preset": "tiny", "seed": seed, **same}
        | {study.WORD_ACCURACY: value, study.TITLES: value}
        for part in ("trials", "compared")
        for encoder, column in values.items()
        for seed, value in enumerate(column)
    ]


def test_every_encoder_gets_the_same_trials(study: ModuleType) -> None:
    settings = study.Settings()
    given = defaultdict(set)
    for own in study.trials(settings):
        given[own.encoder].add((own.rate, own.steps, own.seed, own.preset))
    assert set(given) == set(study.ENCODERS)
    assert len({frozenset(found) for found in given.values()}) == 1
    assert settings.trial_seed not in settings.seeds


def test_networks_of_the_table_differ_in_encoder_and_rate_alone(study: ModuleType) -> None:
    settings = study.Settings()
    networks = study.compared(settings, dict.fromkeys(study.ENCODERS, 1e-3))
    own = [n for n in networks if n.part == "compared"]
    assert len(own) == len(settings.seeds) * len(study.ENCODERS)
    assert {(n.preset, n.steps) for n in own} == {(settings.preset, settings.steps)}
    mixers = {n.encoder: n.setup("python-documents") for n in own}
    assert mixers["FNet hybrid"].mixer == "fnet_hybrid"
    assert mixers["FNet, two real parts"].mixer_options == {"real_part": "each"}


def test_intervals_are_those_of_the_paired_t_test_at_the_corrected_level(study: ModuleType) -> None:
    rng = np.random.default_rng(0)
    seeds = 20 + rng.normal(size=3)
    values = {encoder: seeds + rng.normal(size=3) for encoder in study.ENCODERS}
    for row in study.table(rows_of(study, values)):
        comparisons = len(study.ENCODERS) - 1
        assert row["comparisons"] == comparisons
        beside = study.BESIDE.get(row["encoder"], "BERT")
        if row["encoder"] == "BERT":
            assert row["masked_difference"] == 0
            continue
        result = ttest_rel(values[row["encoder"]], values[beside])
        expected = result.confidence_interval(1 - (1 - study.LEVEL) / comparisons)
        assert (row["masked_low"], row["masked_high"]) == pytest.approx(tuple(expected), rel=1e-12)
        assert row["titles_low"] == row["masked_low"]


def test_choice_is_that_of_the_least_validation_loss(study: ModuleType) -> None:
    rows = [
        {"encoder": encoder, "rate": rate, "valid_loss": loss}
        for encoder in ("BERT", "FNet")
        for rate, loss in ((1.0, 3.0), (2.0, 2.0), (3.0, math.nan))
    ]
    assert study.best(rows) == {"BERT": 2.0, "FNet": 2.0}
    with pytest.raises(ValueError, match="one trial of each encoder must end, got none of X"):
        study.best([{"encoder": "X", "rate": 1.0, "valid_loss": math.nan}])


def test_frequencies_alone_give_what_is_said(
    study: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOURIERKERNELS_CACHE", str(tmp_path / "cache"))
    data = study.write_example(tmp_path)
    found = study.unigram(data.documents, study.QUICK)
    assert 0 < found["accuracy"] < 100
    assert 0 < found["loss"] < math.log(150)


def test_published_table_follows_from_the_published_networks(study: ModuleType) -> None:
    networks, published = read("masked_networks"), read("masked_small")
    for found, name in (
        (study.table(networks), "masked_small"),
        (study.sizes(networks), "masked_sizes"),
    ):
        for ours, theirs in zip(found, read(name), strict=True):
            for column, value in ours.items():
                if isinstance(value, str):
                    assert theirs[column] == value
                else:
                    assert float(theirs[column]) == pytest.approx(float(value), rel=1e-9)
    settings = json.loads((RESULTS / "masked_small.json").read_text(encoding="utf-8"))["config"]
    assert [row["encoder"] for row in published] == settings["encoders"]
    assert {int(row["seeds"]) for row in published} == {len(settings["seeds"])}
    assert all(row["end"] == "finished" for row in networks)


def test_published_choices_are_those_of_least_validation_loss(study: ModuleType) -> None:
    trials = [row for row in read("masked_networks") if row["part"] == "trials"]
    chosen = study.best(trials)
    for row in read("masked_small"):
        assert float(row["rate"]) == chosen[row["encoder"]]
