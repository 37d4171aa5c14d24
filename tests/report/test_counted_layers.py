"""Which calls of attention are layers: the same ones in the report, pruning, effects and lens."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fourierkernels.report import HeadLens, head_report

WIDTH, HEADS = 8, 2
ROWS = list(torch.randn(6, 1, 5, WIDTH, generator=torch.Generator().manual_seed(1)))


class PoolsFirst(nn.Module):
    """A layer that pools, then two that attend; `shared` if the first of these also pools."""

    def __init__(self, *, shared: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        made = [nn.MultiheadAttention(WIDTH, HEADS, batch_first=True) for _ in range(3)]
        self.one, self.two = made[:2]
        self.pool = self.one if shared else made[2]

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.pool(x[:, :1], x, x)[0]
        for layer in (self.one, self.two):
            x = x + layer(x, x, x)[0]
        return x


class Own(nn.MultiheadAttention):
    """Torch's attention with a forward pass of its own, and half its scale."""

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Any:  # type: ignore[override]
        q, k, v = (
            nn.functional.linear(x, *part).unflatten(-1, (HEADS, -1)).transpose(1, 2)
            for x, *part in zip(
                (query, key, value),
                self.in_proj_weight.chunk(3),
                self.in_proj_bias.chunk(3),
                strict=True,
            )
        )
        weights = (0.25 * q @ k.mT).softmax(-1)
        return (self.out_proj((weights @ v).transpose(1, 2).flatten(2)),)


class OfOwn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.one, self.two = Own(WIDTH, HEADS), Own(WIDTH, HEADS)

    def forward(self, x: Tensor) -> Tensor:
        for layer in (self.one, self.two):
            x = x + layer(x, x, x)[0]
        return x


@torch.no_grad()
def moved(model: Any, x: Tensor, place: tuple[int, int], other: Tensor | None = None) -> float:
    """The mean square by which the output moves without a head, or with its output on another."""
    layer, head = [model.one, model.two][place[0]], place[1]
    own = slice(head * WIDTH // HEADS, (head + 1) * WIDTH // HEADS)
    seen: list[Tensor] = []

    def heads_of(given: Sequence[Any]) -> Tensor:
        q, k, v = (
            nn.functional.linear(given[i], w, b).unflatten(-1, (HEADS, -1)).transpose(1, 2)
            for i, (w, b) in enumerate(
                zip(layer.in_proj_weight.chunk(3), layer.in_proj_bias.chunk(3), strict=True)
            )
        )
        scale = 0.25 if isinstance(layer, Own) else (WIDTH / HEADS) ** -0.5
        return ((scale * q @ k.mT).softmax(-1) @ v).transpose(1, 2).flatten(2)

    def keep(_: Any, given: Any, output: Any) -> None:
        if given[0].shape[1] > 1:
            seen.append(heads_of(given))

    def change(_: Any, given: Any, output: Any) -> Any:
        if given[0].shape[1] == 1:
            return output
        heads = heads_of(given)
        heads[..., own] = 0 if other is None else seen[0][..., own]
        return (nn.functional.linear(heads, layer.out_proj.weight, layer.out_proj.bias), None)

    if other is not None:
        hook = layer.register_forward_hook(keep)
        model(other)
        hook.remove()
    whole = model(x)
    hook = layer.register_forward_hook(change)
    try:
        return float((model(x) - whole).square().mean() / whole.square().mean())
    finally:
        hook.remove()


NETWORKS = {
    "a layer that pools": lambda: PoolsFirst(shared=False),
    "a layer that also pools": lambda: PoolsFirst(shared=True),
    "a subclass of torch's": OfOwn,
}
every_network = pytest.mark.parametrize("name", NETWORKS)


@every_network
def test_report_with_importance_counts_the_layers_of_the_distances(name: str) -> None:
    options = {"statistics": "none", "roles": "none", "baseline": False}
    model = NETWORKS[name]().eval()
    report = head_report(model, ROWS, importance="masking", loss="states", **options)
    found = report.pruning.importance
    assert found.layers == report.first.layers == ("one", "two")
    assert (report.pruning.curve.order.max(axis=0) == (1, 1)).all()
    assert report.pruning.curve.losses[-1] > 1e-3


@every_network
@pytest.mark.parametrize("how", ["zero", "patch"])
def test_effects_are_of_the_layers_that_the_lens_numbers(name: str, how: str) -> None:
    model = NETWORKS[name]().eval()
    lens = HeadLens(model)
    assert lens.read(ROWS[0]).layers == ("one", "two")
    other = ROWS[3:] if how == "patch" else None
    found = lens.effects(ROWS[:3], how=how, other=other, loss="states")
    assert found.heads == tuple(((layer, head),) for layer in (0, 1) for head in (0, 1))
    for row, x in enumerate(ROWS[:3]):
        donor = None if other is None else other[row]
        expected = [moved(model, x, place, donor) for ((place),) in found.heads]
        np.testing.assert_allclose(found.effects[row], expected, rtol=1e-4)
        assert min(expected) > 1e-4
    with pytest.raises(ValueError, match=r"below \(2, 2\), from 0, got \(2, 0\)"):
        lens.effects(ROWS[:3], heads=[(2, 0)], loss="states")
