"""The arguments of the operator's CPU kernels, and what they should return, in float64."""

import torch
from torch import Tensor

from fourierkernels.ops.arguments import Cotangents, Gradients, Inputs, Options, Rows, Saved
from fourierkernels.ops.cpu.backward import backward
from fourierkernels.ops.cpu.forward import forward
from fourierkernels.ops.dropout import keep_mask
from fourierkernels.ops.nadaraya_watson import additive, normalise
from fourierkernels.ops.reference import fourier_scores

SEED = torch.tensor([-(2**40) - 12345])


def make_inputs(
    batch: int,
    heads: int,
    lengths: tuple[int, int],
    widths: tuple[int, int],
    dtype: torch.dtype,
    mask: Tensor | None = None,
) -> Inputs:
    """Normal draws of queries, keys and values; `lengths` are N and M, `widths` D and C."""
    generator = torch.Generator().manual_seed(0)
    (n, m), (dim, width) = lengths, widths
    shapes = [(batch, heads, n, dim), (batch, heads, m, dim), (batch, heads, m, width)]
    query, key, value = (torch.randn(s, generator=generator, dtype=dtype) for s in shapes)
    radius = 0.5 + torch.rand((heads, dim), generator=generator, dtype=dtype)
    if mask is not None and mask.dtype is not torch.bool:
        mask = mask.to(dtype)
    return Inputs(0.5 * query, 0.5 * key, value, radius, mask, SEED)


def exact(inputs: Inputs, options: Options) -> tuple[Tensor, Tensor]:
    """Return output and weights after dropout by the reference's formulas, differentiable."""
    query, key, value, radius, mask, seed = inputs
    bias = additive(mask, query, key.shape[-2], is_causal=options.causal)
    scores = fourier_scores(query, key, radius=radius[:, None, None, :], power=options.power)
    if bias is not None:
        scores = scores._replace(log_abs=scores.log_abs + bias)
    weights = normalise(scores, eps=options.eps)
    if options.dropout_p:
        heads, n, m = weights.shape[0] * weights.shape[1], *weights.shape[2:]
        kept = keep_mask(seed, (heads, n, m), options.dropout_p).view(weights.shape)
        weights = weights * kept / (1 - options.dropout_p)
    return weights @ value, weights


def as_double(inputs: Inputs) -> Inputs:
    """Return the same numbers as leaves in float64."""
    leaves = (
        part.double().clone().requires_grad_()
        if part is not None and part.is_floating_point()
        else part
        for part in inputs
    )
    return Inputs(*leaves)


def backward_of(
    rows: Rows, grad: Tensor, weights_grad: Tensor | None, inputs: Inputs, options: Options
) -> Gradients:
    """Return the gradients by the compiled kernels, as the operator calls them."""
    delta = (grad * rows.output).sum(dim=-1)
    if weights_grad is not None:
        delta = delta + (weights_grad * rows.weights).sum(dim=-1)
    saved = Saved(rows.significand, rows.exponent)
    return backward(Cotangents(grad, weights_grad, delta), inputs, saved, options)


def both_ways(inputs: Inputs, options: Options, grad: Tensor) -> tuple[Rows, Gradients]:
    """Return results and gradients by the compiled kernels, for a gradient of the output alone."""
    rows = forward(inputs, options)
    return rows, backward_of(rows, grad, None, inputs, options)
