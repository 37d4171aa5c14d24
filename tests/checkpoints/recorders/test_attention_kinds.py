"""Attention beyond the textbook's, by hand: biases, relative positions, mixed heads, flex."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from fourierkernels.checkpoints import attention_calls
from fourierkernels.checkpoints.recorders.recording import recording

pytestmark = pytest.mark.filterwarnings("ignore:flex_attention called without:UserWarning")

B, N, H, D = 3, 6, 4, 4
SLOPES = 2.0 ** -torch.arange(1.0, H + 1)
PLACES = torch.arange(N)
AWAY = PLACES[:, None] - PLACES[None, :]  # (N, N), how far a key lies before a query


class Layer(nn.Module):
    """Attention of one kind between the usual projections; `maps` is the independent answer."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.groups = kind, 2 if kind.startswith("flex, shared") else H
        self.q, self.out = nn.Linear(8, H * D), nn.Linear(H * D, 8)
        self.k, self.v = (nn.Linear(8, self.groups * D) for _ in range(2))
        self.near = nn.Parameter(torch.randn(2 * N - 1, D))
        self.bias = nn.Embedding(2 * N - 1, H)
        self.mix, self.u = nn.Linear(H, H, bias=False), nn.Parameter(torch.randn(H, 1, D))

    def vectors(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        parts = (
            layer(x).unflatten(-1, (-1, D)).transpose(1, 2) for layer in (self.q, self.k, self.v)
        )
        q, k, v = parts
        return q, k, v

    def forward(self, x: Tensor) -> Tensor:
        return self.out(KINDS[self.kind][0](self, *self.vectors(x)).transpose(1, 2).flatten(-2))

    def maps(self, x: Tensor) -> Tensor:
        q, k, _ = self.vectors(x)
        return KINDS[self.kind][1](self, q, k.repeat_interleave(H // self.groups, dim=1))


def alibi(layer: Layer, q: Tensor, k: Tensor) -> Tensor:
    scores = q @ k.mT / 2 - SLOPES[:, None, None] * AWAY.abs()
    return scores.masked_fill(AWAY < 0, -torch.inf)


def bucketed(layer: Layer, q: Tensor, k: Tensor) -> Tensor:
    return q @ k.mT + layer.bias(AWAY + N - 1).permute(2, 0, 1)


def shaw(layer: Layer, q: Tensor, k: Tensor) -> Tensor:
    """Sum over pairs of places in turn: the slow way to what einsum does."""
    scores = torch.stack(
        [
            torch.stack(
                [(q[:, :, i] * (k[:, :, j] + layer.near[i - j + N - 1])).sum(-1) for j in range(N)],
                -1,
            )
            for i in range(N)
        ],
        dim=-2,
    )
    return scores / 2


def shaw_by_einsum(layer: Layer, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    relative = torch.einsum("bhid,ijd->bhij", q, layer.near[AWAY + N - 1])
    return ((torch.einsum("bhid,bhjd->bhij", q, k) + relative) / 2).softmax(-1) @ v


def skewed(layer: Layer, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Transformer-XL: products with all distances, shifted into place row by row."""
    far = (q + layer.u) @ layer.near.flip(0).T  # (B, H, N, 2N - 1), the farthest key first
    b, h, n, m = far.shape
    moved = nn.functional.pad(far, (1, 0)).view(b, h, m + 1, n)[:, :, 1:].reshape(b, h, n, m)
    return (((q + layer.u) @ k.mT + moved[..., :n]) / 2).softmax(-1) @ v


def skewed_slowly(layer: Layer, q: Tensor, k: Tensor) -> Tensor:
    return shaw(layer, q + layer.u, k)


def capped(layer: Layer, q: Tensor, k: Tensor) -> Tensor:
    return 5.0 * torch.tanh(q @ k.mT / 2 / 5.0)


def cosines(layer: Layer, q: Tensor, k: Tensor) -> Tensor:
    return 10.0 * nn.functional.normalize(q, dim=-1) @ nn.functional.normalize(k, dim=-1).mT


def mixed_before(layer: Layer, q: Tensor, k: Tensor) -> Tensor:
    return layer.mix((q @ k.mT / 2).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


def flexible(
    score: Callable[..., Tensor] | None = None, **options: object
) -> Callable[..., Tensor]:
    def attend(layer: Layer, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return flex_attention(q, k, v, score_mod=score, **options)

    return attend


def plain(scores: Callable[..., Tensor]) -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:
    return (
        lambda layer, q, k, v: scores(layer, q, k).softmax(-1) @ v,
        lambda layer, q, k: scores(layer, q, k).softmax(-1),
    )


def _alibi_score(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
    return score - SLOPES[h] * (i - j).abs()


CAUSAL = create_block_mask(lambda b, h, i, j: i >= j, None, None, N, N, device="cpu")

#: How a kind computes its outputs, and, in another way, its maps.
KINDS: dict[str, tuple[Callable[..., Tensor], Callable[..., Tensor]]] = {
    "ALiBi": plain(alibi),
    "biases of distances": plain(bucketed),
    "relative keys": (shaw_by_einsum, lambda *parts: shaw(*parts).softmax(-1)),
    "shifted relative keys": (skewed, lambda *parts: skewed_slowly(*parts).softmax(-1)),
    "capped scores": plain(capped),
    "cosines": plain(cosines),
    "heads mixed before the softmax": plain(mixed_before),
    "flex": (flexible(), lambda layer, q, k: (q @ k.mT / 2).softmax(-1)),
    "flex, ALiBi of earlier keys": (
        flexible(_alibi_score, block_mask=CAUSAL),
        lambda *parts: alibi(*parts).softmax(-1),
    ),
    "flex, shared keys": (
        flexible(scale=1.0, enable_gqa=True),
        lambda layer, q, k: (q @ k.mT).softmax(-1),
    ),
}


def model_and_inputs(kind: str) -> tuple[Layer, Tensor]:
    torch.manual_seed(0)
    return Layer(kind).eval().requires_grad_(False), torch.randn(B, N, 8)


@pytest.mark.parametrize("kind", KINDS)
def test_maps_are_those_computed_otherwise(kind: str) -> None:
    layer, x = model_and_inputs(kind)
    (call,) = attention_calls(layer, x)
    torch.testing.assert_close(call.maps, layer.maps(x), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(call.maps @ call.values, call.outputs, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(call.projected.sum(1) + layer.out.bias, layer(x))


def test_compiled_networks_show_their_maps() -> None:
    layer, x = model_and_inputs("ALiBi")
    compiled = torch.compile(layer, backend="eager")
    compiled(x)
    (call,) = attention_calls(compiled, x)
    torch.testing.assert_close(call.maps, layer.maps(x), rtol=1e-5, atol=1e-6)


class Talking(Layer):
    """Talking heads: weights of all heads are mixed after the softmax."""

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.vectors(x)
        weights = (q @ k.mT / math.sqrt(D)).softmax(-1)
        mixed = self.mix(weights.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return self.out((mixed @ v).transpose(1, 2).flatten(-2))


def test_heads_mixed_after_the_softmax_are_named_and_not_measured() -> None:
    torch.manual_seed(0)
    layer = Talking("ALiBi").eval()
    with torch.inference_mode(), recording(layer) as recorded:
        layer(torch.randn(B, N, 8))
    assert not recorded
    assert recorded.unread == {"": "its weights are changed before they meet the values"}
