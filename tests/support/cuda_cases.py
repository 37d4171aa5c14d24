"""Problems for the CUDA kernels, run on the host, and the same by the reference in float64."""

from dataclasses import dataclass, field
from typing import Any

import torch
from host_kernels import host_library
from plain_attention import draw
from torch import Tensor

from fourierkernels.attention import fourier_attention
from fourierkernels.ops.arguments import Cotangents, Gradients, Inputs, Options, Rows, Saved
from fourierkernels.ops.cuda.attention import backward, forward


@dataclass(frozen=True)
class Case:
    """Shapes and options of one problem; the tile has 64 rows in float32 and 32 in float64."""

    n: int = 70
    m: int = 90
    dim: int = 16
    columns: int = 16
    size: int = 16
    options: dict[str, Any] = field(default_factory=dict)
    scale: float = 1.0
    offset: float = 0.0

    def leaves(self, dtype: torch.dtype) -> list[Tensor]:
        shapes = [(2, 2, self.n, self.dim), (2, 2, self.m, self.dim), (2, 2, self.m, self.columns)]
        query, key, value = (draw(*s, seed=i, dtype=dtype) for i, s in enumerate(shapes))
        radius = (0.3 + 0.1 * draw(2, self.dim, seed=3, dtype=dtype)).exp()
        moved = (self.scale * side + self.offset for side in (query, key))
        return [leaf.detach() for leaf in (*moved, value, radius)]


DEFAULTS = {"power": 4, "causal": False, "eps": 0.0}


def run(
    case: Case, dtype: torch.dtype, leaves: list[Tensor] | None = None
) -> tuple[Tensor, Tensor, Tensor, list[Tensor], Tensor]:
    """Return output, significand, exponent, the four gradients, and the output's gradient."""
    leaves = case.leaves(dtype) if leaves is None else leaves
    grad = draw(*leaves[0].shape[:3], leaves[2].shape[-1], seed=9, dtype=dtype).detach()
    rows, gradients = run_with(case, leaves, grad)
    return (*rows[:3], list(gradients[:4]), grad)


def run_with(
    case: Case,
    leaves: list[Tensor],
    grad: Tensor,
    *,
    weights_grad: Tensor | None = None,
    seed: Tensor | None = None,
) -> tuple[Rows, Gradients]:
    """Return results and gradients for a gradient of the output and, if given, of the weights."""
    options, dtype = DEFAULTS | case.options, leaves[0].dtype
    mask = options.pop("mask", None)
    if mask is not None and mask.is_floating_point():
        mask = mask.to(dtype)
    library, chosen = host_library(dtype, case.size), Options(**options)
    inputs = Inputs(*leaves, mask, seed)
    rows = forward(library, inputs, chosen)
    delta = (grad * rows.output).sum(-1)
    if weights_grad is not None:
        delta = delta + (weights_grad * rows.weights).sum(-1)
    saved = Saved(rows.significand, rows.exponent)
    cotangents = Cotangents(grad, weights_grad, delta)
    return rows, backward(library, cotangents, inputs, saved, chosen)


def reference_options(case: Case) -> dict[str, Any]:
    options = DEFAULTS | case.options
    mask, causal = options.pop("mask", None), options.pop("causal")
    if causal:
        seen = torch.ones(case.n, case.m, dtype=torch.bool).tril()
        mask = seen if mask is None else mask & seen
    elif mask is not None and mask.is_floating_point():
        mask = mask.double()
    return options | {"attn_mask": mask, "allow_signed": True, "implementation": "reference"}


def reference(case: Case, leaves: list[Tensor], grad: Tensor) -> tuple[Tensor, list[Tensor]]:
    leaves = [leaf.double().requires_grad_() for leaf in leaves]
    output = fourier_attention(*leaves, **reference_options(case))
    return output.detach(), list(torch.autograd.grad(output, leaves, grad.double()))


def normalised_weights(case: Case, query: Tensor, key: Tensor, radius: Tensor) -> Tensor:
    options = reference_options(case) | {"return_weights": True}
    return fourier_attention(query, key, key, radius, **options)[1]
