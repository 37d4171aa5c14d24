"""The public functions: the contract of scaled_dot_product_attention, properties, bad input."""

import math
import subprocess
import sys
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from plain_attention import ATTENTIONS, draw, relative_error
from tolerances import MONTE_CARLO_SIGMAS, TOLERANCE
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from fourierkernels.attention import fourier_attention, gaussian_attention, softmax_attention

FAST = TOLERANCE["float64"]["fast"]
B, H, N, M, D, DV = 2, 3, 6, 9, 4, 5


def inputs(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    shapes = [(B, H, N, D), (B, H, M, D), (B, H, M, DV)]
    return tuple(draw(*shape, seed=i, dtype=dtype) for i, shape in enumerate(shapes))  # type: ignore[return-value]


def boolean_mask(*shape: int) -> Tensor:
    mask = draw(*shape, seed=7).detach() > 0
    mask[..., 0] = True  # torch's gradient of an empty row is not what is compared here
    return mask


MASKS: dict[str, dict[str, Any]] = {
    "none": {},
    "causal": {"is_causal": True},
    "boolean": {"attn_mask": boolean_mask(N, M)},
    "boolean per head": {"attn_mask": boolean_mask(B, H, N, M)},
    "padding": {"attn_mask": boolean_mask(B, 1, 1, M)},
    "additive": {"attn_mask": draw(N, M, seed=8).detach()},
    "additive with minus infinity": {
        "attn_mask": torch.zeros(B, 1, N, M, dtype=torch.float64).masked_fill(
            ~boolean_mask(B, 1, N, M), -math.inf
        )
    },
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_softmax_equals_torch_in_value_and_gradient(mask: str, dtype: torch.dtype) -> None:
    leaves, options = inputs(dtype), dict(MASKS[mask])
    if "attn_mask" in options and options["attn_mask"].is_floating_point():
        options["attn_mask"] = options["attn_mask"].to(dtype)
    ours = softmax_attention(*leaves, **options)
    theirs = scaled_dot_product_attention(*leaves, **options)
    tolerance = TOLERANCE[str(dtype).removeprefix("torch.")]
    assert relative_error(ours, theirs) < tolerance["fast"]
    gradients = [torch.autograd.grad(output.sin().sum(), leaves) for output in (ours, theirs)]
    for actual, expected in zip(*gradients, strict=True):
        assert relative_error(actual, expected) < tolerance["gradient"]


def test_scale_is_that_of_torch() -> None:
    ours = softmax_attention(*inputs(), scale=0.3)
    assert relative_error(ours, scaled_dot_product_attention(*inputs(), scale=0.3)) < FAST


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("name", ATTENTIONS)
def test_masked_keys_have_no_weight_and_the_rest_sums_to_one(name: str, mask: str) -> None:
    options = MASKS[mask]
    _, weights = ATTENTIONS[name](*inputs(), **options, return_weights=True)
    attend = torch.ones(N, M, dtype=torch.bool).tril() if "is_causal" in options else None
    if "attn_mask" in options:
        attend = options["attn_mask"]
        attend = attend if attend.dtype is torch.bool else attend > -math.inf
    if attend is not None:
        assert (weights[~attend.expand_as(weights)] == 0).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights.sum(-1)))


@pytest.mark.parametrize("name", ATTENTIONS)
def test_boolean_and_additive_masks_agree(name: str) -> None:
    attend = boolean_mask(B, 1, N, M)
    bias = torch.zeros(attend.shape).masked_fill(~attend, -math.inf)
    attention = ATTENTIONS[name]
    assert torch.equal(attention(*inputs(), attn_mask=attend), attention(*inputs(), attn_mask=bias))


@pytest.mark.parametrize("name", ATTENTIONS)
def test_an_additive_mask_multiplies_the_weights_by_its_exponential(name: str) -> None:
    bias = draw(N, M, seed=8)
    _, plain = ATTENTIONS[name](*inputs(), return_weights=True)
    _, biased = ATTENTIONS[name](*inputs(), attn_mask=bias, return_weights=True)
    expected = plain * bias.exp()
    assert relative_error(biased, expected / expected.sum(-1, keepdim=True)) < FAST


@pytest.mark.parametrize("name", ATTENTIONS)
def test_a_causal_output_does_not_depend_on_later_keys(name: str) -> None:
    query, key, value = inputs()
    changed = key.detach().clone()
    changed[:, :, 3:] += 1
    before, after = (ATTENTIONS[name](query, k, value, is_causal=True) for k in (key, changed))
    assert torch.equal(before[:, :, :3], after[:, :, :3])
    assert not torch.equal(before[:, :, 3:], after[:, :, 3:])


@pytest.mark.parametrize("name", ATTENTIONS)
def test_leading_dimensions_are_independent(name: str) -> None:
    query, key, value = inputs()
    whole = ATTENTIONS[name](query, key, value)
    assert whole.shape == (B, H, N, DV)
    part = ATTENTIONS[name](query[1, 2], key[1, 2], value[1, 2])
    torch.testing.assert_close(whole[1, 2], part, rtol=FAST, atol=FAST)


def test_without_heads_a_radius_belongs_to_features_only() -> None:
    query, key, value = (leaf[0, 0] for leaf in inputs())
    radius = torch.tensor([0.5, 1.0, 1.5, 2.0])
    assert fourier_attention(query, key, value, radius).shape == (N, DV)
    with pytest.raises(ValueError, match=r"radius must broadcast to \(4,\), .* got shape \(1, 4\)"):
        fourier_attention(query, key, value, radius[None])


@pytest.mark.parametrize("name", ATTENTIONS)
def test_no_queries_give_no_output(name: str) -> None:
    query, key, value = inputs()
    assert ATTENTIONS[name](query[:, :, :0], key, value).shape == (B, H, 0, DV)


@pytest.mark.parametrize("name", ATTENTIONS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32_and_returned_as_it_came(
    name: str, dtype: torch.dtype
) -> None:
    low = [leaf.detach().to(dtype) for leaf in inputs()]
    output, weights = ATTENTIONS[name](*low, return_weights=True)
    full = ATTENTIONS[name](*(leaf.float() for leaf in low))
    assert output.dtype == weights.dtype == dtype
    assert torch.equal(output, full.to(dtype))


@pytest.mark.parametrize("name", ATTENTIONS)
def test_autocast_does_not_lower_the_precision(name: str) -> None:
    leaves = inputs(torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        lowered = ATTENTIONS[name](*leaves)
    assert torch.equal(lowered, ATTENTIONS[name](*leaves))


@pytest.mark.parametrize("name", ATTENTIONS)
def test_arguments_are_not_written_to(name: str) -> None:
    leaves = [leaf.detach() for leaf in inputs()]
    copies, mask = [leaf.clone() for leaf in leaves], draw(N, M).detach()
    ATTENTIONS[name](*leaves, attn_mask=mask)
    assert all(map(torch.equal, leaves, copies))
    assert torch.equal(mask, draw(N, M).detach())


class TestDropout:
    def test_it_is_that_of_torch_draw_by_draw(self) -> None:
        torch.manual_seed(0)
        ours = softmax_attention(*inputs(), dropout_p=0.3)
        torch.manual_seed(0)
        assert relative_error(ours, scaled_dot_product_attention(*inputs(), dropout_p=0.3)) < FAST

    @pytest.mark.parametrize("name", ATTENTIONS)
    def test_a_weight_is_dropped_or_divided_by_its_chance_to_stay(self, name: str) -> None:
        _, kept = ATTENTIONS[name](*inputs(), return_weights=True)
        torch.manual_seed(1)
        output, weights = ATTENTIONS[name](*inputs(), dropout_p=0.25, return_weights=True)
        dropped = weights == 0
        torch.testing.assert_close(weights[~dropped], kept[~dropped] / 0.75)
        torch.testing.assert_close(output, weights @ inputs()[2])
        assert dropped.double().mean().item() == pytest.approx(0.25, abs=0.1)

    @pytest.mark.parametrize("name", ATTENTIONS)
    def test_the_mean_over_many_draws_is_the_attention_without_dropout(self, name: str) -> None:
        draws, p = 4000, 0.4
        query, key, value = (leaf[0, 0].detach() for leaf in inputs())
        exact, weights = ATTENTIONS[name](query, key, value, return_weights=True)
        torch.manual_seed(2)
        many = ATTENTIONS[name](
            *(leaf.expand(draws, -1, -1) for leaf in (query, key, value)), dropout_p=p
        )
        error = (p / (1 - p) * (weights**2 @ value**2) / draws).sqrt()  # of the mean, exact
        assert ((many.mean(0) - exact).abs() <= MONTE_CARLO_SIGMAS * error).all()


# Coordinates on a grid of 1/64 and whole shifts: differences are exact in float64.
GRID = st.integers(-128, 128).map(lambda i: i / 64)
POINTS = arrays("float64", (5, 3), elements=GRID)


@settings(max_examples=40, deadline=None)
@given(query=POINTS, key=POINTS, value=POINTS, power=st.sampled_from([2, 4, 6]))
def test_even_weights_are_a_distribution_whatever_the_points(
    query: Any, key: Any, value: Any, power: int
) -> None:
    tensors = map(torch.tensor, (query, key, value))
    output, weights = fourier_attention(*tensors, 1.5, power=power, return_weights=True)
    assert (weights >= 0).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(5, dtype=torch.float64))
    assert output.min() >= value.min() - 1e-12
    assert output.max() <= value.max() + 1e-12


@settings(max_examples=40, deadline=None)
@given(query=POINTS, key=POINTS, value=POINTS, order=st.permutations(range(5)))
def test_the_order_of_the_keys_does_not_matter(
    query: Any, key: Any, value: Any, order: list[int]
) -> None:
    q, k, v = map(torch.tensor, (query, key, value))
    for attention in ATTENTIONS.values():
        torch.testing.assert_close(attention(q, k[order], v[order]), attention(q, k, v))


@settings(max_examples=40, deadline=None)
@given(query=POINTS, key=POINTS, shift=st.integers(-100, 100))
def test_moving_queries_and_keys_together_changes_nothing(query: Any, key: Any, shift: int) -> None:
    q, k = map(torch.tensor, (query, key))
    for attention in (ATTENTIONS["fourier"], gaussian_attention):
        torch.testing.assert_close(
            attention(q + shift, k + shift, k), attention(q, k, k), rtol=FAST, atol=FAST
        )


@settings(max_examples=40, deadline=None)
@given(query=POINTS, key=POINTS, log_scale=st.integers(-4, 4))
def test_the_radius_is_an_inverse_length(query: Any, key: Any, log_scale: int) -> None:
    q, k, scale = torch.tensor(query), torch.tensor(key), 2.0**log_scale
    assert torch.equal(
        fourier_attention(q / scale, k / scale, k, 1.5 * scale), fourier_attention(q, k, k, 1.5)
    )


def test_meta_tensors_pass_because_only_a_cpu_is_asked_for_values() -> None:
    leaves = [leaf.to("meta") for leaf in inputs()]
    assert fourier_attention(*leaves, 2.0).shape == (B, H, N, DV)


def spoilt(value: float) -> Tensor:
    tensor = torch.zeros(B, H, N, D, dtype=torch.float64)
    tensor[1, 2, 3, 0] = value
    return tensor


BAD: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "query not a tensor": ({"query": [[0.0]]}, TypeError, "query must be a tensor, got list"),
    "query of integers": (
        {"query": torch.zeros(B, H, N, D, dtype=torch.int64)},
        TypeError,
        "query must be float16, bfloat16, float32 or float64, got torch.int64",
    ),
    "query a vector": ({"query": torch.zeros(4)}, ValueError, r"query must be .* got shape \(4,\)"),
    "query not finite": (
        {"query": spoilt(math.nan)},
        ValueError,
        r"query must be finite, got nan at index \(1, 2, 3, 0\)",
    ),
    "key infinite": (
        {"key": torch.full((B, H, M, D), math.inf, dtype=torch.float64)},
        ValueError,
        r"key must be finite, got inf at index \(0, 0, 0, 0\)",
    ),
    "value minus infinity": (
        {"value": torch.full((B, H, M, 1), -math.inf, dtype=torch.float64)},
        ValueError,
        "value must be finite, got -inf",
    ),
    "dtypes differ": (
        {"key": torch.zeros(B, H, M, D)},
        TypeError,
        "key must have the dtype of query, torch.float64, got torch.float32",
    ),
    "devices differ": (
        {"value": torch.zeros(B, H, M, DV, dtype=torch.float64, device="meta")},
        ValueError,
        "value must be on cpu, as query, got meta",
    ),
    "features differ": (
        {"key": torch.zeros(B, H, M, 3, dtype=torch.float64)},
        ValueError,
        r"key must have the 4 features of query \(2, 3, 6, 4\), got shape \(2, 3, 9, 3\)",
    ),
    "lengths differ": (
        {"value": torch.zeros(B, H, 8, DV, dtype=torch.float64)},
        ValueError,
        r"value must have .* each of the 9 keys of \(2, 3, 9, 4\), got shape \(2, 3, 8, 5\)",
    ),
    "no features": (
        {
            "query": torch.zeros(B, H, N, 0, dtype=torch.float64),
            "key": torch.zeros(B, H, M, 0, dtype=torch.float64),
        },
        ValueError,
        r"key must have at least one feature, got shape \(2, 3, 9, 0\)",
    ),
    "mask and causal": (
        {"attn_mask": torch.ones(N, M, dtype=torch.bool), "is_causal": True},
        ValueError,
        r"attn_mask must be None when is_causal=True, got a mask of shape \(6, 9\)",
    ),
    "mask of another size": (
        {"attn_mask": torch.ones(N, M + 1, dtype=torch.bool)},
        ValueError,
        r"attn_mask must broadcast to \(2, 3, 6, 9\), got shape \(6, 10\)",
    ),
    "mask of more dimensions": (
        {"attn_mask": torch.ones(4, B, H, N, M, dtype=torch.bool)},
        ValueError,
        r"attn_mask must broadcast to \(2, 3, 6, 9\), got shape \(4, 2, 3, 6, 9\)",
    ),
    "mask of integers": (
        {"attn_mask": torch.ones(N, M, dtype=torch.int64)},
        TypeError,
        "attn_mask must be boolean or floating point, got torch.int64",
    ),
    "mask a list": ({"attn_mask": [[True]]}, TypeError, "attn_mask must be a tensor, got list"),
    "mask on another device": (
        {"attn_mask": torch.ones(N, M, dtype=torch.bool, device="meta")},
        ValueError,
        "attn_mask must be on cpu, as query, got meta",
    ),
    "mask of plus infinity": (
        {"attn_mask": torch.full((N, M), math.inf)},
        ValueError,
        r"attn_mask must be finite or minus infinity, got inf at index \(0, 0\)",
    ),
    "dropout one": ({"dropout_p": 1.0}, ValueError, "dropout_p must be .* below 1, got 1.0"),
    "dropout negative": ({"dropout_p": -0.1}, ValueError, "dropout_p must be .* got -0.1"),
    "dropout text": ({"dropout_p": "0.1"}, TypeError, "dropout_p must be a number, got '0.1'"),
}
BAD_FOURIER: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "radius zero": ({"radius": 0.0}, ValueError, "radius must be positive and finite, got 0.0"),
    "radius nan": ({"radius": math.nan}, ValueError, "radius must be finite, got nan"),
    "radius text": ({"radius": "2"}, TypeError, "radius must be a number, got '2'"),
    "radius boolean": ({"radius": True}, TypeError, "radius must be a number, got True"),
    "radius negative in a leaf": (
        {"radius": torch.tensor([1.0, -2.0, 1.0, 1.0], requires_grad=True)},
        ValueError,
        "radius must be positive and finite, got -2.0",
    ),
    "radius infinite in a tensor": (
        {"radius": torch.tensor(math.inf)},
        ValueError,
        "radius must be positive and finite, got inf",
    ),
    "radius of integers": (
        {"radius": torch.ones(4, dtype=torch.int64)},
        TypeError,
        "radius must be floating point, got torch.int64",
    ),
    "radius on another device": (
        {"radius": torch.ones(4, device="meta")},
        ValueError,
        "radius must be on cpu, as query, got meta",
    ),
    "radius per head as a vector": (
        {"radius": torch.ones(3)},
        ValueError,
        r"radius must broadcast to \(3, 4\), heads by features .* got shape \(3,\)",
    ),
    "radius per batch": (
        {"radius": torch.ones(2, 3, 4)},
        ValueError,
        r"radius must broadcast to \(3, 4\), .* got shape \(2, 3, 4\)",
    ),
    "radius that float32 cannot hold": (
        {"radius": 1e300}
        | dict(zip(("query", "key", "value"), inputs(torch.float32), strict=True)),
        ValueError,
        r"radius must be at most 3\.4e\+38 in torch\.float32, got 1e\+300",
    ),
    "power zero": ({"power": 0}, ValueError, "power must be at least 1, got 0"),
    "power beyond exponents": (
        {"power": 2**32 + 4},  # in 32 bits a 4
        ValueError,
        "power must be at most 16384, got 4294967300",
    ),
    "power of many factors": (
        dict.fromkeys(("query", "key", "value"), torch.zeros(1, 2, 2048)) | {"power": 2**14},
        ValueError,
        "power must be at most 8192 with 2048 features, got 16384",
    ),
    "power boolean": ({"power": True}, TypeError, "power must be an integer, got True"),
    "power a float": ({"power": 4.0}, TypeError, "power must be an integer, got 4.0"),
    "power odd": (
        {"power": 3},
        ValueError,
        "power must be even unless allow_signed=True: .* sum can vanish .* diverges, got 3",
    ),
    "eps negative": ({"eps": -1e-6}, ValueError, "eps must be finite and at least 0, got -1e-06"),
    "eps infinite": ({"eps": math.inf}, ValueError, "eps must be finite, got inf"),
}


@pytest.mark.parametrize("name", ATTENTIONS)
@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_by_every_attention(name: str, case: str) -> None:
    changes, error, message = BAD[case]
    arguments = dict(zip(("query", "key", "value"), inputs(), strict=True))
    with pytest.raises(error, match=message):
        ATTENTIONS[name](**(arguments | changes))


@pytest.mark.parametrize("case", BAD_FOURIER)
def test_bad_options_of_fourier_attention_are_refused(case: str) -> None:
    changes, error, message = BAD_FOURIER[case]
    arguments = dict(zip(("query", "key", "value"), inputs(), strict=True))
    with pytest.raises(error, match=message):
        fourier_attention(**(arguments | {"radius": 2.0} | changes))


def test_the_largest_power_of_far_keys_is_that_of_the_reference() -> None:
    query, key, value = draw(1, 3, 1024), draw(1, 5, 1024, seed=1), draw(1, 5, 2, seed=2)
    key = torch.cat([1e9 * key[:, :4], query[:, :1] + 1e-6], dim=1).detach()
    found, exact = (
        fourier_attention(query, key, value, 1.0, power=2**14, implementation=name)
        for name in ("fused", "reference")
    )
    assert relative_error(found, exact) < 2**14 * TOLERANCE["float64"]["fast"]


@pytest.mark.parametrize("sigma", [0.0, -1.0])
def test_sigma_must_be_positive(sigma: float) -> None:
    with pytest.raises(ValueError, match=rf"sigma must be .* greater than 0, got {sigma}"):
        gaussian_attention(*inputs(), sigma=sigma)


def test_scale_must_be_finite() -> None:
    with pytest.raises(ValueError, match="scale must be finite, got nan"):
        softmax_attention(*inputs(), scale=math.nan)


def test_without_torch_the_import_names_the_extra() -> None:
    code = "import sys; sys.modules['torch'] = None; import fourierkernels.attention"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert (
        "MissingExtra: fourierkernels.attention needs torch: pip install 'fourierkernels[torch]'"
        in done.stderr
    )
