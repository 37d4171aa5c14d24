"""What torch's scaled_dot_product_attention takes beside one shape and dtype, by its own rules."""

import io
import math
from typing import Any

import pytest
import torch
from plain_attention import ATTENTIONS, draw, relative_error
from tolerances import TOLERANCE
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from fourierkernels.attention import (
    FourierAttention,
    fourier_attention,
    linear_fourier_attention,
    softmax_attention,
)

N, M, D, C = 5, 7, 4, 3
FUSED_AND_REFERENCE = ("fused", "reference")
DTYPES = ("float32", "float64")


def leaves(query: tuple[int, ...], key: tuple[int, ...], value: tuple[int, ...], dtype: str) -> Any:
    """Leaves of these leading dimensions."""
    kind = getattr(torch, dtype)
    shapes = [(*query, N, D), (*key, M, D), (*value, M, C)]
    return [draw(*shape, seed=i, dtype=kind) for i, shape in enumerate(shapes)]


def check_same(found: Tensor, expected: Tensor, inputs: list[Tensor], dtype: str) -> None:
    """Check output and gradients."""
    assert found.shape == expected.shape
    assert relative_error(found, expected) < TOLERANCE[dtype]["fast"]
    gradients = [torch.autograd.grad(output.sin().sum(), inputs) for output in (found, expected)]
    for actual, wanted in zip(*gradients, strict=True):
        assert actual.shape == wanted.shape
        assert relative_error(actual, wanted) < TOLERANCE[dtype]["gradient"]


LEADS = {
    "key of one batch": ((2, 4), (1, 4), (2, 4)),
    "value of one head": ((2, 4), (2, 4), (2, 1)),
    "query of one batch and head": ((1, 1), (2, 4), (2, 4)),
    "no batch of keys": ((2, 4), (4,), (1,)),
    "only values have heads": ((), (), (2, 4)),
    "five dimensions": ((3, 1, 2), (3, 2, 1), (2,)),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lead", LEADS)
def test_leading_dimensions_broadcast_as_in_torch(lead: str, dtype: str) -> None:
    inputs = leaves(*LEADS[lead], dtype)
    theirs = scaled_dot_product_attention(*inputs)
    check_same(softmax_attention(*inputs), theirs, inputs, dtype)
    common = torch.broadcast_shapes(*LEADS[lead])
    expanded = [tensor.expand(*common, -1, -1) for tensor in inputs]
    for how in FUSED_AND_REFERENCE:
        found, weights = fourier_attention(*inputs, 0.7, implementation=how, return_weights=True)
        check_same(found, fourier_attention(*expanded, 0.7), inputs, dtype)
        assert weights.shape == (*common, N, M)
        assert found.shape == theirs.shape


@pytest.mark.parametrize("name", ATTENTIONS)
def test_leading_dimensions_that_do_not_broadcast_are_refused(name: str) -> None:
    inputs = leaves((2, 4), (2, 3), (2, 4), "float64")
    rule = (
        r"key must have leading dimensions that broadcast with \(2, 4\), got shape \(2, 3, 7, 4\)"
    )
    with pytest.raises(ValueError, match=rule):
        ATTENTIONS[name](*inputs)
    inputs = leaves((4,), (2, 4), (3, 4), "float64")
    rule = r"value must have .* broadcast with \(2, 4\), got shape \(3, 4, 7, 3\)"
    with pytest.raises(ValueError, match=rule):
        ATTENTIONS[name](*inputs)


GROUPS = {
    "two": ((2, 4), (2, 2), (2, 2)),
    "one": ((2, 4), (2, 1), (2, 1)),
    "keys and values apart": ((2, 4), (2, 2), (2, 1)),
    "without a batch": ((4,), (2,), (2,)),
    "one batch of keys": ((2, 4), (1, 2), (1, 2)),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("group", GROUPS)
def test_heads_of_queries_share_keys_as_in_torch(group: str, dtype: str) -> None:
    """Which heads share them is read off torch: softmax of as many heads is its result."""
    inputs, radius = leaves(*GROUPS[group], dtype), torch.tensor([[0.4], [0.6], [0.8], [1.0]])
    query, *both = inputs
    key, value = (t.repeat_interleave(4 // t.shape[-3], dim=-3) for t in both)
    theirs = scaled_dot_product_attention(*inputs, enable_gqa=True)
    check_same(softmax_attention(query, key, value), theirs, inputs, dtype)
    for how in FUSED_AND_REFERENCE:
        found = fourier_attention(*inputs, radius, enable_gqa=True, implementation=how)
        check_same(found, fourier_attention(query, key, value, radius), inputs, dtype)


BAD_GROUPS = {
    "do not divide": (
        (2, 4),
        (2, 3),
        r"key must have heads that divide the 4 of query",
    ),
    "more than queries": ((2, 1), (2, 4), "key must have heads that divide the 1 of query"),
    "no heads": ((), (), "key must have heads beside those of query"),
}


@pytest.mark.parametrize("case", BAD_GROUPS)
def test_heads_that_cannot_be_shared_are_refused_as_in_torch(case: str) -> None:
    query, key, rule = BAD_GROUPS[case]
    inputs = leaves(query, key, key, "float64")
    with pytest.raises((RuntimeError, IndexError)):
        scaled_dot_product_attention(*inputs, enable_gqa=True)
    with pytest.raises(ValueError, match=rule):
        fourier_attention(*inputs, 0.7, enable_gqa=True)


def test_without_enable_gqa_fewer_heads_are_refused_as_in_torch() -> None:
    inputs = leaves((2, 4), (2, 2), (2, 2), "float64")
    with pytest.raises(RuntimeError):
        scaled_dot_product_attention(*inputs)
    with pytest.raises(ValueError, match="key must have leading dimensions that broadcast"):
        fourier_attention(*inputs, 0.7)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("how", FUSED_AND_REFERENCE)
def test_scale_multiplies_differences_and_so_the_radius(how: str, dtype: str) -> None:
    inputs = leaves((2, 4), (2, 4), (2, 4), dtype)
    radius = torch.tensor([0.4, 0.6, 0.8, 1.0], dtype=inputs[0].dtype, requires_grad=True)
    found = fourier_attention(*inputs, radius, scale=0.3, implementation=how)
    query, key, value = inputs
    expected = fourier_attention(0.3 * query, 0.3 * key, value, radius)
    check_same(found, expected, [*inputs, radius], dtype)
    assert torch.equal(fourier_attention(*inputs, 0.7), fourier_attention(*inputs, 0.7, scale=1.0))


@pytest.mark.parametrize("scale", [0.0, -1.0])
def test_scale_must_be_positive(scale: float) -> None:
    inputs = leaves((2,), (2,), (2,), "float64")
    with pytest.raises(ValueError, match=f"scale must be positive and finite, got {scale}"):
        fourier_attention(*inputs, 0.7, scale=scale)
    with pytest.raises(ValueError, match="scale must be finite, got nan"):
        fourier_attention(*inputs, 0.7, scale=math.nan)
    with pytest.raises(TypeError, match="scale must be a number, got '1'"):
        fourier_attention(*inputs, 0.7, scale="1")  # type: ignore[call-overload]


NO_KEYS: dict[str, dict[str, Any]] = {
    "none": {},
    "causal": {"is_causal": True},
    "mask": {"attn_mask": torch.ones(N, 0, dtype=torch.bool)},
    "additive": {"attn_mask": torch.ones(N, 0)},
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("options", NO_KEYS)
def test_no_keys_give_zeros_and_no_gradient_as_in_torch(options: str, dtype: str) -> None:
    chosen = dict(NO_KEYS[options])
    if options == "additive":
        chosen["attn_mask"] = chosen["attn_mask"].to(getattr(torch, dtype))
    inputs = [t[..., :rows, :] for t, rows in zip(_some(dtype), (N, 0, 0), strict=True)]
    attentions = {name: ATTENTIONS[name] for name in ATTENTIONS}
    for how in FUSED_AND_REFERENCE:
        attentions[how] = lambda *a, how=how, **k: fourier_attention(
            *a, 0.7, implementation=how, **k
        )
    theirs = scaled_dot_product_attention(*inputs, **chosen)
    for attention in attentions.values():
        found, weights = attention(*inputs, **chosen, return_weights=True)
        assert torch.equal(found, theirs)
        assert not found.any()
        assert weights.shape == (2, 4, N, 0)
        gradients = torch.autograd.grad(found.sum(), inputs)
        assert [g.shape for g in gradients] == [t.shape for t in inputs]
        assert not gradients[0].any()


def _some(dtype: str) -> list[Tensor]:
    some: list[Tensor] = leaves((2, 4), (2, 4), (2, 4), dtype)
    return some


def test_no_keys_remain_refused_where_features_are_summed() -> None:
    inputs = [t[..., :rows, :] for t, rows in zip(_some("float64"), (N, 0, 0), strict=True)]
    with pytest.raises(ValueError, match=r"key must not be empty, got shape \(2, 4, 0, 4\)"):
        linear_fourier_attention(*inputs, 0.1)


@pytest.mark.parametrize("name", ATTENTIONS)
def test_under_autocast_dtypes_may_be_mixed_and_the_widest_remains(name: str) -> None:
    query, key, value = _some("float32")
    low = key.detach().bfloat16().requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        scaled_dot_product_attention(query, low, value)  # torch takes them, too
        found = ATTENTIONS[name](query, low, value)
    found.sin().sum().backward()
    assert found.dtype == torch.float32
    assert low.grad is not None
    assert low.grad.dtype == torch.bfloat16
    wide = low.detach().float().requires_grad_()
    expected = ATTENTIONS[name](query, wide, value)
    assert torch.equal(found, expected)  # nothing has been lowered
    gradient = torch.autograd.grad(expected.sin().sum(), wide)[0]
    assert relative_error(low.grad, gradient) < torch.finfo(torch.bfloat16).eps


@pytest.mark.parametrize("name", ATTENTIONS)
def test_mixed_dtypes_are_refused_where_torch_refuses_them(name: str) -> None:
    query, key, value = _some("float32")
    for mixed in ((query, key.bfloat16(), value), (query.double(), key, value)):
        with pytest.raises(RuntimeError, match="same dtype"):
            scaled_dot_product_attention(*mixed)
        with pytest.raises(TypeError, match="key must have the dtype of query"):
            ATTENTIONS[name](*mixed)
    with (
        torch.autocast("cpu", dtype=torch.bfloat16),
        pytest.raises(TypeError, match=r"key must have .* torch.float64, got torch.float32"),
    ):
        ATTENTIONS[name](query.double(), key, value)


class _Block(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return fourier_attention(x, x, x, 0.7)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_export_to_onnx_is_refused_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.zeros(1, 2, N, D)
    with pytest.raises(RuntimeError, match=r"^fourier_attention cannot be exported to ONNX, which"):
        torch.onnx.export(_Block(), (x,), io.BytesIO(), dynamo=False)
    assert torch.export.export(_Block(), (x,)).module()(x).shape == x.shape
    monkeypatch.setattr(torch.onnx, "is_in_onnx_export", lambda: True)  # as its new exporter sets
    with pytest.raises(RuntimeError, match=r"fourier_attention cannot be exported to ONNX, which"):
        torch.export.export(_Block(), (x,), strict=True)


def test_layers_without_keys_return_the_bias_of_their_output() -> None:
    layer = FourierAttention(8, 2)
    found = layer(torch.ones(3, 5, 8), torch.ones(3, 0, 8))
    assert torch.equal(found, layer.output_projection.bias.expand(3, 5, 8))


WHOLE = [(number,) * M for number in (-1e30, -1e9, 1e30)]
MIXED = [
    (-1e30, 0.0, -2.0),
    (-1e30, -2e30, -1e30),
    (-1e9, -1e12, -math.inf),
    (-3e38, -1e30, 1e30, 1.1e30, 1e30),
]


@pytest.mark.parametrize("row", WHOLE + MIXED)
@pytest.mark.parametrize("power", [4, 3])
@pytest.mark.parametrize("dtype", DTYPES)
def test_large_numbers_of_masks_are_added_as_rounding_has_it(
    row: tuple[float, ...], power: int, dtype: str
) -> None:
    """Beside them scores lose digits, so that a row masked whole by -1e30 has the mean."""
    inputs = _some(dtype)
    mask = torch.zeros(N, M, dtype=inputs[0].dtype)
    mask[1, : len(row)], mask[2, 3:] = torch.tensor(row, dtype=mask.dtype), -1e30
    found, expected = (
        fourier_attention(
            *inputs, 0.7, attn_mask=mask, power=power, allow_signed=True, implementation=name
        )
        for name in FUSED_AND_REFERENCE
    )
    check_same(found, expected, inputs, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_row_masked_whole_by_a_large_number_returns_the_mean(dtype: str) -> None:
    query, key, value = inputs = _some(dtype)
    mask = torch.full((1, M), -1e30, dtype=query.dtype)
    found, mean = fourier_attention(*inputs, 0.7, attn_mask=mask), value.mean(dim=-2, keepdim=True)
    assert relative_error(found, mean.expand_as(found)) < TOLERANCE[dtype]["fast"]
    softmax = scaled_dot_product_attention(query, key, value, attn_mask=mask)
    assert relative_error(found, softmax) < TOLERANCE[dtype]["fast"]
