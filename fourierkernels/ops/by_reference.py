"""Derivatives of the operator beyond its first: by the reference, under the same draw of dropout.

They are too rare for kernels of their own, and cost the reference's O(N M D) memory. Written with
`torch.func`, they can themselves be differentiated, mapped and pushed forward, so that derivatives
of every order and mode are right.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from fourierkernels.ops.arguments import Inputs, Options
from fourierkernels.ops.dropout import drop
from fourierkernels.ops.nadaraya_watson import additive, nadaraya_watson
from fourierkernels.ops.reference import fourier_scores

Function = Callable[..., tuple[Tensor, ...]]


def attend_by_reference(inputs: Inputs, options: Options) -> tuple[Tensor, Tensor]:
    """Return output ``(B, H, N, C)`` and weights ``(B, H, N, M)``: what the operator computes."""
    query, key, value, radius, mask, seed = inputs
    dropout = None
    if options.dropout_p:
        assert seed is not None  # whoever drops, draws a seed
        dropout = partial(drop, seed=seed, p=options.dropout_p)
    return nadaraya_watson(
        partial(fourier_scores, radius=radius[:, None, None, :], power=options.power),
        query,
        key,
        value,
        bias=additive(mask, query, key.shape[-2], is_causal=options.causal),
        drop=dropout,
        eps=options.eps,
    )


def forward_function(inputs: Inputs, options: Options) -> tuple[Function, tuple[Tensor, ...]]:
    """Return what has derivatives as a function of what it has them in, and where.

    They are the output and, if asked for, the weights; and query, key, value, radius and, if its
    gradient is asked for, the mask.
    """

    def forward(*leaves: Tensor) -> tuple[Tensor, ...]:
        mask = leaves[4] if options.mask_grad else inputs.mask
        output, weights = attend_by_reference(Inputs(*leaves[:4], mask, inputs.seed), options)
        return (output, weights) if options.return_weights else (output,)

    leaves = (inputs.query, inputs.key, inputs.value, inputs.radius)
    return forward, (*leaves, inputs.mask) if options.mask_grad else leaves  # type: ignore[return-value]


def backward_function(
    cotangents: tuple[Tensor, ...], inputs: Inputs, options: Options
) -> tuple[Function, tuple[Tensor, ...]]:
    """Return the gradients as a function of cotangents and leaves, and where it is taken.

    Parameters
    ----------
    cotangents : tuple of Tensor
        Of the output and, if they were asked for, of the weights.
    """
    forward, leaves = forward_function(inputs, options)
    count = len(cotangents)

    def backward(*tensors: Tensor) -> tuple[Tensor, ...]:
        pull = torch.func.vjp(forward, *tensors[count:])[1]
        gradients: tuple[Tensor, ...] = pull(tensors[:count])
        return gradients

    return backward, (*cotangents, *leaves)


def pull_back(function: Function, at: tuple[Tensor, ...], gradients: tuple[Tensor, ...]) -> Any:
    """Return the vector-Jacobian product of a function."""
    return torch.func.vjp(function, *at)[1](gradients)


def push_forward(function: Function, at: tuple[Tensor, ...], tangents: Any) -> tuple[Tensor, ...]:
    """Return the Jacobian-vector product of a function; tangents of None are zero.

    It is the derivative of Jᵀu · t in u. Forward mode itself cannot be entered twice: this is
    called where it is on.
    """
    filled = tuple(
        torch.zeros_like(place) if tangent is None else tangent
        for place, tangent in zip(at, tangents, strict=True)
    )
    results, pull = torch.func.vjp(function, *at)
    zeros = tuple(torch.zeros_like(result) for result in results)
    pushed: tuple[Tensor, ...] = torch.func.vjp(lambda *u: pull(u), *zeros)[1](filled)
    return pushed
