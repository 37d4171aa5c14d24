"""Distances between outputs of heads, and which metrics are properties of the network."""

import numpy as np
import pytest
from claims import BOUND, INVARIANCE, TRIANGLE, claim
from tolerances import TOLERANCE

from fourierkernels.diagnostics import METRICS, head_distances

EXACT = TOLERANCE["float64"]["exact"]
FAST = TOLERANCE["float64"]["fast"]
HEADS, N, FEATURES, STREAM = 5, 9, 4, 20
ON_OUTPUTS = [name for name, row in METRICS.items() if row.of != "maps"]
every_metric = pytest.mark.parametrize("metric", ON_OUTPUTS)


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def rotations(count: int, size: int) -> np.ndarray:
    return np.linalg.qr(draw(count, size, size, seed=1))[0]


def measured(metric: str, maps: np.ndarray, values: np.ndarray, slices: np.ndarray) -> np.ndarray:
    """Distances in a layer of attention maps, values (H, n, d) and output slices (H, d, E)."""
    outputs = maps @ values
    what = {"maps": maps, "outputs": outputs, "projected": outputs @ slices}
    return head_distances(what[METRICS[metric].of], metric=metric)


@pytest.mark.parametrize("change", ["rotations", "any"])
@pytest.mark.parametrize("metric", METRICS)
def test_change_of_basis_moves_exactly_the_metrics_that_say_so(metric: str, change: str) -> None:
    maps = np.random.default_rng(2).dirichlet(np.ones(N), size=(HEADS, N))
    values, slices = draw(HEADS, N, FEATURES), draw(HEADS, FEATURES, STREAM, seed=3)
    basis = rotations(HEADS, FEATURES)
    if change == "any":
        basis = basis * np.array([0.2, 1.0, 3.0, 5.0])
    undone = np.linalg.inv(basis) @ slices
    np.testing.assert_allclose(  # the network is the same
        maps @ values @ basis @ undone, maps @ values @ slices, atol=1e2 * EXACT
    )
    before = measured(metric, maps, values, slices)
    after = measured(metric, maps, values @ basis, undone)
    if claim(INVARIANCE, metric) in {"any", change}:
        np.testing.assert_allclose(after, before, atol=1e2 * FAST)
    else:
        above = np.triu_indices(HEADS, 1)
        assert np.abs(after[above] / before[above] - 1).max() > 0.1


@every_metric
@pytest.mark.parametrize("n", [1, 7])
def test_distances_are_symmetric_bounded_and_zero_to_oneself(metric: str, n: int) -> None:
    outputs = draw(6, n, 3)
    outputs[4] = 0.0  # a head that puts out nothing
    outputs[5] = outputs[0]
    distances = head_distances(outputs, metric=metric)
    np.testing.assert_array_equal(distances, distances.T)
    np.testing.assert_array_equal(np.diag(distances), 0.0)
    assert distances.min() >= 0
    assert distances.max() <= claim(BOUND, metric)(n) * (1 + EXACT)
    assert distances[0, 5] <= 10 * EXACT
    assert np.isfinite(distances).all()


@every_metric
def test_triangle_inequality_where_the_metric_claims_it(metric: str) -> None:
    d = head_distances(draw(12, 6, 3), metric=metric)
    holds = bool((d[:, None, :] <= d[:, :, None] + d[None, :, :] + EXACT).all())
    assert holds or not claim(TRIANGLE, metric)


@every_metric
def test_repeating_the_text_leaves_distances_for_any_length(metric: str) -> None:
    outputs = draw(4, 6, 3)
    longer = head_distances(np.concatenate([outputs, outputs], axis=1), metric=metric)
    np.testing.assert_allclose(longer, head_distances(outputs, metric=metric), atol=FAST)


def test_token_metrics_equal_loops_over_pairs_and_tokens() -> None:
    outputs = draw(3, 5, 4)
    o = np.stack([head - head.mean(axis=0) for head in outputs])
    gap = [np.linalg.norm(o[0, t] - o[2, t]) for t in range(5)]
    assert head_distances(outputs, metric="projected_distance")[0, 2] == pytest.approx(np.mean(gap))
    cosine = [
        o[0, t] @ o[2, t] / np.linalg.norm(o[0, t]) / np.linalg.norm(o[2, t]) for t in range(5)
    ]
    distance = head_distances(outputs, metric="projected_cosine")[0, 2]
    assert distance == pytest.approx(1 - np.mean(cosine), rel=FAST)


def test_cka_equals_its_formula_with_cross_covariances() -> None:
    a, b = (x - x.mean(axis=0) for x in draw(2, 8, 3))
    cross, own = np.linalg.norm(a.T @ b) ** 2, [np.linalg.norm(x.T @ x) for x in (a, b)]
    distance = head_distances(np.stack([a + 3, b]), metric="cka")[0, 1]
    assert distance == pytest.approx(1 - cross / np.prod(own), rel=FAST)


@pytest.mark.parametrize("metric", ["projected_cosine", "projected_cka", "projected_distance"])
@pytest.mark.parametrize("n", range(1, 12))
def test_heads_that_add_one_vector_to_every_token_are_no_distance_apart(
    metric: str, n: int
) -> None:
    vectors = np.random.default_rng(n).normal(size=(4, 1, 5))
    assert not head_distances(vectors.repeat(n, axis=1), metric=metric).any()


def test_cosine_of_maps_equals_scipy() -> None:
    from scipy.spatial.distance import pdist, squareform

    maps = np.random.default_rng(0).dirichlet(np.ones(6), size=(4, 6))
    expected = squareform(pdist(maps.reshape(4, -1), "cosine"))
    np.testing.assert_allclose(head_distances(maps, metric="cosine"), expected, atol=EXACT)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((1, 4, 3), "outputs must have at least 2 heads .* got 1"),
        ((4, 3), r"outputs must have shape \(heads, n, features\)"),
        ((2, 0, 3), r"got shape \(2, 0, 3\)"),
    ],
)
def test_bad_outputs_are_refused(shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        head_distances(np.ones(shape), metric="cka")
