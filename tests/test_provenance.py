"""What studies write, and the rates that the study of regression derives."""

import csv
import json
import runpy
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import pytest

import fourierkernels
from fourierkernels.foundation.provenance import (
    grouped,
    kept_or_scratch,
    provenance,
    sweep_options,
    write_study,
)

EXPERIMENTS = Path(__file__).parents[1] / "experiments"


@dataclass(frozen=True)
class Line:
    n: int
    error: float


def test_tables_come_with_their_provenance(tmp_path: Path) -> None:
    rows = [Line(10, 0.1), Line(20, 1 / 3)]
    write_study(tmp_path / "new", "x", rows, {"seed": 3}, source=Path(__file__))
    with (tmp_path / "new/x.csv").open(encoding="utf-8") as file:
        assert [(int(r["n"]), float(r["error"])) for r in csv.DictReader(file)] == [
            (10, 0.1),
            (20, 1 / 3),
        ]
    facts = json.loads((tmp_path / "new/x.json").read_text(encoding="utf-8"))
    assert facts["script"] == "test_provenance.py"
    assert facts["config"] == {"seed": 3}
    assert {"commit", "python", "cpu", "cores", "versions"} <= facts.keys()
    assert facts["versions"]["fourierkernels"] == fourierkernels.__version__


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        ([], ValueError, "rows must be at least one, got 0"),
        ([{"n": 1}, {"m": 1}], ValueError, "rows must have the same columns"),
        ([(1, 2)], TypeError, "rows must be dataclass instances or mappings, got \\(1, 2\\)"),
        ([Line], TypeError, "rows must be dataclass instances or mappings"),
    ],
)
def test_rows_that_make_no_table_are_refused(
    tmp_path: Path, rows: list, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        write_study(tmp_path, "x", rows, {}, source=Path(__file__))
    assert list(tmp_path.iterdir()) == []


def test_mappings_are_rows_too(tmp_path: Path) -> None:
    write_study(tmp_path, "a", [Line(10, 0.5)], {}, source=Path(__file__))
    write_study(tmp_path, "b", [{"n": 10, "error": 0.5}], {}, source=Path(__file__))
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


def test_versions_are_those_asked_for_installed_or_not() -> None:
    versions = provenance({}, Path(__file__), ["sympy", "no-such-package"])["versions"]
    assert versions["sympy"] == metadata.version("sympy")
    assert versions["no-such-package"] == "missing"


def test_the_commit_is_that_of_the_script_or_unknown(tmp_path: Path) -> None:
    assert provenance({}, tmp_path / "script.py")["commit"] == "unknown"


def test_the_processor_is_the_first_model_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listing = tmp_path / "cpuinfo"
    listing.write_text("processor\t: 0\nmodel name\t: Alpha: 3 GHz\nmodel name\t: Beta\n")
    monkeypatch.setattr("fourierkernels.foundation.provenance._CPUINFO", listing)
    assert provenance({}, Path(__file__))["cpu"] == "Alpha: 3 GHz"
    monkeypatch.setattr("fourierkernels.foundation.provenance._CPUINFO", tmp_path / "none")
    monkeypatch.setattr("platform.processor", lambda: "")
    assert provenance({}, Path(__file__))["cpu"] == "unknown"


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
)
def test_derived_rates_of_regression(
    function: str, kernel: str, dim: int, rate: tuple[float, float]
) -> None:
    script = runpy.run_path(str(EXPERIMENTS / "rates_regression.py"))
    assert script["derived_rate"](function, kernel, dim) == pytest.approx(rate)


def test_rows_of_a_group_stay_together_in_the_order_in_which_groups_come() -> None:
    rows = [Line(20, 0.1), Line(10, 0.2), Line(20, 0.3)]
    assert grouped(rows, "n") == [[rows[0], rows[2]], [rows[1]]]
    assert grouped(rows, "n", "error") == [[row] for row in rows]


def test_cells_are_kept_where_a_folder_is_given(tmp_path: Path) -> None:
    with kept_or_scratch(tmp_path / "a/b") as folder:
        (folder / "x").write_text("kept")
    assert (tmp_path / "a/b/x").read_text() == "kept"
    with kept_or_scratch(None) as scratch:
        (scratch / "x").write_text("gone")
    assert not scratch.exists()


def test_options_of_a_sweeping_study_make_the_folder_of_its_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["study", "--quick", "--cells", "c", "--workers", "2"])
    options = sweep_options("What it does.", tmp_path / "results")
    assert (options.quick, options.cells, options.workers) == (True, Path("c"), 2)
    assert options.output.is_dir()
