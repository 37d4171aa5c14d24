"""Attention that is run some queries at a time gives what whole maps give, and holds no maps."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from fourierkernels.attention import FourierAttention
from fourierkernels.checkpoints import load_checkpoint, recording
from fourierkernels.checkpoints.recorders.call import RecordedCalls
from fourierkernels.checkpoints.recorders.slabs import stretches

Tiny = Callable[[str], Path]
TEXTS = [[3, 4, 5, 6, 7, 8, 9], [10, 11, 12]]
SLABS = [1, 4]
PARTS = ("queries", "keys", "values", "outputs")
N, DIM, HEADS = 6, 8, 2


class Fused(nn.Module):
    """Attention through torch's fused function."""

    def __init__(self, groups: int = HEADS, **options: Any) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)
        self.options, self.groups = options, groups

    def forward(self, x: Tensor) -> Tensor:
        parts = self.qkv(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        query, key, value = parts[0], parts[1][:, : self.groups], parts[2][:, : self.groups]
        found = scaled_dot_product_attention(query, key, value, **self.options)
        return self.out(found.transpose(1, 2).flatten(2))


class HeadByHead(nn.Module):
    """A fused function for each head, joined before one linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.ModuleList([nn.Linear(DIM, 3 * DIM // HEADS) for _ in range(HEADS)])
        self.out = nn.Linear(DIM, DIM)

    def forward(self, x: Tensor) -> Tensor:
        heads = [layer(x).unflatten(-1, (3, 1, -1)).permute(2, 0, 3, 1, 4) for layer in self.qkv]
        joined = [scaled_dot_product_attention(*parts)[:, 0] for parts in heads]
        return self.out(torch.cat(joined, dim=-1))


def built(name: str) -> tuple[nn.Module, tuple[Any, ...], dict[str, Any]]:
    torch.manual_seed(5)
    x = torch.randn(2, N, DIM)
    hidden = torch.ones(N, N, dtype=torch.bool).triu(1)
    bias, padding = torch.randn(N, N), torch.tensor([[False] * N, [False] * 4 + [True] * 2])
    multi = nn.MultiheadAttention(DIM, HEADS, batch_first=True)
    by_head = torch.randn(2 * HEADS, N, N)
    fourier = FourierAttention(DIM, HEADS, batch_first=True)
    rows: dict[str, tuple[nn.Module, tuple[Any, ...], dict[str, Any]]] = {
        "multihead": (multi, (x, x, x), {}),
        "multihead, padding": (multi, (x, x, x), {"key_padding_mask": padding}),
        "multihead, hidden": (multi, (x, x, x), {"attn_mask": hidden, "is_causal": True}),
        "multihead, bias": (multi, (x, x, x), {"attn_mask": bias}),
        "multihead, bias by head": (multi, (x, x, x), {"attn_mask": by_head}),
        "multihead, without batch": (multi, (x[0], x[0], x[0]), {"attn_mask": hidden}),
        "multihead, added key": (
            nn.MultiheadAttention(DIM, HEADS, batch_first=True, add_bias_kv=True),
            (x, x, x),
            {},
        ),
        "encoder": (nn.TransformerEncoderLayer(DIM, HEADS, 8, batch_first=True), (x,), {}),
        "fused": (Fused(), (x,), {}),
        "fused, causal": (Fused(is_causal=True), (x,), {}),
        "fused, seen": (Fused(attn_mask=~hidden), (x,), {}),
        "fused, bias": (Fused(attn_mask=bias), (x,), {}),
        "fused, scale": (Fused(scale=0.3), (x,), {}),
        "fused, one key": (Fused(groups=1, enable_gqa=True), (x,), {}),
        "fused, head by head": (HeadByHead(), (x,), {}),
        "fourier": (fourier, (x, x, x), {"need_weights": False}),
        "fourier, hidden": (fourier, (x, x, x), {"attn_mask": hidden, "need_weights": False}),
        "fourier, padding": (
            fourier,
            (x, x, x),
            {"key_padding_mask": padding, "need_weights": False},
        ),
    }
    model, inputs, options = rows[name]
    return model.eval(), inputs, options


BUILT = [
    "multihead",
    "multihead, padding",
    "multihead, hidden",
    "multihead, bias",
    "multihead, bias by head",
    "multihead, without batch",
    "encoder",
    "fused",
    "fused, causal",
    "fused, seen",
    "fused, bias",
    "fused, scale",
    "fused, one key",
    "fused, head by head",
    "fourier",
    "fourier, hidden",
    "fourier, padding",
]


def check_same(found: RecordedCalls, whole: RecordedCalls, slab: int) -> None:
    """Compare the rows of every call with its whole maps."""
    assert len(found) == len(whole) > 0
    for one, other in zip(found, whole, strict=True):
        assert one.maps.is_meta
        assert (one.name, one.maps.shape, one.scale) == (other.name, other.maps.shape, other.scale)
        for text in range(len(other.maps)):
            n = other.maps.shape[2]
            rows = [one.map_rows(text, *ends) for ends in stretches(n, slab)]
            torch.testing.assert_close(torch.cat(rows, dim=1), other.maps[text])
        for part in PARTS:
            torch.testing.assert_close(getattr(one, part), getattr(other, part))
        assert one.projection is other.projection


@pytest.mark.parametrize("slab", SLABS)
@pytest.mark.parametrize("name", BUILT)
@torch.inference_mode()
def test_rows_of_a_module_are_those_of_its_maps(name: str, slab: int) -> None:
    model, inputs, options = built(name)
    with recording(model) as whole:
        expected = model(*inputs, **options)
    with recording(model, slab=slab) as found:
        output = model(*inputs, **options)
    check_same(found, whole, slab)
    pairs = zip(*(x if isinstance(x, tuple) else (x,) for x in (output, expected)), strict=True)
    torch.testing.assert_close(*next(iter(pairs)))


@pytest.mark.parametrize("slab", SLABS)
@pytest.mark.parametrize("kind", ["bert", "gpt2", "llama", "albert", "bart"])
@torch.inference_mode()
def test_rows_of_a_network_are_those_of_its_maps(kind: str, slab: int, tiny: Tiny) -> None:
    checkpoint = load_checkpoint(tiny(kind))
    with recording(checkpoint.model) as whole:
        expected = checkpoint.run(TEXTS)
    with recording(checkpoint.model, slab=slab) as found:
        output = checkpoint.run(TEXTS)
    check_same(found, whole, slab)
    assert not found.unread
    torch.testing.assert_close(output[0], expected[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["bert", "llama"])
@torch.inference_mode()
def test_what_is_kept_of_a_pass_does_not_grow_with_its_slabs(kind: str, tiny: Tiny) -> None:
    checkpoint, kept = load_checkpoint(tiny(kind)), set()
    for slab in (1, 2, 5):
        with recording(checkpoint.model, slab=slab) as found:
            checkpoint.run(TEXTS)
        kept.add((len(found.flow.held), len(found.flow.meetings)))
    assert len(kept) == 1


def test_maps_that_are_not_held_cannot_be_read_by_mistake() -> None:
    model, inputs, options = built("fused")
    with torch.inference_mode(), recording(model, slab=2) as found:
        model(*inputs, **options)
    assert found[0].maps.shape == (2, HEADS, N, N)
    with pytest.raises(NotImplementedError, match="meta"):
        found[0].maps.cpu()
    assert found[0].part("maps", 1, 4, 3).shape == (HEADS, 4, 3)


@torch.inference_mode()
def test_keys_that_a_module_adds_leave_its_maps_whole() -> None:
    model, inputs, options = built("multihead, added key")
    with recording(model, slab=2) as found:
        model(*inputs, **options)
    assert not found[0].maps.is_meta
    assert found[0].maps.shape == (2, HEADS, N, N + 1)


@torch.inference_mode()
def test_masks_of_all_tokens_are_counted(tiny: Tiny) -> None:
    masks = {}
    for kind in ("bert", "gpt2"):
        checkpoint = load_checkpoint(tiny(kind))
        with recording(checkpoint.model, slab=2) as found:
            checkpoint.run(TEXTS[:1])
        masks[kind] = {call.rows.masks for call in found if call.rows is not None}
    assert masks == {"bert": {0}, "gpt2": {1}}
