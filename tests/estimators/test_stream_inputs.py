"""Bad streams are refused once and clearly: what, the rule, the value, and where it stands."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fourierkernels import KernelDensity, NadarayaWatson
from fourierkernels.estimators import samples_from

X = np.random.default_rng(0).normal(size=(60, 2))
Y = X[:, 0]
ONES = np.ones(60)


def spoilt(array: np.ndarray, row: int, value: float) -> np.ndarray:
    other = array.copy()
    other[row] = value
    return other


def density(**options: Any) -> KernelDensity:
    return KernelDensity(**{"radius": 2.0, **options})


def regression(**options: Any) -> NadarayaWatson:
    return NadarayaWatson(**{"radius": 2.0, **options})


def many(place: int) -> Iterator[np.ndarray]:
    for number in range(place + 1):
        block = np.full((3, 2), number / place)
        yield spoilt(block, 1, np.nan) if number == place else block


PROMISED = {"within": [(-5, 5), (-5, 5)]}
REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "NaN far into a stream": (
        lambda: density(**PROMISED).fit(many(713)),
        r"X must be finite, got nan in block 713, row 1, column 0 \(row 2140 of the stream\)",
    ),
    "infinite response": (
        lambda: regression().fit([(X, Y), (X, spoilt(Y, 4, np.inf))]),
        r"y must be finite, got inf in block 1, row 4, column 0 \(row 64 of the stream\)",
    ),
    "negative weight": (
        lambda: regression().fit([(X, Y), (X, Y, spoilt(ONES, 2, -1.0))]),
        r"sample_weight must be non-negative, got -1.0 in block 1, row 2 \(row 62",
    ),
    "weights all zero": (
        lambda: density().fit([(X, None, 0 * ONES)]),
        "X must have at least one sample of positive weight, got a stream without any",
    ),
    "weights of another length": (
        lambda: density().fit([(X, None, ONES[:5])]),
        r"sample_weight must have shape \(60,\), got \(5,\), in block 0",
    ),
    "weights whose sum may overflow": (
        lambda: density().fit([X, (X, None, spoilt(ONES, 9, 1e300))]),
        r"sample_weight must be at most 1e\+290 in a stream, got 1e\+300 in block 1, row 9 ",
    ),
    "responses of another length": (
        lambda: regression().fit([(X, Y), (X, Y[:5])]),
        r"y must have one row per sample, 60, got \(5,\), in block 1",
    ),
    "no blocks": (lambda: density().fit(list), "at least one sample"),
    "empty blocks only": (lambda: density().fit([X[:0], X[:0]]), "at least one sample"),
    "another width": (
        lambda: density().fit([X, X[:, :1]]),
        "X must have 2 columns as in block 0, got 1, in block 1",
    ),
    "responses of another shape": (
        lambda: regression().fit([(X, Y), (X, X)]),
        r"y must have rows of shape \(\) as in block 0, got \(2,\), in block 1",
    ),
    "one-dimensional blocks": (
        lambda: density().fit(iter([Y])),
        "X must be a stream that can be read again",
    ),
    "one-dimensional blocks, read again": (
        lambda: density().fit(lambda: [Y]),
        r"X must be two-dimensional, \(m, dim\), got shape \(60,\); .*, in block 0",
    ),
    "four columns": (
        lambda: density().fit([np.ones((5, 4))]),
        "X must have 1 to 3 columns in a stream, whose sums are band-limited, got 4",
    ),
    "text": (
        lambda: density().fit([X, np.full((4, 2), "a")]),
        "X must be numeric, got <U1 data, in block 1",
    ),
    "complex numbers": (lambda: density().fit([X + 1j]), "X must be real, got complex .* block 0"),
    "dates": (lambda: density().fit([X.astype("M8[s]")]), "X must be numeric, got datetime64"),
    "no responses": (
        lambda: regression().fit([X]),
        r"a block of a regression must be \(X, y\) or \(X, y, weights\), got X, in block 0",
    ),
    "a pair for a density": (
        lambda: density().fit([(X, ONES)]),
        r"a block of a density must be X or \(X, None, weights\), got \(X, y\), in block 0",
    ),
    "too many members": (
        lambda: regression().fit([(X, Y, ONES, ONES)]),
        r"a block must be X, \(X, y\) or \(X, y, weights\), got 4 members",
    ),
    "responses beside blocks": (
        lambda: regression().fit([X], Y),
        "y and sample_weight must be None beside a stream",
    ),
    "an iterator without a radius": (
        lambda: density(radius="lscv", **PROMISED).fit(iter([X])),
        "X must be a stream that can be read again, for its range or a radius rule, got an iter",
    ),
    "an iterator without a range": (
        lambda: density().fit(iter([X])),
        r"give a list of blocks, a file, .* or else radius as a number and within=\[\(low, high\)",
    ),
    "a sample beyond the range": (
        lambda: density(within=[(-5, 5), (-5, 5)]).fit([X, spoilt(X, (7, 1), 5.5)]),
        r"promised by within, \[-5, 5\], \[-5, 5\], got 5.5 in block 1, row 7, column 1 \(row 67",
    ),
    "a sample beyond a bound": (
        lambda: density(bounds=[(-9, None), None]).fit([X, spoilt(X, (7, 0), -9.5)]),
        r"promised by bounds, \[-9, inf\], \[-inf, inf\], got -9.5 in block 1, row 7, column 0",
    ),
    "a range of another length": (
        lambda: density(within=[(-5, 5)]).fit([X]),
        "within must have a pair per column of X, 2, got 1, in block 0",
    ),
    "ranges that disagree": (
        lambda: density(within=[(-5, 5)], bounds=[(0, 1), (0, 1)]).fit([X]),
        "within must have as many pairs as bounds",
    ),
    "a range without pairs": (
        lambda: density(within=(-5, 5)).fit([X]),
        r"within must have a pair \(low, high\) per dimension, 2, got \(-5, 5\)",
    ),
    "a range for an array": (
        lambda: density(within=[(-1, 1), (-1, 1)]).fit(X),
        "within must contain all samples, got .* lie outside",
    ),
    "a method that needs samples": (
        lambda: density(method="direct").fit([X]),
        "method must be 'auto' or 'bandlimited' for a stream, .* got 'direct'",
    ),
    "a device": (
        lambda: density(device="cuda").fit([X]),
        "device must be 'cpu' for a stream, got 'cuda'",
    ),
    "a rule that needs samples": (
        lambda: regression(radius="loo").fit([(X, Y)]),
        "radius must be a number or one of normal_reference, .* for a stream, got 'loo', which ne",
    ),
    "an unknown rule": (lambda: density(radius="four").fit([X]), "radius must be one of .*'four'"),
    "a rule of another kernel": (
        lambda: density(radius="silverman").fit([X]),
        "kernel must be gaussian for radius='silverman', got 'fourier4'",
    ),
    "a column that does not vary": (
        lambda: density(radius=None).fit([np.column_stack([Y, ONES])]),
        r"X must vary in every column .* column 1 constant at 1.0 \(n_samples = 60\)",
    ),
    "a radius that is too large": (
        lambda: density(radius=1e9).fit([X]),
        "a stream has no other method, an array has",
    ),
    "a range beyond floating point": (
        lambda: density().fit([1.7e308 * np.sign(X)]),
        "X must have a finite range, got",
    ),
    "a tolerance out of range": (lambda: density(tol=1.0).fit([X]), "tol must be in"),
    "a radius of zero": (lambda: density(radius=0.0).fit([X]), "radius must be positive"),
    "an unknown kernel": (lambda: KernelDensity("cosine").fit([X]), "kernel"),
    "a number for a stream": (lambda: samples_from(3), "data must be a path, a function or an it"),
    "columns of blocks": (
        lambda: samples_from([X], columns=["a"]),
        "columns must be named of a table or file only, got list",
    ),
    "one name for columns": (
        lambda: samples_from("x.csv", columns="speed"),
        "columns must be a sequence of names, got 'speed'",
    ),
    "a block of no rows": (lambda: samples_from([X], block=0), "block must be at least 1, got 0"),
}


def test_columns_of_data_frames_keep_their_order() -> None:
    """Columns that came in another order were added to each other's."""
    frame = pd.DataFrame(X, columns=["a", "b"])
    turned = frame[["b", "a"]]
    model = density(**PROMISED).partial_fit(frame).partial_fit(frame)
    np.testing.assert_allclose(model.density(frame), density().fit(X).density(X), atol=1e-12)
    assert model.feature_names_in_.tolist() == ["a", "b"]
    message = r"X must have the columns \('a', 'b'\) as before, got \('b', 'a'\)"
    with pytest.raises(ValueError, match=message):
        model.partial_fit(turned)
    with pytest.raises(ValueError, match=f"{message}, in block 1"):
        density(**PROMISED).fit([frame, turned])
    with pytest.raises(ValueError, match="feature names"):
        model.density(turned)
    assert not hasattr(model.fit([X]), "feature_names_in_")
    model.partial_fit(frame)  # an array has no names
    assert model.feature_names_in_.tolist() == ["a", "b"]


def test_columns_of_a_dask_frame_keep_their_order() -> None:
    dask, dataframe = pytest.importorskip("dask"), pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame(X, columns=["a", "b"])
    model = density(**PROMISED).fit(dataframe.from_pandas(frame, npartitions=3))
    assert model.feature_names_in_.tolist() == ["a", "b"]
    parts = [dask.delayed(each) for each in (frame, frame, frame[["b", "a"]])]
    turned = dataframe.from_delayed(parts, meta=frame.iloc[:0], verify_meta=False)
    with pytest.raises(ValueError, match=r"X must have the columns \('a', 'b'\) as before"):
        density(**PROMISED).fit(turned)


@pytest.mark.parametrize("name", REFUSED)
def test_a_bad_stream_is_one_clear_error(name: str) -> None:
    call, message = REFUSED[name]
    with pytest.raises((TypeError, ValueError), match=message):
        call()


# --- files -----------------------------------------------------------------------------------


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_columns_of_a_table_must_be_named_and_there(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    path = written(tmp_path / "x.csv", "a,b,name\n1,2,x\n3,4,y\n")
    with pytest.raises(ValueError, match=r"columns must name those of X in x.csv: samples_from"):
        density().fit(path)
    with pytest.raises(ValueError, match=r"columns must be in .*x.csv, which has a, b, name, got"):
        density().fit(samples_from(path, columns=["a", "c"]))
    with pytest.raises(TypeError, match=r"columns must be numeric, got \w+ data in 'name'"):
        density().fit(samples_from(path, columns=["a", "name"]))


def test_a_missing_number_in_a_table_is_named_by_its_row(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    path = written(tmp_path / "x.csv", "a\n" + "1\n" * 7 + '""\n2\n')
    with pytest.raises(ValueError, match=r"got nan in block 2, row 1, column 0 \(row 7 of"):
        density().fit(samples_from(path, columns=["a"], block=3))


def test_columns_of_parquet_are_checked(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pandas.DataFrame({"a": [1.0, None], "name": ["x", "y"]})
    frame.to_parquet(tmp_path / "x.parquet")
    with pytest.raises(ValueError, match=r"columns must be in .*which has a, name, got 'b'"):
        density().fit(samples_from(tmp_path / "x.parquet", columns=["b"]))
    with pytest.raises(TypeError, match=r"columns must be numeric, got \w+ data in 'name'"):
        density().fit(samples_from(tmp_path / "x.parquet", columns=["name"]))
    with pytest.raises(ValueError, match="X must be finite, got nan in block 0, row 1, column 0"):
        density().fit(samples_from(tmp_path / "x.parquet", columns=["a"]))


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for ending, package, extra in ((".csv", "pandas", "data"), (".parquet", "pyarrow", "files")):
        monkeypatch.setitem(sys.modules, package, None)
        message = rf"a {ending} file needs {package}: pip install 'fourierkernels\[{extra}\]'"
        with pytest.raises(ImportError, match=message):
            samples_from(tmp_path / f"x{ending}", columns=["a"])


def test_files_of_other_kinds_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"must end in one of .npy, .csv, .parquet, got '.*x.txt'"):
        samples_from(tmp_path / "x.txt", columns=["a"])
    path = written(tmp_path / "x.npy", "not an array")
    with pytest.raises(ValueError, match=r"X must be an array in the format of NumPy, got .*x.npy"):
        density().fit(path)
    with pytest.raises(FileNotFoundError):
        density().fit(tmp_path / "none.npy")
    np.save(tmp_path / "one.npy", Y)
    with pytest.raises(ValueError, match=r"X must be two-dimensional.*got shape \(60,\)"):
        density().fit(tmp_path / "one.npy")
    with pytest.raises(ValueError, match=r"columns must be in one.npy, which has .*, got 77"):
        samples_from(tmp_path / "one.npy", columns=[77])


def test_objects_in_an_array_file_run_no_code(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([{"a": 1}]), allow_pickle=True)
    with pytest.raises(ValueError, match="X must be an array in the format of NumPy"):
        density().fit(tmp_path / "x.npy")


@pytest.mark.parametrize("change", ["grows", "changes"])
def test_a_file_that_is_another_the_second_time_is_noticed(
    change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.npy"
    np.save(path, X)
    other = np.vstack([X, X[:1]]) if change == "grows" else spoilt(X, (3, 1), X[3, 1] + 1e-9)
    calls = []

    def surveyed(block: Any) -> Any:
        calls.append(1)
        np.save(path, other)
        return original(block)

    from fourierkernels.estimators.streams.survey import Survey

    original = Survey.of
    monkeypatch.setattr(Survey, "of", staticmethod(surveyed))
    with pytest.raises(ValueError, match=r"must be the same each time it is read, got 60 samples"):
        density().fit(path)
    assert calls == [1]


# --- unusual but right -----------------------------------------------------------------------


@pytest.mark.parametrize("value", [0.0, 1e8, -3e-9])
def test_samples_that_are_all_equal_are_the_kernel_itself(value: float) -> None:
    same = np.full((50, 1), value)
    model = density(kernel="gaussian").fit([same[:1], same[1:]])
    assert model.density([[value]])[0] == pytest.approx(2.0 / np.sqrt(2 * np.pi), rel=1e-9)


def test_one_sample_is_a_stream() -> None:
    model = regression(kernel="fourier1").fit([(np.array([[3.0]]), np.array([7.0]))])
    assert model.predict([[3.0], [3.5]]).tolist() == [7.0, 7.0]


def test_a_sample_without_weight_counts_for_nothing() -> None:
    weights = spoilt(ONES, 5, 0.0)
    far = spoilt(X, 5, 1e6)
    model = density().fit([(far, None, weights)])
    assert model.modes_.n == 59
    whole = density().fit(np.delete(X, 5, axis=0))
    np.testing.assert_allclose(model.density(X[:4]), whole.density(X[:4]), rtol=1e-9)


def test_a_fit_that_fails_changes_nothing() -> None:
    model = density(**PROMISED).partial_fit(X)
    before = model.density(X[:9])
    for bad in (spoilt(X, 3, np.nan), spoilt(X, 3, 99.0), X[:, :1]):
        with pytest.raises(ValueError, match=r"^X must|^within must"):
            model.partial_fit(bad)
    with pytest.raises(ValueError, match="X must be finite"):
        model.fit([X, spoilt(X, 3, np.nan)])
    np.testing.assert_array_equal(model.density(X[:9]), before)
    assert model.modes_.n == 60


def test_samples_go_on_only_with_the_same_parameters() -> None:
    model = density(**PROMISED).partial_fit(X)
    with pytest.raises(ValueError, match="partial_fit must go on with the kernel, radius, range"):
        model.set_params(radius=3.0).partial_fit(X)
    with pytest.raises(ValueError, match="partial_fit must follow a fit to a stream, got one"):
        density(**PROMISED).fit(X).partial_fit(X)


def test_samples_come_bit_by_bit_only_where_radius_and_range_are_given() -> None:
    assert hasattr(density(**PROMISED), "partial_fit")
    assert hasattr(density(bounds=[(-5, 5), (-5, 5)]), "partial_fit")
    for model in (density(), density(radius=None, **PROMISED), density(bounds=[(0, None)])):
        with pytest.raises(AttributeError) as error:
            model.partial_fit(X)
        assert "partial_fit needs radius as a number and within=" in str(error.value.__cause__)


def test_a_radius_assigned_after_the_fit_is_refused() -> None:
    model = density().fit([X])
    model.radius_ = np.array([3.0, 3.0])
    with pytest.raises(ValueError, match="kernel_, radius_ and bounds_ must be those of the fit"):
        model.density(X)


def test_a_stream_that_shrinks_while_quartiles_are_sought_is_noticed() -> None:
    readings = []

    def shrinking() -> list[np.ndarray]:
        readings.append(1)
        return [X if len(readings) == 1 else np.full((60, 2), 99.0)]

    with pytest.raises(ValueError, match="X must be the same each time it is read, got no sample"):
        density(radius=None).fit(shrinking)


@pytest.mark.parametrize("columns", [2, 5])
def test_memory_maps_are_arrays_unless_large_or_asked_for(
    columns: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As joblib hands an array of a megabyte to its workers as a memory map."""
    X = np.random.default_rng(0).normal(size=(20, columns))
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert len(density().fit(mapped).leave_one_out()) == 20
    monkeypatch.setattr("fourierkernels.estimators.streams.choice.MAPPED_AS_STREAM", X.size)
    if columns > 3:
        assert len(density().fit(mapped).leave_one_out()) == 20
        return
    for stream in (mapped, samples_from(mapped)):
        with pytest.raises(ValueError, match="stream"):
            density().fit(stream).leave_one_out()
