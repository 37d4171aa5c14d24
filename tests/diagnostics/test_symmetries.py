"""Changes of weights that leave a network's function alone leave what is measured of it alone.

Only what is marked as no property of the function may move, and it is shown to.
"""

import functools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from claims import INVARIANCE, claim
from torch import Tensor, nn

from fourierkernels.checkpoints import attention_calls
from fourierkernels.checkpoints.recorders.call import AttentionCall
from fourierkernels.diagnostics import METRICS, STATISTICS, head_distances, head_importance
from fourierkernels.diagnostics.networks.importance import IMPORTANCES
from fourierkernels.diagnostics.statistic_summary import head_statistics

HEADS, WIDTH = 4, 4
IDS = torch.tensor([[3, 4, 5, 6, 7, 2, 9]])
MOVED = 0.02  # relative: much more than rounding


def network() -> nn.Module:
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=14,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=2,
        num_attention_heads=HEADS,
    )
    model = transformers.BertModel(config).eval().double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    return model


Change = Callable[[Any, np.random.Generator], None]


def _parts(layer: Any) -> Iterable[tuple[slice, Any, Any]]:
    for head in range(HEADS):
        yield slice(WIDTH * head, WIDTH * (head + 1)), layer.attention.self, layer.attention.output


def _rotation(rng: np.random.Generator) -> Tensor:
    return torch.tensor(np.linalg.qr(rng.normal(size=(WIDTH, WIDTH)))[0])


def value_basis(layer: Any, rng: np.random.Generator) -> None:
    for part, own, output in _parts(layer):
        matrix = _rotation(rng) @ torch.diag(torch.tensor(rng.uniform(0.5, 2.0, WIDTH)))
        own.value.weight[part] = matrix @ own.value.weight[part]
        own.value.bias[part] = matrix @ own.value.bias[part]
        output.dense.weight[:, part] = output.dense.weight[:, part] @ matrix.inverse()


def value_rotation(layer: Any, rng: np.random.Generator) -> None:
    for part, own, output in _parts(layer):
        turn = _rotation(rng)
        own.value.weight[part] = turn @ own.value.weight[part]
        own.value.bias[part] = turn @ own.value.bias[part]
        output.dense.weight[:, part] = output.dense.weight[:, part] @ turn.T


def value_bias(layer: Any, rng: np.random.Generator) -> None:
    shift = torch.tensor(rng.normal(size=HEADS * WIDTH))
    layer.attention.self.value.bias += shift
    layer.attention.output.dense.bias -= layer.attention.output.dense.weight @ shift


def query_key_basis(layer: Any, rng: np.random.Generator) -> None:
    for part, own, _ in _parts(layer):
        matrix = _rotation(rng) @ torch.diag(torch.tensor(rng.uniform(0.5, 2.0, WIDTH)))
        for side, turn in ((own.query, matrix), (own.key, matrix.inverse().T)):
            side.weight[part], side.bias[part] = turn @ side.weight[part], turn @ side.bias[part]


def query_key_rotation(layer: Any, rng: np.random.Generator) -> None:
    for part, own, _ in _parts(layer):
        turn = _rotation(rng)
        for side in (own.query, own.key):
            side.weight[part], side.bias[part] = turn @ side.weight[part], turn @ side.bias[part]


def key_bias(layer: Any, rng: np.random.Generator) -> None:
    layer.attention.self.key.bias += torch.tensor(rng.normal(size=HEADS * WIDTH))


CHANGES: dict[str, Change] = {
    change.__name__: change
    for change in (
        value_basis,
        value_rotation,
        value_bias,
        query_key_basis,
        query_key_rotation,
        key_bias,
    )
}
#: What a change may move, because it reads vectors that are no property of the function.
METRIC_MOVES = {("cka", "value_basis"), ("output_distance", "value_basis")} | {
    ("output_distance", change) for change in ("value_rotation", "value_bias")
}
STATISTIC_MOVES = {
    (prefix + name, change)
    for name in ("gaussian_gap", "key_norm_spread")
    for prefix, change in (
        ("", "query_key_basis"),
        ("", "key_bias"),
        ("centred_", "query_key_basis"),
    )
}
IMPORTANCE_MOVES = {("gradient", "value_bias"), ("masking", "value_bias")}


@functools.cache  # nothing that is measured changes them
def changed(name: str) -> tuple[nn.Module, nn.Module]:
    """Two networks of one function, the second with other weights."""
    before, after = network(), network()
    rng = np.random.default_rng(1)
    with torch.no_grad():
        for layer in after.encoder.layer:
            CHANGES[name](layer, rng)
        torch.testing.assert_close(after(IDS)[0], before(IDS)[0], rtol=1e-9, atol=1e-9)
    assert any(
        not torch.equal(*pair) for pair in zip(before.parameters(), after.parameters(), strict=True)
    )
    return before, after


@functools.cache
def calls_of(model: nn.Module) -> list[AttentionCall]:
    return [*attention_calls(model, input_ids=IDS)]


def stacked(model: nn.Module, part: str) -> np.ndarray:
    return np.stack([getattr(call, part)[0].numpy() for call in calls_of(model)])


def check_moves(before: np.ndarray, after: np.ndarray, may: bool) -> None:
    gap = np.abs(after - before).max() / np.abs(before).max()
    assert gap > MOVED if may else gap < 1e-7


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("metric", METRICS)
def test_distances_are_those_of_the_function(metric: str, change: str) -> None:
    part = METRICS[metric].of
    before, after = (
        head_distances(stacked(model, part), metric=metric) for model in changed(change)
    )
    check_moves(before, after, (metric, change) in METRIC_MOVES)
    if change == "value_basis":
        assert ((metric, change) not in METRIC_MOVES) == (claim(INVARIANCE, metric) == "any")


def statistics(model: nn.Module, name: str) -> np.ndarray:
    maps, keys = stacked(model, "maps"), stacked(model, "keys")
    scale = calls_of(model)[0].scale
    special = np.isin(IDS[0].numpy(), [2, 3])
    return head_statistics(maps, names=[name], special=special, keys=keys, scale=scale)[name]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", [name for name in STATISTICS if "spatial" not in name])
def test_statistics_are_those_of_the_function(name: str, change: str) -> None:
    before, after = (statistics(model, name) for model in changed(change))
    check_moves(before, after, (name, change) in STATISTIC_MOVES)


def loss(model: nn.Module, ids: Tensor) -> Tensor:
    return model(ids)[0].tanh().square().sum()


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("method", IMPORTANCES)
def test_importance_about_the_mean_is_that_of_the_function(method: str, change: str) -> None:
    before, after = (
        head_importance(model, [IDS], loss, method=method).values for model in changed(change)
    )
    check_moves(before, after, (method, change) in IMPORTANCE_MOVES)
    assert IMPORTANCES[method].about_mean == ((method, "value_bias") not in IMPORTANCE_MOVES)


@pytest.mark.parametrize("metric", METRICS)
def test_permuted_heads_permute_the_distances(metric: str) -> None:
    order = np.array([2, 0, 3, 1])
    values = stacked(network(), METRICS[metric].of)
    expected = head_distances(values, metric=metric)[:, order][:, :, order]
    np.testing.assert_allclose(
        head_distances(values[:, order], metric=metric), expected, rtol=1e-9, atol=1e-12
    )
