"""How far apart heads would be by chance: the controls that keep each head's own rows. Arrays only.

How far apart two maps are depends on how their rows spread their weight, whoever learned them. A
control of :data:`~fourierkernels.diagnostics.controls.CONTROLS` says what of the heads is kept;
the rest each head decides independently of the others. Heads that are nearer than ``rows`` attend
to the same keys more often than by chance; than ``all_keys``, to the same special tokens as well;
than ``position``, to more than a common previous or first token.

With P the mean of a map under its control, the expected inner product of two independent heads is
⟨P_a, P_b⟩, and ‖A_a‖ is what it was. For ``rows`` P has, over the n keys that are dealt to, the
mean (Σ p)/n, and so E⟨p, q⟩ = Σ_kept p q + (Σ p)(Σ q)/n. Metrics that are functions of inner
products are therefore known without drawing; the expected distance of the others is the mean of
:data:`DRAWS` draws a text.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from fourierkernels.diagnostics.controls import CONTROLS, POSITION, ROWS
from fourierkernels.diagnostics.distances import DEFAULT_METRIC, MAPS, METRICS
from fourierkernels.diagnostics.maps import InapplicableError, RowSums, check_rows
from fourierkernels.diagnostics.positions import mean_positions, position_classes
from fourierkernels.diagnostics.statistic_summary import check_tokens
from fourierkernels.foundation.arrays import BoolArray, FloatArray, IntArray
from fourierkernels.foundation.validation import as_real, check_choice, check_finite

OWN = [name for name, row in CONTROLS.items() if not row.needs_random]
DRAWS = 8  # of every text, for metrics that inner products do not determine
_AGREE = 0.55  # of a mask, what a head gives weight to on average, or all heads to texts in a row
_ROUNDING = 1e-10  # of inner products under the control position, relative


def visible_keys(maps: FloatArray) -> BoolArray:
    """Return which keys each query may see, ``(s, m)``, told from maps ``(H, s, m)`` of a layer.

    Zeros tell a mask only if it is of a known form and heads use more than half of it on average:
    blocks of tokens, causal or not; a window of offsets, with keys that all queries see, or all
    later ones, and queries that see all keys; the window alone. Of texts one after the other
    (packed in a row) it is enough that all heads together use half. Else zeros are the heads' own
    (hard or sparse attention, weights that vanish in half precision): every key is visible or,
    where no head looks ahead, every earlier one. What hard heads keep to, and a mask of another
    form, then counts as something that they share.
    """
    used: BoolArray = (maps != 0).any(axis=0)
    if used.all():
        return used
    blocks, texts = _blocks(used)
    if texts and np.count_nonzero(used) >= _AGREE * blocks.sum():
        return blocks
    weights = np.count_nonzero(maps)
    for mask in (blocks, _window(used, _seen_by_all(used)), _window(used)):
        fits = mask.sum(axis=-1).max() > 1 and not (used & ~mask).any()
        if fits and weights >= _AGREE * len(maps) * mask.sum():
            return mask
    offsets = _offsets(used)
    ahead = max(0, int(offsets[used].max(initial=0)))  # above 0 in a slab of later rows
    if ahead and used.shape[0] == used.shape[1]:
        return np.ones_like(used)
    return offsets <= ahead


def _offsets(used: BoolArray) -> IntArray:
    offsets: IntArray = np.arange(used.shape[1]) - np.arange(len(used))[:, None]
    return offsets


def _blocks(used: BoolArray) -> tuple[BoolArray, bool]:
    """Return the blocks of tokens that see no other block, and whether each is a stretch of tokens.

    A key may be lost on all heads: it is enough that others lead to it. Tokens ahead are left out
    if none is seen. Nothing is visible unless there are several blocks, of two tokens on average.
    """
    from scipy.sparse.csgraph import connected_components  # slow to import

    nothing = np.zeros_like(used), False
    if used.shape[0] != used.shape[1] or used.all(axis=0).any() or used.all(axis=1).any():
        return nothing
    count, block = connected_components(used, directed=False)
    if not 1 < count <= len(used) // 2:
        return nothing
    seen: BoolArray = block == block[:, None]
    in_turn = bool((np.diff(block) >= 0).all())
    return (seen if np.triu(used, 1).any() else np.tril(seen)), in_turn


def _seen_by_all(used: BoolArray) -> BoolArray:
    """Return cells of keys that every query from some query on sees, half of them or more.

    Cells of queries that see every key are among them.
    """
    start = used.argmax(axis=0)
    after = np.arange(len(used))[:, None] >= start
    always_seen = (used >= after).all(axis=0) & (2 * used.sum(axis=0) >= len(used))
    seen: BoolArray = (after & always_seen) | used.all(axis=1, keepdims=True)
    return seen


def _window(used: BoolArray, beside: BoolArray | None = None) -> BoolArray:
    """Return all keys from the least to the greatest offset seen, and those `beside`."""
    beside = np.zeros_like(used) if beside is None else beside
    offsets = _offsets(used)
    seen = offsets[used & ~beside]
    if not len(seen):
        return beside
    within: BoolArray = beside | ((offsets >= seen.min()) & (offsets <= seen.max()))
    return within


def mean_rows(maps: FloatArray, dealt: BoolArray) -> FloatArray:
    """Return the mean of maps ``(H, s, m)`` whose weights on `dealt` keys ``(s, m)`` are permuted.

    Examples
    --------
    >>> mean_rows(np.array([[[0.5, 0.4, 0.1]]]), np.array([[False, True, True]]))
    array([[[0.5 , 0.25, 0.25]]])
    """
    count = np.maximum(dealt.sum(axis=-1), 1)
    share = np.einsum("hij,ij->hi", maps, dealt.astype(float)) / count
    return np.where(dealt, share[..., None], maps)


def permuted_maps(
    maps: FloatArray, rng: np.random.Generator, *, kept: BoolArray | None = None
) -> FloatArray:
    """Return maps ``(..., H, n, m)`` with each row of each head permuted among its visible keys.

    Each row keeps its weights, but what it attends to is a matter of chance.

    Parameters
    ----------
    kept : ndarray of bool, shape (m,), optional
        Keys whose weights stay where they are.
    """
    layers = maps.reshape(-1, *maps.shape[-3:])
    dealt = [_dealt(visible_keys(layer), kept) for layer in layers]
    permuted = [_permuted(layer, among, rng) for layer, among in zip(layers, dealt, strict=True)]
    return np.stack(permuted).reshape(maps.shape)


def _dealt(visible: BoolArray, kept: BoolArray | None) -> BoolArray:
    """Return the keys ``(s, m)`` among which a row is permuted."""
    return visible if kept is None else visible & ~kept


def _permuted(maps: FloatArray, dealt: BoolArray, rng: np.random.Generator) -> FloatArray:
    # Row by row, so that slabs of rows get the draws that the whole map would.
    keys = rng.random((maps.shape[1], len(maps), maps.shape[2])).swapaxes(0, 1)  # (H, s, m)
    dealt = np.broadcast_to(dealt, maps.shape)
    places = np.argsort(~dealt, axis=-1, kind="stable")  # dealt keys first, in order
    drawn = np.argsort(np.where(dealt, keys, 2.0), axis=-1, kind="stable")
    permuted = np.empty_like(maps)
    np.put_along_axis(permuted, places, np.take_along_axis(maps, drawn, axis=-1), axis=-1)
    return permuted


def expected_part(
    maps: FloatArray,
    *,
    visible: BoolArray,
    metric: str,
    control: str,
    kept: BoolArray | None,
    classes: IntArray | None,
    draws: Sequence[np.random.Generator],
) -> FloatArray:
    """Return what the sum over rows of a metric is by chance, ``(H, H)``, for a slab of maps.

    Parameters
    ----------
    maps : ndarray, shape (H, s, m)
    visible : ndarray of bool, shape (s, m)
        What :func:`visible_keys` tells of them.
    metric : str
        One whose function is a :class:`~fourierkernels.diagnostics.maps.RowSums`.
    control : str
        One of :data:`OWN`.
    kept : ndarray of bool, shape (m,), optional
        Special tokens, for ``rows`` and ``position``.
    classes : ndarray of int, shape (s, m), optional
        For ``position``.
    draws : sequence of Generator
        One for each draw; not used where there is a closed form.

    Raises
    ------
    InapplicableError
        Where the control is not known for the metric.
    """
    function = row_sums(metric)
    if control == POSITION:
        if function.of_products is None or classes is None:
            raise InapplicableError(
                f"the control position is known for metrics of inner products, got {metric}"
            )
        check_rows(maps, "the control position")
        dealt = _dealt(visible, kept)
        means = mean_positions(np.where(dealt, maps, 0.0), dealt, classes)
        products = _products(maps, np.where(dealt, means, maps))
        return function.of_products(_without_rounding(products))
    dealt = _dealt(visible, kept if control == ROWS else None)
    if function.of_products is not None:
        return function.of_products(_products(maps, mean_rows(maps, dealt)))
    parts = [function.part(_permuted(maps, dealt, rng)) for rng in draws]
    total: FloatArray = np.mean(parts, axis=0)
    return total


def row_sums(metric: str) -> RowSums:
    """Return the function of a metric that is one of sums over rows; no other has a control.

    Raises
    ------
    InapplicableError
        For another metric.
    """
    function = METRICS[metric].function
    if not isinstance(function, RowSums):
        raise InapplicableError(f"controls need a metric that is a sum over rows, got {metric}")
    return function


def _products(maps: FloatArray, means: FloatArray) -> FloatArray:
    """Return expected inner products: those of the means, and the norms of the maps."""
    flat = means.reshape(len(means), -1)
    products: FloatArray = flat @ flat.T
    np.fill_diagonal(products, np.einsum("hij,hij->h", maps, maps))
    return products


def _without_rounding(products: FloatArray) -> FloatArray:
    """Return inner products in which heads that are the same but for the fit's error are."""
    norms = np.diag(products)
    equal = (norms[:, None] + norms) / 2
    near: FloatArray = np.where(np.abs(equal - products) <= _ROUNDING * equal, equal, products)
    return near


def chance_distances(
    maps: ArrayLike,
    *,
    control: str = ROWS,
    metric: str = DEFAULT_METRIC,
    special: ArrayLike | None = None,
    seed: int = 0,
) -> FloatArray:
    """Return how far apart the heads of a layer, or of every layer, would be by chance.

    Parameters
    ----------
    maps : array_like, shape (H, n, m) or (L, H, n, m)
        Attention weights of one text, padding cut away.
    control : {"rows", "all_keys", "position"}
        What is kept of the heads.
    metric : str
        A key of :data:`~fourierkernels.diagnostics.distances.METRICS`, of maps.
    special : array_like of bool, shape (m,), optional
        Which keys are special tokens.
    seed : int
        Of the draws, for metrics without a closed form.

    Returns
    -------
    ndarray, shape (H, H) or (L, H, H)
        In the metric's unit; of squared distances the root of the expected square.

    Raises
    ------
    ValueError
        For an unknown control, a metric that the control is not known for, another shape, or
        ``position`` where queries are not the keys.

    Examples
    --------
    >>> maps = np.eye(4)[None, ::-1].repeat(2, axis=0)  # two heads that look at the same keys
    >>> chance_distances(maps)[0, 1].round(3)  # the root of 2 - 2 / 4: one key in four is shared
    np.float64(1.225)
    """
    check_choice("control", control, OWN)
    if METRICS[check_choice("metric", metric, list(METRICS))].of != MAPS:
        raise ValueError(f"metric must compare maps, got {metric}")
    array = check_finite("maps", as_real("maps", maps))
    if array.ndim not in {3, 4} or array.size == 0:
        raise ValueError(
            f"maps must have shape (heads, n, m) or (layers, heads, n, m), got shape {array.shape}"
        )
    kept = None if special is None else check_tokens(array.shape[-1], None, special)[1]
    classes = _text_classes(array) if control == POSITION else None
    drawn = []
    for number, layer in enumerate(array.reshape(-1, *array.shape[-3:])):
        draws = [np.random.default_rng([seed, number, draw]) for draw in range(DRAWS)]
        part = expected_part(
            layer,
            visible=visible_keys(layer),
            metric=metric,
            control=control,
            kept=kept,
            classes=classes,
            draws=draws,
        )
        distances = row_sums(metric).whole(part, layer.shape[1])
        np.fill_diagonal(distances, 0.0)
        drawn.append(distances)
    return np.stack(drawn).reshape(*array.shape[:-2], array.shape[-3])


def _text_classes(maps: FloatArray) -> IntArray:
    n, m = maps.shape[-2:]
    if n != m:
        raise InapplicableError(
            f"the control position needs queries that are the keys, got {n} × {m}"
        )
    return position_classes(np.arange(float(n))[:, None])
