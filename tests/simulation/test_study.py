"""What studies write, and the rates that the study of regression derives."""

import csv
import json
import runpy
from dataclasses import dataclass
from pathlib import Path

import pytest

from fourierkernels.simulation.study import write_study

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


@dataclass(frozen=True)
class Line:
    n: int
    error: float


def test_tables_come_with_their_provenance(tmp_path: Path) -> None:
    rows = [Line(10, 0.1), Line(20, 1 / 3)]
    write_study(tmp_path / "new", "x", rows, {"seed": 3}, source=Path(__file__))
    with (tmp_path / "new/x.csv").open(encoding="utf-8") as file:
        assert [(int(r["n"]), float(r["error"])) for r in csv.DictReader(file)] == [
            (10, 0.1), (20, 1 / 3),
        ]  # fmt: skip
    facts = json.loads((tmp_path / "new/x.json").read_text(encoding="utf-8"))
    assert facts["script"] == "test_study.py"
    assert facts["config"] == {"seed": 3}
    assert {"commit", "python", "versions"} <= facts.keys()
    assert facts["versions"]["fourierkernels"]


def test_a_study_without_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="rows must be dataclass instances and at least one"):
        write_study(tmp_path, "x", [], {}, source=Path(__file__))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("function", "kernel", "dim", "rate"),
    [
        ("sine", "fourier1", 1, (1.0, 0.5)),
        ("sine", "fourier1", 2, (1.0, 1.0)),
        ("sine", "fourier2", 1, (2 / 3, 0.0)),
        ("sine", "fourier2", 2, (1 / 2, 0.0)),
        *(("sine", f"fourier{power}", 1, (4 / 5, 0.0)) for power in (3, 4, 5, 6)),
        ("sine", "gaussian", 2, (2 / 3, 0.0)),
        ("kink", "fourier1", 1, (3 / 4, 0.0)),
        ("kink", "fourier2", 1, (2 / 3, 0.0)),
        ("kink", "fourier4", 1, (3 / 4, 0.0)),
        ("jump", "fourier6", 1, (1 / 2, 0.0)),
    ],
)  # fmt: skip
def test_derived_rates_of_regression(
    function: str, kernel: str, dim: int, rate: tuple[float, float]
) -> None:
    study = runpy.run_path(str(EXPERIMENTS / "rates_regression.py"))
    assert study["derived_rate"](function, kernel, dim) == pytest.approx(rate)
