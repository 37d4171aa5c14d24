"""One call and its derivative, on a device: what probes and timings repeat."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from fourierkernels.attention import fourier_attention
from fourierkernels.cli.card.cases import Case, draw

LEAVES = ("query", "key", "value", "radius")
PLAIN = Case("", "", queries=130, keys=130, features=32, columns=32, causal=True)

Attend = Callable[..., Tensor]


def inputs_on(device: torch.device, case: Case = PLAIN, seed: int = 0) -> list[Tensor]:
    """Return query, key, value and radius as leaves, and a cotangent of the output."""
    tensors = draw(case)
    turned = [tensors[name].roll(seed, dims=-2) for name in (*LEAVES, "output")]
    dtype = getattr(torch, case.dtype)
    return [
        tensor.to(device, dtype).requires_grad_(name != "output")
        for name, tensor in zip((*LEAVES, "output"), turned, strict=True)
    ]


def results(
    inputs: Sequence[Tensor], attend: Attend = fourier_attention, **options: Any
) -> list[Tensor]:
    """Return the output and the gradients of query, key, value and radius."""
    *leaves, cotangent = inputs
    output = attend(*leaves, **({"is_causal": True} | options))
    return [output.detach(), *torch.autograd.grad(output, leaves, cotangent)]
