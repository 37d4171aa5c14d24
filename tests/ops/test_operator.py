"""The operator: its registration, its derivative at hard points, and what reaches it."""

import math
from itertools import product
from typing import Any

import pytest
import torch
from plain_attention import draw, relative_error
from tolerances import TOLERANCE
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck
from torch.library import opcheck
from torch.utils._python_dispatch import TorchDispatchMode

from fourierkernels.attention import fourier_attention
from fourierkernels.ops.operator import attend, attend_backward

# opcheck of PyTorch 2.15 asks tensors of its own making for their gradient.
pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")

FAST = TOLERANCE["float64"]["fast"]
B, H, N, M, D, C = 2, 3, 5, 7, 4, 2


def inputs(dtype: torch.dtype = torch.float64, scale: float = 1.0) -> tuple[Tensor, ...]:
    shapes = [(B, H, N, D), (B, H, M, D), (B, H, M, C)]
    query, key, value = (draw(*s, seed=i, dtype=dtype) for i, s in enumerate(shapes))
    leaves = (scale * query, scale * key, value, (0.2 * draw(H, D, seed=3, dtype=dtype)).exp())
    return tuple(leaf.detach().requires_grad_() for leaf in leaves)


BOOLEAN = draw(B, H, N, M, seed=5).detach() > 0
BOOLEAN[..., 2, :] = False  # one empty row
MASKS: dict[str, Tensor | None] = {
    "none": None,
    "boolean": BOOLEAN,
    "padding": draw(B, 1, 1, M, seed=6).detach() > 0,
    "additive": draw(1, H, N, M, seed=7).detach(),
    "additive with minus infinity": torch.zeros(B, H, N, M)
    .double()
    .masked_fill(~BOOLEAN, -math.inf),
}
PLAIN = (0.0, False)  # no dropout, no weights
OPTIONS = {
    "even": (4, False, 0.0),
    "causal": (2, True, 0.0),
    "eps": (4, False, 1e-3),
    "odd": (3, True, 0.0),
}


# Schema, fake tensors and traced graphs see of the options numbers that are handed on.
REGISTERED = [*product(MASKS, ["even"]), *product(["none"], [o for o in OPTIONS if o != "even"])]


@pytest.mark.parametrize(("mask", "options"), REGISTERED)
def test_operator_is_registered_as_torch_wants_it(mask: str, options: str) -> None:
    opcheck(attend, (*inputs(), MASKS[mask], None, *OPTIONS[options], *PLAIN))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_its_derivative_is_an_operator_registered_in_the_same_way(dtype: torch.dtype) -> None:
    leaves = tuple(leaf.detach() for leaf in inputs(dtype))
    given = (*leaves, MASKS["boolean"], None)
    output, significand, exponent, _ = attend(*given, 4, False, 0.0, *PLAIN)
    grad = draw(B, H, N, C, seed=8, dtype=dtype).detach()
    saved, delta = (significand, exponent), (grad * output).sum(-1)
    opcheck(attend_backward, (grad, None, delta, *given, *saved, 4, False, 0.0, 0.0, False))


def test_the_derivative_keeps_its_inputs_the_output_and_two_numbers_a_row() -> None:
    kept: list[int] = []

    def keep(tensor: Tensor) -> Tensor:
        kept.append(tensor.numel())
        return tensor

    given = inputs()
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        output = attend(*given, None, None, 4, False, 0.0, *PLAIN)[0]
    assert sum(kept) == sum(leaf.numel() for leaf in given) + output.numel() + 2 * B * H * N


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("power", [1, 2, 4, 6])
def test_gradcheck_for_powers_and_masks(power: int, mask: str) -> None:
    """Every entry of the Jacobian without a mask, random directions of it with one."""
    leaves, fast = inputs(scale=0.4), mask != "none"
    for causal, eps in product((False, True), (0.0, 1e-2)):
        assert gradcheck(
            lambda *x: attend(*x, MASKS[mask], None, power, causal, eps, *PLAIN)[0],  # noqa: B023
            leaves,
            fast_mode=fast,
        )


@pytest.mark.parametrize("power", [1, 2, 4, 6])
@pytest.mark.parametrize("shape", [(), (3,), (1, 1), (2, 3)])
def test_gradcheck_at_coincident_points_and_exact_zeros_of_the_sine(
    power: int, shape: tuple[int, ...]
) -> None:
    """Differences 0 (a query on a key), pi and 2 pi at R = 1, with a key elsewhere beside them."""
    query = torch.zeros(2, 2, 3, dtype=torch.float64, requires_grad=True)
    zero, near = [0.0, 0.0, 0.0], [0.3, -0.2, 0.4]
    key = torch.tensor([zero, near, [math.pi, 0.1, 0.0], [0.2, 2 * math.pi, -math.pi]]).double()
    key = key.expand(2, 4, 3).clone().requires_grad_()
    radius = torch.ones(shape, dtype=torch.float64, requires_grad=True)
    leaves = (query, key, draw(2, 4, 2, seed=2), radius)
    assert gradcheck(lambda *x: fourier_attention(*x, power=power, allow_signed=True), leaves)


def test_second_derivatives_pass_gradgradcheck() -> None:
    """By the reference, for every input and through masks."""
    leaves = tuple(leaf[:1, :1].detach().requires_grad_() for leaf in inputs(scale=0.5)[:3])
    radius = torch.ones(1, D, dtype=torch.float64, requires_grad=True)
    mask = BOOLEAN[:1, :1]
    assert gradgradcheck(
        lambda *x: attend(*x, mask, None, 2, True, 1e-2, *PLAIN)[0], (*leaves, radius)
    )


# fourier_attention takes a mask or the causal flag; that the operator has both, gradcheck shows.
PAIRS = [(m, o) for m in MASKS for o in OPTIONS if m == "none" or not OPTIONS[o][1]]


@pytest.mark.parametrize(("mask", "options"), PAIRS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_operator_and_reference_agree_in_value_and_gradient(
    mask: str, options: str, dtype: torch.dtype
) -> None:
    power, causal, eps = OPTIONS[options]
    leaves = inputs(dtype, scale=0.5)
    settings = {
        "power": power,
        "is_causal": causal,
        "eps": eps,
        "attn_mask": MASKS[mask],
        "allow_signed": True,
    }
    double = [leaf.detach().double().requires_grad_() for leaf in leaves]
    fused = fourier_attention(*leaves, **settings)
    truth = fourier_attention(*double, **settings, implementation="reference")
    tolerance = TOLERANCE[str(dtype).removeprefix("torch.")]
    assert relative_error(fused, truth) < tolerance["fast"]
    gradients = torch.autograd.grad(fused.sin().sum(), leaves)
    expected = torch.autograd.grad(truth.sin().sum(), double)
    for actual, exact in zip(gradients, expected, strict=True):
        assert relative_error(actual, exact) < tolerance["gradient"]


@pytest.mark.parametrize("shape", [(N,), (H, N), (B, H, N), (2, B, H, N), (2, 1, B, H, N)])
@pytest.mark.parametrize("mask", ["none", "keys", "rows", "all"])
def test_any_leading_dimensions_and_broadcast_masks_reach_it(
    shape: tuple[int, ...], mask: str
) -> None:
    *lead, n = shape
    leaves = [draw(*lead, *size, seed=i) for i, size in enumerate([(n, D), (M, D), (M, C)])]
    masks = {"none": None, "keys": (M,), "rows": (n, 1), "all": (*lead, n, M)}
    size = masks[mask]
    attend_to = None if size is None else draw(*size, seed=4).detach() > -0.5
    results = [
        fourier_attention(*leaves, 1.5, attn_mask=attend_to, implementation=name)
        for name in ("fused", "reference")
    ]
    assert results[0].shape == (*lead, n, C)
    assert relative_error(*results) < FAST


def test_strided_and_expanded_inputs_give_what_their_copies_give() -> None:
    query = draw(B, N, H, D).transpose(1, 2)
    key = draw(1, 1, M, 2 * D, seed=1)[..., ::2].expand(B, H, M, D)
    value = draw(B, H, C, M, seed=2).mT
    radius = torch.tensor(1.5, dtype=torch.float64).expand(H, D)
    given = (query, key, value, radius)
    assert not any(leaf.is_contiguous() for leaf in given)
    copies = [leaf.detach().contiguous().requires_grad_() for leaf in given]
    mask = BOOLEAN.mT.contiguous().mT
    outputs = [fourier_attention(*leaves, attn_mask=mask) for leaves in (given, copies)]
    assert relative_error(*outputs) < FAST
    gradients = torch.autograd.grad(outputs[0].sin().sum(), (query, key, value))
    expected = torch.autograd.grad(outputs[1].sin().sum(), copies[:3])
    for pair in zip(gradients, expected, strict=True):
        assert relative_error(*pair) < FAST


@pytest.mark.parametrize("size", ["batch", "queries", "heads"])
def test_empty_batches_and_sequences_give_empty_results(size: str) -> None:
    shape = {"batch": (0, H, N), "queries": (B, H, 0), "heads": (B, 0, N)}[size]
    leaves = (draw(*shape, D), draw(*shape[:2], M, D, seed=1), draw(*shape[:2], M, C, seed=2))
    radius = torch.tensor(1.5, dtype=torch.float64, requires_grad=True)
    output = fourier_attention(*leaves, radius)
    assert output.shape == (*shape, C)
    output.sum().backward()
    for leaf in (*leaves, radius):
        assert torch.equal(leaf.grad, torch.zeros_like(leaf))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_inputs_of_ten_thousand_are_known_to_their_rounding(dtype: torch.dtype) -> None:
    """R q is rounded by eps R q, and log w changes by l t times that for each feature."""
    query, key, value, radius = (leaf.detach() for leaf in inputs(dtype))
    leaves = [1e4 * query, 1e4 * key, value, torch.full_like(radius, 0.7)]
    leaves = [leaf.requires_grad_() for leaf in leaves]
    fused = fourier_attention(*leaves)
    gradients = torch.autograd.grad(fused.sin().sum(), leaves)
    assert all(torch.isfinite(gradient).all() for gradient in gradients)
    truth = fourier_attention(*(leaf.double() for leaf in leaves), implementation="reference")
    assert relative_error(fused, truth) < torch.finfo(dtype).eps * 0.7e4 * 4 * D


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_common_offset_of_ten_thousand_costs_no_digits(dtype: torch.dtype) -> None:
    offset = torch.tensor([1e4, -1e4, 1e4, 1e4], dtype=dtype)
    query, key, value, radius = (leaf.detach() for leaf in inputs(dtype))
    leaves = [query + offset, key + offset, value, torch.full_like(radius, 0.7)]
    leaves = [leaf.requires_grad_() for leaf in leaves]
    double = [leaf.detach().double().requires_grad_() for leaf in leaves]
    fused = fourier_attention(*leaves)
    truth = fourier_attention(*double, implementation="reference")
    tolerance = TOLERANCE[str(dtype).removeprefix("torch.")]
    assert relative_error(fused, truth) < tolerance["fast"]
    gradients = torch.autograd.grad(fused.sin().sum(), leaves)
    expected = torch.autograd.grad(truth.sin().sum(), double)
    for actual, exact in zip(gradients, expected, strict=True):
        assert relative_error(actual, exact) < tolerance["gradient"]


def test_nothing_as_large_as_the_weights_is_saved_for_the_backward_pass() -> None:
    saved: list[int] = []
    query, key, value = (draw(1, 1, 200, 4, seed=i) for i in range(3))
    hooks = torch.autograd.graph.saved_tensors_hooks(lambda x: saved.append(x.numel()), lambda x: x)
    with hooks:
        fourier_attention(query, key, value, 1.5, is_causal=True)
    assert saved
    assert max(saved) <= 4 * 200


class _Calls(TorchDispatchMode):
    """Records whether the operator is called."""

    def __init__(self) -> None:
        super().__init__()
        self.operator = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.operator += func is torch.ops.fourierkernels.fourier_attention.default
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    ("options", "calls"),
    [
        ({}, 1),
        ({"is_causal": True, "eps": 1e-3, "power": 6}, 1),
        ({"attn_mask": MASKS["additive"]}, 1),
        ({"implementation": "reference"}, 0),
        ({"dropout_p": 0.1}, 1),
        ({"return_weights": True}, 1),
        ({"attn_mask": draw(N, M, seed=7)}, 1),  # requires a gradient
        ({"dropout_p": 0.1, "return_weights": True, "implementation": "reference"}, 0),
    ],
    ids=lambda value: ", ".join(value) if isinstance(value, dict) else str(value),
)
def test_only_what_asks_for_the_reference_goes_to_it(options: dict[str, Any], calls: int) -> None:
    with _Calls() as recorded:
        fourier_attention(*inputs(), **options)
    assert recorded.operator == calls


def test_an_unknown_implementation_is_refused() -> None:
    with pytest.raises(ValueError, match="implementation must be one of fused, reference, got 'x'"):
        fourier_attention(*inputs(), implementation="x")


# torch's compiler instantiates autograd.Function itself, which torch then deprecates.
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
def test_compiled_graphs_are_whole_and_have_the_same_gradients() -> None:
    """At a second length torch compiles for any length."""
    torch.compiler.reset()
    compiled = torch.compile(fourier_attention, backend="aot_eager", fullgraph=True)
    query, key, value, radius = inputs(torch.float32)
    for n, mask, causal in ((N, None, True), (4, None, True), (N, MASKS["boolean"], False)):
        leaves = [leaf.detach().requires_grad_() for leaf in (query[:, :, :n], key, value, radius)]
        results = [
            run(*leaves, attn_mask=mask, is_causal=causal) for run in (compiled, fourier_attention)
        ]
        assert torch.equal(*results)
        gradients = [torch.autograd.grad(result.sin().sum(), leaves) for result in results]
        for pair in zip(*gradients, strict=True):
            torch.testing.assert_close(*pair)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_widened_before_the_operator_under_autocast_too(
    dtype: torch.dtype,
) -> None:
    low = [leaf.detach().to(dtype).requires_grad_() for leaf in inputs()[:3]]
    full = [leaf.detach().float().requires_grad_() for leaf in low]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = fourier_attention(*low, 1.5)
        output.float().sin().sum().backward()
    assert output.dtype == dtype
    expected = fourier_attention(*full, 1.5)
    assert torch.equal(output, expected.to(dtype))
    expected.to(dtype).float().sin().sum().backward()
    for ours, theirs in zip(low, full, strict=True):
        assert torch.equal(ours.grad, theirs.grad.to(dtype))


class TestVmap:
    """What is mapped becomes more heads."""

    @pytest.mark.parametrize(
        "dims", [(0, 0, 0, None), (1, None, 2, None), (None, 0, None, 0), (None,) * 3 + (1,)]
    )
    def test_it_is_the_loop(self, dims: tuple[int | None, ...]) -> None:
        sizes = [(H, N, D), (H, M, D), (H, M, C), (H, D)]
        leaves = []
        for seed, (size, dim) in enumerate(zip(sizes, dims, strict=True)):
            shape = size if dim is None else (*size[:dim], 4, *size[dim:])
            leaves.append(draw(*shape, seed=seed).detach().abs() + 0.5)
        mapped = torch.vmap(fourier_attention, in_dims=dims)(*leaves)
        for i in range(4):
            parts = [x if d is None else x.select(d, i) for x, d in zip(leaves, dims, strict=True)]
            assert relative_error(mapped[i], fourier_attention(*parts)) < FAST

    @pytest.mark.parametrize("shape", [(M,), (H, 1, M), (1, N, M)])
    @pytest.mark.parametrize("mapped", [False, True])
    def test_masks_are_mapped_or_shared(self, shape: tuple[int, ...], mapped: bool) -> None:
        leaves = [leaf.detach() for leaf in inputs()]
        mask = draw(*((B, *shape) if mapped else shape), seed=9).detach()
        run = torch.vmap(
            lambda q, k, v, mask: fourier_attention(q, k, v, 1.5, attn_mask=mask),
            in_dims=(0, 0, 0, 0 if mapped else None),
        )
        result = run(*leaves[:3], mask)
        for i in range(B):
            parts = [leaf[i] for leaf in leaves[:3]]
            each = mask[i] if mapped else mask
            expected = fourier_attention(*parts, 1.5, attn_mask=each)
            assert relative_error(result[i], expected) < FAST
