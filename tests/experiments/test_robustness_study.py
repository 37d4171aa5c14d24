"""The study of robustness gives all networks the same draws, and compares them in pairs."""

from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest
import torch
from study_modules import RESULTS, read_rows, study_module

from fourierkernels.models import load_model


@pytest.fixture(scope="module")
def study() -> Iterator[ModuleType]:
    with study_module("robustness") as module:
        yield module


def published() -> dict[tuple[str, ...], dict[str, str]]:
    names = ("part", "kernel", "measure", "corruption", "rate")
    return {tuple(row[name] for name in names): row for row in read_rows("robustness")}


def test_draws_follow_from_the_item_and_the_corruption(study: ModuleType) -> None:
    measuring = study.vision_measures.__globals__["drawn"]
    first, again, other, next_one = (
        measuring(kind, item).random()
        for kind, item in (("noise", 3), ("noise", 3), ("zeroed", 3), ("noise", 4))
    )
    assert first == again
    assert len({first, other, next_one}) == 3


def test_interval_is_over_seeds_and_items(study: ModuleType) -> None:
    """With effects of seeds alone it is as wide as theirs, however many items there are."""
    rng = np.random.default_rng(0)
    shared = 100 * rng.normal(size=(40, 400))
    for sizes in ((40, 1), (1, 400)):
        effects = rng.normal(size=sizes)
        found = study.difference(shared + effects, shared, 1)
        assert found["difference"] == pytest.approx(effects.mean())
        width = 2 * 1.96 * effects.std() / np.sqrt(effects.size)
        assert found["high"] - found["low"] == pytest.approx(width, rel=0.1)
    whole, corrected = (study.difference(shared + effects, shared, k) for k in (1, 20))
    assert corrected["low"] < whole["low"] < whole["high"] < corrected["high"]


def test_first_kernel_is_what_the_others_are_compared_with(study: ModuleType) -> None:
    rng = np.random.default_rng(0)
    keys = [("loss", "none", 0.0), ("loss", "noise", 0.5), ("Lipschitz, layer 1", "none", 0.0)]
    measures = {k: {key: rng.normal(size=(2, 5)) for key in keys} for k in study.KERNELS}
    rows = study.table("digits", measures)
    assert len(rows) == 9
    for row in rows:
        own = measures[row["kernel"]][row["measure"], row["corruption"], row["rate"]]
        less = measures["softmax"][row["measure"], row["corruption"], row["rate"]]
        assert row["value"] == pytest.approx(own.mean())
        assert row["difference"] == pytest.approx(own.mean() - less.mean())
        assert row["comparisons"] == (4 if row["measure"] == "loss" else 2)


def test_each_kernel_gets_the_same_trials_and_seeds() -> None:
    rows = [row for row in read_rows("robustness_networks") if row["part"] == "digits"]
    given = {
        kernel: {
            purpose: sorted(
                (row["steps"], row["seed"], "" if purpose == "compared" else row["sharpness"])
                for row in rows
                if (row["kernel"], row["purpose"]) == (kernel, purpose)
            )
            for purpose in ("trial", "compared")
        }
        for kernel in ("softmax", "gaussian", "l = 4")
    }
    assert given["softmax"] == given["gaussian"] == given["l = 4"]
    assert len(given["softmax"]["compared"]) == 5
    for kernel in given:
        own = [row for row in rows if row["kernel"] == kernel]
        tried = {r["sharpness"]: float(r["valid cross-entropy"]) for r in own if is_trial(r)}
        assert {r["sharpness"] for r in own if not is_trial(r)} == {min(tried, key=tried.get)}


def is_trial(row: dict[str, str]) -> bool:
    return row["purpose"] == "trial"


def test_published_rows_of_the_twins_are_those_of_the_published_weights(study: ModuleType) -> None:
    """Clean losses; and nothing that was measured moved by less than nothing."""
    rows = published()
    lines = (RESULTS / "language_heads_test.txt").read_text(encoding="utf-8").splitlines()
    windows = torch.tensor([[int(word) for word in line.split()] for line in lines])
    model = load_model(RESULTS / "language_softmax/model.safetensors").float().eval()
    with torch.no_grad():
        loss = float(model(windows[:, :-1], windows[:, 1:]).mean())
    own = rows["language", "softmax", "loss", "none", "0.0"]
    assert float(own["value"]) == pytest.approx(loss, rel=1e-4)
    for (_, _, measure, _, _), row in rows.items():
        assert float(row["low"]) <= float(row["difference"]) <= float(row["high"])
        if measure in ("maps", "output"):
            assert 0 < float(row["value"]) < 1
