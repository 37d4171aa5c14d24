"""The study of rates over families: its rows, and what correlation costs."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from fourierkernels.theory import optimum

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def study() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "rates_families", ROOT / "experiments/rates_families.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_row_has_the_error_its_slopes_and_its_rates(study: ModuleType) -> None:
    row = study.density_row("cauchy", "fourier4", quick=True)
    assert row["error"] == optimum("cauchy", "fourier4", n=study.AT).mise.total
    assert (row["sharp"], row["paper"]) == ("n^-4/5", "n^-2/3")
    assert row["limit"] == pytest.approx(-0.8, abs=1e-3)
    assert -0.9 < row["simulated"] < -0.5  # of a few replicates, at small n
    assert study.density_row("beta(1, 1)", "fourier4", quick=True)["simulated"] == ""


def test_correlation_costs_the_sinc_more_in_error_and_less_in_samples(study: ModuleType) -> None:
    costs = {}
    for kernel in ("fourier1", "gaussian"):
        plain, _ = study.relative_error(0.0, 4, kernel, 1_000)
        error, _ = study.relative_error(0.9, 4, kernel, 1_000)
        costs[kernel] = error / plain, study.sample_ratio(0.9, 4, kernel, 1_000, plain)
    assert costs["fourier1"][0] > costs["gaussian"][0] > 1.0
    assert 1.0 < costs["fourier1"][1] < costs["gaussian"][1]
