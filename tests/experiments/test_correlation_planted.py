"""The study of planted correlation: its scores, its control, its table."""

import csv
import importlib.util
import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from scipy import stats

from fourierkernels.estimators import NadarayaWatson

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def study() -> ModuleType:
    spec = importlib.util.spec_from_file_location("_planted", ROOT / "experiments/_planted.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("kernel", ["fourier4", "gaussian"])
def test_matrices_are_scored_by_the_estimators_leave_one_out(
    study: ModuleType, kernel: str
) -> None:
    rng, matrix = np.random.default_rng(0), np.array([[1.0, 0.4], [-0.3, 2.0]])
    x, y = rng.normal(size=(40, 2)), rng.normal(size=40)
    left_out = NadarayaWatson(kernel=kernel, radius=matrix).fit(x, y).leave_one_out()
    expected = np.square(left_out - y).mean()
    assert study.leave_one_out(kernel, matrix, x, y) == pytest.approx(expected, rel=1e-9)


def test_the_gaussian_does_not_change_with_a_turned_matrix_and_the_product_does(
    study: ModuleType,
) -> None:
    size = study.Size(dim=4, contexts=2)
    *inputs, _ = study.draw_contexts("correlated", size, torch.Generator().manual_seed(0))
    matrix, turn = torch.diag(torch.tensor([3.0, 1.0, 0.5, 0.2]))[None], study.mixing("rotated", 4)
    for kernel, changes in (("gaussian", False), ("product", True)):
        pair = [
            study.attend(kernel, *inputs, m) for m in (matrix, torch.tensor(turn).float() @ matrix)
        ]
        assert torch.allclose(*pair, atol=1e-5) != changes


def test_dot_products_are_softmax_of_what_two_projections_make(study: ModuleType) -> None:
    *inputs, _ = study.draw_contexts("correlated", study.Size(), torch.Generator().manual_seed(0))
    query, key, value = inputs
    layer = study.Layer(study.DOT_PRODUCT, study.PROJECTIONS, 4)
    torch.testing.assert_close(layer(*inputs), (query @ key.mT).softmax(-1) @ value)
    matrices = torch.randn(2, 4, 4, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        layer.of_queries.weight.copy_(matrices[0])
        layer.of_keys.weight.copy_(matrices[1])
    expected = ((query @ matrices[0].T) @ (key @ matrices[1].T).mT).softmax(-1) @ value
    torch.testing.assert_close(layer(*inputs), expected)


@pytest.mark.parametrize("data", ["rotated", "correlated"])
@pytest.mark.parametrize("dim", [2, 4])
def test_a_matrix_undoes_what_no_radius_per_feature_can(
    study: ModuleType, data: str, dim: int
) -> None:
    mixed = study.mixing(data, dim)
    assert np.linalg.cond(mixed) < 10
    assert (np.abs(np.linalg.inv(mixed)[0]) > 0.1).sum() > 1  # u_1 is in several features
    assert study.mixing("aligned", dim).tolist() == np.eye(dim).tolist()


def test_intervals_are_those_of_a_paired_t_test(study: ModuleType) -> None:
    rng = np.random.default_rng(1)
    own, other = rng.normal(size=(2, 8))
    runs = [
        row
        for seed in range(8)
        for row in study.run_rows(
            "regression", "rotated", seed, {study.REFERENCE: other[seed], "gaussian": own[seed]}
        )
    ]
    row = study.summary_rows(runs)[1]
    interval = stats.ttest_rel(own, other).confidence_interval(0.95)
    assert (row["low"], row["high"]) == pytest.approx((interval.low, interval.high))
    assert row["difference"] == pytest.approx(np.mean(own - other))
    assert row["smallest"] > (row["high"] - row["low"]) / 2


def test_the_provenance_names_the_seeds_of_the_runs() -> None:
    path = ROOT / "experiments/results/correlation_planted_runs"
    config = json.loads(path.with_suffix(".json").read_text("utf-8"))["config"]
    with path.with_suffix(".csv").open(encoding="utf-8", newline="") as file:
        assert {int(row["seed"]) for row in csv.DictReader(file)} == set(config["seeds"])
    assert config["samples"] == 150
