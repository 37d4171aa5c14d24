"""A fit to a stream is the fit to the array, however it is cut; what needs samples is refused."""

import copy
import io
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sum_problems import KERNEL_NAMES
from terminals import Terminal, show_on

from fourierkernels import KernelDensity, NadarayaWatson
from fourierkernels.estimators import (
    GAUSSIAN_RULES,
    RADIUS_RULES,
    TiedDataWarning,
    UndefinedWarning,
    samples_from,
)
from fourierkernels.estimators.streams import quantiles
from fourierkernels.estimators.streams.blocks import Block, Expected, RawBlock, regrouped
from fourierkernels.estimators.streams.frames import READERS, Columns, Reader
from fourierkernels.estimators.streams.sources import LocalSource, blocks_of
from fourierkernels.estimators.streams.survey import Survey
from fourierkernels.estimators.weights import WEIGHTINGS

PROMISE = 1e-12  # of the largest value
WITHIN = {1: [(-7, 7)], 2: [(-7, 7)] * 2}

STREAMS = "fourierkernels.estimators.streams"


def data(n: int = 600, dim: int = 1, seed: int = 0) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, dim))
    return x, np.sin(2 * x[:, 0]) + 0.1 * rng.normal(size=n), rng.integers(0, 4, n).astype(float)


def small(dim: int) -> dict[str, Any]:
    """A radius and a range for few modes."""
    return {"radius": 3.0, "within": None} if dim < 3 else {"radius": 0.2, "within": [(-5, 5)] * 3}


def queries(dim: int) -> np.ndarray:
    return np.random.default_rng(9).uniform(-1.5, 1.5, (40, dim))


def cut(cuts: list[int], *arrays: np.ndarray) -> list[Any]:
    parts = zip(*(np.split(array, cuts) for array in arrays), strict=True)
    return [part[0] if len(part) == 1 else part for part in parts]


CUTS = {
    "whole": [],
    "one row, then the rest": [1],
    "an empty block": [100, 100],
    "single rows": list(range(1, 600)),
    "unequal": [3, 500, 501],
}


@pytest.mark.parametrize("name", KERNEL_NAMES)
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_density_of_a_stream_is_that_of_the_array(name: str, dim: int) -> None:
    x, _, w = data(dim=dim)
    whole = KernelDensity(name, **small(dim)).fit(x, sample_weight=w)
    blocks = [(part, None, weights) for part, weights in cut([7, 300], x, w)]
    part = KernelDensity(name, **small(dim)).fit(blocks)
    at = queries(dim)
    size = np.abs(whole.density(at)).max()
    np.testing.assert_allclose(part.density(at), whole.density(at), rtol=0, atol=PROMISE * size)


@pytest.mark.parametrize("name", ["gaussian", "fourier1", "fourier4"])
@pytest.mark.parametrize("dim", [1, 2])
def test_slopes_and_integrals_are_those_of_the_array(name: str, dim: int) -> None:
    x, _, _ = data(dim=dim)
    whole = KernelDensity(name, radius=3.0).fit(x)
    part = KernelDensity(name, radius=3.0).fit([x[:7], x[7:]])
    at = queries(dim)
    np.testing.assert_allclose(part.derivative(at), whole.derivative(at), rtol=0, atol=1e-10)
    np.testing.assert_allclose(part.cdf(at), whole.cdf(at), rtol=0, atol=1e-11)


@pytest.mark.parametrize("name", KERNEL_NAMES)
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_regression_on_a_stream_is_that_on_the_array(name: str, dim: int) -> None:
    """With a mean of 1e6 beside a spread of 1: what is lost is lost to the spread alone."""
    x, y, w = data(dim=dim)
    y = np.column_stack([y, 1e6 + y, x[:, 0] ** 2])
    whole = NadarayaWatson(name, **small(dim)).fit(x, y, w)
    part = NadarayaWatson(name, **small(dim)).fit(cut([7, 300], x, y, w))
    at = 0.3 * queries(dim)
    totals = np.abs(whole._kept_sum().at(at).totals())
    share = totals / totals.max()
    assert share.min() > 1e-3
    gap = np.abs(part.predict(at) - whole.predict(at)) * share[:, None]
    assert np.all(gap.max(axis=0) <= 20 * PROMISE + 1e6 * np.array([0.0, 1e-15, 0.0]))


@pytest.mark.parametrize("cuts", CUTS)
def test_any_cut_gives_the_same_bits(cuts: str) -> None:
    x, y, w = data()
    one = NadarayaWatson(radius=2.0).fit([(x, y, w)])
    other = NadarayaWatson(radius=2.0).fit(cut(CUTS[cuts], x, y, w))
    np.testing.assert_array_equal(one.predict(queries(1)), other.predict(queries(1)))


def test_any_order_gives_the_same_to_the_promise() -> None:
    x, y, w = data()
    order = np.random.default_rng(5).permutation(600)
    one = NadarayaWatson(radius=2.0).fit([(x, y, w)])
    other = NadarayaWatson(radius=2.0).fit([(x[order], y[order], w[order])])
    np.testing.assert_allclose(one.predict(queries(1)), other.predict(queries(1)), atol=2e-11)


def test_blocks_are_cut_anew_and_lose_no_row() -> None:
    rows = np.arange(23.0)
    blocks = [
        Block(part[:, None], part[:, None], part) for part in np.split(rows, [1, 2, 2, 9, 20])
    ]
    found = list(regrouped(blocks, 5))
    assert [len(block.points) for block in found] == [5, 5, 5, 5, 3]
    assert np.concatenate([block.weights for block in found]).tolist() == rows.tolist()


def test_threads_change_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fourierkernels.estimators.streams.fitting.ROWS", 64)
    monkeypatch.setattr("fourierkernels.estimators.streams.fitting._MOST_ROWS", 64)
    x, y, w = data()
    found = []
    for threads in (1, 3):
        monkeypatch.setattr(f"{STREAMS}.sources._threads", lambda count=threads: count)
        found.append(NadarayaWatson(radius=2.0).fit([(x, y, w)]).predict(queries(1)))
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("terminal", [True, False])
def test_a_long_pass_shows_progress_on_a_terminal_only(
    terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = Terminal() if terminal else io.StringIO()
    show_on(shown, monkeypatch)
    KernelDensity(radius=2.0).fit([data()[0]] * 3)
    labels = [label for label in ("range", "modes") if label in shown.getvalue()]
    assert labels == (["range", "modes"] if terminal else [])


def test_an_interrupt_ends_the_pass_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    x, _, _ = data()
    model = KernelDensity(radius=2.0, within=[(-7, 7)]).fit([x])
    before = model.density(x)

    def interrupted() -> Iterator[np.ndarray]:
        yield x
        raise KeyboardInterrupt

    for threads in (1, 2):
        monkeypatch.setattr(f"{STREAMS}.sources._threads", lambda count=threads: count)
        with pytest.raises(KeyboardInterrupt):
            model.fit(interrupted)
        np.testing.assert_array_equal(model.density(x), before)


@pytest.mark.parametrize("size", [7, 100, 256])
def test_a_buffer_that_is_used_again_changes_nothing(size: int) -> None:
    """What reads a binary file into one array, block by block."""
    samples, cuts = np.column_stack(data()), list(range(size, 600, size))
    buffer = np.empty((size, 3))

    def again() -> Iterator[tuple[np.ndarray, ...]]:
        for part in cut(cuts, samples):
            kept = buffer[: len(part)]
            kept[:] = part
            yield kept[:, :1], kept[:, 1], kept[:, 2]

    part = NadarayaWatson(radius=2.0).fit(again)
    whole = NadarayaWatson(radius=2.0).fit(cut(cuts, *data()))
    np.testing.assert_array_equal(part.predict(queries(1)), whole.predict(queries(1)))
    blocks = [
        Block(points, y[:, None], w) for points, y, w in cut(list(range(64, 600, 64)), *data())
    ]
    parts = list(regrouped((Block(a, b[:, None], c) for a, b, c in again()), 64))
    for found, expected in zip(parts, blocks, strict=True):
        for kept, exact in zip(found, expected, strict=True):
            np.testing.assert_array_equal(kept, exact)


# --- where samples come from -----------------------------------------------------------------


def npy(folder: Path, x: np.ndarray, y: np.ndarray, w: np.ndarray) -> tuple[Any, ...]:
    for name, array in (("x", x), ("y", y), ("w", w)):
        np.save(folder / f"{name}.npy", array)
    return str(folder / "x.npy"), folder / "y.npy", folder / "w.npy"


def memory_map(folder: Path, *arrays: np.ndarray) -> tuple[Any, ...]:
    return tuple(np.load(path, mmap_mode="r") for path in npy(folder, *arrays))


def one_array_file(folder: Path, x: np.ndarray, y: np.ndarray, w: np.ndarray) -> tuple[Any, ...]:
    np.save(folder / "all.npy", np.column_stack([y, x, w]))
    return (samples_from(folder / "all.npy", responses=0, weights=2, block=50),)


def table(x: np.ndarray, y: np.ndarray, w: np.ndarray) -> Any:
    pandas = pytest.importorskip("pandas")
    columns = {"speed": x[:, 0], "force": y, "label": ["a"] * len(x), "n": w.astype(int)}
    return pandas.DataFrame(columns)


NAMED = {"columns": ["speed"], "responses": "force", "weights": "n", "block": 97}


def csv(folder: Path, *arrays: np.ndarray) -> tuple[Any, ...]:
    table(*arrays).to_csv(folder / "x.csv", index=False, float_format="%.17g")
    return (samples_from(folder / "x.csv", **NAMED),)


def parquet(folder: Path, *arrays: np.ndarray) -> tuple[Any, ...]:
    pytest.importorskip("pyarrow")
    table(*arrays).to_parquet(folder / "x.parquet")
    return (samples_from(folder / "x.parquet", **NAMED),)


def function(folder: Path, *arrays: np.ndarray) -> tuple[Any, ...]:
    return (lambda: iter(cut([10, 400], *arrays)),)


def dask_arrays(folder: Path, *arrays: np.ndarray) -> tuple[Any, ...]:
    array = pytest.importorskip("dask.array")
    return tuple(array.from_array(each, chunks=(151, 1)[: each.ndim]) for each in arrays)


def dask_frame(folder: Path, *arrays: np.ndarray) -> tuple[Any, ...]:
    dataframe = pytest.importorskip("dask.dataframe")
    named = {name: value for name, value in NAMED.items() if name != "block"}
    return (samples_from(dataframe.from_pandas(table(*arrays), npartitions=4), **named),)


SOURCES: dict[str, Callable[..., tuple[Any, ...]]] = {
    each.__name__: each
    for each in (npy, memory_map, one_array_file, csv, parquet, function, dask_arrays, dask_frame)
}


@pytest.mark.filterwarnings("ignore::fourierkernels.estimators.TiedDataWarning")
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("radius", [2.0, "normal_reference"])
def test_every_source_gives_the_fit_to_the_array(
    source: str, radius: float | str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{STREAMS}.choice.MAPPED_AS_STREAM", 1)
    x, y, w = data()
    whole = NadarayaWatson(radius=radius).fit(x, y, w)
    part = NadarayaWatson(radius=radius).fit(*SOURCES[source](tmp_path, x, y, w))
    np.testing.assert_allclose(part.radius_, whole.radius_, rtol=1e-13)
    at = queries(1)
    np.testing.assert_allclose(part.predict(at), whole.predict(at), rtol=0, atol=1e-10)
    assert part.n_features_in_ == 1
    assert part.modes_.n == np.count_nonzero(w)


def test_a_density_takes_a_file_and_a_dask_array_as_they_are(tmp_path: Path) -> None:
    x, _, _ = data()
    np.save(tmp_path / "x.npy", x)
    whole = KernelDensity().fit(x).density(queries(1))
    array = pytest.importorskip("dask.array").from_array(x, chunks=(100, 1))
    for each in (tmp_path / "x.npy", array, iter_again(x)):
        found = KernelDensity().fit(each).density(queries(1))
        np.testing.assert_allclose(found, whole, rtol=0, atol=PROMISE)


def iter_again(x: np.ndarray) -> Callable[[], Iterator[np.ndarray]]:
    return lambda: (row[None] for row in x)


def test_what_is_no_dask_array_of_rows_is_refused_beside_one() -> None:
    array = pytest.importorskip("dask.array")
    x, y, w = data()
    chunked, model = array.from_array(x, chunks=100), NadarayaWatson(radius=2.0)
    with pytest.raises(ValueError, match=r"all be Dask collections .* ndarray of shape \(600,\)"):
        model.fit(chunked, y)
    with pytest.raises(ValueError, match=r"all be Dask collections .* ndarray of shape \(600,\)"):
        model.fit(chunked, chunked[:, 0], w)
    with pytest.raises(ValueError, match=r"two dimensions, got Array of shape \(600, 1, 1\)"):
        model.fit(chunked[:, :, None], chunked[:, 0])


def test_a_dask_frame_is_taken_as_it_is() -> None:
    dataframe = pytest.importorskip("dask.dataframe")
    x, y, w = data()
    frame = dataframe.from_pandas(table(x, y, w), npartitions=3)
    part = NadarayaWatson(radius=2.0).fit(frame[["speed"]], frame["force"], frame["n"])
    whole = NadarayaWatson(radius=2.0).fit(x, y, w)
    named = pytest.importorskip("pandas").DataFrame(queries(1), columns=["speed"])
    np.testing.assert_allclose(part.predict(named), whole.predict(queries(1)), atol=1e-10)


def test_a_kind_of_table_from_outside_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lines(path: Path, columns: Columns, rows: int) -> Iterator[RawBlock]:
        for line in path.read_text(encoding="utf-8").splitlines():
            yield RawBlock(np.array([[float(line.split("|")[columns.points[0]])]]))

    monkeypatch.setitem(READERS, ".bars", Reader("numpy", lines))
    (tmp_path / "x.bars").write_text("1|2\n3|4\n", encoding="utf-8")
    model = KernelDensity(radius=2.0).fit(samples_from(tmp_path / "x.bars", columns=[1]))
    assert model.density([[2.0], [4.0]])[0] == pytest.approx(model.density([[4.0]])[0])
    assert model.modes_.n == 2


def test_integers_and_single_precision_are_read_as_numbers() -> None:
    x = np.arange(40).reshape(-1, 1) % 7
    blocks = [x[:10], x[10:20].astype(np.float32), x[20:].astype(float).tolist()]
    whole = KernelDensity(radius=1.0).fit(x.astype(float))
    part = KernelDensity(radius=1.0).fit(blocks)
    np.testing.assert_allclose(part.density(x[:5]), whole.density(x[:5]), rtol=1e-12)


# --- radius rules ----------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("rule", "kernel", "dim"),
    [
        *(
            (r.name, "fourier4", dim)
            for r in RADIUS_RULES.values()
            if r.of_sample
            for dim in (1, 2)
        ),
        *((rule, "gaussian", 1) for rule in GAUSSIAN_RULES),
        ("lscv", "fourier1", 1),
        ("plugin", "fourier1", 1),
        ("normal_reference", "gaussian", 3),
    ],
)
def test_rules_find_the_radius_of_the_array(
    rule: str, kernel: str, dim: int, weighted: bool
) -> None:
    x, _, w = data(500, dim)
    blocks = cut([8, 9, 350], x, np.zeros(500), w)
    blocks = [(a, None, b if weighted else None) for a, _, b in blocks]
    asked = {"radius": rule, "weighting": "importance"}  # repetitions would be ties
    whole = KernelDensity(kernel, **asked).fit(x, sample_weight=w if weighted else None)
    part = KernelDensity(kernel, **asked).fit(blocks)
    np.testing.assert_allclose(part.radius_, whole.radius_, rtol=1e-6)


def test_frequencies_of_a_stream_count_as_those_of_an_array() -> None:
    """Samples where values are rounded, else copies of one sample, which is said."""
    x, _, w = data(500, 1)
    for values, copied in ((x, ["sample_weight counts"]), (np.round(x, 1), [])):
        blocks = [(a, None, b) for a, _, b in cut([8, 350], values, np.zeros(500), w)]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            whole = KernelDensity("fourier4").fit(values, sample_weight=w)
            part = KernelDensity("fourier4").fit(blocks)
        np.testing.assert_allclose(part.radius_, whole.radius_)
        assert [str(each.message)[:20] for each in caught] == 2 * copied


@pytest.mark.parametrize("rule", [name for name, r in RADIUS_RULES.items() if not r.of_sample])
def test_rules_that_need_the_samples_are_refused(rule: str) -> None:
    with pytest.raises(ValueError, match=f"for a stream, got '{rule}', which needs the samples"):
        KernelDensity(radius=rule).fit([data(50, 2)[0]])


def test_matrices_are_refused_for_a_stream() -> None:
    with pytest.raises(ValueError, match="radius must be a number or a vector for a stream"):
        KernelDensity(radius=np.eye(2)).fit([data(50, 2)[0]])


@pytest.mark.parametrize("rule", ["normal_reference", "silverman", "lscv"])
def test_copies_in_a_stream_are_those_of_an_array(rule: str) -> None:
    """Of 2000 normals joined twice an array had 3.50, a stream 4.05 and no warning."""
    x = np.random.default_rng(0).normal(size=(500, 1))
    alone = KernelDensity("gaussian", radius=rule).fit(x)
    x = np.vstack([x, x])
    radius = repr(rule)
    text = f"500 of 1000 repeat another: radius={radius} takes copies of a row for one sample, 500 "
    with pytest.warns(TiedDataWarning, match=text):
        whole = KernelDensity("gaussian", radius=rule).fit(x)
    with pytest.warns(TiedDataWarning, match=text):
        part = KernelDensity("gaussian", radius=rule).fit([x[:700], x[700:]])
    np.testing.assert_allclose(part.radius_, whole.radius_, rtol=1e-6)
    np.testing.assert_allclose(part.radius_, alone.radius_, rtol=1e-6)


@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_copies_in_a_stream_have_their_weights(weighting: str) -> None:
    """A quarter of the rows twice, in each meaning; weights of copies are the same."""
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(400, 1)), rng.uniform(0.5, 3.0, 400)
    x, w = np.vstack([x, x[:100]]), np.append(w, w[:100])
    model = KernelDensity("gaussian", weighting=weighting)
    with pytest.warns(TiedDataWarning, match="100 of 500 repeat another") as one:
        whole = model.fit(x, sample_weight=w).radius_
    with pytest.warns(TiedDataWarning, match="100 of 500 repeat another") as other:
        np.testing.assert_allclose(model.fit([(x, None, w)]).radius_, whole, rtol=1e-9)
    assert str(one[0].message) == str(other[0].message)


def test_copies_of_many_rows_are_estimated_from_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fourierkernels.estimators.streams.sample._KEPT", 1000)
    x = np.random.default_rng(0).normal(size=(5000, 2))
    alone, y = KernelDensity().fit(x), x.sum(axis=1)
    thrice = np.repeat(x, 3, axis=0)
    with pytest.warns(TiedDataWarning, match="10000 of 15000 repeat another: .*, 5000 in all"):
        part = KernelDensity().fit([thrice[::2], thrice[1::2]])
    np.testing.assert_allclose(part.radius_, alone.radius_, rtol=1e-9)
    with pytest.warns(TiedDataWarning, match="10000 of 15000 repeat another: .*, 5000 in all"):
        NadarayaWatson(weighting="precision").fit([(thrice, np.repeat(y, 3), np.ones(15000))])


def test_independent_ties_are_refused_in_a_stream_by_rules_that_they_mislead() -> None:
    rng = np.random.default_rng(0)
    x = rng.choice(rng.normal(size=50), (1000, 1))
    with pytest.raises(ValueError, match=r"few ties for radius='lscv'.*got 20.\d copies .* 95% of"):
        KernelDensity(radius="lscv").fit(np.array_split(x, 3))
    whole, part = KernelDensity().fit(x), KernelDensity().fit(np.array_split(x, 3))
    np.testing.assert_allclose(part.radius_, whole.radius_, rtol=1e-6)


def test_ties_of_many_samples_are_estimated_from_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fourierkernels.estimators.streams.sample._KEPT", 1000)
    rng = np.random.default_rng(0)
    x = rng.choice(rng.normal(size=5000), (15000, 1))
    with pytest.raises(
        ValueError, match=r"few ties for radius='plugin'.*got 3\.9\d copies .* 69% of"
    ):
        KernelDensity(radius="plugin").fit([x[::2], x[1::2]])


VALUES = {
    "normal": lambda rng: rng.normal(size=5000),
    "Cauchy": lambda rng: rng.standard_cauchy(5000) ** 3,
    "mostly zero": lambda rng: rng.normal(size=5000) * (rng.random(5000) < 0.2),
    "integers": lambda rng: rng.integers(-3, 3, 5000).astype(float),
    "tiny and huge": lambda rng: np.append(1e-300 * rng.normal(size=4999), 1e300),
    "far from zero": lambda rng: 1e9 + 1e-6 * rng.normal(size=5000),
    "ends of floating point": lambda rng: rng.choice([-1e304, 0.0, -0.0, 1e304], 5000),
}


@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("weighted", [False, True])
def test_quartiles_of_a_stream_are_exact(
    values: str, weighted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With brackets that must close in: few samples may be gathered, in few cells."""
    monkeypatch.setattr(quantiles, "_FEW", 16)
    monkeypatch.setattr(quantiles, "_CELLS", 2**8)
    rng = np.random.default_rng(0)
    x = VALUES[values](rng)
    w = rng.integers(1, 5, 5000).astype(float) if weighted else np.ones(5000)
    source, passes = blocks_of(lambda: cut([10, 2000], x[:, None]), once=False), []
    blocks = [Block(a[:, None], np.zeros((len(a), 0)), b) for a, b in cut([10, 2000], x, w)]
    monkeypatch.setattr(LocalSource, "_checked", lambda *_: passes.append(1) or iter(blocks))
    survey = Survey.of(blocks[0]) + Survey.of(blocks[1]) + Survey.of(blocks[2])
    found = quantiles.quartiles(source, survey, Expected(False))
    weights = w if weighted else None
    exact = np.quantile(x, [0.25, 0.75], weights=weights, method="inverted_cdf")
    assert found[:, 0].tolist() == exact.tolist()
    assert len(passes) <= 11  # 64 bits in steps of nearly 8, from a bracket by length


def test_facts_of_two_parts_add_up_to_those_of_all() -> None:
    x, _, w = data(300, 2)
    x[:, 1] *= 1e200
    blocks = [Block(a, np.zeros((len(a), 0)), b + 0.5) for a, b in cut([40], x, w)]
    both = Survey.of(blocks[0]) + Survey.of(blocks[1])
    all_at_once = Survey.of(Block(x, np.zeros((300, 0)), w + 0.5))
    assert both.fingerprint == all_at_once.fingerprint
    for name in ("weight", "norm", "mean", "deviation", "low", "high"):
        one, other = getattr(both, name), getattr(all_at_once, name)
        np.testing.assert_allclose(one, other, rtol=1e-12)
    assert not both.alike
    for weighting in WEIGHTINGS:
        assert both.size(weighting) == pytest.approx(all_at_once.size(weighting), rel=1e-12)


# --- bit by bit, bounds, queries -------------------------------------------------------------


@pytest.mark.parametrize("dim", [1, 2])
def test_samples_may_come_bit_by_bit(dim: int) -> None:
    x, y, w = data(dim=dim)
    bits = NadarayaWatson(radius=2.0, within=WITHIN[dim])
    for part in cut([1, 60, 400], x, y, w):
        bits.partial_fit(*part)
    whole = NadarayaWatson(radius=2.0).fit(x, y, w)
    at = 0.5 * queries(dim)
    np.testing.assert_allclose(bits.predict(at), whole.predict(at), rtol=0, atol=1e-10)
    assert bits.modes_.n == np.count_nonzero(w)


def test_a_one_shot_iterator_is_read_once_where_radius_and_range_are_given() -> None:
    x, _, _ = data()
    part = KernelDensity(radius=2.0, within=[(-7, 7)]).fit(row[None] for row in x)
    whole = KernelDensity(radius=2.0).fit(x)
    np.testing.assert_allclose(part.density(x), whole.density(x), rtol=0, atol=PROMISE)
    assert part.density([[6.9]])[0] == pytest.approx(whole.density([[6.9]])[0], abs=PROMISE)


@pytest.mark.parametrize("bounds", [[(0.0, None)], [(None, 3.0)], [(0.0, 3.0)]])
@pytest.mark.parametrize("name", ["gaussian", "fourier1", "fourier4"])
def test_samples_of_a_stream_are_reflected_at_bounds(name: str, bounds: Any) -> None:
    x = np.random.default_rng(0).beta(1, 2, (400, 1)) * 3
    whole = KernelDensity(name, radius=4.0, bounds=bounds).fit(x)
    part = KernelDensity(name, radius=4.0, bounds=bounds).fit(np.array_split(x, 5))
    at = np.linspace(0.0, 3.0, 31)[:, None]
    np.testing.assert_allclose(part.density(at), whole.density(at), rtol=0, atol=2 * PROMISE)
    outside = np.array([[-5.0]]) if bounds[0][0] == 0 else np.array([[50.0]])
    assert part.density(outside)[0] == 0.0
    y = np.cos(x[:, 0])
    curve = NadarayaWatson(name, radius=4.0, bounds=bounds)
    whole_fit = clone(curve).fit(x, y).predict(at)
    part_fit = clone(curve).fit(cut([100], x, y)).predict(at)
    np.testing.assert_allclose(part_fit, whole_fit, rtol=0, atol=1e-9)


def test_mass_of_a_box_is_that_of_the_array() -> None:
    x, _, _ = data(dim=2)
    whole, part = (KernelDensity(radius=2.0).fit(each) for each in (x, [x[:9], x[9:]]))
    for low, high in ((-1.0, 1.0), ([-np.inf, 0.0], [0.5, np.inf]), (-np.inf, np.inf)):
        assert part.probability(low, high) == pytest.approx(whole.probability(low, high), abs=1e-11)


def test_queries_stream_through_the_fit_to_a_stream_and_it_is_copied_whole() -> None:
    x, y, w = data()
    model = NadarayaWatson(radius=2.0).fit(cut([100], x, y, w))
    whole = model.predict(queries(1))
    blocks = list(model.stream(np.split(queries(1), 4)))
    np.testing.assert_array_equal(np.concatenate(blocks), whole)
    again = copy.deepcopy(model)
    np.testing.assert_array_equal(again.predict(queries(1)), whole)


# --- what cannot be had without samples ------------------------------------------------------


def test_what_needs_the_samples_says_that_they_are_gone() -> None:
    x, y, _ = data()
    density = KernelDensity("gaussian", radius=2.0).fit([x])
    curve = NadarayaWatson(radius=2.0).fit([(x, y)])
    rng = np.random.default_rng(0)
    for call in (
        density.leave_one_out,
        lambda: density.sample(3, rng=rng),
        lambda: density.ise("gaussian"),
        curve.leave_one_out,
        curve.hat_diagonal,
        curve.design_fit,
        lambda: curve.weights(x),
        lambda: curve.interval(x),
        lambda: curve.band(x, rng=rng),
    ):
        with pytest.raises(ValueError, match="but a fit to a stream keeps no samples"):
            call()
    assert not hasattr(curve, "points_")


def test_a_fit_to_an_array_after_one_to_a_stream_has_samples_again() -> None:
    x, _, _ = data()
    model = KernelDensity(radius=2.0).fit([x]).fit(x)
    assert np.isfinite(model.leave_one_out()).all()
    assert not hasattr(model.fit([x]), "points_")


def test_faint_rows_are_undefined_and_counted() -> None:
    x, y, _ = data()
    at = np.array([[0.0], [6.9]])
    curve = NadarayaWatson("gaussian", radius=9.0, within=[(-7, 7)]).fit([(x, y)])
    with pytest.warns(UndefinedWarning, match="1 of 2 queries have a denominator"):
        assert np.isnan(curve.predict(at)).tolist() == [False, True]
    density = KernelDensity("gaussian", radius=9.0, within=[(-7, 7)]).fit([x])
    assert 0 <= density.density(at)[1] <= 1e-11
    with pytest.warns(UndefinedWarning, match="1 of 2 .* which a fit to a stream cannot sum again"):
        assert np.isnan(density.score_samples(at)).tolist() == [False, True]
