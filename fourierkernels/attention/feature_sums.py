"""The sums of random-feature attention: features of queries and keys, and what they add up to."""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from fourierkernels.attention.features import feature_map, over_heads
from fourierkernels.attention.radii import Radius
from fourierkernels.attention.validation import WORKING_DTYPE, without_autocast


class WeightSums(NamedTuple):
    """Estimates of Σ_j w_ij and their standard errors over the draws, ``(..., N, 1)`` each."""

    value: Tensor
    standard_error: Tensor


def feature_maps(
    query: Tensor,
    key: Tensor,
    radius: Radius,
    frequencies: Tensor,
    key_padding_mask: Tensor | None,
    is_causal: bool,
) -> tuple[Tensor, Tensor]:
    """Return the features of queries and keys, counted from one of the keys or their mean.

    Weights depend on differences, so the point is free, and small phases keep their digits; a
    causal row must not depend on the later keys of a mean, not in its last bit.
    """
    centre = key.detach()[..., :1, :] if is_causal else key.detach().mean(dim=-2, keepdim=True)
    query_map, key_map = (map_tokens(x, radius, frequencies, centre) for x in (query, key))
    if key_padding_mask is not None:
        key_map = key_map.masked_fill(over_heads(key_padding_mask, key)[..., None], 0.0)
    return query_map, key_map


def map_tokens(x: Tensor, radius: Radius, frequencies: Tensor, offset: Tensor) -> Tensor:
    """Return ψ(R(x - offset)), ``(..., N, 2m)``, in the working precision."""
    check_frequencies(frequencies, x.shape[-1])
    working = WORKING_DTYPE[x.dtype]
    with without_autocast(x.device.type):
        moved = x.to(working) - offset.to(working)
        return feature_map(radius.times(moved), frequencies.to(x.device, working))


def check_frequencies(frequencies: Tensor, dim: int) -> None:
    """Refuse draws that are not ``(m, D)``, or none."""
    if frequencies.ndim != 2 or frequencies.shape[-1] != dim or not len(frequencies):
        raise ValueError(
            f"frequencies must have shape (features, {dim}), got shape {tuple(frequencies.shape)}"
        )


def feature_sums(
    query_map: Tensor, key_map: Tensor, value: Tensor, *, chunk: int | None
) -> tuple[Tensor, Tensor]:
    """Return the numerators ψ(q_i)·Σ_j ψ(k_j) v_j / m and the sums Σ_j ψ(k_j).

    Parameters
    ----------
    query_map, key_map : Tensor
        ``(..., N, 2m)`` and ``(..., M, 2m)``; zero at keys that are left out.
    value : Tensor
        ``(..., M, D_v)``.
    chunk : int or None
        As in :func:`feature_products`.

    Returns
    -------
    Tensor, Tensor
        ``(..., N, D_v)``, and ``(..., 1, 2m)`` or causal ``(..., N, 2m)``.
    """
    products, total = feature_products(query_map, key_map, value, chunk=chunk)
    return products / (query_map.shape[-1] // 2), total


def feature_products(
    query_map: Tensor, key_map: Tensor, value: Tensor, *, chunk: int | None
) -> tuple[Tensor, Tensor]:
    """Return φ(q_i)·Σ_j φ(k_j) v_j and Σ_j φ(k_j) of F features, whatever these are.

    Parameters
    ----------
    query_map, key_map : Tensor
        ``(..., N, F)`` and ``(..., M, F)``; zero at keys that are left out.
    value : Tensor
        ``(..., M, D_v)``.
    chunk : int or None
        None: over all keys. Otherwise over j <= i, by running sums over blocks of so many tokens
        and the weights inside a block.

    Returns
    -------
    Tensor, Tensor
        ``(..., N, D_v)``, and ``(..., 1, F)`` or causal ``(..., N, F)``.
    """
    if chunk is None:
        return query_map @ (key_map.mT @ value), key_map.sum(dim=-2, keepdim=True)
    n = query_map.shape[-2]
    # Later keys are cut off, missing ones have no feature.
    key_map, value = (_with_length(x, n) for x in (key_map, value))
    q, k, v = (_blocks(x, min(chunk, max(n, 1))) for x in (query_map, key_map, value))
    ends = (k.mT @ v).cumsum(dim=-3)  # (..., blocks, F, D_v)
    # Shifted, not subtracted: what a block adds must not come back as rounding.
    before = pad(ends, (0, 0, 0, 0, 1, -1))  # (..., blocks, F, D_v)
    inside = (q @ k.mT).tril()  # (..., blocks, chunk, chunk)
    products = (q @ before + inside @ v).flatten(-3, -2)[..., :n, :]  # (..., N, D_v)
    return products, key_map.cumsum(dim=-2)


def weight_sums(query_map: Tensor, total: Tensor) -> WeightSums:
    """Return Σ_j w_ij as a mean over the m draws, with its standard error from their variance.

    For independent draws the error is estimated without bias; orthogonal and Sobol draws spread
    more evenly, and it is a bound in practice.

    Parameters
    ----------
    query_map, total : Tensor
        ψ(q), ``(..., N, 2m)``, and Σ_j ψ(k_j), broadcastable to it.
    """
    m = query_map.shape[-1] // 2
    each = (
        (query_map * total).reshape(*query_map.shape[:-1], 2, m).sum(dim=-2)
    )  # (..., N, m), Σ_j cos t·R(q - k)
    value = each.mean(dim=-1, keepdim=True)  # (..., N, 1)
    if m == 1:
        return WeightSums(value, torch.full_like(value, math.inf))
    spread = (each.detach() - value.detach()).square().sum(dim=-1, keepdim=True)
    return WeightSums(value, (spread / (m * (m - 1))).sqrt())


def ratio(
    numerator: Tensor, sums: WeightSums, empty: Tensor, *, signed: bool, faint: str = "nan"
) -> tuple[Tensor, Tensor]:
    """Return numerator over weight sums, and where these are faint, ``(..., N, 1)``.

    Parameters
    ----------
    faint : {"nan", "bounded"}
        A key of :data:`FAINT`.
    """
    size = sums.value.abs() if signed else sums.value
    undefined, rule = ~(size > sums.standard_error) & ~empty, FAINT[faint]
    divisor = torch.where(undefined, rule.divisor(sums, signed), sums.value)
    output = torch.where(empty, 0.0, numerator / divisor.masked_fill(empty, 1.0))
    if rule.answer is not None:  # only now, so that gradients meet no NaN
        output = torch.where(undefined, rule.answer, output)
    return output, undefined


def _one(sums: WeightSums, signed: bool) -> Tensor:
    return torch.ones_like(sums.value)


def _standard_error(sums: WeightSums, signed: bool) -> Tensor:
    """Return the standard error with the sign of the sum, and 1 in place of zero."""
    error = sums.standard_error.masked_fill(sums.standard_error == 0, 1.0)
    return error.copysign(sums.value.detach()) if signed else error


class Faint(NamedTuple):
    """How to treat an output whose sum of weights is not above its standard error.

    Attributes
    ----------
    divisor : callable
        From the sums, and whether weights are signed, to what divides in place of the sum.
    answer : float or None
        What is returned in place of the quotient, if anything is.
    description : str
        What a warning says of those outputs.
    """

    divisor: Callable[[WeightSums, bool], Tensor]
    answer: float | None
    description: str


FAINT = {
    "nan": Faint(_one, math.nan, "NaN"),
    "bounded": Faint(_standard_error, None, "divided by that error"),
}


def without_keys(
    key_padding_mask: Tensor | None, query: Tensor, key: Tensor, is_causal: bool
) -> Tensor:
    """Return which queries see no key, broadcastable to ``(..., N, 1)``."""
    if key_padding_mask is None:
        return torch.zeros((), dtype=torch.bool, device=query.device)
    padded = over_heads(key_padding_mask, key)
    if not is_causal:
        return padded.all(dim=-1)[..., None, None]
    n = query.shape[-2]
    seen = pad((~padded).cumsum(dim=-1), (0, min(0, n - padded.shape[-1])))
    last = seen[..., -1:].expand(*seen.shape[:-1], n - seen.shape[-1])
    return (torch.cat([seen, last], dim=-1) == 0)[..., None]


def _blocks(x: Tensor, size: int) -> Tensor:
    """Return ``(..., blocks, size, features)``, zeros at the end."""
    x = _with_length(x, x.shape[-2] + -x.shape[-2] % size)
    return x.reshape(*x.shape[:-2], -1, size, x.shape[-1])


def _with_length(x: Tensor, n: int) -> Tensor:
    """Return the first n tokens, followed by zeros if there are fewer.

    Not by `pad`: whether it copies depends on the length, which a graph for all lengths must not.
    """
    x = x[..., :n, :]
    zeros = x.new_zeros((*x.shape[:-2], n - x.shape[-2], x.shape[-1]))
    return torch.cat([x, zeros], dim=-2)
