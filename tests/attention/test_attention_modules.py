"""The layer: its radius, its masks, its training."""

import io
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from plain_attention import draw, relative_error
from tolerances import TOLERANCE
from torch import Tensor

from fourierkernels.attention import FourierAttention, fourier_attention
from fourierkernels.attention.modules import RADIUS_SHAPES

FAST = TOLERANCE["float64"]["fast"]
SHAPES = {"scalar": (), "head": (2, 1), "feature": (3,), "head_feature": (2, 3)}  # H = 2, D = 3


@pytest.fixture(autouse=True)
def _seed() -> Iterator[None]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def layer(**options: Any) -> FourierAttention:
    return FourierAttention(6, 2, dtype=torch.float64, **options)


def tokens(length: int = 5, features: int = 6, seed: int = 0) -> Tensor:
    return draw(3, length, features, seed=seed).detach()


def test_it_is_the_function_between_projections() -> None:
    module, x = layer(radius=1.2, radius_shape="head"), tokens()

    def heads(y: Tensor) -> Tensor:
        return torch.stack(y.split(3, dim=-1), dim=1)

    projections = (module.query_projection, module.key_projection, module.value_projection)
    q, k, v = (heads(projection(x)) for projection in projections)
    expected = torch.cat(fourier_attention(q, k, v, 1.2).unbind(1), dim=-1)
    assert relative_error(module(x), module.output_projection(expected)) < FAST


@pytest.mark.parametrize("name", RADIUS_SHAPES)
def test_radius_has_its_shape_and_starts_at_its_value(name: str) -> None:
    radius = layer(radius=1.5, radius_shape=name).radius
    assert radius.shape == SHAPES[name]
    torch.testing.assert_close(radius, torch.full_like(radius, 1.5), rtol=FAST, atol=0)


@pytest.mark.parametrize("name", RADIUS_SHAPES)
def test_radius_is_trained_and_stays_positive_after_a_huge_step(name: str) -> None:
    module = layer(radius_shape=name)
    before = module.radius.detach().clone()
    module(tokens()).square().sum().backward()
    assert (module.log_radius.grad != 0).all()
    step = 20 / module.log_radius.grad.abs().max()
    torch.optim.SGD([module.log_radius], lr=float(step)).step()
    assert (module.radius > 0).all()
    assert not torch.equal(module.radius, before)


def test_a_fixed_radius_is_a_buffer_that_no_gradient_moves() -> None:
    module = layer(learn_radius=False)
    assert "log_radius" not in dict(module.named_parameters())
    assert "log_radius" in module.state_dict()
    assert not module.radius.requires_grad


@pytest.mark.parametrize("learn", [True, False])
def test_a_saved_layer_is_restored_exactly(learn: bool) -> None:
    options: dict[str, Any] = {"radius_shape": "head_feature", "learn_radius": learn}
    module, other = layer(radius=1.7, **options), layer(radius=0.5, **options)
    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(other(tokens()), module(tokens()))


@pytest.mark.parametrize("radius_shape", RADIUS_SHAPES)
def test_training_reduces_the_loss(radius_shape: str) -> None:
    module, x, target = layer(radius=1.0, radius_shape=radius_shape), tokens(8), tokens(8, seed=1)
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-2)
    losses = []
    for _ in range(40):
        optimizer.zero_grad()
        loss = (module(x, is_causal=True) - target).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]


def test_need_weights_returns_the_distribution_of_every_head() -> None:
    module, x = layer(), tokens()
    output, weights = module(x, need_weights=True)
    assert weights.shape == (3, 2, 5, 5)
    torch.testing.assert_close(weights.sum(-1), torch.ones(3, 2, 5, dtype=torch.float64))
    exact = TOLERANCE["float64"]["exact"]
    torch.testing.assert_close(output, module(x), rtol=exact, atol=exact)


def test_dropout_acts_in_training_only() -> None:
    module, x = layer(dropout=0.5), tokens()
    assert not torch.equal(module(x), module(x))
    module.eval()
    assert torch.equal(module(x), module(x))


@pytest.mark.parametrize("causal", [False, True])
def test_padding_tokens_is_as_leaving_them_out(causal: bool) -> None:
    module, x = layer(), tokens(7)
    padding = torch.zeros(3, 7, dtype=torch.bool)
    padding[:, 4:] = True
    padded = module(x, key_padding_mask=padding, is_causal=causal)
    torch.testing.assert_close(padded[:, :4], module(x[:, :4], is_causal=causal))


def test_padding_joins_boolean_and_additive_masks() -> None:
    module, x = layer(), tokens()
    padding = torch.zeros(3, 5, dtype=torch.bool)
    padding[1, 3:] = True
    attend = torch.ones(5, 5, dtype=torch.bool).tril()
    bias = torch.zeros(5, 5, dtype=torch.float64).masked_fill(~attend, -torch.inf)
    causal = module(x, key_padding_mask=padding, is_causal=True)
    assert torch.equal(module(x, key_padding_mask=padding, attn_mask=attend), causal)
    assert torch.equal(module(x, key_padding_mask=padding, attn_mask=bias), causal)
    assert not torch.equal(module(x, attn_mask=attend), causal)


def test_a_text_of_padding_only_gives_the_bias_and_finite_gradients() -> None:
    module, x = layer(), tokens()
    output = module(x, key_padding_mask=torch.ones(3, 5, dtype=torch.bool))
    assert torch.equal(output, module.output_projection.bias.expand_as(output))
    output.sum().backward()
    gradients = [p.grad for p in module.parameters() if p.grad is not None]
    assert gradients
    assert all(torch.isfinite(g).all() for g in gradients)


def test_keys_and_values_may_have_features_and_length_of_their_own() -> None:
    module = layer(kdim=4, vdim=5)
    assert module(tokens(5), tokens(8, 4), tokens(8, 5)).shape == (3, 5, 6)


def test_a_missing_value_is_the_key_and_a_missing_key_the_query() -> None:
    module, x, memory = layer(), tokens(), tokens(8, seed=1)
    assert torch.equal(module(x, memory), module(x, memory, memory))
    assert torch.equal(module(x), module(x, x, x))


def test_options_reach_the_function() -> None:
    module, x = layer(power=3, allow_signed=True, eps=1e-3), tokens()
    assert (module(x, need_weights=True)[1] < 0).any()
    assert (module(x, need_weights=True)[1].sum(-1) != 1).any()
    assert layer(bias=False).output_projection.bias is None


def test_repr_shows_the_options() -> None:
    shown = repr(layer(radius_shape="head", learn_radius=False, dropout=0.1))
    for text in ("power=4", "radius_shape='head'", "learn_radius=False", "dropout=0.1"):
        assert text in shown


def test_reset_parameters_starts_the_radius_over() -> None:
    module = layer(radius=1.5)
    with torch.no_grad():
        module.log_radius.add_(1)
    module.reset_parameters()
    assert float(module.radius.detach()) == pytest.approx(1.5)


def test_bfloat16_layers_run_and_train() -> None:
    module = FourierAttention(8, 2, dtype=torch.bfloat16)
    output = module(torch.randn(2, 4, 8, dtype=torch.bfloat16), is_causal=True)
    output.sum().backward()
    assert output.dtype is torch.bfloat16
    assert torch.isfinite(module.log_radius.grad)


BAD: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "heads": ({"num_heads": 4}, ValueError, "num_heads must divide embed_dim = 6, got 4"),
    "no heads": ({"num_heads": 0}, ValueError, "num_heads must be at least 1, got 0"),
    "no features": ({"embed_dim": 0}, ValueError, "embed_dim must be at least 1, got 0"),
    "odd power": ({"power": 1}, ValueError, "power must be even unless allow_signed=True"),
    "radius": ({"radius": -1.0}, ValueError, "radius must be .* greater than 0, got -1.0"),
    "radius shape": (
        {"radius_shape": "row"},
        ValueError,
        "radius_shape must be one of scalar, head, feature, head_feature, got 'row'",
    ),
    "dropout": ({"dropout": 1.0}, ValueError, "dropout must be .* below 1, got 1.0"),
    "eps": ({"eps": -1.0}, ValueError, "eps must be finite and at least 0, got -1.0"),
    "kdim": ({"kdim": 2.5}, TypeError, "kdim must be an integer, got 2.5"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_options_are_refused(case: str) -> None:
    changes, error, message = BAD[case]
    with pytest.raises(error, match=message):
        FourierAttention(**({"embed_dim": 6, "num_heads": 2} | changes))


BAD_CALLS: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "one token": (
        {"query": torch.zeros(5, 6)},
        ValueError,
        r"query must have shape .* got shape \(5, 6\)",
    ),
    "features": (
        {"key": tokens(5, 4)},
        ValueError,
        r"key must have shape \(batch, length, 6\), got shape \(3, 5, 4\)",
    ),
    "key a list": ({"key": [[0.0]]}, TypeError, "key must be a tensor, got list"),
    "padding a list": (
        {"key_padding_mask": [[True]]},
        TypeError,
        "key_padding_mask must be a tensor, got list",
    ),
    "mask a list beside padding": (
        {"key_padding_mask": torch.zeros(3, 5, dtype=torch.bool), "attn_mask": [[True]]},
        TypeError,
        "attn_mask must be a tensor, got list",
    ),
    "value alone": ({"value": tokens()}, ValueError, "value must come with a key"),
    "padding kind": (
        {"key_padding_mask": torch.zeros(3, 5)},
        TypeError,
        "key_padding_mask must be boolean, got torch.float32",
    ),
    "padding shape": (
        {"key_padding_mask": torch.zeros(3, 4, dtype=torch.bool)},
        ValueError,
        r"key_padding_mask must have shape \(3, 5\), got shape \(3, 4\)",
    ),
    "two masks": (
        {
            "attn_mask": torch.ones(5, 5, dtype=torch.bool),
            "is_causal": True,
            "key_padding_mask": torch.zeros(3, 5, dtype=torch.bool),
        },
        ValueError,
        "attn_mask must be None when is_causal=True",
    ),
}


@pytest.mark.parametrize("case", BAD_CALLS)
def test_bad_calls_are_refused(case: str) -> None:
    changes, error, message = BAD_CALLS[case]
    with pytest.raises(error, match=message):
        layer()(**({"query": tokens()} | changes))
