"""Heads made to share nothing, a known part, or everything: the finding says just that."""

from collections.abc import Callable
from itertools import combinations, permutations

import numpy as np
import pytest
from scipy.stats import binom

from fourierkernels.diagnostics import (
    METRICS,
    HeadProfile,
    chance_distances,
    head_distances,
    head_share,
    sharpened_maps,
)
from fourierkernels.diagnostics.chance import OWN, permuted_maps, visible_keys
from fourierkernels.diagnostics.controls import CONTROLS, control_names
from fourierkernels.diagnostics.distances import DEFAULT_METRIC, MAPS
from fourierkernels.diagnostics.maps import row_entropies
from fourierkernels.diagnostics.moments import mean_interval, t_interval
from fourierkernels.diagnostics.positions import mean_positions, position_classes
from fourierkernels.diagnostics.summary import HeadAccumulator, HeadSummary
from fourierkernels.report.content import ReportContent
from fourierkernels.report.finding import head_finding

HEADS = 4
OF_MAPS = [name for name, row in METRICS.items() if row.of == MAPS]
Row = Callable[[np.random.Generator, int], np.ndarray]


def even_keys(rng: np.random.Generator, n: int) -> np.ndarray:
    """Eight keys of equal weight."""
    return np.where(np.arange(n) < 8, 1 / min(n, 8), 0.0)


def half_on_one(rng: np.random.Generator, n: int) -> np.ndarray:
    """Half of the weight on one key, the rest even."""
    return np.full(1, 1.0) if n == 1 else np.append(0.5, np.full(n - 1, 0.5 / (n - 1)))


def soft(scale: float) -> Row:
    """The softmax of normal scores of that deviation."""

    def row(rng: np.random.Generator, n: int) -> np.ndarray:
        scores = np.exp(rng.normal(scale=scale, size=n))
        return scores / scores.sum()

    return row


ROWS: dict[str, Row] = {
    "eight even keys": even_keys,
    "half on one key": half_on_one,
    "nearly flat": soft(0.2),
    "sharp": soft(3.0),
}


def seen(n: int, mask: str) -> np.ndarray:
    """Which keys a query sees, (n, n)."""
    away = np.arange(n) - np.arange(n)[:, None]
    return {"full": away <= n, "causal": away <= 0, "window": np.abs(away) <= 6}[mask]


def unrelated(rng: np.random.Generator, row: Row, n: int, mask: str = "full") -> np.ndarray:
    """Maps (1, H, n, n) of heads each of whose rows is dealt out by itself."""
    maps = np.zeros((1, HEADS, n, n))
    for h, i in np.ndindex(HEADS, n):
        keys = np.flatnonzero(seen(n, mask)[i])
        maps[0, h, i, rng.permutation(keys)] = row(rng, len(keys))
    return maps


def summaries(texts: list[np.ndarray], metric: str, **options: object) -> tuple[HeadSummary, ...]:
    """Of heads, and of what they would be by chance."""
    own, chance = HeadAccumulator(metric=metric), HeadAccumulator(metric=metric)
    for number, maps in enumerate(texts):
        expected = chance_distances(maps, metric=metric, seed=number, **options)
        own.add_distances(list(head_distances(maps, metric=metric)), maps.shape[2])
        chance.add_distances(list(expected), maps.shape[2])
    return own.summary(), chance.summary()


def finding(texts: list[np.ndarray], metric: str = DEFAULT_METRIC) -> str:
    own, chance = summaries(texts, metric)
    profile = HeadProfile({metric: own}, controls={"rows": {metric: chance}})
    return head_finding(ReportContent("x", {"trained": profile})).sentences[0]


CASES = [
    ("eight even keys", 64, "full"),
    ("eight even keys", 40, "causal"),
    ("half on one key", 64, "full"),
    ("half on one key", 24, "causal"),
    ("nearly flat", 16, "window"),
    ("sharp", 9, "full"),
    ("sharp", 32, "causal"),
    ("sharp", 32, "window"),
]


@pytest.mark.parametrize(("row", "n", "mask"), CASES)
def test_heads_that_share_nothing_are_no_nearer_than_chance(row: str, n: int, mask: str) -> None:
    rng = np.random.default_rng([n, len(row)])
    texts = [unrelated(rng, ROWS[row], n, mask) for _ in range(12)]
    share = head_share(*summaries(texts, DEFAULT_METRIC), level=0.999)
    assert share.low < 0 < share.high
    assert share.high - share.low < 0.15  # and that is known well
    assert "share" in finding(texts)


def test_no_nearer_than_chance_is_said_only_where_the_interval_bears_it_out() -> None:
    rng = np.random.default_rng(2)
    told = finding([unrelated(rng, even_keys, 64) for _ in range(12)])
    assert "The heads are no nearer to each other than heads with the same weights on" in told
    open_ended = finding([unrelated(rng, soft(3.0), 9) for _ in range(4)])
    assert "The heads are not seen to be nearer to each other than heads" in open_ended


@pytest.mark.parametrize(("row", "error"), [("eight even keys", 0.4), ("half on one key", -0.4)])
def test_equal_entropy_is_no_control(row: str, error: float) -> None:
    """What the report compared with before: heads that share nothing are far from it."""
    rng = np.random.default_rng(0)
    maps = unrelated(rng, ROWS[row], 64)
    random = np.exp(rng.normal(scale=0.02, size=maps.shape))
    random /= random.sum(axis=-1, keepdims=True)
    sharp = sharpened_maps(random, row_entropies(maps))
    above = np.triu_indices(HEADS, k=1)
    own, by_entropy, by_chance = (
        one[0][above].mean()
        for one in (head_distances(maps), head_distances(sharp), chance_distances(maps))
    )
    assert by_chance == pytest.approx(own, rel=0.01)
    assert (by_entropy / own - 1) / error > 0.7


@pytest.mark.parametrize("metric", OF_MAPS)
@pytest.mark.parametrize("part", [0.25, 0.75])
def test_a_known_part_of_the_rows_is_the_share(metric: str, part: float) -> None:
    rng = np.random.default_rng(3)
    texts = []
    for _ in range(8):
        maps = unrelated(rng, soft(1.5), 24)
        common = rng.permutation(24)[: round(24 * part)]
        maps[:, :, common] = maps[:, :1, common]
        texts.append(maps)
    share = head_share(*summaries(texts, metric))
    assert share.average == pytest.approx(part, abs=0.03)
    assert share.low > 0


@pytest.mark.parametrize(("row", "n", "mask"), CASES)
def test_heads_that_are_the_same_share_everything(row: str, n: int, mask: str) -> None:
    rng = np.random.default_rng(4)
    texts = [unrelated(rng, ROWS[row], n, mask)[:, :1].repeat(HEADS, axis=1) for _ in range(3)]
    assert "The heads share 100.0% (95% interval 100.0% to 100.0%)" in finding(texts)


def test_expected_square_is_the_mean_over_all_permutations() -> None:
    """By enumeration of a causal row of three keys, the first of which is a special token."""
    p, q = np.array([0.2, 0.5, 0.3, 0.0]), np.array([0.1, 0.2, 0.7, 0.0])
    fixed, dealt = [0], [1, 2]
    orders = [np.array([*fixed, *order, 3]) for order in permutations(dealt)]
    squares = [np.square(p[a] - q[b]).sum() for a in orders for b in orders]
    maps = np.tril(np.full((2, 4, 4), 0.25))  # other rows do not differ between the heads
    maps[:, 2] = p, q
    special = np.array([True, False, False, False])
    found = chance_distances(maps, metric="frobenius", special=special)[0, 1] ** 2
    assert found == pytest.approx(np.mean(squares), rel=1e-12)
    everywhere = chance_distances(maps, metric="frobenius", control="all_keys", special=special)
    orders = [np.array([*order, 3]) for order in permutations(range(3))]
    squares = [np.square(p[a] - q[b]).sum() for a in orders for b in orders]
    assert everywhere[0, 1] ** 2 == pytest.approx(np.mean(squares), rel=1e-12)


@pytest.mark.parametrize("metric", OF_MAPS)
def test_closed_forms_and_draws_are_means_of_permuted_maps(metric: str) -> None:
    rng = np.random.default_rng(5)
    maps = unrelated(rng, soft(1.0), 12, "causal")[0]
    power = METRICS[metric].power
    drawn = [head_distances(permuted_maps(maps, rng), metric=metric) ** power for _ in range(400)]
    error = np.std(drawn, axis=0, ddof=1)[0, 1] * np.sqrt(1 / 400 + 1 / 8)
    found = chance_distances(maps, metric=metric) ** power
    assert abs(found[0, 1] - np.mean(drawn, axis=0)[0, 1]) < 4 * error


def test_heads_that_share_a_token_share_it_only_if_it_is_dealt() -> None:
    rng = np.random.default_rng(6)
    special = np.arange(20) == 0
    texts = []
    for _ in range(6):
        words = unrelated(rng, soft(2.0), 19)
        maps = np.full((1, HEADS, 19, 20), 0.8)
        maps[..., 1:] = 0.2 * words
        texts.append(maps)
    kept = head_share(*summaries(texts, DEFAULT_METRIC, special=special), level=0.999)
    dealt = head_share(*summaries(texts, DEFAULT_METRIC, special=special, control="all_keys"))
    assert kept.low < 0 < kept.high
    assert dealt.low > 0.9


@pytest.mark.parametrize("mask", ["full", "causal"])
def test_heads_of_the_same_positions_share_nothing_beyond_them(mask: str) -> None:
    """Each row is drawn around one profile: the previous token, the first, and a slow decay."""
    rng, n = np.random.default_rng(7), 24
    away = np.arange(n) - np.arange(n)[:, None]
    profile = np.exp(-np.abs(away) / 6 + 1.6 * (away == -1) + 1.5 * (np.arange(n) == 0))
    profile = np.where(seen(n, mask), profile, 0.0)
    means = profile / profile.sum(axis=-1, keepdims=True)
    texts = []
    for _ in range(16):
        maps = rng.gamma(np.broadcast_to(np.maximum(4 * means, 1e-9), (1, HEADS, n, n)))
        maps = np.where(means > 0, np.maximum(maps, 1e-12), 0.0)
        texts.append(maps / maps.sum(axis=-1, keepdims=True))
    by_rows = head_share(*summaries(texts, DEFAULT_METRIC))
    beyond = head_share(*summaries(texts, DEFAULT_METRIC, control="position"), level=0.999)
    assert by_rows.low > 0.2
    assert beyond.low < 0 < beyond.high
    assert beyond.high - beyond.low < 0.1


SHARP = {
    "previous token": lambda away: np.where(away == -1, 8.0, 0.0),
    "linear bias": lambda away: -np.abs(away).astype(float),
    "first token": lambda away: 6.0 * (np.arange(len(away)) == 0) + 0.0 * away,
}


@pytest.mark.parametrize("mask", ["full", "causal"])
@pytest.mark.parametrize("profile", SHARP)
def test_sharp_profiles_share_nothing_beyond_positions(profile: str, mask: str) -> None:
    """One profile of scores for all heads, and noise of each head's own."""
    rng, n = np.random.default_rng(16), 16
    away = np.arange(n) - np.arange(n)[:, None]
    scores = np.where(seen(n, mask), SHARP[profile](away), -np.inf)
    noise = 0.5 * rng.normal(size=(8, 1, HEADS, n, n))
    maps = np.exp(scores + noise)
    maps /= maps.sum(axis=-1, keepdims=True)
    assert head_share(*summaries(list(maps), DEFAULT_METRIC)).low > 0.5
    beyond = head_share(*summaries(list(maps), DEFAULT_METRIC, control="position"), level=0.99)
    assert beyond.low < 0 < beyond.high


def test_hard_rows_are_fitted_or_left_out_and_two_tokens_have_no_share() -> None:
    rng = np.random.default_rng(17)
    hard = np.eye(12)[rng.integers(np.arange(1, 13), size=(HEADS, 12))]  # one key of each row
    classes = position_classes(np.arange(12.0)[:, None])
    means = mean_positions(hard, seen(12, "causal"), classes)
    np.testing.assert_allclose(means[:, :, 0].sum(axis=-1), hard[:, :, 0].sum(axis=-1), atol=1e-8)
    texts = [unrelated(rng, soft(1.0), 2)[:, :1].repeat(HEADS, axis=1) for _ in range(4)]
    assert np.isnan(head_share(*summaries(texts, DEFAULT_METRIC, control="position")).average)


def test_position_means_keep_rows_and_the_totals_of_positions() -> None:
    rng, n = np.random.default_rng(8), 10
    maps = unrelated(rng, soft(1.0), n, "causal")[0]
    classes = position_classes(np.arange(n)[:, None])
    means = mean_positions(maps, visible_keys(maps), classes)
    np.testing.assert_allclose(means.sum(axis=-1), 1.0)
    for number in range(classes.max() + 1):
        at = classes == number
        np.testing.assert_allclose(means[:, at].sum(axis=-1), maps[:, at].sum(axis=-1), atol=1e-9)
    np.testing.assert_allclose(means[:, :, 0].sum(axis=-1), maps[:, :, 0].sum(axis=-1), atol=1e-9)
    assert (means[:, ~seen(n, "causal")] == 0).all()


def proportional(head: np.ndarray, visible: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """The map of largest entropy the slow way: all totals in turn, again and again."""
    groups = [classes == number for number in np.unique(classes)]
    groups += [np.arange(len(head))[:, None] == row for row in range(len(head))]
    groups += [np.arange(len(head)) == 0]
    mean = visible.astype(float)
    for _ in range(600):
        for group in (np.broadcast_to(group, head.shape) for group in groups):
            mean[group] *= head[group].sum() / max(mean[group].sum(), 1e-300)
    return mean


PLACES = {
    "text": np.arange(9.0)[:, None],
    "patches": np.array([divmod(place, 3) for place in range(9)], dtype=float),
    "shared places": np.arange(9.0)[:, None] // 2,
}


@pytest.mark.parametrize("mask", ["full", "causal"])
@pytest.mark.parametrize("places", PLACES)
def test_position_means_are_those_of_proportional_fitting(places: str, mask: str) -> None:
    rng, visible, classes = (
        np.random.default_rng(21),
        seen(9, mask),
        position_classes(PLACES[places]),
    )
    maps = unrelated(rng, soft(1.5), 9, mask)[0]
    maps[1, 4] = 0.0  # a row whose weight is all on special tokens
    maps[2, :, 0] = 0.0
    expected = [proportional(head, visible, classes) for head in maps]
    np.testing.assert_allclose(mean_positions(maps, visible, classes), expected, atol=1e-9)


@pytest.mark.parametrize("n", [6, 160])
def test_heads_fitted_together_are_those_fitted_alone(n: int) -> None:
    """Heads of very different sharpness, more than are fitted side by side at 160 tokens."""
    rng, visible = np.random.default_rng(22), seen(n, "causal")
    classes = position_classes(np.arange(n)[:, None])
    maps = np.concatenate([unrelated(rng, soft(scale), n, "causal")[0] for scale in (0.1, 4.0)])
    alone = [mean_positions(head[None], visible, classes)[0] for head in maps]
    np.testing.assert_allclose(mean_positions(maps, visible, classes), alone, atol=1e-10)


def test_a_hard_head_is_fitted_as_alone_beside_a_soft_one() -> None:
    """The soft head has offsets that the hard one has not: nothing must grow there."""
    n, key = 108, np.zeros(108, dtype=int)
    key[[1, 4, 12, 13, 14, 16, 19, 22, 33, 46, 47, 48, 49, 52, 56, 63, 64, 65, 66, 98, 104]] = 107
    key[[6, 15, 35, 53, 60, 67, 87, 89, 90, 91]] = 106
    maps = np.stack([np.eye(n)[key], np.full((n, n), 1 / n)])
    visible, classes = seen(n, "full"), position_classes(np.arange(float(n))[:, None])
    means = mean_positions(maps, visible, classes)
    np.testing.assert_allclose(means[0], mean_positions(maps[:1], visible, classes)[0], atol=1e-10)


def test_row_sums_are_met_however_much_the_first_key_takes() -> None:
    rng, n = np.random.default_rng(23), 300
    scores = rng.normal(size=(3, n, n)) + 12.0 * (np.arange(n) == 0)
    maps = np.exp(np.where(seen(n, "causal"), scores, -np.inf))
    maps /= maps.sum(axis=-1, keepdims=True)
    classes = position_classes(np.arange(float(n))[:, None])
    means = mean_positions(maps, seen(n, "causal"), classes)
    np.testing.assert_allclose(means.sum(axis=-1), 1.0, rtol=0, atol=2e-11)


def test_patches_are_classed_by_rows_and_columns() -> None:
    places = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    classes = position_classes(places)
    for (i, j), (k, m) in combinations(np.ndindex(4, 4), 2):
        same = (places[j] - places[i] == places[m] - places[k]).all()
        assert (classes[i, j] == classes[k, m]) == same


@pytest.mark.parametrize("mask", ["full", "causal", "window"])
def test_keys_that_a_query_sees_are_told_from_the_maps(mask: str) -> None:
    rng, wanted = np.random.default_rng(9), seen(30, mask)
    np.testing.assert_array_equal(visible_keys(unrelated(rng, soft(1.0), 30, mask)[0]), wanted)
    hard = visible_keys(unrelated(rng, even_keys, 30, mask)[0])  # zeros are the heads' own
    assert (hard != wanted).mean() < 0.01
    own = visible_keys(np.eye(30)[None].repeat(2, axis=0))  # would be a window of one key
    np.testing.assert_array_equal(own, seen(30, "causal"))
    several = wanted | (np.arange(30) == 0)  # a window, and a key that all see
    maps = np.where(several, rng.random((2, 30, 30)) + 0.1, 0.0)
    np.testing.assert_array_equal(visible_keys(maps), several)


@pytest.mark.parametrize("part", [0.9, 0.95, 0.97])
def test_zeros_of_hard_heads_are_no_mask(part: float) -> None:
    """Two heads of one key each, the same one in a part of the rows."""
    rng, n = np.random.default_rng(18), 48
    keys = rng.integers(n, size=(10, 1, 2, n))
    same = rng.random((10, 1, n)) < part
    keys[:, :, 1] = np.where(same, keys[:, :, 0], keys[:, :, 1])
    share = head_share(*summaries(list(np.eye(n)[keys]), DEFAULT_METRIC))
    assert share.average == pytest.approx(same.mean(), abs=0.01)


@pytest.mark.parametrize("noise", [1e-7, 1e-3])
def test_heads_that_are_nearly_the_same_share_nearly_everything(noise: float) -> None:
    rng = np.random.default_rng(19)
    texts = [unrelated(rng, even_keys, 64)[:, :1].repeat(HEADS, axis=1) for _ in range(4)]
    texts = [maps * (1 + noise * rng.normal(size=maps.shape)) for maps in texts]
    texts = [maps / maps.sum(axis=-1, keepdims=True) for maps in texts]
    assert head_share(*summaries(texts, DEFAULT_METRIC)).low > 0.999


def masked(rng: np.random.Generator, mask: np.ndarray, scales: list[float]) -> np.ndarray:
    """Heads of one scale of scores each, whose small weights vanish."""
    scores = np.array(scales)[:, None, None] * rng.normal(size=(len(scales), *mask.shape))
    maps = np.where(mask, np.exp(scores), 0.0)
    maps /= maps.sum(axis=-1, keepdims=True)
    maps[maps < 1e-6] = 0
    return maps[None] / maps.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("kind", ["global", "blocks", "causal blocks"])
def test_masks_are_told_beside_a_sharp_head(kind: str) -> None:
    place = np.arange(48)
    mask = seen(48, "window") | (place == 0) | (place[:, None] == 0)
    if kind != "global":
        mask = place // 12 == (place // 12)[:, None]
        mask &= seen(48, "causal" if kind == "causal blocks" else "full")
    rng = np.random.default_rng(20)
    texts = [masked(rng, mask, [10.0, 1.0, 1.0, 1.0]) for _ in range(8)]
    assert (texts[0] == 0).sum() > HEADS * (~mask).sum()  # zeros of its own
    np.testing.assert_array_equal(visible_keys(texts[0][0]), mask)
    share = head_share(*summaries(texts, DEFAULT_METRIC), level=0.999)
    assert share.low < 0 < share.high


@pytest.mark.parametrize("scale", [5.0, 10.0, 20.0])
@pytest.mark.parametrize("ahead", [True, False])
def test_packed_texts_are_told_where_all_heads_lose_weights(scale: float, ahead: bool) -> None:
    place = np.arange(48)
    mask = place // 12 == (place // 12)[:, None]
    mask &= ahead | seen(48, "causal")
    rng = np.random.default_rng(22)
    texts = [masked(rng, mask, [scale] * HEADS) for _ in range(8)]
    assert not all(maps[0].any(axis=0)[mask].all() for maps in texts)  # lost on every head
    for maps in texts:
        np.testing.assert_array_equal(visible_keys(maps[0]), mask)
    assert head_share(*summaries(texts, DEFAULT_METRIC)).average == pytest.approx(0, abs=0.04)


def test_slabs_of_rows_get_the_draws_of_the_whole_map() -> None:
    maps = unrelated(np.random.default_rng(10), soft(1.0), 9)[0]
    whole = permuted_maps(maps, np.random.default_rng(1))
    rng = np.random.default_rng(1)
    parts = [permuted_maps(maps[:, rows], rng) for rows in (slice(0, 4), slice(4, 9))]
    np.testing.assert_array_equal(np.concatenate(parts, axis=1), whole)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"control": "entropy"}, "control must be one of rows, all_keys, position, got 'entropy'"),
        ({"metric": "cka"}, "metric must compare maps, got cka"),
        ({"control": "position", "metric": "total_variation"}, "known for metrics of inner"),
    ],
)
def test_what_has_no_control_is_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        chance_distances(np.full((2, 3, 3), 1 / 3), **options)
    with pytest.raises(ValueError, match="needs queries that are the keys, got 3 × 4"):
        chance_distances(np.full((2, 3, 4), 1 / 4), control="position")


def test_every_control_says_what_is_kept_and_every_metric_what_decides_it() -> None:
    assert [name for name, row in CONTROLS.items() if not row.needs_random] == OWN
    assert all(row.kept and row.heads for row in CONTROLS.values())
    assert len({row.title for row in CONTROLS.values()}) == len(CONTROLS)
    assert all(row.row for row in METRICS.values())
    with pytest.raises(ValueError, match="control must be one of rows"):
        control_names(["chance"])


def test_share_is_of_the_same_texts_and_layers() -> None:
    texts = [unrelated(np.random.default_rng(11), soft(1.0), 6) for _ in range(4)]
    own, chance = summaries(texts, DEFAULT_METRIC)
    fewer, _ = summaries(texts[:3], DEFAULT_METRIC)
    other, _ = summaries(texts, "cosine")
    with pytest.raises(ValueError, match="on the texts of the heads, got 3 windows for 4"):
        head_share(own, fewer)
    with pytest.raises(ValueError, match="must have the metric and the layers"):
        head_share(own, other)
    assert head_share(own, chance).layers.shape == (1,)


@pytest.mark.parametrize("texts", [3, 5, 12])
@pytest.mark.parametrize("skewed", [False, True])
def test_intervals_cover_as_often_as_they_say(texts: int, skewed: bool) -> None:
    """Of means of texts, normal or as skewed as a mean of a few pairs is."""
    rng, trials = np.random.default_rng([texts, skewed]), 4000
    drawn = (
        rng.gamma(8.0, size=(texts, trials)) if skewed else rng.normal(8.0, size=(texts, trials))
    )
    low, high = mean_interval(drawn)
    covered = int(((low <= 8.0) & (high >= 8.0)).sum())
    least = 0.92 if skewed else 0.95
    assert covered >= binom(trials, least).ppf(1e-4)


def test_shares_cover_as_often_as_they_say() -> None:
    """A ratio of means of five texts, whose distances go up and down together."""
    rng, trials, covered = np.random.default_rng(12), 400, 0
    chance = rng.gamma(16.0, size=(trials, 5, 1))
    own = 0.7 * chance + rng.normal(scale=0.5, size=chance.shape)
    for x, c in zip(own, chance, strict=True):
        one = HeadAccumulator(metric="cosine")
        other = HeadAccumulator(metric="cosine")
        for a, b in zip(x[:, 0], c[:, 0], strict=True):
            one.add_distances([np.array([[0.0, a], [a, 0.0]])], 4)
            other.add_distances([np.array([[0.0, b], [b, 0.0]])], 4)
        share = head_share(one.summary(), other.summary())
        covered += bool(share.low <= 0.3 <= share.high)
    assert covered >= binom(trials, 0.95).ppf(1e-4)


@pytest.mark.parametrize(("texts", "least"), [(3, 0.9), (5, 0.88), (12, 0.92)])
def test_shares_cover_texts_of_unequal_sharpness(texts: int, least: float) -> None:
    """Half of the rows is common; heads of a sharp text are far apart, and weigh the more."""
    rng, trials = np.random.default_rng([21, texts]), 1000
    sharp = rng.random((trials, texts)) < 0.5
    chance = np.where(sharp, rng.gamma(50.0, 1 / 50, sharp.shape), 0.05)
    own = chance * (0.5 + rng.normal(scale=0.12, size=sharp.shape))
    covered = 0
    for pair in zip(own, chance, strict=True):
        one, other = HeadAccumulator(metric="cosine"), HeadAccumulator(metric="cosine")
        for accumulator, values in zip((one, other), pair, strict=True):
            for value in values:
                accumulator.add_distances([np.array([[0.0, value], [value, 0.0]])], 4)
        share = head_share(one.summary(), other.summary())
        covered += bool(share.low <= 0.5 <= share.high)
    assert covered >= binom(trials, least).ppf(1e-4)


@pytest.mark.parametrize("texts", [1, 2])
def test_fewer_than_three_texts_have_no_interval(texts: int) -> None:
    assert np.isnan(mean_interval(np.arange(2.0 * texts).reshape(texts, 2))).all()
    own = [unrelated(np.random.default_rng(13), soft(1.0), 6) for _ in range(texts)]
    assert "fewer than 3 inputs: no interval" in finding(own)
    with pytest.raises(ValueError, match="level must lie between 0 and 1, got 95"):
        t_interval(np.zeros(1), np.ones(1), 4, 95)


def test_texts_of_one_key_add_no_zeros() -> None:
    maps = unrelated(np.random.default_rng(14), soft(1.0), 6)
    with_one, without = HeadAccumulator(), HeadAccumulator()
    for one in (maps, np.ones((1, HEADS, 1, 1))):
        with_one.add(one)
    without.add(maps)
    assert with_one.summary().layer_average == without.summary().layer_average


@pytest.mark.parametrize("special", [[True], [0, 3, 1, 1], [[True, False, False, False]]])
def test_special_tokens_that_are_not_one_per_key_are_refused(special: list[object]) -> None:
    maps = np.full((2, 4, 4), 0.25)
    with pytest.raises(ValueError, match=r"special must be booleans of shape \(4,\)"):
        chance_distances(maps, special=special)
