"""``fourierkernels bench``: every method that can, each with its error, and nothing that cannot."""

import csv
import math
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from fourierkernels import cli
from fourierkernels.cli.benchmarks import TASKS, run_bench
from fourierkernels.foundation.timing import rounds


@pytest.mark.parametrize("task", TASKS)
def test_every_method_is_timed_with_its_error_beside_the_chosen_one(task: str) -> None:
    rows = list(run_bench([task], [64], [1], power=4))
    chosen = [row for row in rows if row.chosen]
    assert len(chosen) == 1
    assert chosen[0].ratio == 1
    assert all(row.milliseconds > 0 for row in rows)
    for row in rows:
        single = task == "attention" or row.method == "direct_float32"
        assert row.error < (1e-4 if single else 1e-10) or math.isnan(row.error)
    assert {"density": "reference", "regression": "reference", "attention": "fourier, reference"}[
        task
    ] in {row.method for row in rows}


def test_methods_that_cannot_do_a_problem_are_left_out() -> None:
    methods = {row.method for row in run_bench(["density"], [32], [16], power=4)}
    assert methods == {"direct", "reference"}  # band-limited sums have at most three dimensions


def test_what_would_take_long_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fourierkernels.cli.benchmarks._BUDGET", 0.01)
    methods = {row.method for row in run_bench(["density"], [512], [1], power=4)}
    assert "reference" not in methods
    assert {"direct", "bandlimited"} <= methods


def test_problems_too_large_for_every_method_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fourierkernels.cli.benchmarks._BUDGET", 0.0)
    with pytest.raises(ValueError, match=r"takes less than 0 s, got n = \[64\] and dim = \[1\]"):
        list(run_bench(["density"], [64], [1], power=4))


def test_wrong_numbers_show_as_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    from fourierkernels.sums.direct import DirectSum

    right = DirectSum._at_scaled

    def wrong(self, queries):
        sums = right(self, queries)
        return type(sums)(**{**vars(sums), "denominator": 1.01 * np.asarray(sums.denominator)})

    monkeypatch.setattr(DirectSum, "_at_scaled", wrong)
    rows = {row.method: row for row in run_bench(["density"], [64], [16], power=4)}
    assert rows["direct"].error == pytest.approx(0.01, rel=1e-6)


def test_command_prints_and_writes_the_table(tmp_path: Path) -> None:
    file = tmp_path / "benchmarks.csv"
    arguments = ["bench", "density", "--n", "32", "--n", "64", "--dim", "1", "--output", str(file)]
    result = CliRunner().invoke(cli.app, arguments)
    assert result.exit_code == 0
    assert "* what the package chooses" in " ".join(result.output.split())
    rows = list(csv.DictReader(file.read_text().splitlines()))
    assert {row["n"] for row in rows} == {"32", "64"}
    assert sum(row["chosen"] == "True" for row in rows) == 2


@pytest.mark.parametrize(
    ("names", "options", "message"),
    [
        (["kettle"], {}, "task must be one of density, regression, attention"),
        (["density"], {"sizes": [0]}, "n must be at least 1, got 0"),
        (["density"], {"dims": [0]}, "dim must be at least 1, got 0"),
        (["density"], {"power": 0}, "power must be at least 1, got 0"),
    ],
)
def test_bad_input_is_refused(names: list[str], options: dict[str, object], message: str) -> None:
    given = {"sizes": [8], "dims": [1], "power": 4, **options}
    sizes, dims = given.pop("sizes"), given.pop("dims")
    with pytest.raises(ValueError, match=message):
        list(run_bench(names, sizes, dims, **given))


def test_rounds_take_turns_and_do_not_count_the_warm_up() -> None:
    order: list[str] = []
    calls = {name: lambda name=name: order.append(name) for name in "ab"}
    times = rounds(calls, least=2, most=2, seconds=9.0)
    assert order == ["a", "b"] * 3
    assert {name: len(seconds) for name, seconds in times.items()} == {"a": 2, "b": 2}
