"""The tables of language models compare like with like, and say what was measured."""

import csv
import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from scipy.stats import ttest_rel
from study_modules import RESULTS, study_module

from fourierkernels.mixing import create_mixer


@pytest.fixture(scope="module")
def study() -> Iterator[ModuleType]:
    with study_module("language_tables") as module:
        yield module


def read(name: str) -> list[dict[str, str]]:
    with (RESULTS / f"{name}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("sharpness", [0.2, 1.0, 5.0])
def test_kernels_of_one_sharpness_curve_alike(study: ModuleType, sharpness: float) -> None:
    """Log weights of a query among near keys, minus their mean, agree to second order."""
    torch.manual_seed(0)
    near = 1e-3 * torch.randn(1, 1, 9, 16, dtype=torch.float64)
    near /= near.norm(dim=-1, keepdim=True) / 1e-3  # one norm: softmax is a Gaussian
    spreads = []
    for kernel in study.KERNELS:
        name, options = study.kernel_options(kernel, sharpness)
        mixer = create_mixer(name, dim=16, heads=1, **options).double()
        log_weights = mixer.weights(near, near).log()
        spreads.append(log_weights - log_weights.mean(dim=-1, keepdim=True))
    for kernel, spread in zip(study.KERNELS, spreads, strict=True):
        torch.testing.assert_close(spread, spreads[0], rtol=1e-4, atol=1e-12, msg=kernel)


def test_a_trial_s_sharpness_is_found_again(study: ModuleType) -> None:
    for kernel in study.KERNELS:
        own = study.network("p", "r", kernel, (1e-3, 2.5), preset="tiny", steps=1, seed=0)
        assert study.sharpness_of(own) == pytest.approx(2.5)


def test_every_kernel_gets_the_same_trials(study: ModuleType) -> None:
    settings = study.Settings()
    given = defaultdict(set)
    for own in study.trials(settings):
        given[own.row].add((own.rate, round(study.sharpness_of(own), 9), own.steps, own.seed))
    assert set(given) == set(study.KERNELS)
    assert len({frozenset(found) for found in given.values()}) == 1
    assert settings.trial_seed not in settings.seeds  # of the compared networks


def losses(study: ModuleType, values: dict[str, np.ndarray]) -> list[dict]:
    return [
        {"part": "kernels", "row": row, "seed": seed, "end": "finished"}
        | {f"{split} {study.METRIC}": value for split in ("valid", "test")}
        for row, column in values.items()
        for seed, value in enumerate(column)
    ]


def test_intervals_are_those_of_the_paired_t_test_at_the_corrected_level(study: ModuleType) -> None:
    rng = np.random.default_rng(0)
    seeds = rng.normal(size=5)
    values = {row: seeds + rng.normal(size=5) for row in ("softmax", "l = 4", "gaussian")}
    for row in study.tables(losses(study, values)):
        assert row["comparisons"] == 2
        if row["row"] == "softmax":
            assert row["difference"] == 0
            continue
        result = ttest_rel(values[row["row"]], values["softmax"])
        expected = result.confidence_interval(1 - (1 - study.LEVEL) / 2)
        assert (row["low"], row["high"]) == pytest.approx(tuple(expected), rel=1e-12)
        assert row["perplexity"] == pytest.approx(np.exp(values[row["row"]].mean()))


def test_a_network_that_diverged_is_counted_and_not_averaged(study: ModuleType) -> None:
    rows = losses(study, {"softmax": np.ones(3), "l = 1": np.full(3, 2.0)})
    del rows[-1][f"valid {study.METRIC}"], rows[-1][f"test {study.METRIC}"]
    rows[-1]["end"] = "training diverged at step 3"
    (last,) = [r for r in study.tables(rows) if (r["row"], r["split"]) == ("l = 1", "test")]
    assert (last["seeds"], last["diverged"], last["difference"]) == (2, 1, 1.0)


def test_a_study_goes_on_where_it_was_interrupted(
    study: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 0

    def trained(network, data: str, *, heads: bool) -> dict:
        nonlocal count
        if count == 4:
            raise KeyboardInterrupt
        count += 1
        return {"part": network.part, "row": network.row, "seed": network.seed, "end": "finished"}

    monkeypatch.setattr(study, "train_network", trained)
    networks = study.trials(study.Settings(kernels=("softmax",)))
    with pytest.raises(KeyboardInterrupt):
        study.train_all(networks, study.Finished(tmp_path / "f.jsonl"), "python", 1)
    count = -5
    study.train_all(networks, study.Finished(tmp_path / "f.jsonl"), "python", 1)
    assert count == 0  # five of nine
    assert len(list(study.Finished(tmp_path / "f.jsonl").rows(networks))) == 9


def test_published_tables_follow_from_the_published_networks(study: ModuleType) -> None:
    networks = [
        {name: float(v) if "perplexity" in name else v for name, v in row.items() if v != ""}
        for row in read("language_networks")
    ]
    found = study.tables(networks)
    published = read("language_tables")
    assert len(found) == len(published) > 20
    for ours, theirs in zip(found, published, strict=True):
        for name in ("perplexity", "difference", "low", "high"):
            assert ours[name] == pytest.approx(float(theirs[name]), rel=1e-9, nan_ok=True)


def test_published_choices_are_those_of_least_validation_loss(study: ModuleType) -> None:
    facts = json.loads((RESULTS / "language_tables.json").read_text(encoding="utf-8"))["config"]
    trials = defaultdict(dict)
    for row in read("language_networks"):
        if row["part"] == "trials" and row["end"] == "finished":
            own = (float(row["rate"]), row["options"])
            trials[row["row"]][own] = float(row[f"valid {study.METRIC}"])
    for kernel, found in trials.items():
        rate, sharpness = facts["chosen"][kernel]
        best_rate, options = min(found, key=found.get)
        assert best_rate == rate
        expected = study.kernel_options(kernel, sharpness)[1]
        for name, value in json.loads(options).items():
            assert value == pytest.approx(expected[name])
