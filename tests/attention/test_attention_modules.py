"""The layer: its radius, its masks, its training."""

import io
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from plain_attention import draw, relative_error
from tolerances import TOLERANCE
from torch import Tensor, nn

from fourierkernels.attention import (
    FourierAttention,
    GaussianAttention,
    fourier_attention,
    gaussian_attention,
)
from fourierkernels.attention.controls import fused_gaussian_attention
from fourierkernels.attention.kernel import RADIUS_SHAPES
from fourierkernels.mixing import create_mixer

FAST = TOLERANCE["float64"]["fast"]
SHAPES = {  # H = 2, D = 3
    "scalar": (1,),
    "head": (2, 1),
    "feature": (3,),
    "head_feature": (2, 3),
    "matrix": (1, 3, 3),
    "head_matrix": (2, 3, 3),
}


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
    expected = torch.full_like(radius, 1.5)
    if radius.ndim == 3:
        expected = expected * torch.eye(3)
    torch.testing.assert_close(radius, expected, rtol=FAST, atol=0)


@pytest.mark.parametrize("name", RADIUS_SHAPES)
def test_radius_is_trained_and_stays_positive_after_a_huge_step(name: str) -> None:
    module = layer(radius_shape=name)
    before = module.radius.detach().clone()
    module(tokens()).square().sum().backward()
    assert (module.log_radius.grad != 0).all()
    step = 20 / module.log_radius.grad.abs().max()
    torch.optim.SGD([module.log_radius], lr=float(step)).step()
    positive = module.radius if module.radius.ndim < 3 else torch.linalg.det(module.radius)
    assert (positive > 0).all()
    assert not torch.equal(module.radius, before)


def test_a_fixed_radius_is_a_buffer_that_no_gradient_moves() -> None:
    module = layer(learn_radius=False)
    assert "log_radius" not in dict(module.named_parameters())
    assert "log_radius" in module.state_dict()
    assert not module.radius.requires_grad


def test_a_radius_shape_from_outside_is_one_of_layers_and_mixers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(RADIUS_SHAPES, "one_row", lambda heads, dim: (1, dim))
    module, x = layer(radius_shape="one_row", radius=1.5), tokens()
    mixer = create_mixer("fourier", dim=6, heads=2, radius_shape="one_row", radius=1.5).double()
    mixer.load_state_dict(module.state_dict())
    assert module.radius.shape == (1, 3)
    assert torch.equal(mixer(x), module(x))


@pytest.mark.parametrize("learn", [True, False])
def test_a_saved_layer_is_restored_exactly(learn: bool) -> None:
    options: dict[str, Any] = {"radius_shape": "head_feature", "learn_radius": learn}
    module, other = layer(radius=1.7, **options), layer(radius=0.5, **options)
    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(other(tokens()), module(tokens()))


@pytest.mark.parametrize("learn", [True, False])
def test_state_dicts_of_earlier_versions_are_loaded(learn: bool) -> None:
    """One radius for all had no dimension."""
    module, x = layer(radius=1.7, learn_radius=learn), tokens()
    outer = nn.Sequential(layer(radius=0.5, learn_radius=learn), nn.Linear(6, 6).double())
    state = outer.state_dict() | {f"0.{k}": v for k, v in module.state_dict().items()}
    state["0.log_radius"] = state["0.log_radius"].squeeze()
    outer.load_state_dict(state)
    assert state["0.log_radius"].shape == ()  # what was given is left alone
    assert outer[0].radius.shape == (1,)
    assert torch.equal(outer[0](x), module(x))


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


# ---- the arguments of torch.nn.MultiheadAttention, compared with it ----------------------------

ARGUMENTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "no bias": {"bias": False},
    "length first": {"batch_first": False},
    "extra key": {"add_bias_kv": True},
    "own features": {"kdim": 6, "vdim": 4},
}
CALLS: dict[str, dict[str, Any]] = {
    "plain": {},
    "causal": {"is_causal": True},
    "mask": {"attn_mask": torch.ones(5, 5, dtype=torch.bool).tril()},
    "added mask": {"attn_mask": draw(5, 5, seed=3).detach()},
    "padding": {"key_padding_mask": torch.tensor([[False] * 3 + [True] * 2] * 3)},
    "added padding": {"key_padding_mask": draw(3, 5, seed=4).detach()},
    "padding and causal": {
        "is_causal": True,
        "key_padding_mask": torch.tensor([[False] * 4 + [True]] * 3),
    },
    "added padding and mask": {
        "attn_mask": torch.ones(5, 5, dtype=torch.bool).tril(),
        "key_padding_mask": draw(3, 5, seed=4).detach(),
    },
}


def torch_layer(**options: Any) -> nn.MultiheadAttention:
    """A layer of one head whose keys have one norm if the inputs have: then Gaussian = softmax."""
    theirs = nn.MultiheadAttention(6, 1, dtype=torch.float64, **({"batch_first": True} | options))
    rotation = torch.linalg.qr(torch.randn(6, 6, dtype=torch.float64))[0]
    with torch.no_grad():
        if theirs.in_proj_weight is not None:
            theirs.in_proj_weight[6:12] = rotation
        else:
            theirs.k_proj_weight.copy_(rotation)
        if theirs.in_proj_bias is not None:
            theirs.in_proj_bias.normal_()
            theirs.in_proj_bias[6:12] = 0
            theirs.out_proj.bias.normal_()
        if theirs.bias_k is not None:
            theirs.bias_k /= theirs.bias_k.norm()
    return theirs


def their_masks(call: dict[str, Any]) -> dict[str, Any]:
    """The same call in torch's convention: True is masked, and a causal call brings its mask."""
    theirs = dict(call)
    if theirs.pop("is_causal", False):
        theirs["attn_mask"] = torch.ones(5, 5, dtype=torch.bool).tril()
    if theirs.get("attn_mask") is not None and theirs["attn_mask"].dtype is torch.bool:
        theirs["attn_mask"] = ~theirs["attn_mask"]
    padding, mask = theirs.get("key_padding_mask"), theirs.get("attn_mask")
    if padding is not None and mask is not None and padding.dtype != mask.dtype:
        theirs["attn_mask"] = torch.zeros(5, 5, dtype=padding.dtype).masked_fill(mask, -torch.inf)
    return theirs


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("arguments", ARGUMENTS)
def test_gaussian_attention_of_keys_of_one_norm_is_torchs_layer(arguments: str, call: str) -> None:
    theirs = torch_layer(**ARGUMENTS[arguments])
    ours = GaussianAttention.from_multihead(theirs).layer
    query, key, value = tokens(5), tokens(5, seed=1), tokens(5, theirs.vdim, seed=2)
    key = key / key.norm(dim=-1, keepdim=True)
    if not theirs.batch_first:
        query, key, value = (side.transpose(0, 1) for side in (query, key, value))
    for average in (False, True):
        expected = theirs(
            query, key, value, average_attn_weights=average, **their_masks(CALLS[call])
        )
        found = ours(
            query, key, value, need_weights=True, average_attn_weights=average, **CALLS[call]
        )
        assert relative_error(found[0], expected[0]) < FAST
        assert relative_error(found[1], expected[1]) < FAST
    assert relative_error(ours(query, key, value, **CALLS[call]), expected[0]) < FAST


@pytest.mark.parametrize("kind", [FourierAttention, GaussianAttention])
def test_a_text_without_a_batch_is_the_batch_of_one(kind: type[Any]) -> None:
    module, x = kind(6, 2, dtype=torch.float64), tokens()
    padding = torch.tensor([False] * 3 + [True] * 2)
    whole = module(x[:1], key_padding_mask=padding[None], need_weights=True)
    alone = module(x[0], key_padding_mask=padding, need_weights=True)
    assert torch.equal(alone[0], whole[0][0])
    assert torch.equal(alone[1], whole[1][0])


@pytest.mark.parametrize("call", CALLS)
def test_a_key_of_zeros_is_one_token_more(call: str) -> None:
    module, x = layer(add_zero_attn=True, radius=1.0), tokens()
    output, weights = module(x, need_weights=True, **CALLS[call])
    assert weights.shape[-1] == 6
    assert (weights[..., -1] > 0).all()
    zeros = torch.zeros(3, 2, 1, 3, dtype=torch.float64)
    keys, values = (
        torch.cat([module.split_heads(projection(x)), zeros], dim=2)
        for projection in (module.key_projection, module.value_projection)
    )
    query = module.split_heads(module.query_projection(x))
    mask = torch.zeros(3, 2, 5, 6, dtype=torch.float64)
    for name, given in CALLS[call].items():
        given = torch.ones(5, 5, dtype=torch.bool).tril() if name == "is_causal" else given
        if name == "key_padding_mask":
            given = given[:, None, None] if given.is_floating_point() else ~given[:, None, None]
        added = given if given.is_floating_point() else torch.where(given, 0.0, -torch.inf)
        mask[..., :5] += added
    expected = module.join_heads(fourier_attention(query, keys, values, 1.0, attn_mask=mask))
    assert relative_error(output, expected) < FAST
    assert relative_error(module(x, **CALLS[call]), expected) < FAST


@pytest.mark.parametrize("kind", [FourierAttention, GaussianAttention])
@pytest.mark.parametrize("options", [{}, {"add_bias_kv": True, "add_zero_attn": True}])
def test_layers_compile_without_breaks(kind: type[Any], options: dict[str, Any]) -> None:
    module, x = kind(6, 2, dtype=torch.float64, **options), tokens()
    padding = CALLS["padding"]["key_padding_mask"]
    torch.compiler.reset()  # its limit of recompilations counts those of other tests
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    for call in ({}, {"is_causal": True}, {"key_padding_mask": padding}):
        assert relative_error(compiled(x, **call), module(x, **call)) < FAST


@pytest.mark.parametrize("kind", [FourierAttention, GaussianAttention])
def test_autocast_halves_the_projections_only(kind: type[Any]) -> None:
    module, x = kind(6, 2, **({"radius": 1.0} if kind is FourierAttention else {})), tokens()
    x = x.float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output, weights = module(x, need_weights=True)
        plain = module(x)
        plain.sum().backward()
    assert plain.dtype is torch.bfloat16
    assert relative_error(output.double(), module(x).double()) < 0.03  # bfloat16 has 8 bits
    assert all(p.grad is None or p.grad.dtype is torch.float32 for p in module.parameters())
    assert weights.shape == (3, 2, 5, 5)


@pytest.mark.parametrize("causal", [False, True])
def test_fused_gaussian_attention_is_its_reference(causal: bool) -> None:
    query, key, value = (draw(2, 3, n, 4, seed=n) for n in (5, 7, 7))
    inputs = (query, key, value)
    fused = fused_gaussian_attention(*inputs, sigma=0.8, is_causal=causal)
    reference = gaussian_attention(*inputs, sigma=0.8, is_causal=causal)
    assert relative_error(fused, reference) < FAST
    gradients = torch.autograd.grad(fused.square().sum(), inputs)
    expected = torch.autograd.grad(reference.square().sum(), inputs)
    for found, right in zip(gradients, expected, strict=True):
        assert relative_error(found, right) < TOLERANCE["float64"]["gradient"]


@pytest.mark.parametrize("mask", ["none", "causal", "first"])
def test_far_keys_cost_fused_gaussian_attention_no_digits(mask: str) -> None:
    """Only differences count; of far keys, |k|² has no digits left for them."""
    query, key, value = (draw(2, 3, n, 4, seed=n).detach().float() for n in (5, 7, 7))
    key[:, :, 0] = -500.0 if mask == "first" else key[:, :, 0]
    inputs = [(x + 1e3 * (x is not value)).requires_grad_() for x in (query, key, value)]
    wide = [x.detach().double().requires_grad_() for x in inputs]
    options: dict[str, Any] = {"sigma": 0.8, "is_causal": mask == "causal"}
    if mask == "first":
        options["attn_mask"] = torch.ones(5, 7, dtype=torch.bool)
        options["attn_mask"][:, 0] = False
    fused, exact = (
        fused_gaussian_attention(*inputs, **options),
        gaussian_attention(*wide, **options),
    )
    assert relative_error(fused, exact) < 1e-6
    gradients = torch.autograd.grad(fused.square().sum(), inputs)
    expected = torch.autograd.grad(exact.square().sum(), wide)
    for found, right in zip(gradients, expected, strict=True):
        assert relative_error(found, right) < 1e-5


@pytest.mark.parametrize("mask", ["none", "causal", "hidden"])
def test_a_first_key_far_from_the_others_costs_them_no_digits(mask: str) -> None:
    """About a key at 1,000, as of a token that sinks attention, those near 0 would be far."""
    query, key, value = (draw(2, 3, 7, 4, seed=n).detach().float() for n in range(3))
    key[:, :, 0] = 1e3
    options: dict[str, Any] = {"sigma": 0.8, "is_causal": mask == "causal"}
    if mask == "hidden":  # what no query sees does not count: all others lie around 1,000
        query, key[:, :, 1:6] = query + 1e3, key[:, :, 1:6] + 1e3
        options["attn_mask"] = (torch.arange(7) < 6)[None]
    fused = fused_gaussian_attention(query, key, value, **options)
    wide = (x.double() for x in (query, key, value))
    assert relative_error(fused, gaussian_attention(*wide, **options)) < 1e-6


def test_fused_gaussian_attention_of_no_key_is_zero() -> None:
    query = draw(1, 1, 2, 3, seed=0)
    nothing = torch.zeros(2, 2, dtype=torch.bool)
    output = fused_gaussian_attention(query, query, query, sigma=1.0, attn_mask=nothing)
    assert torch.equal(output, torch.zeros_like(output))
    assert torch.isfinite(torch.autograd.grad(output.sum(), query)[0]).all()


def test_the_bandwidth_of_every_head_is_trained() -> None:
    module, x = GaussianAttention(6, 2, learn_sigma=True, dtype=torch.float64), tokens()
    module(x).square().sum().backward()
    fused = module.log_sigma.grad.clone()
    assert (fused != 0).all()
    module.zero_grad()
    module(x, need_weights=True)[0].square().sum().backward()
    assert relative_error(fused, module.log_sigma.grad) < TOLERANCE["float64"]["gradient"]
    assert "log_sigma" in GaussianAttention(6, 2).state_dict()
    assert float(GaussianAttention(6, 2, sigma=0.7).sigma[0]) == pytest.approx(0.7)


BAD: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "heads": ({"num_heads": 4}, ValueError, "num_heads must divide embed_dim = 6, got 4"),
    "no heads": ({"num_heads": 0}, ValueError, "num_heads must be at least 1, got 0"),
    "no features": ({"embed_dim": 0}, ValueError, "embed_dim must be at least 1, got 0"),
    "odd power": ({"power": 1}, ValueError, "power must be even unless allow_signed=True"),
    "radius": ({"radius": -1.0}, ValueError, "radius must be .* greater than 0, got -1.0"),
    "radius shape": (
        {"radius_shape": "row"},
        ValueError,
        "radius_shape must be one of scalar, head, feature, head_feature, matrix, head_matrix, got",
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
    "four dimensions": (
        {"query": torch.zeros(2, 3, 5, 6)},
        ValueError,
        r"query must have shape .* or, without a batch, .* got shape \(2, 3, 5, 6\)",
    ),
    "one of them without a batch": (
        {"key": tokens()[0]},
        ValueError,
        r"key must have shape \(batch, length, 6\), got shape \(5, 6\)",
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
        {"key_padding_mask": torch.zeros(3, 5, dtype=torch.int64)},
        TypeError,
        "key_padding_mask must be boolean or floating point, got torch.int64",
    ),
    "padding elsewhere": (
        {"key_padding_mask": torch.zeros(3, 5, dtype=torch.bool, device="meta")},
        ValueError,
        "key_padding_mask must be on cpu, as key, got meta",
    ),
    "mask elsewhere": (
        {"attn_mask": torch.ones(5, 5, dtype=torch.bool, device="meta")},
        ValueError,
        "attn_mask must be on cpu, as query, got meta",
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
