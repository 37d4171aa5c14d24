"""Statistics of maps, rollout and flow, and softmax beside its Gaussian kernel."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import linprog
from scipy.special import softmax
from scipy.stats import entropy
from tolerances import TOLERANCE

from fourierkernels.diagnostics import (
    STATISTICS,
    attention_flow,
    attention_rollout,
    gaussian_gap,
    head_distances,
    head_statistics,
    summarise_statistics,
)
from fourierkernels.diagnostics.kernel_gap import gaussian_counterpart, key_norm_spread

Make = Callable[..., np.ndarray]
EXACT = TOLERANCE["float64"]["exact"]
FAST = TOLERANCE["float64"]["fast"]
FLOW = 1e-5  # capacities are rounded to 2^-24, and a cut crosses at most n² of them


def one(name: str, maps: np.ndarray, **options: object) -> np.ndarray:
    return head_statistics(maps, names=[name], **options)[name]


@pytest.mark.parametrize("n", [1, 6])
def test_uniform_map_has_the_entropy_and_the_effective_keys_of_all_keys(n: int) -> None:
    maps = np.full((2, n, n), 1 / n)
    np.testing.assert_allclose(one("entropy", maps), np.log(n), atol=EXACT)
    np.testing.assert_allclose(one("effective_keys", maps), n, rtol=EXACT)
    np.testing.assert_allclose(one("first_token", maps), 1 / n, rtol=EXACT)
    np.testing.assert_allclose(one("own_token", maps), 1 / n, rtol=EXACT)
    np.testing.assert_allclose(one("distance", maps), (n * n - 1) / (3 * n), atol=EXACT)


@pytest.mark.parametrize(
    ("shift", "name", "share"),
    [(0, "own_token", 1), (-1, "previous_token", 4 / 5), (1, "next_token", 4 / 5)],
)
def test_shifted_map_puts_its_weight_where_its_name_says(
    shift: int, name: str, share: float
) -> None:
    maps = np.roll(np.eye(5), shift, axis=1)[None]
    for other in ("own_token", "previous_token", "next_token"):
        assert one(other, maps)[0] == pytest.approx(share if other == name else 0)
    assert one("entropy", maps)[0] == 0
    assert one("effective_keys", maps)[0] == 1


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_maps_rounded_to_half_precision_are_rows_of_probabilities(
    dtype: torch.dtype, make_maps: Make
) -> None:
    """Equal weights are all rounded alike, so their sums are off by nearly all that can be."""
    uniform = [np.full((2, n, n), 1 / n) for n in (3, 51, 257)]
    for maps in [*uniform, *(make_maps(2, n, n, seed=n) for n in (3, 64, 512))]:
        rounded = torch.from_numpy(maps).to(torch.float32).to(dtype)
        worst = float((rounded.double().sum(dim=-1) - 1).abs().max())
        assert worst <= torch.finfo(dtype).eps / 2 * 1.001
        found = one("entropy", rounded.double().numpy())
        expected = one("entropy", maps)
        np.testing.assert_allclose(found, expected, rtol=torch.finfo(dtype).eps)
        head_distances(rounded.double().numpy(), metric="jensen_shannon")


@pytest.mark.parametrize("factor", [0.995, 1.005])
def test_rows_farther_off_than_any_rounding_are_refused(factor: float, make_maps: Make) -> None:
    maps = make_maps(2, 4, 4)
    maps[1, 2] *= factor
    with pytest.raises(ValueError, match=r"rows that are probabilities .* off by up to 0\.005"):
        head_statistics(maps)


def spread(keys: np.ndarray) -> float:
    norms = [np.sqrt(k @ k) for k in keys]
    return float(np.std(norms) / np.mean(norms))


def moved(maps: np.ndarray, keys: np.ndarray, scale: float) -> float:
    """Total variation between rows and those with factors exp(-s ‖k‖²/2), averaged."""
    gaps = []
    for row in maps:
        other = np.array([p * np.exp(-scale * (k @ k) / 2) for p, k in zip(row, keys, strict=True)])
        gaps.append(np.abs(row - other / other.sum()).sum() / 2)
    return float(np.mean(gaps))


@pytest.mark.parametrize("name", STATISTICS)
def test_statistics_equal_loops_over_rows(name: str, make_maps: Make) -> None:
    maps, n = make_maps(3, 7, 7), 7
    special = np.array([True, *[False] * 5, True])
    keys, scale = np.random.default_rng(1).normal(size=(3, 7, 4)), 0.5
    of_keys = {
        "key_norm_spread": lambda maps, k: spread(k),
        "centred_key_norm_spread": lambda maps, k: spread(k - k.mean(axis=0)),
        "gaussian_gap": lambda maps, k: moved(maps, k, scale),
        "centred_gaussian_gap": lambda maps, k: moved(maps, k - k.mean(axis=0), scale),
    }
    loops = {
        "entropy": lambda i, row: entropy(row),
        "effective_keys": lambda i, row: 1 / np.sum(row**2),
        "distance": lambda i, row: sum(p * abs(i - j) for j, p in enumerate(row)),
        "local": lambda i, row: sum(p for j, p in enumerate(row) if abs(i - j) <= 2),
        "own_token": lambda i, row: row[i],
        "first_token": lambda i, row: row[0],
        "previous_token": lambda i, row: row[i - 1] if i > 0 else 0,
        "next_token": lambda i, row: row[i + 1] if i + 1 < n else 0,
        "special_tokens": lambda i, row: row[0] + row[-1],
    }
    if name in of_keys:
        expected = [of_keys[name](*head) for head in zip(maps, keys, strict=True)]
    else:
        expected = [np.mean([loops[name](i, row) for i, row in enumerate(head)]) for head in maps]
    found = one(name, maps, special=special, keys=keys, scale=scale)
    np.testing.assert_allclose(found, expected, rtol=FAST)


def test_effective_keys_predict_the_variance_of_a_kernel_average(make_maps: Make) -> None:
    row = make_maps(1, 6, 6)[0]
    noise = np.random.default_rng(0).normal(size=(6, 40_000))
    variance = (row @ noise).var(axis=1)
    np.testing.assert_allclose((1 / variance).mean(), one("effective_keys", row[None]), rtol=0.03)


def test_positions_of_an_image_give_distances_in_its_grid() -> None:
    grid = np.stack(np.meshgrid(range(3), range(3), indexing="ij"), axis=-1).reshape(9, 2)
    maps = np.zeros((1, 9, 9))
    maps[0, :, 8] = 1.0
    expected = np.hypot(*(grid - 2).T).mean()
    assert one("distance", maps, positions=grid)[0] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"names": ["sharpness"]}, "names must be one of entropy, .* got 'sharpness'"),
        ({"positions": [1.0]}, r"positions must have shape \(2,\)"),
        ({"special": [1, 0]}, r"special must be booleans of shape \(2,\)"),
    ],
)
def test_bad_options_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        head_statistics(np.full((1, 2, 2), 0.5), **options)


@pytest.mark.parametrize("maps", [np.ones((1, 2, 2)), np.ones((2, 2))])
def test_maps_that_are_none_are_refused(maps: np.ndarray) -> None:
    for function in (head_statistics, attention_rollout):
        with pytest.raises(ValueError, match="maps must have"):
            function(maps)


def test_cross_attention_has_the_statistics_that_need_no_common_tokens(make_maps: Make) -> None:
    maps = make_maps(2, 3, 4, 6)
    found = head_statistics(maps)
    assert set(found) == {"entropy", "effective_keys", "first_token", "special_tokens"}
    np.testing.assert_allclose(found["entropy"], entropy(maps, axis=-1).mean(axis=-1), rtol=FAST)
    with pytest.raises(ValueError, match="got distance for maps of 4 queries and 6 keys"):
        head_statistics(maps, names=["distance"])
    with pytest.raises(ValueError, match=r"shape \(layers, heads, n, n\)"):
        attention_rollout(maps)


def test_streamed_statistics_equal_numpy_over_everything(make_maps: Make) -> None:
    texts = [make_maps(2, 3, n, n, seed=n) for n in (4, 6, 5)]
    distances = np.array([head_statistics(maps)["entropy"] for maps in texts])
    found = summarise_statistics(iter(texts))["entropy"]
    np.testing.assert_allclose(found.mean, distances.mean(axis=0), rtol=FAST)
    np.testing.assert_allclose(found.std_texts, distances.std(axis=0, ddof=1), rtol=FAST)
    assert (found.low <= found.mean).all()
    assert (found.mean <= found.high).all()
    assert found.n_texts == 3
    with pytest.raises(ValueError, match="same layers and heads"):
        summarise_statistics([texts[0], texts[1][:1]])


# Rollout and flow


def test_rollout_of_one_layer_is_its_mean_with_the_residual(make_maps: Make) -> None:
    maps = make_maps(1, 3, 4, 4)
    expected = 0.5 * maps[0].mean(axis=0) + 0.5 * np.eye(4)
    np.testing.assert_allclose(attention_rollout(maps), expected, rtol=EXACT)
    np.testing.assert_allclose(attention_flow(maps), expected, atol=FLOW)


def test_rollout_multiplies_the_last_layer_from_the_left(make_maps: Make) -> None:
    maps = make_maps(3, 1, 4, 4)
    expected = maps[2, 0] @ maps[1, 0] @ maps[0, 0]
    np.testing.assert_allclose(attention_rollout(maps, residual=0.0), expected, rtol=FAST)
    np.testing.assert_allclose(attention_rollout(maps).sum(axis=1), 1, rtol=FAST)
    np.testing.assert_array_equal(attention_rollout(maps, residual=1.0), np.eye(4))


def test_flow_is_between_rollout_and_one_and_needs_no_other_query(make_maps: Make) -> None:
    maps = make_maps(3, 2, 5, 5)
    flow = attention_flow(maps)
    assert (flow >= attention_rollout(maps) - FLOW).all()
    assert (flow > attention_rollout(maps) + 0.01).any()
    assert flow.max() <= 1
    np.testing.assert_array_equal(attention_flow(maps, query=3), flow[3])


def test_flow_equals_the_linear_programme(make_maps: Make) -> None:
    maps, n = make_maps(2, 1, 3, 3), 3
    edges = [(level, i, j) for level in (0, 1) for i in range(n) for j in range(n)]
    layers = 0.5 * maps[:, 0] + 0.5 * np.eye(n)
    conserve = np.zeros((n, len(edges)))  # what enters a token after one layer leaves it
    for number, (level, i, j) in enumerate(edges):
        conserve[j if level == 1 else i, number] += 1 if level == 1 else -1
    for query in range(n):
        for key in range(n):
            bounds = [(0, layers[e] if e[0] == 0 or e[1] == query else 0.0) for e in edges]
            gain = [-1.0 if e[0] == 0 and e[2] == key else 0.0 for e in edges]
            bounds = [
                (0, 0.0) if e[0] == 0 and e[2] != key else b
                for e, b in zip(edges, bounds, strict=True)
            ]
            best = -linprog(gain, A_eq=conserve, b_eq=np.zeros(n), bounds=bounds).fun
            assert attention_flow(maps, query=query)[key] == pytest.approx(best, abs=FLOW)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"residual": 1.5}, r"residual must lie in \[0, 1\], got 1.5"),
        ({"query": 2}, "query must be below the 2 tokens, got 2"),
    ],
)
def test_bad_flow_options_are_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        attention_flow(np.full((1, 1, 2, 2), 0.5), **options)


# Softmax and its Gaussian kernel


def heads(n: int = 6, d: int = 4) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    rng = np.random.default_rng(5)
    q, k = rng.normal(size=(2, 3, n, d))
    return q, k, softmax(q @ k.swapaxes(1, 2) / np.sqrt(d), axis=-1), 1 / np.sqrt(d)


def test_counterpart_is_the_gaussian_kernel_of_queries_and_keys() -> None:
    q, k, maps, scale = heads()
    squared = np.square(q[:, :, None] - k[:, None]).sum(axis=-1)
    weights = np.exp(-squared * scale / 2)
    expected = weights / weights.sum(axis=-1, keepdims=True)
    found = gaussian_counterpart(maps, k, scale=scale)
    np.testing.assert_allclose(found, expected, rtol=FAST)
    moved = np.abs(maps - expected).sum(axis=-1).mean(axis=-1) / 2
    np.testing.assert_allclose(gaussian_gap(maps, k, scale=scale), moved, rtol=FAST)
    assert gaussian_gap(maps, k, scale=scale).min() > 0.05


@pytest.mark.parametrize("size", [1.0, 20.0, 60.0])
def test_keys_of_any_size_lose_no_row(size: float) -> None:
    # At 60 the factors of the keys span more than a float64 does.
    _, k, maps, scale = heads()
    exponents = scale / 2 * np.square(size * k).sum(axis=-1)[:, None]
    expected = softmax(np.log(maps) - exponents, axis=-1)
    found = gaussian_counterpart(maps, size * k, scale=scale)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-300)
    assert np.ptp(exponents) > 800 or size < 60


def test_keys_of_one_norm_leave_no_gap_and_no_spread() -> None:
    q, k, _, scale = heads()
    k = 3 * k / np.linalg.norm(k, axis=-1, keepdims=True)
    maps = softmax(scale * q @ k.swapaxes(1, 2), axis=-1)
    np.testing.assert_allclose(gaussian_gap(maps, k, scale=scale), 0, atol=FAST)
    np.testing.assert_allclose(key_norm_spread(k), 0, atol=FAST)


def test_constant_added_to_all_keys_changes_only_what_is_not_centred() -> None:
    q, k, maps, scale = heads()
    shifted = k + np.array([3.0, 0.0, -2.0, 1.0])
    again = softmax(scale * q @ shifted.swapaxes(1, 2), axis=-1)
    np.testing.assert_allclose(again, maps, rtol=1e2 * FAST)
    for function in (key_norm_spread, lambda x, **o: gaussian_gap(maps, x, scale=scale, **o)):
        np.testing.assert_allclose(
            function(shifted, centred=True), function(k, centred=True), rtol=1e2 * FAST
        )
        assert np.abs(function(shifted) - function(k)).max() > 0.05


def test_masked_keys_stay_masked_in_the_counterpart() -> None:
    _, k, maps, scale = heads()
    causal = np.tril(maps) / np.tril(maps).sum(axis=-1, keepdims=True)
    found = gaussian_counterpart(causal, 50 * k, scale=scale)
    np.testing.assert_array_equal(np.triu(found, k=1), 0)
    np.testing.assert_allclose(found.sum(axis=-1), 1, rtol=FAST)


def test_keys_must_fit_the_maps() -> None:
    _, k, maps, scale = heads()
    with pytest.raises(ValueError, match=r"keys must have shape \(3, 6, 'features'\), got"):
        gaussian_gap(maps, k[:, :5], scale=scale)
    with pytest.raises(ValueError, match="scale must be positive and finite"):
        gaussian_gap(maps, k, scale=-1.0)


@pytest.mark.parametrize("scale", [-1.0, 0.0, np.nan, np.array([1.0, 3.0])])
def test_scale_of_a_gaussian_kernel_is_one_positive_number(scale: Any) -> None:
    _, k, maps, _ = heads()
    for gap in (
        lambda: gaussian_gap(maps, k, scale=scale),
        lambda: gaussian_counterpart(maps, k, scale=scale),
        lambda: head_statistics(maps, keys=k, scale=scale, names=["gaussian_gap"]),
    ):
        with pytest.raises((ValueError, TypeError), match=r"^scale must|scalar"):
            gap()
