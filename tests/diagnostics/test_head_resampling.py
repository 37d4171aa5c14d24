"""Intervals over texts, and the permutation null."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import binom
from tolerances import TOLERANCE

from fourierkernels.diagnostics import permutation_null
from fourierkernels.diagnostics.resampling import (
    PoissonBootstrap,
    percentile_interval,
    permuted_maps,
)

Make = Callable[..., np.ndarray]
FAST = TOLERANCE["float64"]["fast"]


def stream(values: np.ndarray, order: np.ndarray | None = None, **options: int) -> PoissonBootstrap:
    bootstrap = PoissonBootstrap(**options)
    for number in range(len(values)) if order is None else order:
        bootstrap.add(int(number), values[number])
    return bootstrap


def test_replicates_equal_weighted_means_over_everything_held() -> None:
    values = np.random.default_rng(0).normal(size=(7, 2, 3))
    bootstrap = stream(values, replicates=5, seed=3)
    counts = np.stack([np.random.default_rng([3, i]).poisson(1.0, 5) for i in range(7)])
    expected = np.einsum("tb,tlh->blh", counts, values) / counts.sum(axis=0)[:, None, None]
    np.testing.assert_allclose(bootstrap.means(), expected, rtol=FAST)


def test_order_of_the_texts_does_not_matter() -> None:
    values = np.random.default_rng(0).normal(size=(20, 4))
    order = np.random.default_rng(1).permutation(20)
    np.testing.assert_allclose(stream(values).means(), stream(values, order).means(), rtol=1e-9)


def test_interval_covers_the_mean_as_often_as_it_says() -> None:
    rng, trials = np.random.default_rng(4), 400
    bootstrap = stream(rng.normal(size=(60, trials)), replicates=600)
    low, high = bootstrap.interval()
    covered = int(((low <= 0) & (high >= 0)).sum())
    # The percentile interval of 60 normal values covers about 0.94.
    assert binom(trials, 0.94).ppf(1e-4) <= covered <= binom(trials, 0.955).ppf(1 - 1e-4)


def test_differences_on_the_same_texts_are_paired() -> None:
    values = np.random.default_rng(0).normal(size=(30,))
    difference = stream(values + 0.5).means() - stream(values).means()
    np.testing.assert_allclose(difference, 0.5, rtol=1e-9)


def test_single_text_has_no_interval() -> None:
    low, high = stream(np.ones((1, 3))).interval()
    assert np.isnan(low).all()
    assert np.isnan(high).all()
    with pytest.raises(ValueError, match="level must lie between 0 and 1, got 95"):
        percentile_interval(np.ones((4, 2)), level=95)


def test_permuted_rows_keep_their_weights_and_their_mask(make_maps: Make) -> None:
    maps = np.tril(make_maps(2, 3, 6, 6))
    maps /= maps.sum(axis=-1, keepdims=True)
    permuted = permuted_maps(maps, np.random.default_rng(0))
    np.testing.assert_array_equal(np.sort(permuted, axis=-1), np.sort(maps, axis=-1))
    np.testing.assert_array_equal(np.triu(permuted, k=1), 0)
    assert (permuted != maps)[:, :, 2:].any(axis=-1).mean() > 0.8


def test_p_values_of_unrelated_heads_are_uniform(make_maps: Make) -> None:
    rng = np.random.default_rng(2)
    maps = rng.dirichlet(np.ones(5), size=(200, 3, 5))  # 200 layers, each a trial
    p = permutation_null(maps, permutations=19, rng=rng).p_value
    assert binom(200, 0.2).ppf(1e-4) <= (p <= 0.2).sum() <= binom(200, 0.2).ppf(1 - 1e-4)
    assert p.min() >= 1 / 20


def test_heads_that_are_alike_are_told_from_chance(make_maps: Make) -> None:
    maps = make_maps(1, 4, 12, 12)
    alike = 0.8 * maps[:, :1] + 0.2 * maps
    found = permutation_null(alike, permutations=49, rng=np.random.default_rng(0))
    assert found.p_value[0] == 1 / 50
    assert found.observed[0] < 0.5 * found.null.mean()
    assert found.null.shape == (49, 1)


def test_null_of_outputs_is_refused(make_maps: Make) -> None:
    with pytest.raises(ValueError, match="metric must compare maps, got cka"):
        permutation_null(make_maps(1, 2, 3, 3), metric="cka", rng=np.random.default_rng(0))
