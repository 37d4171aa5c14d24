"""Attention with all its options in float64, and how far rounding may take a kernel from it.

The bound is one of rounding alone; no constant in it is fitted to results. With u the unit
roundoff, a factor z = sin x / x of a weight is known within

    dz = u (12 + 2|a| + 2|b|) / |x|    from |x| = 1/4 on,    u (8 + 4|x| (|a| + |b|))    below,

since x = a - b is the difference of two rounded numbers, a = R (q - c) and b = R (k - c), and its
sine one of products of rounded sines and cosines; the constants contain division and the product
of the factors. Its slope z' is known within 2 dz + u (|a| + |b|), and a weight within

    dw = ∏ (|z| + dz)^l - ∏ |z|^l,

at the zeros of the sine too, and all else follows by the triangle inequality.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from fourierkernels.ops.arguments import Cotangents, Inputs, Options, common_offset
from fourierkernels.ops.dropout import keep_mask
from fourierkernels.ops.reference import log_sinc_slope

_LOWEST = 1e-300  # of a factor, so that its logarithm is finite


class Results(NamedTuple):
    """Output, weights, and gradients of query, key, value, radius and mask; or their bounds."""

    output: Tensor
    weights: Tensor
    query: Tensor
    key: Tensor
    value: Tensor
    radius: Tensor
    mask: Tensor


@dataclass(frozen=True)
class AttentionProblem:
    """Tensors in the precision of the kernels, and what is asked of them.

    The gradients that come in are those of output and weights, the latter perhaps None.
    """

    inputs: Inputs
    options: Options
    output_grad: Tensor
    weights_grad: Tensor | None = None

    def cotangents(self, output: Tensor, weights: Tensor) -> Cotangents:
        """Return what the backward pass gets."""
        delta = (self.output_grad * output).sum(-1)
        if self.weights_grad is not None:
            delta = delta + (self.weights_grad * weights).sum(-1)
        return Cotangents(self.output_grad, self.weights_grad, delta)


class _Known(NamedTuple):
    """An array and how far a computed one may be from it."""

    value: Tensor
    error: Tensor


class _Weights(NamedTuple):
    """Each row divided by its largest weight."""

    weight: _Known  # (B, H, N, M)
    steep: _Known  # w d log|sinc| / dx_d, (B, H, N, M, D)
    eps: Tensor  # (B, H, N, 1)


def exact(problem: AttentionProblem) -> tuple[Results, Results]:
    """Return the results in float64, and how far those of a kernel may be from them."""
    dtype = problem.inputs.query.dtype
    unit = sum(torch.finfo(d).eps / 2 for d in (dtype, torch.float64))
    results, bounds = _results(problem, _weigh(problem, unit), unit)
    least = torch.finfo(dtype).tiny * 2.0**32  # of what products of small numbers leave
    return results, Results(*(each + least for each in bounds))


def hidden(inputs: Inputs, causal: bool) -> Tensor:
    """Return log of the mask, ``(B, H, N, M)``: minus infinity where a key is hidden."""
    batch, heads, n, _ = inputs.query.shape
    m, mask = inputs.key.shape[2], inputs.mask
    log = inputs.query.new_zeros((batch, heads, n, m), dtype=torch.float64)
    if mask is not None:
        log = log.masked_fill(~mask, -torch.inf) if mask.dtype is torch.bool else log + mask
    later = torch.ones(n, m, dtype=torch.bool).triu(1)
    return log.masked_fill(later, -torch.inf) if causal else log


def _weigh(problem: AttentionProblem, unit: float) -> _Weights:
    inputs, (power, causal, eps, *_) = problem.inputs, problem.options
    x, size = _differences(inputs)
    sinc, distance = torch.sinc(x / torch.pi), x.abs()
    slope = torch.where(distance < 0.5, sinc * log_sinc_slope(x), (torch.cos(x) - sinc) / x)
    near = 8 + 4 * distance * size
    error = unit * torch.where(distance < 0.25, near, (12 + 2 * size) / distance)
    bias = hidden(inputs, causal)
    # (least and largest) logarithms of factors and slopes
    factors = [(sinc.abs() + e).clamp(min=_LOWEST).log() for e in (0, error)]
    slopes = [(slope.abs() + e).clamp(min=_LOWEST).log() for e in (0, 2 * error + unit * size)]
    logs = [power * each.sum(-1) + bias for each in factors]
    top = torch.maximum(logs[0].amax(-1, keepdim=True), torch.full((), eps).double().log())
    top = top.nan_to_num(neginf=0.0)
    weight, most = (torch.exp(each - top) for each in logs)
    most = most * (1 + unit * 16 * (1 + unit * bias.nan_to_num(neginf=0.0).abs()))
    largest_slope = (slope.abs() + 2 * error) / (sinc.abs() + error)
    steep, steepest = (
        torch.exp((log - top)[..., None] + z - f)
        for log, z, f in zip(logs, slopes, factors, strict=True)
    )
    cut = (bias > -torch.inf).double() * torch.finfo(inputs.query.dtype).tiny * 2.0**32
    sign = sinc.sign().prod(-1) ** power
    signs = sign[..., None] * sinc.sign() * slope.sign()
    return _Weights(
        _Known(sign * weight, most - weight + cut),
        _Known(signs * steep, steepest * (1 + 16 * unit) - steep + cut[..., None] * largest_slope),
        (eps * torch.exp(-top)) if eps else torch.zeros_like(top),
    )


def _differences(inputs: Inputs) -> tuple[Tensor, Tensor]:
    """Return R (q - k) and the sizes of what it is the difference of, ``(B, H, N, M, D)``."""
    query, key = inputs.query.double(), inputs.key.double()
    scale = inputs.radius.double()[:, None]
    centre = common_offset(inputs.key, inputs.radius, inputs.mask).double()
    own, other = ((scale * (side - centre)).abs() for side in (query, key))
    x = scale[:, None] * (query[..., :, None, :] - key[..., None, :, :])
    return x, own[..., :, None, :] + other[..., None, :, :]


def _over_totals(weights: _Weights, unit: float) -> tuple[_Known, _Known]:
    """Return the weights and their slopes over the totals of rows; zero in rows without a key."""
    (weight, error), steep, eps = weights
    total = weight.sum(-1, keepdim=True) + eps
    rounding = (weight.shape[-1] + 8) * unit * (weight.abs().sum(-1, keepdim=True) + eps)
    total_error = error.sum(-1, keepdim=True) + rounding
    least = (total.abs() - total_error).clamp(min=0.0)
    empty = total == 0
    total, least = total.masked_fill(empty, 1.0), least.masked_fill(empty, 1.0)

    def over_total(known: _Known, error: Tensor, axis: tuple[Tensor, Tensor]) -> _Known:
        value = known.value / axis[0]
        rounded = (rounding.reshape(axis[1].shape) / axis[1] + 8 * unit) * value.abs()
        return _Known(value, error / axis[1] + rounded)

    # w'/T' - w/T with w' = w + e: of the errors of one row what they share cancels.
    others = (total - weight).abs() * error + weight.abs() * (error.sum(-1, keepdim=True) - error)
    wide = (total[..., None], least[..., None])
    shared = error.sum(-1)[..., None, None] * (steep.value / wide[0]).abs()
    return (
        over_total(weights.weight, others / total.abs(), (total, least)),
        over_total(steep, steep.error + shared, wide),
    )


def _results(problem: AttentionProblem, weights: _Weights, unit: float) -> tuple[Results, Results]:
    inputs, options = problem.inputs, problem.options
    grad, value = problem.output_grad.double(), inputs.value.double()
    normal, steep = _over_totals(weights, unit)
    n, m, columns = *normal.value.shape[-2:], value.shape[-1]
    keep = _kept(inputs, options)
    kept = _Known(keep * normal.value, keep * (normal.error + 4 * unit * normal.value.abs()))
    output = _product(kept, value, m, unit)
    extra = torch.zeros(()) if problem.weights_grad is None else problem.weights_grad.double()
    pull = keep * (grad @ value.mT + extra)
    size = keep * (grad.abs() @ value.abs().mT + extra.abs())
    delta = (grad * output.value).sum(-1, keepdim=True)
    delta = delta + (kept.value * extra).sum(-1, keepdim=True)
    sizes = (grad * output.value).abs().sum(-1, keepdim=True)
    sizes = sizes + (kept.value * extra).abs().sum(-1, keepdim=True)
    delta_error = (grad.abs() * output.error).sum(-1, keepdim=True) + (
        kept.error * extra.abs()
    ).sum(-1, keepdim=True)
    known = _Known(
        pull - delta, (columns + 4) * unit * size + delta_error + (columns + m + 4) * unit * sizes
    )
    mask = _times(normal, known, unit)
    slopes = _times(steep, _Known(*(each[..., None] for each in known)), unit)
    slopes = _Known(*(options.power * each for each in slopes))
    query, key, radius = _sides(inputs, slopes, unit)
    transposed = _Known(*(each.mT for each in kept))
    results = (output, kept, query, key, _product(transposed, grad, n, unit), radius)
    results = (*results, _summed_to(inputs.mask, mask, unit))
    return Results(*(r.value for r in results)), Results(*(r.error for r in results))


def _kept(inputs: Inputs, options: Options) -> Tensor:
    """Return keep / (1 - p), ``(B, H, N, M)`` or a one."""
    if not options.dropout_p:
        return torch.ones((), dtype=torch.float64)
    assert inputs.seed is not None
    batch, heads, n, _ = inputs.query.shape
    m = inputs.key.shape[2]
    keep = keep_mask(inputs.seed, (batch * heads, n, m), options.dropout_p)
    return keep.reshape(batch, heads, n, m).double() / (1 - options.dropout_p)


def _product(known: _Known, by: Tensor, terms: int, unit: float) -> _Known:
    rounding = (terms + 8) * unit * (known.value.abs() @ by.abs())
    return _Known(known.value @ by, known.error @ by.abs() + rounding)


def _times(a: _Known, b: _Known, unit: float) -> _Known:
    value = a.value * b.value
    error = a.error * b.value.abs() + (a.value.abs() + a.error) * b.error
    return _Known(value, error + 8 * unit * value.abs())


def _sides(inputs: Inputs, slopes: _Known, unit: float) -> tuple[_Known, _Known, _Known]:
    """Return the gradients of query, key and radius."""
    scale = inputs.radius.double()
    centre = common_offset(inputs.key, inputs.radius, inputs.mask).double()
    found = []
    for side, dim, sign in ((inputs.query, 3, 1), (inputs.key, 2, -1)):
        rounding = (slopes.value.shape[dim] + 8) * unit * slopes.value.abs().sum(dim)
        error = scale[:, None] * (slopes.error.sum(dim) + rounding)
        value = sign * scale[:, None] * slopes.value.sum(dim)
        found.append((_Known(value, error), (side.double() - centre) / scale[:, None]))
    terms = sum(side.shape[0] * side.shape[2] for side in (inputs.query, inputs.key))
    radius = sum((known.value * arm).sum((0, 2)) for known, arm in found)
    error = sum(
        ((known.error + (terms + 8) * unit * known.value.abs()) * arm.abs()).sum((0, 2))
        for known, arm in found
    )
    return found[0][0], found[1][0], _Known(radius, error)


def _summed_to(mask: Tensor | None, known: _Known, unit: float) -> _Known:
    """Return the gradient of an additive mask, in its shape; empty if there is none."""
    if mask is None or mask.dtype is torch.bool:
        return _Known(*(known.value.new_zeros((0,)) for _ in known))
    axes = [axis for axis in range(4) if mask.shape[axis] == 1]
    terms = known.value.numel() // mask.numel()
    size = known.value.abs() * terms * unit
    parts = (known.value, known.error + size)
    return _Known(*(each.sum(axes, keepdim=True) if axes else each for each in parts))
