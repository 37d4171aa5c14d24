"""Clusters, classical scaling, and redundancy against importance."""

import numpy as np
import pytest
from scipy.spatial.distance import pdist, squareform
from scipy.stats import binom, spearmanr

from fourierkernels.diagnostics import (
    head_clusters,
    nearest_distances,
    redundancy_against_importance,
)
from fourierkernels.diagnostics.clusters import head_linkage, head_positions


def points(count: int = 7, dim: int = 2, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, dim))


def test_scaling_finds_the_points_again_up_to_motion() -> None:
    distances = squareform(pdist(points()))
    found = head_positions(distances)
    np.testing.assert_allclose(squareform(pdist(found)), distances, atol=1e-12)
    assert (found.max(axis=0) >= -found.min(axis=0)).all()
    np.testing.assert_allclose(head_positions(distances, dim=3)[:, 2], 0, atol=1e-6)


def test_clusters_of_heads_far_apart_are_found_in_order_of_appearance() -> None:
    groups = np.array([0, 1, 0, 2, 2, 1])
    places = 10.0 * groups[:, None] + points(6, 1)[:, :1]
    distances = squareform(pdist(places))
    np.testing.assert_array_equal(head_clusters(distances, count=3), groups)
    np.testing.assert_array_equal(head_clusters(distances, count=1), 0)
    merges = head_linkage(distances)
    assert merges.shape == (5, 4)
    assert (np.diff(merges[:, 2]) >= 0).all()


def test_nearest_distance_leaves_out_the_head_itself() -> None:
    distances = np.stack([squareform(pdist(points(seed=s))) for s in (0, 1)])
    expected = [[min(d[i, j] for j in range(7) if j != i) for i in range(7)] for d in distances]
    np.testing.assert_array_equal(nearest_distances(distances), expected)
    np.testing.assert_array_equal(nearest_distances(distances[0]), expected[0])


def test_association_of_one_layer_is_spearmans() -> None:
    distances = squareform(pdist(points(9)))[None]
    importance = np.random.default_rng(3).normal(size=(1, 9))
    found = redundancy_against_importance(distances, importance, rng=np.random.default_rng(0))
    expected = spearmanr(nearest_distances(distances)[0], importance[0]).statistic
    assert found.correlation == pytest.approx(expected, rel=1e-12)


def test_layers_that_differ_as_a_whole_make_no_association() -> None:
    distances = np.stack([k * squareform(pdist(points(6))) for k in (1.0, 10.0)])
    alone = nearest_distances(distances)
    same = redundancy_against_importance(distances, alone, rng=np.random.default_rng(0))
    assert same.correlation == pytest.approx(1)
    assert same.p_value <= 0.01
    opposite = np.stack([-alone[0], 1e3 - alone[1]])
    other = redundancy_against_importance(distances, opposite, rng=np.random.default_rng(0))
    assert other.correlation == pytest.approx(-1)


def test_p_values_without_an_association_are_uniform() -> None:
    rng = np.random.default_rng(1)
    below = sum(
        redundancy_against_importance(
            squareform(pdist(rng.normal(size=(6, 3))))[None],
            rng.normal(size=(1, 6)),
            rng=rng,
            permutations=19,
        ).p_value
        <= 0.2
        for _ in range(150)
    )
    # Two heads nearest to each other tie, and a tie can only make the test cautious.
    assert binom(150, 0.1).ppf(1e-4) <= below <= binom(150, 0.2).ppf(1 - 1e-4)


@pytest.mark.parametrize(
    ("distances", "message"),
    [
        (np.ones((2, 3)), r"shape \(heads, heads\), got \(2, 3\)"),
        ([[0.0, 1.0], [2.0, 0.0]], "symmetric, not negative"),
        ([[0.0, -1.0], [-1.0, 0.0]], "got least -1"),
        ([[1.0, 1.0], [1.0, 1.0]], "zero on the diagonal"),
    ],
)
def test_what_are_no_distances_is_refused(distances: object, message: str) -> None:
    for function in (head_linkage, head_positions, nearest_distances):
        with pytest.raises(ValueError, match=message):
            function(distances)


def test_importance_must_fit_and_vary() -> None:
    distances, rng = squareform(pdist(points()))[None], np.random.default_rng(0)
    with pytest.raises(ValueError, match=r"importance must have shape \(L, H\)"):
        redundancy_against_importance(distances, np.ones((1, 3)), rng=rng)
    with pytest.raises(ValueError, match="must vary within a layer"):
        redundancy_against_importance(distances, np.ones((1, 7)), rng=rng)
    with pytest.raises(ValueError, match="dim must be at most the 7 heads, got 9"):
        head_positions(distances[0], dim=9)
