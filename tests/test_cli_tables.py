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
EPS = float(np.finfo(float).eps)


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
        (["grid", "table.csv", "-x", "bmi", "--points", "0"], "points must be at least 2, got 0"),
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


@pytest.fixture
def trips(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pd.DataFrame:
    """Hours around midnight, some of them of the next day, and delays."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"hour": rng.normal(24.0, 2.0, 120), "warm": rng.normal(size=120)})
    frame["late"] = np.cos(2 * np.pi * frame["hour"] / 24) + 0.1 * rng.normal(size=120)
    frame["day"] = ["work", "free"] * 60
    frame.to_csv("trips.csv", index=False)
    return frame


def test_density_of_hours_has_one_mode_at_midnight(command: Run, trips: pd.DataFrame) -> None:
    options = ("--column", "hour", "--period", "hour=24", "--kernel", "gaussian", "--by", "day")
    files = ("--replicates", "20", "--plot", "d.png", "--output", "d.csv")
    done = command("density", "trips.csv", *options, *files)
    assert done.returncode == 0, done.stderr
    found = describe_density(trips, "hour", by="day", kernel="gaussian", period=24)
    for row in found.rows():
        assert len(row["modes"]) == 1
        ((low, high),) = row["region"]
        assert f"{low:.4g} to {high - 24:.4g}" in done.stdout
    written = pd.read_csv("d.csv")
    for _, curve in written.groupby("day"):
        assert curve["hour"].iloc[[0, -1]].tolist() == [0.0, 24.0]
        assert curve["density"].iloc[0] == curve["density"].iloc[-1]
        total = np.trapezoid(curve["density"], curve["hour"])
        assert total == pytest.approx(1.0, rel=1e-4)
        covered = np.trapezoid(curve["density"] * curve["in_region"], curve["hour"])
        assert covered == pytest.approx(0.95, abs=0.01)
    (axes,) = found.figure().axes
    assert axes.get_xlim() == (0.0, 24.0)
    assert Path("d.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("degree", [0, 1])
def test_regression_on_hours_goes_around(command: Run, trips: pd.DataFrame, degree: int) -> None:
    options = ("-x", "hour", "-y", "late", "--period", "hour=24", "--degree", str(degree))
    files = ("--plot", "r.png", "--derivative", "--output", "r.csv", "--radius", "0.5")
    done = command("regress", "trips.csv", *options, *files)
    assert done.returncode == 0, done.stderr
    found = describe_regression(trips, "hour", "late", degree=degree, radius=0.5, period=24)
    assert f"{found.rows()[0]['error']:.4g}" in done.stdout
    curve = pd.read_csv("r.csv")
    assert curve["hour"].iloc[[0, -1]].tolist() == [0.0, 24.0]
    for name in ("estimate", "low", "high", "slope_hour"):
        assert curve[name].iloc[0] == curve[name].iloc[-1]
    assert found.figure().axes[0].get_xlim() == (0.0, 24.0)


def test_a_circle_beside_a_line_in_regression_and_grid(command: Run, trips: pd.DataFrame) -> None:
    both = ("trips.csv", "-x", "hour", "-x", "warm", "--period", "hour=24")
    done = command("regress", *both, "-y", "late", "--plot", "r.png")
    assert done.returncode == 0, done.stderr
    found = describe_regression(trips, ["hour", "warm"], "late", period={"hour": 24})
    assert f"{found.rows()[0]['r2']:.3f}" in done.stdout
    assert found.groups[0].model.periods_.tolist() == [24.0, np.inf]
    done = command("grid", *both, "--points", "33", "--output", "g.csv", "--plot", "g.png")
    assert done.returncode == 0, done.stderr
    values = pd.read_csv("g.csv").pivot(index="hour", columns="warm", values="density")
    assert values.index[[0, -1]].tolist() == [0.0, 24.0]
    # Sums of as many terms, none of them negative, in whichever order the processor adds.
    np.testing.assert_allclose(values.iloc[0], values.iloc[-1], rtol=len(trips) * EPS)


def test_a_circle_beside_categories(command: Run, trips: pd.DataFrame) -> None:
    options = ("--period", "hour=24", "--category", "day", "--radius", "0.5")
    done = command("density", "trips.csv", "--column", "hour", *options, "--output", "d.csv")
    assert done.returncode == 0, done.stderr
    curves = pd.read_csv("d.csv")
    assert curves.groupby("day")["hour"].agg(["min", "max"]).to_numpy().tolist() == [[0, 24]] * 2
    ends = curves[curves["hour"].isin([0.0, 24.0])].groupby("day")["density"]
    np.testing.assert_allclose(ends.first(), ends.last(), rtol=1e-9)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--period", "hour"], "--period must be COLUMN=NUMBER, the number positive and finite"),
        (["--period", "hour=0"], "got 'hour=0'"),
        (["--period", "hour=-24"], "got 'hour=-24'"),
        (["--period", "hour=day"], "got 'hour=day'"),
        (["--period", "hour=inf"], "got 'hour=inf'"),
        (["--period", "our=24"], "period must be of a column of the fit, hour, got 'our'"),
        (["--period", "day=24"], "period must be of a column of the fit, hour, got 'day'"),
        (["--period", "hour=24", "--period", "hour=12"], "once for a column, got 'hour' twice"),
        (["--period", "hour=24", "--bounds", "0", "24"], "period must be None where there are bo"),
        (
            ["--period", "hour=24", "--radius", "scott", "--kernel", "gaussian"],
            "radius must be a number or a rule that takes periods, got 'scott'",
        ),
    ],
)
def test_wrong_periods_are_refused_in_one_line(
    command: Run, trips: pd.DataFrame, options: list[str], says: str
) -> None:
    done = command("density", "trips.csv", "--column", "hour", *options, "--plot", "d.png")
    assert done.returncode == 2
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
    assert not Path("d.png").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["density", "prices.csv", "--column", "low"],
        ["density", "prices.csv", "--column", "close", "--by", "high"],
        ["regress", "prices.csv", "-x", "low", "-y", "close"],
        ["regress", "prices.csv", "-x", "close", "-x", "high", "-y", "low"],
        ["grid", "prices.csv", "-x", "density"],
    ],
)
def test_a_column_named_as_one_of_the_curves_is_never_replaced_in_them(
    arguments: list[str], command: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a table of prices, whose "low" would become the lower confidence limit."""
    monkeypatch.chdir(tmp_path)
    low = np.random.default_rng(0).normal(10, 2, 40)
    frame = pd.DataFrame({"low": low, "close": low + 0.5, "density": low})
    frame["high"] = (low + 1).round(0) if "--by" not in arguments else ["a", "b"] * 20
    frame.to_csv("prices.csv", index=False)
    done = command(*arguments, "--radius", "1")
    assert done.returncode == 0, done.stderr
    done = command(*arguments, "--radius", "1", "--output", "o.csv")
    assert (done.returncode, done.stdout) == (2, "")
    assert "columns of curves must have different names, got" in done.stderr
    assert not Path("o.csv").exists()


def test_a_regression_on_a_grid_is_not_on_its_own_response(
    command: Run, table: pd.DataFrame
) -> None:
    for x in (["bmi"], ["score", "score"]):
        columns = [part for name in x for part in ("-x", name)]
        done = command("grid", "table.csv", *columns, "-y", "bmi")
        assert done.returncode == 2
        assert "x and y must be different columns, each once" in done.stderr
