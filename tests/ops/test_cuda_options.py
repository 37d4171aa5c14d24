"""Dropout, weights and gradients of masks in the CUDA kernels' programs, against the reference."""

import pytest
import torch
from cuda_cases import Case, normalised_weights, run_with
from host_kernels import needs_compiler
from plain_attention import draw, relative_error
from tolerances import TOLERANCE
from torch import Tensor

from fourierkernels.ops.cuda import layout as cuda_layout
from fourierkernels.ops.dropout import keep_mask

pytestmark = needs_compiler
DTYPES = [torch.float32, torch.float64]
SEED = torch.tensor([-(2**62) - 12345])
N, M = 70, 90
BOOLEAN = draw(1, 2, N, M, seed=5).detach() > 0.3
LARGE = torch.where(BOOLEAN, -1e30, draw(1, 2, N, M, seed=7).detach())
LARGE[:, :, :9] = torch.where(BOOLEAN, -2e30, -1e30)[:, :, :9]  # rows without an open key
OPTIONS = {
    "weights": {"return_weights": True},
    "dropout": {"dropout_p": 0.3},
    "dropout and weights": {"dropout_p": 0.9, "return_weights": True},
    "causal": {"dropout_p": 0.5, "return_weights": True, "causal": True},
    "boolean mask": {"dropout_p": 0.5, "return_weights": True, "mask": BOOLEAN},
    "eps": {"dropout_p": 0.5, "return_weights": True, "eps": 1e-3},
    "third power": {"dropout_p": 0.5, "return_weights": True, "power": 3},
    "additive mask": {"mask": draw(2, 2, N, M, seed=7).detach(), "mask_grad": True},
    "large numbers": {"mask": LARGE, "mask_grad": True, "return_weights": True},
    "shared by batches": {"mask": draw(1, 2, N, M, seed=7).detach(), "mask_grad": True},
    "shared by heads": {"mask": draw(2, 1, N, M, seed=7).detach(), "mask_grad": True},
    "of keys": {"mask": draw(2, 1, 1, M, seed=7).detach(), "mask_grad": True},
    "of queries": {"mask": draw(1, 1, N, 1, seed=7).detach(), "mask_grad": True, "eps": 0.1},
    "shared by all": {"mask": draw(1, 1, N, M, seed=7).detach(), "mask_grad": True},
    "all at once": {
        "mask": draw(1, 2, N, M, seed=7).detach().masked_fill(~BOOLEAN, -torch.inf),
        "mask_grad": True,
        "dropout_p": 0.4,
        "return_weights": True,
        "causal": True,
        "eps": 1e-3,
    },
}


def expected_results(
    case: Case, leaves: list[Tensor], grad: Tensor, weights_grad: Tensor | None
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Return output, weights and gradients by torch in float64: of the leaves, then of the mask."""
    options = dict(case.options)
    p, mask_grad = options.pop("dropout_p", 0.0), options.pop("mask_grad", False)
    options.pop("return_weights", None)
    leaves = [leaf.double().requires_grad_() for leaf in leaves]
    if mask_grad:
        options["mask"] = options["mask"].double().requires_grad_()
        leaves.append(options["mask"])
    if options.pop("causal", False):
        later = torch.ones(case.n, case.m, dtype=torch.bool).triu(1)
        mask = options.get("mask", torch.zeros(case.n, case.m, dtype=torch.float64))
        options["mask"] = mask.masked_fill(later, -torch.inf)
    query, key, value, radius = leaves[:4]
    weights = normalised_weights(Case(options=options), query, key, radius)
    if p:
        kept = keep_mask(SEED, (4, case.n, case.m), p).view(weights.shape)
        weights = weights * kept / (1 - p)
    output = weights @ value
    total = (output * grad.double()).sum()
    if weights_grad is not None:
        total = total + (weights * weights_grad.double()).sum()
    return output.detach(), weights.detach(), list(torch.autograd.grad(total, leaves))


def results(name: str, dtype: torch.dtype, *, size: int = 16) -> tuple[list[Tensor], list[Tensor]]:
    """Return results and gradients of the kernels, and what they must be."""
    options = OPTIONS[name]
    case = Case(dim=4, columns=6, size=size, options=options, scale=0.5)
    leaves = case.leaves(dtype)
    grad = draw(2, 2, N, 6, seed=9, dtype=dtype).detach()
    weights_grad = None
    if options.get("return_weights"):
        weights_grad = draw(2, 2, N, M, seed=10, dtype=dtype).detach()
    rows, gradients = run_with(case, leaves, grad, weights_grad=weights_grad, seed=SEED)
    output, weights, expected = expected_results(case, leaves, grad, weights_grad)
    actual = [rows.output, *gradients[:4]]
    if options.get("mask_grad"):
        actual.append(gradients.mask)
    if weights_grad is not None:
        actual.append(rows.weights)
        expected.append(weights)
    return actual, [output, *expected]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", OPTIONS)
def test_dropout_weights_and_masks_have_the_results_and_gradients_of_the_reference(
    name: str, dtype: torch.dtype
) -> None:
    tolerance = TOLERANCE[str(dtype).removeprefix("torch.")]["gradient"]
    for actual, expected in zip(*results(name, dtype), strict=True):
        assert actual.shape == expected.shape
        assert relative_error(actual, expected) < tolerance


@pytest.mark.parametrize("dtype", DTYPES)
def test_weights_are_zero_exactly_where_they_are_dropped(dtype: torch.dtype) -> None:
    actual, expected = results("dropout and weights", dtype)
    assert torch.equal(actual[-1] == 0, expected[-1] == 0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_draw_does_not_depend_on_the_size_of_the_library(dtype: torch.dtype) -> None:
    small, large = (results("all at once", dtype, size=size)[0] for size in (16, 64))
    assert all(map(torch.equal, small, large))


@pytest.mark.parametrize("name", ["additive mask", "shared by batches", "shared by heads"])
@pytest.mark.parametrize("heads", [1, 2])
def test_gradients_of_masks_do_not_need_all_heads_at_once(
    name: str, heads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = results(name, torch.float64)[0]
    monkeypatch.setattr(cuda_layout, "_ENTRIES", heads * N * M)
    for part, expected in zip(results(name, torch.float64)[0], whole, strict=True):
        assert relative_error(part, expected) < TOLERANCE["float64"]["exact"]


@pytest.mark.parametrize(
    ("at_once", "counts"), [(1, [1] * 6), (2, [2, 1] * 2), (3, [3, 3]), (7, [6])]
)
def test_heads_are_taken_in_pieces_that_are_contiguous(at_once: int, counts: list[int]) -> None:
    seen = []

    def run(first: int, count: int, buffer: Tensor) -> None:
        assert first == sum(seen)
        assert buffer.is_contiguous()
        assert buffer.numel() == 20 * count
        seen.append(count)

    mask = torch.zeros(1, 1, 1, 5, dtype=torch.float64)
    entries, cuda_layout._ENTRIES = cuda_layout._ENTRIES, 20 * at_once
    try:
        cuda_layout.mask_gradient(mask, (2, 3, 4, 5), run)
    finally:
        cuda_layout._ENTRIES = entries
    assert seen == counts
