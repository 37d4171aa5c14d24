"""``density`` and ``regress`` as a user meets them: tables, files, one-line errors."""

import csv
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fourierkernels.estimators.tables import describe_density, describe_regression

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pd.DataFrame:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"bmi": rng.normal(25, 4, 80), "sex": ["f", "m"] * 40})
    frame["score"] = frame["bmi"] + rng.normal(size=80)
    frame.loc[3, "bmi"] = np.nan
    frame.to_csv("table.csv", index=False)
    return frame


def rows_of(path: str) -> list[dict[str, str]]:
    with Path(path).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_a_radius_of_each_sample_is_one_option(command: Run, table: pd.DataFrame) -> None:
    done = command("density", "table.csv", "--column", "bmi", "--adaptive", "abramson")
    assert done.returncode == 0, done.stderr
    assert "of each sample by abramson" in " ".join(done.stdout.split())
    done = command("regress", "table.csv", "-x", "bmi", "-y", "score", "--adaptive", "neighbours")
    assert done.returncode == 0, done.stderr
    refused = command("density", "table.csv", "--column", "bmi", "--adaptive", "lscv")
    assert refused.returncode == 2
    assert "adaptive must be one of abramson, neighbours, got 'lscv'" in refused.stderr
    named = ("--category", "sex", "--adaptive", "abramson")
    refused = command("density", "table.csv", "--column", "bmi", *named)
    assert refused.returncode == 2
    assert "estimator must have one radius" in " ".join(refused.stderr.split())


def test_density_prints_draws_and_writes(command: Run, table: pd.DataFrame) -> None:
    files = ("--plot", "d.png", "--output", "d.csv")
    options = ("--by", "sex", "--kernel", "gaussian", "--replicates", "20", "--bounds", "0", "inf")
    done = command("density", "table.csv", "--column", "bmi", *options, *files)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    found = describe_density(table, "bmi", by="sex", kernel="gaussian", bounds=(0.0, None))
    for row in found.rows():
        line = next(text for text in done.stdout.splitlines() if text.split()[:1] == [row["group"]])
        assert f"{row['radius']:.4g}" in line
        assert f"{row['modes'][0]:.4g}" in line
    assert "one mode: p" in done.stdout
    assert Path("d.png").read_bytes().startswith(b"\x89PNG")
    written = rows_of("d.csv")
    assert [row["sex"] for row in written] == ["f"] * 512 + ["m"] * 512
    assert float(written[7]["density"]) == found.curves()[7]["density"]
    assert sorted(path.name for path in Path().iterdir()) == ["d.csv", "d.png", "table.csv"]


def test_regress_prints_draws_and_writes(command: Run, table: pd.DataFrame) -> None:
    files = ("--plot", "r.svg", "--derivative", "--output", "r.csv")
    options = ("-x", "bmi", "-y", "score", "--degree", "1", "--radius", "0.3", "--band")
    done = command("regress", "table.csv", *options, *files)
    assert done.returncode == 0, done.stderr
    found = describe_regression(table, "bmi", "score", degree=1, radius=0.3)
    (row,) = found.rows()
    assert f"{row['error']:.4g}" in done.stdout
    assert f"{row['r2']:.3f}" in done.stdout
    assert "<svg" in Path("r.svg").read_text(encoding="utf-8")
    written = rows_of("r.csv")
    assert list(written[0]) == ["bmi", "estimate", "low", "high", "slope_bmi"]
    assert float(written[5]["estimate"]) == found.curves()[5]["estimate"]
    assert float(written[5]["low"]) < found.curves()[5]["low"]  # a band is wider


def test_categories_are_in_one_fit_with_a_curve_for_each(command: Run, table: pd.DataFrame) -> None:
    table["stage"] = np.tile(["low", "mid", "mid", "high"], 20)
    table.to_csv("table.csv", index=False)
    order: dict[str, list[str] | None] = {"sex": None, "stage": ["low", "mid", "high"]}
    named = ("--category", "sex", "--category", "stage=low,mid,high", "--plot", "c.png")
    done = command("density", "table.csv", "--column", "bmi", *named, "--output", "c.csv")
    assert done.returncode == 0, done.stderr
    found = describe_density(table, "bmi", categories=order)
    assert [row["group"] for row in found.rows()] == ["f, low", "f, mid", "m, mid", "m, high"]
    assert sum(row["n"] for row in found.rows()) == 79
    assert f"{found.rows()[0]['radius']:.4g}" in done.stdout
    assert float(rows_of("c.csv")[7]["density"]) == found.curves()[7]["density"]
    done = command("regress", "table.csv", "-x", "bmi", "-y", "score", *named, "--output", "c.csv")
    assert done.returncode == 0, done.stderr
    fits = describe_regression(table, "bmi", "score", categories=order)
    assert f"{fits.rows()[1]['error']:.4g}" in done.stdout
    assert rows_of("c.csv")[0]["sex, stage"] == "f, low"
    assert Path("c.png").read_bytes().startswith(b"\x89PNG")
    refused = command("density", "table.csv", "--column", "bmi", "--by", "sex", *named[2:])
    assert "by must be None beside categories, got 'sex'" in refused.stderr
    refused = command("density", "table.csv", "--column", "bmi", "--category", "stage=low,mid")
    assert "ordered must give all levels of 'stage', got none for 'high'" in refused.stderr


@pytest.mark.filterwarnings("always::fourierkernels.estimators.TiedDataWarning")
def test_a_table_joined_to_itself_is_said_and_counted_once(
    command: Run, table: pd.DataFrame
) -> None:
    """It printed R² .907 and an error of .234 where σ is .3."""
    rng = np.random.default_rng(0)
    x = rng.uniform(size=200)
    frame = pd.DataFrame({"x": x, "y": np.sin(12 * x) + 0.3 * rng.normal(size=200), "w": 1.2})
    pd.concat([frame, frame]).to_csv("twice.csv", index=False)
    done = command("regress", "twice.csv", "-x", "x", "-y", "y")
    assert done.returncode == 0
    assert done.stderr == (
        "warning: X has repeated rows, 200 of 400 repeat another: radius='gcv' takes copies of a "
        "row for one sample, 200 in all\n"
    )
    (row,) = describe_regression(frame, "x", "y").rows()
    assert 0.27 < row["error"] < 0.33
    for word in ("400", "200", "samples", f"{row['error']:.4g}", f"{row['r2']:.3f}"):
        assert word in done.stdout
    names = "--weights", "w", "--weights-are", "precision"
    same = command("regress", "twice.csv", "-x", "x", "-y", "y", *names)
    assert f"{row['error']:.4g}" in same.stdout
    refused = command("density", "twice.csv", "--column", "y", *names)
    assert refused.returncode == 2
    assert "--weights-are must be one of frequency, importance, got 'precision'" in refused.stderr


def test_weights_are_named_by_option_and_column(command: Run, table: pd.DataFrame) -> None:
    frame = pd.DataFrame({"x": [0.0, 1.0, 2.0], "y": [1.0, 0.0, 2.0], "w": [1.0, -1.0, 2.0]})
    frame.to_csv("w.csv", index=False)
    for asked in (
        ("density", "w.csv", "--column", "x"),
        ("regress", "w.csv", "-x", "x", "-y", "y"),
    ):
        done = command(*asked, "--weights", "w", "--weights-are", "copies")
        assert "--weights-are must be one of frequency, " in done.stderr
        done = command(*asked, "--weights", "w")
        assert "column 'w' must be non-negative and not all zero, got -1.0" in done.stderr


def test_help_carries_an_example(command: Run) -> None:
    for name in ("density", "regress"):
        assert f"fourierkernels {name} patients.csv" in " ".join(
            command(name, "--help").stdout.split()
        )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["density", "no.csv", "--column", "bmi"], "data must be a file, got no.csv, which does"),
        (["density", "table.csv", "--column", "BMI"], "did you mean 'bmi'"),
        (["density", "table.csv", "--column", "sex"], "column 'sex' must be numeric, got 'f' in"),
        (["density", "table.csv", "--column", "bmi", "--radius", "x"], "radius must be one of"),
        (["density", "table.csv", "--column", "bmi", "--radius", "-1"], "radius must be positive"),
        (["density", "table.csv", "--column", "bmi", "--missing", "refuse"], "got 1 rows without"),
        (["density", "table.csv", "--column", "bmi", "--bounds", "0", "9"], "bounds must contain"),
        (["density", "table.csv", "--column", "bmi", "--plot", "x.doc"], "plot must be one of"),
        (["density", "table.csv", "--column", "bmi", "--seed", "-1"], "seed must be at least 0"),
        (
            ["density", "table.csv", "--column", "bmi", "--by", "score", "--output", "o.csv"],
            "group",
        ),
        (["regress", "table.csv", "-x", "bmi", "-y", "bmi"], "x and y must be different columns"),
        (["regress", "table.csv", "-y", "bmi"], "Missing option '-x'"),
        (["regress", "table.csv", "-x", "bmi", "-y", "score", "--degree", "9"], "degree must be"),
        (["regress", "table.csv", "-x", "bmi", "-y", "score", "--level", "0"], "level must be"),
    ],
)
def test_errors_are_one_line_with_status_two_and_leave_nothing(
    arguments: list[str], message: str, command: Run, table: pd.DataFrame
) -> None:
    done = command(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert [path.name for path in Path().iterdir()] == ["table.csv"]
