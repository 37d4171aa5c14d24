"""Descriptions say what the estimators say, group by group, and refuse what is no data."""

import math
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fourierkernels import KernelDensity, LocalPolynomial, NadarayaWatson
from fourierkernels.estimators import AdaptiveDensity, AdaptiveRegression
from fourierkernels.estimators.modes import highest_density_intervals, modes, silverman_test
from fourierkernels.estimators.tables import (
    Marks,
    describe_density,
    describe_regression,
    read_columns,
)

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "x": np.append(RNG.normal(size=119), np.nan),
        "z": RNG.uniform(size=120),
        "group": np.repeat(["b", "a", None], [60, 50, 10]),
        "text": "no number",
        "day": pd.date_range("2020-01-01", periods=120),
        "endless": np.append(np.zeros(119), np.inf),
        "gone": np.nan,
        "month": pd.period_range("2020-01", periods=120, freq="M"),
        "phase": pd.Series([1.0 + 2.0j] * 120, dtype=object),
    }
)
FRAME["y"] = np.sin(FRAME["x"].fillna(0.0)) + FRAME["z"] + 0.1 * RNG.normal(size=120)


def test_density_of_a_column_is_that_of_the_estimator() -> None:
    rng = np.random.default_rng(1)
    found = describe_density(FRAME, "x", kernel="gaussian", level=0.8, replicates=20, rng=rng)
    x = FRAME[["x"]].dropna()
    model = KernelDensity("gaussian").fit(x)
    (row,), (group,) = found.rows(), found.groups
    assert (row["n"], row["dropped"]) == (119, 1)
    assert row["radius"] == model.radius_[0]
    assert row["modes"] == modes(model).points[:, 0].tolist()
    assert row["region"] == highest_density_intervals(model, 0.8).ends.tolist()
    test = silverman_test(x.to_numpy(), rng=np.random.default_rng(1), replicates=20)
    assert row["p_value"] == test.p_value
    assert group.model.feature_names_in_.tolist() == ["x"]
    curve = pd.DataFrame(found.curves())
    assert curve.columns.tolist() == ["x", "density", "low", "high", "in_region"]
    limits = model.interval(curve[["x"]], level=0.8)
    np.testing.assert_array_equal(curve["low"], limits.low)
    np.testing.assert_array_equal(curve["high"], limits.high)
    np.testing.assert_array_equal(curve["density"], model.density(curve[["x"]]))
    above = curve["density"] >= group.region.level
    assert np.mean(above == curve["in_region"]) == 1.0


def test_groups_are_described_each_on_its_own() -> None:
    found = describe_density(FRAME, "x", by="group")
    assert [group.name for group in found.groups] == ["a", "b"]
    assert [group.n for group in found.groups] == [50, 60]
    assert found.ungrouped == 10
    alone = describe_density(FRAME[FRAME["group"] == "a"], "x")
    assert found.groups[0].row() | {"group": ""} == alone.groups[0].row()
    curve = pd.DataFrame(found.curves())
    assert curve.groupby("group").size().tolist() == [512, 512]


def test_a_kernel_with_negative_values_has_no_region() -> None:
    found = describe_density(FRAME, "x", kernel="fourier1")
    assert found.groups[0].region is None
    assert found.rows()[0]["region"] == []
    assert {row["in_region"] for row in found.curves()} == {None}


def test_a_single_sample_has_no_limits() -> None:
    found = describe_density(FRAME.head(1), "x", radius=1.0)
    assert {(row["low"], row["high"]) for row in found.curves()} == {(None, None)}


def test_grid_of_a_density_stays_within_bounds() -> None:
    found = describe_density(FRAME, "z", bounds=(0.0, 1.0))
    assert (found.grid[0], found.grid[-1]) == (0.0, 1.0)
    total = np.trapezoid(found.density(found.groups[0]), found.grid)
    assert total == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize("degree", [0, 1, 2])
def test_regression_of_a_column_is_that_of_the_estimator(degree: int) -> None:
    found = describe_regression(FRAME, "x", "y", degree=degree, radius=2.0)
    used = FRAME[["x", "y"]].dropna()
    plain = NadarayaWatson(radius=2.0), LocalPolynomial(degree=max(degree, 1), radius=2.0)
    model = plain[degree > 0].fit(used[["x"]], used["y"])
    row, curve = found.rows()[0], pd.DataFrame(found.curves())
    left = used["y"] - model.leave_one_out()
    assert row["error"] == pytest.approx(np.sqrt(np.mean(left**2)), rel=1e-12)
    spread = np.sum((used["y"] - used["y"].mean()) ** 2)
    assert row["r2"] == pytest.approx(1 - np.sum(left**2) / spread, rel=1e-12)
    assert row["freedom"] == pytest.approx(model.hat_diagonal().sum(), rel=1e-12)
    assert row["undefined"] == 0
    limits = model.interval(curve[["x"]])
    for name, expected in (("estimate", limits.centre), ("low", limits.low), ("high", limits.high)):
        np.testing.assert_allclose(curve[name], expected, rtol=1e-12)
    np.testing.assert_allclose(curve["slope_x"], model.derivative(curve[["x"]])[:, 0], rtol=1e-12)


def test_a_radius_of_each_sample_is_that_of_the_adaptive_estimators() -> None:
    used = FRAME[["x", "y"]].dropna()
    found = describe_density(FRAME, "x", kernel="gaussian", adaptive="abramson")
    model = AdaptiveDensity("gaussian").fit(FRAME[["x"]].dropna())
    at = pd.DataFrame({"x": found.grid})
    np.testing.assert_allclose(found.density(found.groups[0]), model.density(at), rtol=1e-12)
    assert found.rule == "normal_reference, of each sample by abramson"
    fitted = describe_regression(FRAME, "x", "y", radius=2.0, adaptive="neighbours")
    other = AdaptiveRegression(radius=2.0, adaptive="neighbours").fit(used[["x"]], used["y"])
    curve = pd.DataFrame(fitted.curves())
    np.testing.assert_allclose(curve["estimate"], other.predict(curve[["x"]]), rtol=1e-12)
    with pytest.raises(ValueError, match="degree must be 0 with a radius of each sample, got 1"):
        describe_regression(FRAME, "x", "y", degree=1, adaptive="abramson")
    with pytest.raises(TypeError, match="estimator must have one radius"):
        describe_density(FRAME, "x", categories=["group"], adaptive="abramson")


def test_regression_on_two_columns_is_given_at_the_samples() -> None:
    found = describe_regression(FRAME, ["x", "z"], "y", radius=2.0)
    curve = pd.DataFrame(found.curves())
    used = FRAME[["x", "z", "y"]].dropna()
    np.testing.assert_array_equal(curve[["x", "z"]], used[["x", "z"]])
    assert found.rows()[0]["radius"] == [2.0, 2.0]
    assert found.groups[0].model.feature_names_in_.tolist() == ["x", "z"]


def test_a_band_is_wider_than_intervals_and_needs_a_generator() -> None:
    one = describe_regression(FRAME, "x", "y", radius=2.0)
    rng = np.random.default_rng(0)
    all_at_once = describe_regression(FRAME, "x", "y", radius=2.0, band=True, rng=rng)
    widths = [pd.DataFrame(each.curves()).eval("high - low") for each in (one, all_at_once)]
    assert (widths[1] > widths[0]).all()
    with pytest.raises(ValueError, match="rng must be given for a band"):
        describe_regression(FRAME, "x", "y", band=True)


def test_undefined_fits_are_counted_and_not_warned_of() -> None:
    frame = pd.DataFrame({"x": [0.0, 0.0, 0.0, 1.0], "y": [1.0, 2.0, 3.0, 4.0]})
    found = describe_regression(frame, "x", "y", kernel="gaussian", degree=1, radius=5.0)
    assert found.rows()[0]["undefined"] == 1


def test_figures_show_every_group() -> None:
    density = describe_density(FRAME, "x", by="group").figure()
    (axes,) = density.axes
    assert axes.get_xlabel() == "x"
    assert [text.get_text() for text in density.legends[0].get_texts()] == ["a", "b"]
    curve = describe_regression(FRAME, "x", "y", radius=2.0).figure(derivative=True)
    assert [axes.get_ylabel() for axes in curve.axes] == ["y", "derivative"]
    plane = describe_regression(FRAME, ["x", "z"], "y", radius=2.0).figure()
    assert plane.axes[0].get_xlabel() == "fit without the sample"
    many = FRAME.assign(group=np.arange(120) % 8)
    with pytest.raises(ValueError, match="a figure must have from one to 7 groups, got 8"):
        describe_density(many, "x", by="group").figure()


def test_progress_sees_every_group() -> None:
    seen: list[str] = []

    def follow(groups):  # type: ignore[no-untyped-def]
        for group in groups:
            seen.append(group.name)
            yield group

    describe_density(FRAME, "x", by="group", follow=follow)
    assert seen == ["a", "b"]


@pytest.mark.parametrize(
    ("column", "error", "message"),
    [
        ("X", ValueError, "got 'X'; did you mean 'x'"),
        ("nothing like it", ValueError, "the first are 'x', 'z'"),
        ("text", TypeError, r"column 'text' must be numeric, got 'no number' in row 1 \(120 such"),
        ("day", TypeError, "column 'day' must be numeric, got datetime64"),
        ("month", TypeError, r"column 'month' must be numeric, got period\[M\] data"),
        ("phase", TypeError, "column 'phase' must be numeric, got complex128 data"),
        ("endless", ValueError, "column 'endless' must be finite, got inf in row 120"),
        ("gone", ValueError, "'gone' must have values, got none"),
    ],
)
def test_columns_that_are_no_numbers_are_refused(
    column: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        describe_density(FRAME, column)


def test_refused_options_name_their_rule() -> None:
    with pytest.raises(ValueError, match="missing must be one of drop, refuse"):
        describe_density(FRAME, "x", missing="ignore")
    with pytest.raises(ValueError, match="'x' must not be missing, got 1 rows without"):
        describe_density(FRAME, "x", missing="refuse")
    with pytest.raises(ValueError, match="level must be between 0 and 1, got 1"):
        describe_density(FRAME, "x", level=1)
    with pytest.raises(TypeError, match="frame must be a pandas DataFrame, got ndarray"):
        describe_density(np.zeros((3, 1)), "x")
    with pytest.raises(ValueError, match="the table must have rows"):
        describe_density(FRAME[:0], "x")
    with pytest.raises(ValueError, match="column 'gone' must name groups"):
        describe_density(FRAME, "x", by="gone")
    with pytest.raises(ValueError, match="x and y must be different columns"):
        describe_regression(FRAME, ["x", "y"], "y")
    with pytest.raises(ValueError, match=r"group '0\.5': X must vary"):
        describe_density(pd.DataFrame({"x": [1.0], "g": [0.5]}), "x", by="g")


def test_groups_of_one_name_are_refused() -> None:
    frame = pd.DataFrame({"x": [1.0, 2.0, 4.0, 7.0], "g": [1, "1", 1, "1"]})
    with pytest.raises(ValueError, match="g must have a name for each group, got '1' twice"):
        describe_density(frame, "x", by="g")


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_delimiter_is_told_from_the_header(delimiter: str, tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    FRAME[["x", "z", "text"]].to_csv(path, sep=delimiter, index=False, encoding="utf-8-sig")
    frame = read_columns(path, ["z", "x"])
    assert frame.columns.tolist() == ["z", "x"]
    np.testing.assert_array_equal(frame, FRAME[["z", "x"]])


def test_parquet_is_read_by_its_name(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    FRAME[["x", "z"]].to_parquet(tmp_path / "table.parquet")
    np.testing.assert_array_equal(read_columns(tmp_path / "table.parquet", ["x"]), FRAME[["x"]])
    with pytest.raises(ValueError, match="did you mean 'x'"):
        read_columns(tmp_path / "table.parquet", ["X"])


FILES = {
    "empty.csv": (b"", "got the empty file"),
    "header.csv": (b"x,y\n", ""),
    "picture.csv": (b"\x89PNG\r\n\x00\x00", "got the binary file"),
    "latin.csv": ("größe,x\n1,2\n".encode("latin1"), "must be a table in UTF-8"),
    "shifted.csv": (b"x,y\n1,2\n1,2,3\n", "2 fields in every line, as its header, got 3 in line 3"),
    "short.csv": (b"x,y\n1,2\n1\n", "got 1 in line 3"),
    "twice.csv": (b"x,x\n1,2\n", "must name each column once, got 'x' twice"),
    "open.csv": (b'x,y\n1,"2\n3,4\n', "must be a table in UTF-8"),
    "no.parquet": (b"x", "must be a Parquet file|needs pyarrow"),
}


@pytest.mark.parametrize("name", FILES)
def test_files_that_are_no_table_are_refused(name: str, tmp_path: Path) -> None:
    content, message = FILES[name]
    (tmp_path / name).write_bytes(content)
    if not message:
        assert read_columns(tmp_path / name, ["x"]).empty
        return
    with pytest.raises((ValueError, ImportError), match=message):
        read_columns(tmp_path / name, ["x"])


def test_folders_and_missing_files_are_refused(tmp_path: Path) -> None:
    for path, what in ((tmp_path, "is a folder"), (tmp_path / "no.csv", "does not exist")):
        with pytest.raises(FileNotFoundError, match=what):
            read_columns(path, ["x"])


def test_without_pandas_the_message_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(
        ImportError, match=r"a table needs pandas: pip install 'fourierkernels\[data"
    ):
        read_columns(tmp_path / "x.csv", ["x"])


@pytest.mark.parametrize(
    ("decimal", "thousands", "texts"),
    [
        (",", "", ["2,054", "275", "-1,5e3", ""]),
        (",", ".", ["2.054,5", "1.002.054", "275", "NA"]),
        (".", ",", ['"2,054.5"', '"1,002,054"', "-.5", "n/a"]),
        (".", "'", ["2'054", "275", "1.5", "null"]),
        (",", " ", ["2 054,25", " 275 ", "1", ""]),
    ],
)
def test_numbers_with_other_marks_are_read(
    decimal: str, thousands: str, texts: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "x.csv"
    path.write_text("x;g\n" + "".join(f"{text};a\n" for text in texts))

    def plain(text: str) -> float:
        text = text.strip().strip('"').replace(thousands, "") if thousands else text
        return math.nan if text in {"", "NA", "n/a", "null"} else float(text.replace(decimal, "."))

    found = describe_density(
        read_columns(path, ["x"], by="g", marks=Marks(decimal, thousands)), "x", radius=1e-4
    ).groups[0]
    expected = np.array([plain(text) for text in texts])
    np.testing.assert_array_equal(
        np.sort(found.model.points_[:, 0]), np.sort(expected[~np.isnan(expected)])
    )
    assert found.dropped == np.isnan(expected).sum()


@pytest.mark.parametrize(
    ("marks", "text", "message"),
    [
        (Marks(thousands=","), "1,5", "must have numbers with .* got '1,5'"),  # not 15
        (Marks(thousands=","), "1,0000", "'x' must have .* ',' between thousands, got '1,0000'"),
        (Marks(","), "1.5", "with decimal mark ',' .* got '1.5' in row 1"),
        (Marks(), "1,5", "got '1,5' .*; --decimal , or --thousands , reads other marks"),
        (Marks(), "1 500", "got '1 500' .*; --thousands ' ' reads other marks"),
        (Marks(";"), "1", r"decimal must be .* got ';'"),
        (Marks(",", ","), "1", "thousands must not be the decimal mark, got ',' twice"),
    ],
)
def test_numbers_with_marks_in_other_places_are_refused(
    marks: Marks, text: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "x.csv"
    path.write_text(f"x;g\n{text};a\n2;a\n")
    with pytest.raises((TypeError, ValueError), match=message):
        describe_density(read_columns(path, ["x"], marks=marks), "x", radius=1.0)


def test_a_single_column_may_have_decimal_commas(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("x\n1,5\n-2,25\n")
    assert read_columns(path, ["x"], marks=Marks(","))["x"].astype(float).tolist() == [1.5, -2.25]


def test_groups_of_a_file_are_as_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    names = ["1", "01", "1.0", "10", "2", "NA", "None", ""]
    path.write_text("x,g\n" + "".join(f"{i},{name}\n" * 2 for i, name in enumerate(names)))
    found = describe_density(read_columns(path, ["x"], by="g"), "x", by="g", radius=1.0)
    assert {group.name for group in found.groups} == set(names) - {""}
    assert (found.ungrouped, [group.n for group in found.groups]) == (2, [2] * 7)
    path.write_text("x,g\n" + "".join(f"{i},{i}\n" for i in (10, 9, 100)))
    found = describe_density(read_columns(path, ["x"], by="g"), "x", by="g", radius=1.0)
    assert [group.name for group in found.groups] == ["9", "10", "100"]


def test_quoted_separators_in_a_header_do_not_count(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text('"weight, in kg, rounded";"height, in cm"\n1.5;2\n2.5;3\n')
    assert read_columns(path, ["height, in cm"])["height, in cm"].tolist() == [2, 3]


def test_many_samples_are_tested_only_if_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fourierkernels.estimators.tables.density._TESTED", 40)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=70), "g": ["a"] * 41 + ["b"] * 29})
    found = describe_density(frame, "x", by="g", kernel="gaussian", rng=rng)
    assert [group.test is None for group in found.groups] == [True, False]
    assert "unless --replicates is given" in str(found.table().caption)
    found = describe_density(frame, "x", by="g", kernel="gaussian", rng=rng, replicates=20)
    assert [group.test is None for group in found.groups] == [False, False]
    assert "--replicates" not in str(found.table().caption)
    found = describe_density(frame, "x", by="g", rng=rng)
    assert "--replicates" not in str(found.table().caption)


# --- weights -----------------------------------------------------------------------------------


def test_a_table_of_counts_is_the_table_of_its_samples() -> None:
    ages = np.arange(60)
    counts = np.random.default_rng(0).poisson(9 * np.exp(-((ages - 25) ** 2) / 200))
    frame = pd.DataFrame({"age": ages, "people": counts})
    many = pd.DataFrame({"age": np.repeat(ages, counts)})
    options = {"kernel": "gaussian", "replicates": 20}
    one, other = (
        describe_density(given, "age", weights=weights, rng=np.random.default_rng(1), **options)
        for given, weights in ((frame, "people"), (many, None))
    )
    (mine,), (row,) = one.rows(), other.rows()
    assert (mine["samples"], mine["n"], row["n"]) == (counts.sum(), 60, counts.sum())
    assert mine["radius"] == pytest.approx(row["radius"], rel=1e-9)
    np.testing.assert_allclose(mine["region"], row["region"], rtol=1e-6)
    assert abs(mine["p_value"] - row["p_value"]) < 0.35  # other draws


def test_errors_of_measured_means_are_weighted_by_their_precision() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.uniform(size=150), "w": rng.uniform(0.2, 5.0, 150)})
    frame["y"] = np.sin(9 * frame["x"]) + 0.3 * rng.normal(size=150) / np.sqrt(frame["w"])
    options = {"weights": "w", "weighting": "precision"}
    (row,) = describe_regression(frame, "x", "y", radius=20.0, **options).rows()
    model = NadarayaWatson(radius=20.0, weighting="precision").fit(
        frame[["x"]], frame["y"], frame["w"]
    )
    gaps = np.square(frame["y"] - model.leave_one_out())
    assert row["error"] == pytest.approx(np.sqrt(np.average(gaps, weights=frame["w"])), rel=1e-9)
    with pytest.raises(ValueError, match="weights must be another column than x, y, got it twice"):
        describe_regression(frame, "x", "y", weights="y")


def test_silverman_draws_as_many_as_there_are_samples() -> None:
    """Copies made a second mode sure: p was .00 for .21 with each value eight times."""
    x = np.random.default_rng(6).normal(size=60)
    rng = [np.random.default_rng(0) for _ in range(3)]
    one = silverman_test(x, rng=rng[0], replicates=40)
    assert silverman_test(np.repeat(x, 8), rng=rng[1], replicates=40) == one
    assert silverman_test(x, rng=rng[2], replicates=40, sample_weight=np.full(60, 2.5)) == one


def test_rows_without_weight_do_not_make_a_density_vary() -> None:
    """Silverman's test refused the one value that is left."""
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0], "w": [1.0, 0.0, 0.0]})
    options = {"kernel": "gaussian", "radius": 2.0, "rng": np.random.default_rng(0)}
    found = describe_density(frame, "x", weights="w", **options)
    assert found.rows()[0]["p_value"] is None
    assert found.rows()[0]["modes"] == pytest.approx([1.0], abs=1e-9)
