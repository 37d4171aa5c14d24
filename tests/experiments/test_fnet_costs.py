"""The costs of FNet's encoders: operations that really run, ratios to BERT in one turn."""

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from study_modules import read_rows, study_module
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from fourierkernels.models import PretrainingEncoder, count_parameters


@pytest.fixture(scope="module")
def study() -> Iterator[ModuleType]:
    with study_module("fnet_costs", threads=False) as module:
        yield module


@pytest.mark.parametrize("name", ["BERT", "Linear", "Random", "FF-only"])
def test_operations_are_those_that_run(study: ModuleType, name: str) -> None:
    config = replace(study.configured(name, "128x2"), length=32, vocabulary=100)
    model = PretrainingEncoder(config).eval()
    plain = sdpa_kernel(SDPBackend.MATH)  # fused attention is not counted on a CPU
    with plain, FlopCounterMode(display=False) as counter, torch.no_grad():
        model(torch.zeros(1, 32, dtype=torch.long))
    assert study.operations(config) * 1e9 == counter.get_total_flops()


def test_matrices_cost_four_times_as_much_as_real_ones(study: ModuleType) -> None:
    found = {
        name: study.operations(study.configured(name, "base"))
        for name in ("FF-only", "Random", "FNet", "FNet (matrices)", "BERT", "Hybrid")
    }
    real = found["Random"] - found["FF-only"]
    assert found["FNet (matrices)"] - found["FF-only"] == pytest.approx(4 * real)
    fourier, attention = (found[name] - found["FF-only"] for name in ("FNet", "BERT"))
    assert found["Hybrid"] - found["FF-only"] == pytest.approx((10 * fourier + 2 * attention) / 12)


def test_ratios_are_of_one_turn(study: ModuleType) -> None:
    bert, own = np.array([2.0, 6.0, 4.0]), np.array([1.0, 2.0, 4.0])
    found = study._ratios("training", own, bert)
    assert found == {
        "training_ms": 2000.0,
        "training_speed": 2.0,
        "training_least": 1.0,
        "training_greatest": 3.0,
    }


def test_batch_is_halved_until_all_models_bear_it(
    study: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_cell(name: str, size: str, batch: int, device: str, memory: float) -> Any:
        needed = 100.0 * batch * (2 if name == "Linear" else 1)
        return study.Cell(1.0, 0.5, needed) if needed <= 500 else None

    monkeypatch.setattr(study, "run_cell", run_cell)
    rows = {row["model"]: row for row in study.costs("128x2", 8, "cpu", 3, 1.0)}
    assert {(row["batch"], row["turns"]) for row in rows.values()} == {(2, 3)}
    assert rows["Linear"]["peak_of_bert"] == 2.0
    monkeypatch.setattr(study, "run_cell", lambda *_: None)
    with pytest.raises(MemoryError, match="memory must do for one sequence of size base"):
        study.costs("base", 8, "cpu", 3, 1.0)


def test_only_a_lack_of_memory_halves_the_batch(
    study: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failed(message: str) -> subprocess.CompletedProcess:
        return subprocess.CompletedProcess([], 1, "", message)

    monkeypatch.setattr(study.subprocess, "run", lambda *_, **__: failed("x: not enough memory"))
    assert study.run_cell("FNet", "base", 64, "cpu", 1.0) is None
    monkeypatch.setattr(study.subprocess, "run", lambda *_, **__: failed("TypeError: wrong"))
    with pytest.raises(RuntimeError, match="FNet of size base failed: TypeError: wrong"):
        study.run_cell("FNet", "base", 64, "cpu", 1.0)


def test_published_counts_are_those_of_the_models(study: ModuleType) -> None:
    published = read_rows("fnet_costs")
    assert {row["model"] for row in published} == set(study.MODELS)
    for row in published:
        config = study.configured(row["model"], row["size"])
        with torch.device("meta"):
            untied = PretrainingEncoder(replace(config, tied_output=False))
        assert int(row["parameters"]) == count_parameters(untied)
        assert float(row["gflops"]) == pytest.approx(study.operations(config))
        assert int(row["length"]) == 512
    bert = [row for row in published if row["model"] == "BERT"]
    assert all(float(row["training_speed"]) == 1.0 for row in bert)
