"""The twins of the study of heads differ in their attention only, and its tables say what is so."""

import csv
import json
import math
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from scipy.stats import ttest_rel
from study_modules import RESULTS, study_module

from fourierkernels.checkpoints import attention_calls
from fourierkernels.diagnostics import head_distances
from fourierkernels.models import load_model


@pytest.fixture(scope="module")
def study() -> Iterator[ModuleType]:
    with study_module("twin_heads") as module:
        yield module


@pytest.fixture(scope="module")
def text(study: ModuleType):
    return study.read_text(study.QUICK.min_count)


def read(name: str) -> list[dict[str, str]]:
    with (RESULTS / f"{name}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_no_paragraph_of_the_test_text_is_in_another_split(study: ModuleType, text) -> None:
    n = 25  # long enough not to recur by chance
    seen = {
        name: {tuple(window.tolist()) for window in ids.unfold(0, n, 1)}
        for name, ids in text.splits.items()
    }
    known = {window for window in seen["test"] if len(set(window)) > n // 2}
    assert len(known) > 500
    assert len(known & (seen["train"] | seen["valid"])) < 0.02 * len(known)


def test_splits_hold_all_words_that_are_not_repeated(study: ModuleType, text) -> None:
    facts = text.facts
    total = sum(
        len(sys.modules["twin_text"].split_words(t))
        for t in sys.modules["twin_text"].documents().values()
    )
    kept = sum(facts[f"words_{name}"] for name in study.SPLITS)
    assert kept == round(total * (1 - facts["repeated"]))
    for name in ("test", "valid"):
        assert 0.06 < facts[f"words_{name}"] / kept < 0.25


def test_untrained_twins_differ_only_in_the_scale_of_attention(study: ModuleType) -> None:
    def weights(name: str) -> dict[str, torch.Tensor]:
        torch.manual_seed(7)
        return study.build(study.KINDS[name], study.QUICK, 50).state_dict()

    softmax = weights("softmax")
    for name in study.KINDS:
        twin = weights(name)
        assert softmax.keys() - twin.keys() == set()
        gain = study.KINDS[name].gain
        for key, value in softmax.items():
            scaled = gain if "query_proj" in key or "key_proj" in key else 1.0
            assert torch.equal(twin[key], scaled * value), (name, key)


def test_a_sharp_start_multiplies_log_weights_by_16_in_both_kinds(study: ModuleType) -> None:
    """R = 2 for 0.5, near the origin, and a gain of 4 on queries and keys are the same step."""
    settings = replace(study.QUICK, first_std=0.005)
    tokens = torch.randint(50, (1, 16), generator=torch.Generator().manual_seed(0))
    spread = {}
    for name in study.KINDS:
        torch.manual_seed(7)
        model = study.build(study.KINDS[name], settings, 50).double().eval()
        last_row = attention_calls(model, tokens, tokens)[0].maps[0, :, -1]
        spread[name] = last_row.log().std(dim=-1)
    for sharp, blunt in (("softmax_sharp", "softmax"), ("fourier", "fourier_half")):
        torch.testing.assert_close(
            spread[sharp] / spread[blunt], torch.full((2,), 16.0).double(), rtol=0.01, atol=0
        )


def test_twins_of_a_seed_see_the_same_batches(study: ModuleType, text) -> None:
    seen = defaultdict(list)
    for name, seed in (("softmax", 1), ("fourier", 1), ("softmax", 2)):
        torch.manual_seed(0)
        model = study.build(study.KINDS[name], study.QUICK, len(text.words))
        model.register_forward_pre_hook(lambda _, args, key=(name, seed): seen[key].append(args[0]))
        study.train(model, text.splits["train"], study.QUICK, rate=1e-3, seed=seed)
    batches = {key: torch.stack(found) for key, found in seen.items()}
    assert len(batches["softmax", 1]) == study.QUICK.steps
    assert torch.equal(batches["softmax", 1], batches["fourier", 1])
    assert not torch.equal(batches["softmax", 1], batches["softmax", 2])


def test_runs_depend_on_the_seed_alone(study: ModuleType, text) -> None:
    first, again, other = (
        study.run("fourier", 4e-3, seed, text, study.QUICK, trial=True)[0]["facts"]
        for seed in (3, 3, 4)
    )
    assert first["loss_test"] == again["loss_test"] != other["loss_test"]


def test_training_lowers_the_loss_of_the_training_text(study: ModuleType, text) -> None:
    settings = replace(study.QUICK, steps=60, warm_up=5)
    for name in ("softmax", "fourier"):
        torch.manual_seed(1)
        model = study.build(study.KINDS[name], settings, len(text.words)).eval()
        windows = study.evenly(text.windows("train", settings.length), 100)
        before = study.mean_loss(model, windows)
        study.train(model, text.splits["train"], settings, rate=4e-3, seed=1)
        assert before > math.log(len(text.words)) - 0.5
        assert study.mean_loss(model, windows) < before - 1


def records_of(study: ModuleType, values: dict[str, np.ndarray]) -> list[dict]:
    """Records with one layer average a network: `values` by kind, one a seed, trained."""
    return [
        {
            "facts": {
                "kind": kind,
                "seed": seed,
                "trial": False,
                **{f"loss_{split}": 1.0 for split in study.SPLITS},
            },
            "measures": [
                {
                    "stage": stage,
                    "split": "test",
                    "measure": "frobenius",
                    "layer": layer,
                    "mean": value + shift + own,
                }
                for stage, shift in (("untrained", -2.0), ("trained", 0.0))
                for layer, own in ((1, -0.5), (2, 0.5))
            ],
        }
        for kind, column in values.items()
        for seed, value in enumerate(column)
    ]


def test_intervals_are_those_of_the_paired_t_test(study: ModuleType) -> None:
    rng = np.random.default_rng(0)
    seeds = rng.normal(size=6)
    values = {kind: seeds + rng.normal(size=6) for kind in study.KINDS}
    rows = study.differences(records_of(study, values))
    trained = [r for r in rows if r["stage"] == "trained" and r["measure"] == "frobenius"]
    assert len(trained) == 6
    for row in trained:
        result = ttest_rel(values[row["first"]], values[row["second"]])
        low, high = result.confidence_interval(study.LEVEL)
        assert (row["low"], row["high"]) == pytest.approx((low, high), rel=1e-12)
        assert row["mean_first"] == pytest.approx(values[row["first"]].mean(), rel=1e-12)
    change = [r for r in rows if r["stage"] == "change" and r["measure"] == "frobenius"]
    assert [r["mean_first"] for r in change] == pytest.approx([2.0] * 6, rel=1e-12)


def test_an_interrupted_study_goes_on_and_gives_the_same_tables(
    study: ModuleType, text, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = replace(study.QUICK, seeds=(1,), rates_tried=(1e-3,))
    monkeypatch.setattr(study, "KINDS", {k: study.KINDS[k] for k in ("softmax", "fourier")})
    run, count = study.run, 0

    def counted(*args, **options):
        nonlocal count
        if count == 3:
            raise KeyboardInterrupt
        count += 1
        return run(*args, **options)

    monkeypatch.setattr(study, "run", counted)
    with pytest.raises(KeyboardInterrupt):
        study.train_all(settings, text, tmp_path)
    count = 0
    resumed = study.train_all(settings, text, tmp_path)
    assert count == 1  # of four
    monkeypatch.setattr(study, "run", run)
    (tmp_path / "twin_heads.partial.jsonl").unlink()
    whole = study.train_all(settings, text, tmp_path)
    for records in (resumed[0], whole[0]):
        for record in records:
            record["facts"].pop("seconds")
    assert json.dumps(resumed) == json.dumps(whole)


def test_records_of_other_settings_are_not_taken_up(
    study: ModuleType, text, tmp_path: Path
) -> None:
    path = tmp_path / "partial.jsonl"
    study.Finished(path, study.QUICK, text).add("a", {"x": 1})
    assert study.Finished(path, study.QUICK, text).records == {"a": {"x": 1}}
    assert study.Finished(path, replace(study.QUICK, steps=4), text).records == {}


def test_published_rates_are_those_of_least_validation_loss() -> None:
    config = json.loads((RESULTS / "twin_heads.json").read_text(encoding="utf-8"))["config"]
    runs = read("twin_heads_runs")
    trials = defaultdict(dict)
    for r in runs:
        if r["trial"] == "True":
            trials[r["kind"]][float(r["rate"])] = float(r["loss_valid"])
    assert {len(losses) for losses in trials.values()} == {len(config["rates_tried"])}
    best = {kind: min(losses, key=losses.get) for kind, losses in trials.items()}
    assert config["rates"] == best
    for r in runs:
        assert r["trial"] == "True" or float(r["rate"]) == best[r["kind"]]
    seeds = {
        kind: {r["seed"] for r in runs if r["kind"] == kind and r["trial"] == "False"}
        for kind in best
    }
    assert len({frozenset(own) for own in seeds.values()}) == 1


@pytest.mark.parametrize("mixer", ["softmax", "fourier"])
def test_published_distances_are_those_of_the_published_weights(mixer: str) -> None:
    config = json.loads((RESULTS / "twin_heads.json").read_text(encoding="utf-8"))["config"]
    kind = next(name for name in config["twins"] if config["kinds"][name]["mixer"] == mixer)
    model = load_model(RESULTS / f"twin_heads_{kind}.safetensors").float()
    lines = (RESULTS / "twin_heads_test.txt").read_text(encoding="utf-8").splitlines()
    tokens = torch.tensor([[int(word) for word in line.split()] for line in lines])
    calls = attention_calls(model, tokens, tokens)
    pairs = np.triu_indices(config["heads"], k=1)
    for layer, call in enumerate(calls, start=1):
        found = [head_distances(maps.double(), metric="frobenius")[pairs] for maps in call.maps]
        row = next(
            r
            for r in read("twin_heads_measures")
            if (r["kind"], r["seed"], r["stage"], r["split"], r["measure"], r["layer"])
            == (kind, str(config["seeds"][0]), "trained", "test", "frobenius", str(layer))
        )
        assert np.mean(found) == pytest.approx(float(row["mean"]), rel=1e-4)
        assert np.std(found, ddof=1) == pytest.approx(float(row["std"]), rel=1e-4)
