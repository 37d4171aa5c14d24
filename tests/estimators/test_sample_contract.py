"""Weights × rules × data: radii, risks and coverage by simulation, and what copies are worth."""

import warnings
from collections.abc import Callable

import numpy as np
import pytest

from fourierkernels import KernelDensity, LocalPolynomial, NadarayaWatson
from fourierkernels.estimators import REGRESSION_RULES, ConditionalDensity, TiedDataWarning
from fourierkernels.estimators.lattice import coincide_by_rounding, distinct_places, lattice_step
from fourierkernels.estimators.weights import SampleRows

AT = np.linspace(0.1, 0.9, 33)[:, None]
SIGMA = 0.3
Rows = tuple[np.ndarray, np.ndarray, np.ndarray | None]


def truth(x: np.ndarray) -> np.ndarray:
    return np.sin(4 * np.pi * x[:, 0])


def sample(n: int, rng: np.random.Generator, *, decimals: int = 17) -> Rows:
    x = rng.uniform(size=(n, 1))
    y = truth(x) + SIGMA * rng.normal(size=n)
    return np.round(x, decimals), np.round(y, decimals), None


def as_it_is(rows: Rows, rng: np.random.Generator) -> Rows:
    return rows


def joined_twice(rows: Rows, rng: np.random.Generator) -> Rows:
    return np.vstack([rows[0]] * 2), np.tile(rows[1], 2), None


def third_twice(rows: Rows, rng: np.random.Generator) -> Rows:
    k = len(rows[0]) // 3
    return np.vstack([rows[0], rows[0][:k]]), np.append(rows[1], rows[1][:k]), None


def uniform_weights(rows: Rows, rng: np.random.Generator) -> Rows:
    return rows[0], rows[1], rng.uniform(0.5, 3.0, len(rows[0]))


def equal_weights(rows: Rows, rng: np.random.Generator) -> Rows:
    return rows[0], rows[1], np.full(len(rows[0]), 1.2)


def one_or_two(rows: Rows, rng: np.random.Generator) -> Rows:
    return rows[0], rows[1], rng.integers(1, 3, len(rows[0])).astype(float)


MADE = [joined_twice, third_twice, uniform_weights, equal_weights, one_or_two]
Made = Callable[[Rows, np.random.Generator], Rows]


def quiet(model: object, *data: object) -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TiedDataWarning)
        return model.fit(*data)  # type: ignore[attr-defined]


# --- rules -------------------------------------------------------------------------------------


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("decimals", [17, 3])
@pytest.mark.parametrize("rule", REGRESSION_RULES)
def test_no_rule_of_regression_interpolates_copies(rule: str, made: Made, decimals: int) -> None:
    """They gave radii of 60 to 330 where 39 is right, and errors of up to .18 beside .07."""
    rng = np.random.default_rng(0)
    plain = sample(200, rng, decimals=decimals)
    best = NadarayaWatson(radius=rule).fit(*plain)
    model = quiet(NadarayaWatson(radius=rule), *made(plain, rng))
    assert 0.8 * best.radius_[0] < model.radius_[0] < 1.25 * best.radius_[0]
    errors = [np.sqrt(np.mean((each.predict(AT) - truth(AT)) ** 2)) for each in (best, model)]
    assert errors[1] < 1.25 * errors[0]


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("rule", ["lscv", "plugin", "normal_reference", "silverman"])
def test_no_rule_of_densities_follows_copies(rule: str, made: Made) -> None:
    rng = np.random.default_rng(3)
    plain = rng.normal(size=(300, 1)), np.zeros(300), None
    kernel = "gaussian" if rule == "silverman" else "fourier4"
    best = KernelDensity(kernel, radius=rule).fit(plain[0])
    x, _, weights = made(plain, rng)
    model = quiet(KernelDensity(kernel, radius=rule), x, None, weights)
    wide = 1.6 if rule == "lscv" else 1.25  # its random error is as large
    assert best.radius_[0] / wide < model.radius_[0] < best.radius_[0] * wide
    if made in (joined_twice, equal_weights):  # no other information than the plain sample
        np.testing.assert_allclose(model.radius_, best.radius_, rtol=1e-6)


@pytest.mark.parametrize("made", [joined_twice, equal_weights])
@pytest.mark.parametrize("degree", [0, 1])
def test_a_sample_that_is_copied_as_a_whole_is_itself(degree: int, made: Made) -> None:
    rng = np.random.default_rng(1)
    plain = sample(120, rng)
    radius = "normal_reference" if degree else "gcv"
    one = LocalPolynomial(degree=degree, radius=radius).fit(*plain)
    other = quiet(LocalPolynomial(degree=degree, radius=radius), *made(plain, rng))
    np.testing.assert_allclose(other.radius_, one.radius_, rtol=1e-6)
    np.testing.assert_allclose(other.leave_one_out()[:120], one.leave_one_out(), rtol=1e-6)
    for noise in ("constant", "local"):
        error = one.interval(AT, noise=noise).error
        np.testing.assert_allclose(other.interval(AT, noise=noise).error, error, rtol=1e-6)


@pytest.mark.parametrize("bounds", [None, [(-9.0, 45.0)]])
def test_leave_one_out_leaves_all_copies_out_where_they_are_nearly_alone(bounds: object) -> None:
    times, places = [2, 1, 3, 2, 2, 2, 2], np.array([0.0, 0.7, 5.0, 20.0, 25.0, 30.0, 35.0])
    x, y = np.repeat(places, times)[:, None], np.repeat(places + 1.0, times)
    model = NadarayaWatson("gaussian", radius=2.0, bounds=bounds).fit(x, y)
    assert model.sample_rows().place is None  # multiples of 0.1 and of 1: may be rounded
    x, y = x + np.repeat(np.random.default_rng(0).normal(0, 0.01, (7, 1)), times, axis=0), np.sin(y)
    model.fit(x, y)
    with pytest.warns(TiedDataWarning, match="7 of 14 repeat another: copies"):
        left = model.leave_one_out()
    for first, last in ((0, 2), (3, 6)):
        rest = np.delete(np.arange(14), np.arange(first, last))
        other = NadarayaWatson("gaussian", radius=2.0, bounds=bounds).fit(x[rest], y[rest])
        expected = pytest.approx(other.predict(x[[first]])[0], rel=1e-9)
        assert left[first] == left[last - 1] == expected


@pytest.mark.parametrize("model", [KernelDensity, NadarayaWatson, ConditionalDensity])
def test_repeated_rows_are_said_once_by_every_rule(model: type) -> None:
    x, y, _ = third_twice(sample(90, np.random.default_rng(0)), np.random.default_rng(0))
    with pytest.warns(TiedDataWarning, match="30 of 120 repeat another: radius='normal_ref") as one:
        model().fit(x, y)
    assert len(one) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model(radius=[3.0, 3.0][: 1 + (model is ConditionalDensity)]).fit(x, y)


# --- precision ---------------------------------------------------------------------------------


def measured(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Responses at n places, 1 to 8 of them each, and how many."""
    counts = rng.integers(1, 9, n)
    x = np.repeat(rng.uniform(size=(n, 1)), counts, axis=0)
    return x, truth(x) + SIGMA * rng.normal(size=len(x)), counts


def test_means_with_precisions_are_the_results_of_their_copies() -> None:
    """Fits to rounding; standard errors but for the variance, which fewer residuals estimate."""
    x, y, counts = measured(150, np.random.default_rng(0))
    first = np.cumsum(counts) - counts
    means = np.add.reduceat(y, first) / counts
    for model in (NadarayaWatson, LocalPolynomial):
        whole = model(radius=25.0).fit(x, y)
        mean = model(radius=25.0, weighting="precision").fit(x[first], means, counts)
        np.testing.assert_allclose(mean.predict(AT), whole.predict(AT), rtol=1e-8, atol=1e-10)
        ratio = mean.interval(AT).error / whole.interval(AT).error
        assert np.ptp(ratio) < 1e-6  # one factor, the estimated σ
        assert ratio[0] == pytest.approx(1.0, abs=3 / np.sqrt(2 * 150))
    for rule in REGRESSION_RULES:
        whole = NadarayaWatson(radius=rule).fit(x, y)
        mean = NadarayaWatson(radius=rule, weighting="precision").fit(x[first], means, counts)
        assert mean.radius_[0] == pytest.approx(whole.radius_[0], rel=0.3)


@pytest.mark.parametrize("factor", [1e-200, 0.3])
def test_only_the_ratios_of_precisions_matter(factor: float) -> None:
    x, y, _ = sample(80, np.random.default_rng(0))
    w = np.random.default_rng(1).uniform(0.1, 4.0, 80)
    for model, radius in ((NadarayaWatson, "gcv"), (LocalPolynomial, 9.0)):
        one = model(radius=radius, weighting="precision").fit(x, y, w)
        other = model(radius=radius, weighting="precision").fit(x, y, factor * w)
        np.testing.assert_allclose(other.radius_, one.radius_, rtol=1e-6)
        np.testing.assert_allclose(other.interval(AT).error, one.interval(AT).error, rtol=1e-6)
        assert other.sample_rows().size == pytest.approx(80)


def test_precisions_are_of_responses() -> None:
    for model in (KernelDensity, ConditionalDensity):
        with pytest.raises(ValueError, match="weighting must be one of frequency, importance, got"):
            model(weighting="precision").fit([[0.0], [1.0], [3.0]], [1.0, 2.0, 3.0])


# --- coverage ----------------------------------------------------------------------------------

NOISE = {
    "as it is": ("frequency", as_it_is),
    "joined twice": ("frequency", joined_twice),
    "a third twice": ("frequency", third_twice),
    "frequency": ("frequency", uniform_weights),
    "importance": ("importance", uniform_weights),
}


def covered(weighting: str, made: Made, seeds: range, n: int = 150) -> float:
    """Share of E f̂ at the queries that intervals of level 0.95 cover, given the design."""
    shares = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        x, y, weights = made(sample(n, rng), rng)
        model = quiet(NadarayaWatson(radius="gcv", weighting=weighting), x, y, weights)
        limits = model.interval(AT)
        mean = model.smooth(AT, truth(x)[:, None])[:, 0]
        shares.append(np.mean((limits.low < mean) & (mean < limits.high)))
    return float(np.mean(shares))


@pytest.mark.slow
@pytest.mark.parametrize("name", NOISE)
def test_intervals_cover_the_smoothed_function_whatever_the_copies(name: str) -> None:
    """With copies that counted as samples: .55 to .85."""
    assert covered(*NOISE[name], range(150)) == pytest.approx(0.94, abs=0.02)


def test_intervals_of_a_table_that_was_joined_to_itself_cover() -> None:
    assert covered(*NOISE["joined twice"], range(12)) > 0.88


def test_intervals_cover_with_precisions() -> None:
    shares = []
    for seed in range(25):
        rng = np.random.default_rng(seed)
        x, w = rng.uniform(size=(120, 1)), 10.0 ** rng.uniform(-1, 1, 120)
        y = truth(x) + SIGMA * rng.normal(size=120) / np.sqrt(w)
        model = NadarayaWatson(radius="gcv", weighting="precision").fit(x, y, 7.0 * w)
        limits, mean = model.interval(AT), model.smooth(AT, truth(x)[:, None])[:, 0]
        shares.append(np.mean((limits.low < mean) & (mean < limits.high)))
    assert 0.9 < np.mean(shares) < 0.98


# --- rows --------------------------------------------------------------------------------------


def test_rows_of_a_table_of_counts_are_samples_and_copies_of_others_are_not() -> None:
    ages = np.arange(90.0)[:, None]
    counts = np.random.default_rng(0).poisson(40 * np.exp(-((ages[:, 0] - 40) ** 2) / 800))
    table = SampleRows.of(ages, counts.astype(float), "frequency")
    assert (table.meaning, table.size) == ("frequency", counts.sum())
    people = SampleRows.of(np.repeat(ages, counts, axis=0), np.ones(counts.sum()), "frequency")
    assert (people.meaning, people.size) == ("frequency", counts.sum())
    x = np.random.default_rng(1).normal(size=(90, 1))
    copied = SampleRows.of(x, counts.astype(float), "frequency")
    assert copied.meaning == "importance"
    assert copied.size == pytest.approx(counts.sum() ** 2 / np.square(counts).sum())


@pytest.mark.parametrize("decimals", [2, 3, 6])
def test_a_rounded_table_that_was_joined_to_itself_is_found(decimals: int) -> None:
    x, y, _ = sample(300, np.random.default_rng(0), decimals=decimals)
    rows = np.column_stack([x, y])
    assert SampleRows.of(rows, np.ones(300), "frequency").size == pytest.approx(300, abs=3)
    twice = SampleRows.of(np.vstack([rows, rows]), np.ones(600), "frequency")
    assert twice.size == pytest.approx(300, abs=12)


def test_samples_of_few_values_are_not_copies() -> None:
    rng = np.random.default_rng(0)
    for values in (rng.geometric(0.5, 200), rng.integers(0, 2, 200), 10 * rng.poisson(3.0, 200)):
        x = values[:, None].astype(float)
        rows = SampleRows.of(x, np.ones(200), "frequency")
        assert (rows.meaning, rows.size) == ("frequency", 200)
    binary = np.column_stack([rng.integers(20, 60, 400), rng.integers(0, 2, 400)]).astype(float)
    assert SampleRows.of(binary, np.ones(400), "frequency").size == 400


def ties(name: str, n: int, rng: np.random.Generator) -> np.ndarray:
    """Independent draws that coincide, of values that recur; some on no lattice."""
    if name == "single precision":
        return np.round(rng.normal(size=n), 1).astype(np.float32).astype(float)
    if name == "log of ages":
        return np.log(rng.integers(20, 90, n).astype(float))
    if name == "zeros":
        return np.where(rng.uniform(size=n) < 0.3, 0.0, rng.lognormal(size=n))
    if name == "prices":
        return rng.choice(np.array([0.99, 4.49, 7.77, 19.99, 23.17]), n)
    return rng.choice(rng.normal(size=n), n)


@pytest.mark.parametrize(
    "name", ["single precision", "log of ages", "zeros", "prices", "n of n values"]
)
def test_independent_samples_that_coincide_are_samples(name: str) -> None:
    """They counted as one each: 30 instead of 400, and limits were wider, up to ten times."""
    merged = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        for n in (40, 400, 2000):
            x = ties(name, n, rng)
            merged += SampleRows.of(x[:, None], np.ones(n), "frequency").size < n
            both = np.column_stack([x, ties(name, n, rng)])
            merged += SampleRows.of(both, np.ones(n), "frequency").size < n
    assert merged == 0


@pytest.mark.parametrize("name", ["single precision", "log of ages", "zeros"])
def test_ties_leave_radius_and_limits_as_they_are_without(name: str) -> None:
    """Half widths at 1 were .174 for .044, .094 for .037 and .232 for .024."""
    rng = np.random.default_rng(0)
    x = ties(name, 400, rng)[:, None]
    moved = x + 1e-6 * rng.normal(size=x.shape)  # no two equal
    for radius in (3.0, "normal_reference"):
        tied, plain = (KernelDensity("gaussian", radius=radius).fit(each) for each in (x, moved))
        assert tied.radius_[0] == pytest.approx(plain.radius_[0], rel=1e-5)
        at = np.quantile(x, [0.1, 0.5, 0.9])[:, None]
        error = plain.interval(at).error
        np.testing.assert_allclose(tied.interval(at).error, error, rtol=1e-4)
        np.testing.assert_allclose(tied.leave_one_out(), plain.leave_one_out(), rtol=1e-3)


def test_a_rounded_table_with_dense_cells_that_was_joined_to_itself_is_found() -> None:
    """R was 12.2 for 7.2. Rows that coincide by chance stay the samples that they are."""
    x, y, _ = sample(300, np.random.default_rng(0), decimals=1)
    rows = np.column_stack([x, y])
    for times in (2, 3):
        joined = SampleRows.of(np.tile(rows, (times, 1)), np.ones(300 * times), "frequency")
        assert joined.size == pytest.approx(300)
    one = NadarayaWatson(radius="gcv").fit(x, y)
    two = quiet(NadarayaWatson(radius="gcv"), np.vstack([x, x]), np.tile(y, 2))
    assert two.radius_[0] == pytest.approx(one.radius_[0], rel=1e-6)
    np.testing.assert_allclose(two.interval(AT).error, one.interval(AT).error, rtol=1e-6)
    np.testing.assert_allclose(two.leave_one_out()[:300], one.leave_one_out(), rtol=1e-6)


def test_a_common_value_stays_as_many_samples_among_copies() -> None:
    """A third of the rows is zero; the file is joined to itself, or half of it."""
    rng = np.random.default_rng(0)
    x = np.where(np.arange(600) % 3 == 0, 0.0, rng.lognormal(size=600))[:, None]
    assert SampleRows.of(np.vstack([x, x]), np.ones(1200), "frequency").size == pytest.approx(600)
    half = SampleRows.of(np.vstack([x, x[:300]]), np.ones(900), "frequency")
    assert 500 < half.size < 600


def test_tables_of_counts_by_another_column_are_no_copies() -> None:
    """Ages twice, for women and men, each with a count."""
    ages, counts = np.tile(np.arange(80.0), 2)[:, None], 100.0 + np.arange(160.0)
    assert SampleRows.of(ages, counts, "frequency").size == counts.sum()
    assert SampleRows.of(ages, counts, "precision").size == 160


def test_multiplicities_have_a_common_factor_as_rarely_as_is_said() -> None:
    from scipy.stats import poisson

    for factor in range(2, 60):
        means = np.geomspace(0.01, 8.0 * factor, 300)[:, None]
        chance = poisson.pmf(factor * np.arange(1, 30), means).sum(axis=1) / -np.expm1(-means[:, 0])
        assert chance.max() <= (2.0 * factor) ** -0.5


def test_limits_and_leave_one_out_say_what_they_take_for_copies() -> None:
    x, y, _ = joined_twice(sample(60, np.random.default_rng(0)), np.random.default_rng(0))
    density = KernelDensity("gaussian", radius=9.0).fit(x)
    models = density, NadarayaWatson(radius=9.0).fit(x, y), LocalPolynomial(radius=9.0).fit(x, y)
    for model in models:
        for ask in (
            model.leave_one_out,
            lambda model=model: model.interval(AT),
            lambda model=model: model.band(AT, rng=np.random.default_rng(0), replicates=20),
        ):
            with pytest.warns(TiedDataWarning, match="60 of 120 repeat another: copies") as one:
                ask()
            assert len(one) == 1
    by_rule = quiet(NadarayaWatson(radius="gcv"), x, y)
    by_rule.interval(AT)  # said by the rule


def test_variances_of_copies_are_those_of_their_sum() -> None:
    """Σ W_j² v_j, W_j shares of rows in proportion to their weights, is (Σ over copies W_j)²."""
    x = np.random.default_rng(0).normal(size=(3, 1))[[0, 1, 1, 2, 1, 2]]
    weights = np.array([1.0, 0.5, 2.0, 0.0, 1.5, 3.0])
    rows = SampleRows.of(x, weights, "frequency")
    spread = np.square(weights) * rows.variances
    assert [spread[0], spread[[1, 2, 4]].sum(), spread[[3, 5]].sum()] == pytest.approx([1, 16, 9])
    np.testing.assert_allclose(rows.left, [1, 4, 4, 0, 4, 3])
    assert rows.counts.sum() == pytest.approx(64 / 26)


def test_lattices_and_equal_rows_are_found() -> None:
    assert lattice_step(np.array([0.0, 4.0, 10.0, 20.0])) == 2.0
    assert lattice_step(np.random.default_rng(0).normal(size=50)) == 0.0
    assert distinct_places(np.array([[1.0, 2.0], [1.0, 3.0]])) is None
    place = distinct_places(np.array([[1.0, 2.0], [0.0, 0.0], [1.0, 2.0]]))
    assert place is not None
    assert place[0] == place[2] != place[1]
    assert not coincide_by_rounding(np.random.default_rng(0).normal(size=(9, 2)), np.full(9, 2.0))
