"""Dropout, returned weights and gradients of masks: the operator against its reference."""

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
from plain_attention import draw, relative_error
from tolerances import TOLERANCE
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck
from torch.library import opcheck

from fourierkernels.attention import fourier_attention
from fourierkernels.ops.arguments import Inputs, Options
from fourierkernels.ops.derivatives import attend_by_reference
from fourierkernels.ops.operator import attend, attend_backward

# opcheck of PyTorch 2.15 asks tensors of its own making for their gradient.
pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")

B, H, N, M, D, C = 2, 2, 3, 5, 3, 2
SEED = torch.tensor([12345678901])
HIDDEN = draw(B, H, N, M, seed=5).detach() > 0.5
HIDDEN[0, 0, 1] = True  # one empty row
# Shapes of a mask from one number for all pairs to one for each.
SHAPES = [tuple(s) for s in product((1, B), (1, H), (1, N), (1, M))]
Outcome = tuple[Tensor, Tensor]


def leaves(dtype: torch.dtype = torch.float64, scale: float = 0.5) -> tuple[Tensor, ...]:
    shapes = [(B, H, N, D), (B, H, M, D), (B, H, M, C)]
    query, key, value = (draw(*s, seed=i, dtype=dtype).detach() for i, s in enumerate(shapes))
    radius = (0.2 * draw(H, D, seed=3, dtype=dtype).detach()).exp()
    given = (scale * query, scale * key, value, radius)
    return tuple(leaf.requires_grad_() for leaf in given)


def additive(shape: tuple[int, ...] = (B, H, N, M), *, hidden: bool = False) -> Tensor:
    mask = draw(*shape, seed=6).detach()
    return (mask.masked_fill(HIDDEN, -math.inf) if hidden else mask).requires_grad_()


def fused(inputs: Inputs, options: Options) -> Outcome:
    output, _, _, weights = attend(*inputs, *options[:5])
    return output, weights


def results(run: Callable[..., Outcome], options: Options) -> Callable[..., Any]:
    """What is returned as a function of query, key, value, radius and a mask."""

    def call(*tensors: Tensor) -> Any:
        mask = tensors[4] if len(tensors) > 4 else None
        output, weights = run(Inputs(*tensors[:4], mask, SEED), options)
        return (output, weights) if options.return_weights else output

    return call


CASES = {
    "dropout": Options(4, False, 0.0, 0.4),
    "weights": Options(4, False, 0.0, 0.0, True),
    "dropout and weights": Options(2, False, 0.0, 0.4, True),
    "eps": Options(4, False, 1e-2, 0.3, True),
    "causal": Options(4, True, 0.0, 0.3, True),
    "odd": Options(3, False, 1e-1, 0.3, True),
    "causal, odd": Options(1, True, 0.0, 0.0, True),
}


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_operator_and_reference_agree_in_value_and_gradient(
    case: str, masked: bool, dtype: torch.dtype
) -> None:
    """The loss is one of the output and of the weights together."""
    options, tolerance = CASES[case], TOLERANCE[str(dtype).removeprefix("torch.")]
    given = (*leaves(dtype), *((additive(hidden=True).to(dtype).detach(),) if masked else ()))
    found = []
    for run, precision in ((fused, dtype), (attend_by_reference, torch.float64)):
        tensors = [leaf.detach().to(precision).requires_grad_() for leaf in given]
        outcome = results(run, options)(*tensors)
        parts = outcome if isinstance(outcome, tuple) else (outcome,)
        loss = sum(part.sin().sum() for part in parts)
        found.append((parts, torch.autograd.grad(loss, tensors)))
    for actual, exact in zip(found[0][0], found[1][0], strict=True):
        assert relative_error(actual, exact) < tolerance["fast"]
        assert torch.equal(actual == 0, exact == 0)  # the same pairs are dropped
    for actual, exact in zip(found[0][1], found[1][1], strict=True):
        assert relative_error(actual, exact) < tolerance["gradient"]


@pytest.mark.parametrize("case", CASES)
def test_gradcheck_of_output_and_weights_together(case: str) -> None:
    assert gradcheck(results(fused, CASES[case]), leaves(), fast_mode=True)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("options", [Options(4, False, 0.0), CASES["eps"]], ids=["plain", "all"])
def test_gradcheck_of_additive_masks_of_every_shape(
    shape: tuple[int, ...], options: Options
) -> None:
    assert gradcheck(results(fused, options), (*leaves(), additive(shape)), fast_mode=True)


@pytest.mark.parametrize("case", ["causal", "odd"])
def test_gradcheck_of_a_mask_with_minus_infinity(case: str) -> None:
    # Finite differences of minus infinity are NaN: what is added to the mask is varied.
    mask, move = additive(hidden=True).detach(), draw(B, H, N, M, seed=8, scale=0.1)

    def call(move: Tensor, *tensors: Tensor) -> Any:
        return results(fused, CASES[case])(*tensors, mask + move)

    assert gradcheck(call, (move, *leaves()), fast_mode=True)


def test_hidden_pairs_have_no_gradient_of_the_mask() -> None:
    mask = additive(hidden=True)
    output = results(fused, Options(4, True, 0.0))(*leaves(), mask)
    (gradient,) = torch.autograd.grad(output.sin().sum(), mask)
    later = torch.ones(N, M, dtype=torch.bool).triu(1)
    assert (gradient[HIDDEN | later] == 0).all()
    alone = (~(HIDDEN | later)).sum(-1, keepdim=True) == 1  # its weight is 1 whatever is added
    assert (gradient[~(HIDDEN | later | alone)] != 0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("number", ["min", "max"])
def test_a_finite_number_hides_nothing_however_large(number: str, dtype: torch.dtype) -> None:
    """Added to all of a row it leaves even weights, as rounding has it, and gradients."""
    tensors = leaves(dtype)
    mask = torch.full((1, 1, 1, M), getattr(torch.finfo(dtype), number), dtype=dtype)
    found, expected = (
        torch.autograd.grad(output.square().sum() + weights[..., 0].sum(), tensors)
        for output, weights in (
            run(Inputs(*tensors, mask, None), Options(4, False, 0.0, 0.0, True))
            for run in (fused, attend_by_reference)
        )
    )
    for name, ours, theirs in zip(Inputs._fields, found, expected, strict=False):
        assert theirs.abs().sum() > 0, name
        assert relative_error(ours, theirs) < TOLERANCE[str(dtype)[6:]]["gradient"], name


@pytest.mark.parametrize("implementation", ["fused", "reference"])
def test_values_without_features_have_weights_and_their_gradients(implementation: Any) -> None:
    query, key, value, radius = leaves()

    def call(values: Tensor) -> tuple[Tensor, ...]:
        output, weights = fourier_attention(
            query, key, values, radius, return_weights=True, implementation=implementation
        )
        assert output.shape == (B, H, N, values.shape[-1])
        return weights, *torch.autograd.grad(weights.square().sum(), (query, key, radius))

    for found, expected in zip(call(value[..., :0]), call(value), strict=True):
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("case", CASES)
def test_second_derivatives_pass_gradgradcheck(case: str) -> None:
    """By the reference, under the same draw of dropout."""
    tensors = (*leaves(), additive((1, H, N, M)))
    assert gradgradcheck(results(fused, CASES[case]), tensors, fast_mode=True)


@pytest.mark.parametrize("case", CASES)
def test_third_derivatives_are_those_of_the_reference_and_pass_gradgradcheck(case: str) -> None:
    options = CASES[case]
    given = (*leaves(), additive((1, H, N, M)))

    def gradient(run: Callable[..., Outcome], *tensors: Tensor) -> Tensor:
        outcome = results(run, options)(*tensors)
        parts = outcome if isinstance(outcome, tuple) else (outcome,)
        loss = sum(part.sin().sum() for part in parts)
        found = torch.autograd.grad(loss, tensors, create_graph=True)
        return torch.cat([part.sin().flatten() for part in found]).sum()

    third = []
    for run in (fused, attend_by_reference):
        first = torch.autograd.grad(gradient(run, *given), given, create_graph=True)
        third.append(torch.autograd.grad(sum(part.square().sum() for part in first), given))
    for actual, exact in zip(*third, strict=True):
        assert exact.abs().max() > 0
        assert relative_error(actual, exact) < TOLERANCE["float64"]["gradient"]
    assert gradgradcheck(lambda *x: gradient(fused, *x), given, fast_mode=True)


def test_inputs_that_depend_on_each_other_have_their_own_second_derivatives() -> None:
    """A key that is computed from the query must not have its path counted twice."""
    query, _, value, radius = leaves()
    found = []
    for implementation in ("fused", "reference"):
        output = fourier_attention(
            query, 2 * query, value[..., :N, :], radius, implementation=implementation
        )
        (first,) = torch.autograd.grad(output.sin().sum(), query, create_graph=True)
        (second,) = torch.autograd.grad(first.square().sum(), query, create_graph=True)
        (third,) = torch.autograd.grad(second.square().sum(), query)
        found.append((second, third))
    for actual, exact in zip(*found, strict=True):
        assert relative_error(actual, exact) < TOLERANCE["float64"]["gradient"]


# ---- registration -------------------------------------------------------------------------------


MASKS = {"none": None, "boolean": ~HIDDEN, "additive": additive((1, H, 1, M))}


# What schema, fake tensors and traced graphs see differ; the other cases hand on other numbers.
KINDS = ["dropout", "weights", "dropout and weights"]
NUMBERS = [case for case in CASES if case not in KINDS]


@pytest.mark.parametrize(
    ("case", "mask"), [*product(KINDS, MASKS), *product(NUMBERS, ["additive"])]
)
def test_operator_is_registered_as_torch_wants_it(case: str, mask: str) -> None:
    opcheck(attend, (*leaves(), MASKS[mask], SEED, *CASES[case][:5]))


@pytest.mark.parametrize(
    ("case", "mask_grad", "dtype"),
    [
        *product(KINDS, [False, True], [torch.float32, torch.float64]),
        *product(NUMBERS, [True], [torch.float64]),
    ],
)
def test_its_derivative_is_registered_in_the_same_way(
    case: str, mask_grad: bool, dtype: torch.dtype
) -> None:
    options = CASES[case]
    mask = additive((1, H, 1, M)).detach().to(dtype) if mask_grad else None
    given = (*(leaf.detach() for leaf in leaves(dtype)), mask, SEED)
    output, significand, exponent, weights = attend(*given, *options[:5])
    grad, weights_grad = torch.cos(output), torch.cos(weights)
    delta = (grad * output).sum(-1)
    if options.return_weights:
        delta = delta + (weights_grad * weights).sum(-1)
    cotangents = (grad, weights_grad if options.return_weights else None, delta)
    saved = (significand, exponent)
    opcheck(attend_backward, (*cotangents, *given, *saved, *options[:4], mask_grad))
