"""Matrices of radii: the operator on mapped queries and keys, in functions, layers and mixers."""

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from plain_attention import draw, relative_error
from tolerances import TOLERANCE
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from fourierkernels.attention import (
    FourierAttention,
    fourier_attention,
    fourier_features,
    linear_fourier_attention,
    radius_penalty,
)
from fourierkernels.estimators import NadarayaWatson
from fourierkernels.mixing import create_mixer

B, H, N, M, D, C = 2, 2, 5, 7, 3, 4
FAST = TOLERANCE["float64"]["fast"]
HOW = ("fused", "reference")
SHAPES = ((D, D), (1, D, D), (H, D, D))


def inputs(dtype: torch.dtype = torch.float64) -> list[Tensor]:
    shapes = [(B, H, N, D), (B, H, M, D), (B, H, M, C)]
    return [draw(*shape, seed=i, dtype=dtype) for i, shape in enumerate(shapes)]


def matrices(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """Full matrices with signs, far from any multiple of a rotation."""
    scale = torch.diag(torch.tensor([1.2, 0.7, -0.4], dtype=dtype))
    return (draw(*shape, seed=9, scale=0.5, dtype=dtype).detach() + scale).requires_grad_()


def plain(query: Tensor, key: Tensor, value: Tensor, matrix: Tensor, power: int = 4) -> Tensor:
    """Σ_j w_ij v_j / Σ_j w_ij, the kernel as the estimators write it, |det R| included."""
    x = (query[..., :, None, :] - key[..., None, :, :])[..., None, :] * matrix[
        ..., None, None, :, :
    ]
    determinant = torch.linalg.det(matrix).abs()[..., None, None]
    weights = determinant * torch.sinc(x.sum(dim=-1) / torch.pi).pow(power).prod(dim=-1)
    return (weights @ value) / weights.sum(dim=-1, keepdim=True)


@pytest.mark.parametrize("power", [2, 4, 6])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("how", HOW)
def test_it_is_the_plain_formula_in_which_the_determinant_cancels(
    how: Any, shape: tuple[int, ...], power: int
) -> None:
    leaves, matrix = inputs(), matrices(*shape)
    heads = leaves if len(shape) == 3 else [t[:, :1] for t in leaves]  # H = 1 without its dimension
    found = fourier_attention(*heads, matrix, power=power, implementation=how)
    expected = plain(*heads, matrix, power=power)
    assert relative_error(found, expected) < FAST
    gradients = [torch.autograd.grad(o.sin().sum(), [*heads, matrix]) for o in (found, expected)]
    for actual, wanted in zip(*gradients, strict=True):
        assert actual.shape == wanted.shape
        assert relative_error(actual, wanted) < TOLERANCE["float64"]["gradient"]


@pytest.mark.parametrize("kernel", ["fourier2", "fourier4", "fourier6"])
def test_it_is_the_estimator_with_the_same_matrix(kernel: str) -> None:
    rng, matrix = np.random.default_rng(0), matrices(D, D).detach()
    points, queries = rng.normal(size=(60, D)), rng.normal(size=(20, D))
    responses = rng.normal(size=(60, 2))
    fitted = NadarayaWatson(kernel=kernel, radius=matrix.numpy()).fit(points, responses)
    tensors = map(torch.tensor, (queries, points, responses))
    found = fourier_attention(*tensors, matrix, power=int(kernel.removeprefix("fourier")))
    np.testing.assert_allclose(found, fitted.predict(queries), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_diagonal_matrix_is_a_radius_per_feature_and_eps_is_the_same(dtype: str) -> None:
    kind = getattr(torch, dtype)
    radius = torch.tensor([[0.5, 1.0, 2.0], [1.5, 0.7, 0.3]], dtype=kind)
    options = {"eps": 1e-2, "attn_mask": draw(N, M, dtype=kind)}
    leaves = inputs(kind)
    expected = fourier_attention(*leaves, radius, **options)
    for how in HOW:
        found = fourier_attention(*leaves, radius.diag_embed(), implementation=how, **options)
        assert relative_error(found, expected) < TOLERANCE[dtype]["fast"]


def test_turning_features_and_the_matrix_back_changes_nothing() -> None:
    query, key, value = inputs()
    turn = torch.linalg.qr(draw(D, D, seed=3).detach())[0]
    matrix = matrices(1, D, D)
    found = fourier_attention(query @ turn.mT, key @ turn.mT, value, matrix @ turn.mT)
    assert relative_error(found, fourier_attention(query, key, value, matrix)) < FAST
    moved = fourier_attention(query @ turn.mT, key @ turn.mT, value, 0.8)
    assert relative_error(moved, fourier_attention(query, key, value, 0.8)) > 0.01


@pytest.mark.parametrize("how", HOW)
def test_first_and_second_derivatives(how: Any) -> None:
    query, key, value = (t[:1, :, :2].detach().requires_grad_() for t in inputs())
    for shape in ((1, D, D), (H, D, D)):

        def function(*leaves: Tensor) -> Tensor:
            *three, matrix = leaves
            return fourier_attention(*three, matrix, implementation=how, is_causal=True)

        leaves = (query, key, value, matrices(*shape))
        assert gradcheck(function, leaves, fast_mode=True)
        assert gradgradcheck(function, leaves, fast_mode=True)


def test_forward_mode_and_vmap_agree_with_reverse_mode_and_a_loop() -> None:
    leaves, matrix = [t.detach() for t in inputs()], matrices(H, D, D).detach()

    def function(r: Tensor) -> Tensor:
        return fourier_attention(*leaves, r)

    by_forward = torch.func.jacfwd(function)(matrix)
    assert relative_error(by_forward, torch.func.jacrev(function)(matrix)) < 1e-10
    many = torch.stack([matrix, 0.5 * matrix])
    expected = torch.stack([function(one) for one in many])
    assert relative_error(torch.func.vmap(function)(many), expected) < FAST


def test_far_points_keep_their_digits() -> None:
    query, key, value = (t.detach().float() for t in inputs())
    matrix = matrices(H, D, D, dtype=torch.float32)
    query, key = query + 4096.0, key + 4096.0
    found = fourier_attention(query, key, value, matrix)
    wide = [t.double() for t in (query, key, value, matrix)]
    assert relative_error(found, fourier_attention(*wide)) < TOLERANCE["float32"]["fast"]


def test_a_hidden_key_that_is_not_finite_leaves_no_trace_in_the_gradient() -> None:
    """Where values cannot be read: under a transform."""
    query, key, value = (t.detach() for t in inputs())
    mask = torch.ones(N, M, dtype=torch.bool)
    mask[:, -1] = False

    def loss(matrix: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        return fourier_attention(query, key, value, matrix, attn_mask=mask).sin().sum()

    def slopes(key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        gradient = torch.func.grad(partial(loss, value=value, mask=mask))
        found: Tensor = torch.func.vmap(gradient)(matrix[None], key[None])[0]
        return found

    matrix = matrices(H, D, D).detach()
    spoilt = key.index_fill(2, torch.tensor([M - 1]), torch.nan)
    expected = slopes(key[:, :, :-1], value[:, :, :-1], None)
    assert relative_error(slopes(spoilt, value, mask), expected) < TOLERANCE["float64"]["gradient"]


def test_random_features_estimate_it() -> None:
    query, key, value = (0.3 * t for t in inputs())
    matrix = matrices(H, D, D)
    draws = fourier_features(D, 4096, kind="sobol", generator=torch.Generator().manual_seed(0))
    found = linear_fourier_attention(query, key, value, matrix, frequencies=draws.double())
    expected = fourier_attention(query, key, value, matrix)
    assert relative_error(found, expected) < 0.05


BAD: dict[str, tuple[Tensor, str]] = {
    "not square": (
        torch.ones(H, D, D + 1),
        r"or be a matrix, \(H or 1, 3, 3\), got shape \(2, 3, 4",
    ),
    "other heads": (
        torch.ones(5, D, D),
        r"or be a matrix, \(H or 1, 3, 3\), got shape \(5, 3, 3\)",
    ),
    "not finite": (torch.full((D, D), torch.nan), "radius must be finite, got nan in a matrix"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_matrices_are_refused(case: str) -> None:
    matrix, rule = BAD[case]
    with pytest.raises(ValueError, match=rule):
        fourier_attention(*inputs(), matrix)


def test_with_as_many_heads_as_features_two_dimensions_are_refused() -> None:
    """One matrix, or a radius per head and feature: nothing could tell."""
    leaves, radius = [t.repeat_interleave(3, 1)[:, :D] for t in inputs()], torch.ones(D, D)
    rule = r"radius must be \(1, 3, 3\) for a matrix or \(3, 1, 3\) for heads .* got shape \(3, 3\)"
    with pytest.raises(ValueError, match=rule):
        fourier_attention(*leaves, radius)
    by_feature = fourier_attention(*leaves, radius[:, None])
    assert torch.equal(by_feature, fourier_attention(*leaves, 1.0))
    layer = FourierAttention(9, 3, radius_shape="head_feature")
    assert layer(torch.ones(1, 2, 9)).shape == (1, 2, 9)


@pytest.mark.parametrize("how", ["log", "direct"])
@pytest.mark.parametrize("shape", ["matrix", "head_matrix"])
def test_a_layer_begins_as_one_with_one_radius(shape: Any, how: Any) -> None:
    options: dict[str, Any] = {"radius": 1.7, "radius_parameter": how}
    layer = FourierAttention(6, 2, radius_shape=shape, **options)
    scalar = FourierAttention(6, 2, **options)
    scalar.load_state_dict({**layer.state_dict(), **_radius_of(scalar)})
    eye = torch.eye(3).expand_as(layer.radius)
    torch.testing.assert_close(layer.radius, scalar.radius * eye, rtol=0.0, atol=0.0)
    x = draw(2, 4, 6, dtype=torch.float32).detach()
    assert relative_error(layer(x), scalar(x)) < TOLERANCE["float32"]["fast"]


def _radius_of(layer: FourierAttention) -> dict[str, Tensor]:
    return {k: v for k, v in layer.state_dict().items() if "radius" in k}


def test_the_logarithm_keeps_matrices_invertible_after_huge_steps() -> None:
    torch.manual_seed(0)
    layer = FourierAttention(6, 2, radius_shape="head_matrix", dtype=torch.float64)
    optimiser = torch.optim.SGD([layer.log_radius], lr=1.0)
    for seed in range(5):
        layer.log_radius.grad = draw(2, 3, 3, seed=seed).detach()
        optimiser.step()
        assert (torch.linalg.det(layer.radius) > 0).all()


def test_penalty_is_of_the_singular_values_and_its_gradient_is_right() -> None:
    matrix = matrices(H, D, D)
    squares = torch.linalg.svdvals(matrix).square()
    expected = (D * squares.mean(-1).log() - squares.log().sum(-1)).sum()
    assert relative_error(radius_penalty(matrix), expected) < FAST
    assert relative_error(radius_penalty(7 * matrix), expected) < FAST
    turn = torch.linalg.qr(matrix.detach())[0]
    assert radius_penalty(0.3 * turn).abs() < 1e-14
    assert radius_penalty(torch.diag(torch.tensor([1.0, 0.0]))) == torch.inf
    assert gradcheck(radius_penalty, matrix)
    with pytest.raises(ValueError, match=r"radius must be matrices, .* got shape \(2, 3\)"):
        radius_penalty(torch.ones(2, 3))


@pytest.mark.parametrize("size", [1e-25, 1e20])
def test_penalty_does_not_change_with_the_scale_of_small_and_large_matrices(size: float) -> None:
    matrix = torch.tensor([[1.0, 0.5], [0.0, 2.0]])
    scaled = (size * matrix).requires_grad_()
    penalty = radius_penalty(scaled)
    assert relative_error(penalty, radius_penalty(matrix.double())) < 1e-6
    (gradient,) = torch.autograd.grad(penalty, scaled)
    expected = torch.func.grad(radius_penalty)(matrix.double())
    assert relative_error(size * gradient.double(), expected) < 1e-6
    assert radius_penalty(torch.stack([torch.zeros(2, 2), size * matrix])) == torch.inf


def test_penalty_of_other_numbers_is_refused() -> None:
    with pytest.raises(TypeError, match=r"radius must be float16, .* got torch.int64"):
        radius_penalty(torch.eye(2, dtype=torch.int64))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_mean_and_penalty_in_half_precision_are_those_of_float32(dtype: torch.dtype) -> None:
    options: dict[str, Any] = {"radius_shape": "matrix", "radius_parameter": "direct"}
    layer = FourierAttention(6, 2, radius_penalty=0.1, **options)
    with torch.no_grad():
        layer.signed_radius.add_(draw(1, 3, 3, scale=0.3, dtype=torch.float32)).copy_(
            layer.signed_radius.to(dtype)
        )
    mean, penalty = layer.mean_radius, layer.penalty()
    half = layer.to(dtype)
    assert torch.equal(half.mean_radius, mean)
    assert half.penalty() == penalty


@pytest.mark.parametrize("how", ["log", "direct"])
def test_penalty_of_a_layer_draws_its_matrices_to_rotations(how: Any) -> None:
    options: dict[str, Any] = {"radius_shape": "head_matrix", "radius_parameter": how}
    layer = FourierAttention(6, 2, radius_penalty=0.1, dtype=torch.float64, **options)
    tensor = next(p for n, p in layer.named_parameters() if "radius" in n)
    with torch.no_grad():
        tensor.add_(draw(2, 3, 3, scale=0.3))
    first = layer.penalty()
    assert first is not None
    torch.testing.assert_close(first, 0.1 * radius_penalty(layer.radius))
    optimiser = torch.optim.SGD([tensor], lr=0.5)
    for _ in range(100):
        optimiser.zero_grad()
        loss = layer.penalty()
        assert loss is not None
        loss.backward()
        optimiser.step()
    assert loss < 0.01 * first
    assert FourierAttention(6, 2).penalty() is None


BAD_PENALTIES: dict[str, tuple[dict[str, Any], str]] = {
    "scalar": (
        {},
        "radius_penalty must be 0 unless radius_shape is one of .* got 0.1 with 'scalar'",
    ),
    "fixed": (
        {"radius_shape": "matrix", "learn_radius": False},
        "radius_penalty must be 0 unless .* learned, got 0.1 with 'matrix'",
    ),
    "negative": ({"radius_penalty": -1.0}, "radius_penalty must be at least 0, got -1.0"),
}


@pytest.mark.parametrize("case", BAD_PENALTIES)
def test_bad_penalties_are_refused(case: str) -> None:
    options, rule = BAD_PENALTIES[case]
    with pytest.raises(ValueError, match=rule):
        FourierAttention(6, 2, **({"radius_penalty": 0.1} | options))


@pytest.mark.parametrize("name", ["fourier", "linear_fourier"])
@pytest.mark.parametrize("shape", ["matrix", "head_matrix"])
def test_decoding_step_by_step_is_the_whole_pass(name: str, shape: str) -> None:
    torch.manual_seed(0)
    options: dict[str, Any] = {"radius_shape": shape, "radius": 0.2}
    mixer = create_mixer(name, dim=6, heads=2, causal=True, length=5, **options).double().eval()
    with torch.no_grad():
        mixer.log_radius.add_(draw(*mixer.log_radius.shape, scale=0.3))  # type: ignore[operator]
    x = draw(2, 5, 6).detach()
    whole, state, steps = mixer(x), None, []
    first, prefilled = mixer.prefill(x[:, :3])
    for t in range(5):
        step, state = mixer.step(x[:, t : t + 1], state)
        steps.append(step)
    assert relative_error(torch.cat(steps, 1), whole) < FAST
    assert relative_error(mixer.step(x[:, 3:4], prefilled)[0], whole[:, 3:4]) < FAST
    assert relative_error(first, whole[:, :3]) < FAST


def test_a_layer_in_half_precision_and_under_autocast_is_that_in_float32() -> None:
    torch.manual_seed(0)
    layer, x = FourierAttention(6, 2, radius_shape="head_matrix"), draw(2, 4, 6).detach().float()
    expected = layer.radius
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(layer.radius, expected)
        assert layer(x).isfinite().all()
    low = layer.bfloat16()
    assert low.radius.dtype == torch.float32
    assert low(x.bfloat16()).dtype == torch.bfloat16
