"""Fourier attention in linear time: random features in place of the N × M weights.

With a feature map ψ the sums of [nguyen2022fourierformer]_, eq. 15, split into one part of the keys
and one of the query,

    Σ_j w_ij v_j ≈ (1/m) ψ(Rq_i)·Σ_j ψ(Rk_j) v_j,    Σ_j w_ij ≈ (1/m) ψ(Rq_i)·Σ_j ψ(Rk_j),

in O(N m (D + D_v)), as [katharopoulos2020transformers]_ do for softmax; causal attention keeps
running sums. Features of this kernel have both signs, so an estimated Σ_j w_ij can be anything: it
comes with its standard error, and where it is not above it the answer is NaN.
"""

import math
import warnings
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from fourierkernels.attention.features import (
    USEFUL_SPREAD,
    PhaseSpreadWarning,
    feature_map,
    fourier_features,
    over_heads,
    phase_spread,
    scale_of,
)
from fourierkernels.attention.validation import (
    WORKING_DTYPE,
    check_inputs,
    check_power,
    check_radius,
    readable,
)
from fourierkernels.validation import check_integer


class WeightSums(NamedTuple):
    """Estimates of Σ_j w_ij and their standard errors over the draws, ``(..., N, 1)`` each."""

    value: Tensor
    standard_error: Tensor


class FeatureState(NamedTuple):
    """What decoding remembers of the keys so far, whatever their number; sums over features of 2m.

    Attributes
    ----------
    values : Tensor
        Σ_j ψ(Rk_j) v_j, ``(..., 2m, D_v)``.
    total : Tensor
        Σ_j ψ(Rk_j), ``(..., 1, 2m)``.
    offset : Tensor
        The first key, ``(..., 1, D)``: phases are counted from it.
    """

    values: Tensor
    total: Tensor
    offset: Tensor


def linear_fourier_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    radius: Tensor | float,
    *,
    power: int = 4,
    features: int = 256,
    kind: str = "orthogonal",
    frequencies: Tensor | None = None,
    is_causal: bool = False,
    key_padding_mask: Tensor | None = None,
    chunk: int = 64,
    allow_signed: bool = False,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Estimate :func:`~fourierkernels.attention.fourier_attention` in O(N m (D + D_v)).

    The error falls like 1/√m, from a level that grows like exp(a²/2) with the spread a of the
    phases (:func:`phase_spread`): below a ≈ 1.5 it is useful, beyond the plain mean of the values
    is about as good, and a :class:`PhaseSpreadWarning` says so. In one and two dimensions
    :class:`~fourierkernels.estimators.NadarayaWatson` is in linear time, too, and exact.

    Parameters
    ----------
    query, key, value : Tensor
        ``(..., H, N, D)``, ``(..., H, M, D)`` and ``(..., H, M, D_v)``, one floating dtype; half
        precision is computed in float32.
    radius : Tensor or float
        As :func:`~fourierkernels.attention.fourier_attention` takes it; differentiable.
    power : int
        l.
    features : int
        m, the number of frequencies.
    kind : {"orthogonal", "sobol", "iid"}
        Of :func:`fourier_features`.
    frequencies : Tensor or None
        ``(m, D)``, in place of new draws: for several calls with one set of features, for decoding
        and for torch.compile.
    is_causal : bool
        Query i attends to keys j <= i, also when N and M differ.
    key_padding_mask : Tensor or None
        Boolean, True at keys to be left out: ``(..., M)``, one for all heads.
    chunk : int
        Tokens of one causal block, whose weights are formed; only time depends on it.
    allow_signed : bool
        Accept odd powers.
    generator : torch.Generator or None
        Of the draws; None is torch's own.

    Returns
    -------
    Tensor
        ``(..., H, N, D_v)``. Queries without any key get zero. Where the estimated sum of the
        weights is not above its standard error (for odd powers: not beyond it), NaN.

    Warns
    -----
    PhaseSpreadWarning
        Once a call, if a > 1.5 in some head or outputs are NaN, with their number; on a CPU only,
        where values can be read. Made an error by ``warnings.simplefilter``.

    Raises
    ------
    ValueError, TypeError
        If an argument breaks its rule.

    Examples
    --------
    >>> query, key = torch.zeros(1, 1, 2), torch.tensor([[[0.0, 0.0], [0.2, 0.0]]])
    >>> value = torch.tensor([[[0.0], [1.0]]])
    >>> draws = fourier_features(2, 1024, kind="sobol", generator=torch.Generator().manual_seed(1))
    >>> f"{linear_fourier_attention(query, key, value, 2.0, frequencies=draws).item():.3f}"
    '0.473'
    >>> from fourierkernels.attention import fourier_attention
    >>> f"{fourier_attention(query, key, value, 2.0).item():.3f}"
    '0.473'
    """
    check_inputs(query, key, value)
    power = check_power(power, allow_signed=allow_signed)
    scale = scale_of(check_radius(radius, query))
    _check_padding(key_padding_mask, key)
    if frequencies is None:
        frequencies = fourier_features(
            query.shape[-1], features, power=power, kind=kind, generator=generator
        )
    maps = _maps(query, key, scale, frequencies, key_padding_mask, is_causal)
    numerator, total = feature_sums(
        *maps, value.to(maps[0].dtype), chunk=check_integer("chunk", chunk) if is_causal else None
    )
    sums = weight_sums(maps[0], total)
    empty = _without_keys(key_padding_mask, query, key, is_causal)
    output, undefined = _ratio(numerator, sums, empty, signed=power % 2 == 1)
    if readable(query):
        spread = phase_spread(query, key, radius, power=power, key_padding_mask=key_padding_mask)
        _warn(float(spread.nan_to_num().amax()) if spread.numel() else 0.0, undefined)
    return output.to(query.dtype)


def linear_fourier_step(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    radius: Tensor | float,
    state: FeatureState | None = None,
    *,
    frequencies: Tensor,
    power: int = 4,
    allow_signed: bool = False,
) -> tuple[Tensor, FeatureState]:
    """Attend from one more token to itself and all before it, in O(m (D + D_v)) a step.

    Successive steps return what one causal pass over the sequence returns; they warn of NaN alone.

    Parameters
    ----------
    query, key, value : Tensor
        Of one token: ``(..., H, 1, D)``, ``(..., H, 1, D)`` and ``(..., H, 1, D_v)``.
    state : FeatureState or None
        Of the tokens before, None at the first.
    frequencies : Tensor
        ``(m, D)``, the same at every step.

    Returns
    -------
    Tensor, FeatureState
        ``(..., H, 1, D_v)``, and the state that the next step takes.

    Examples
    --------
    >>> draws = fourier_features(1, 8, generator=torch.Generator().manual_seed(0))
    >>> first, state = linear_fourier_step(*torch.ones(3, 1, 1), 1.0, frequencies=draws)
    >>> linear_fourier_step(*torch.ones(3, 1, 1), 1.0, state, frequencies=draws)[0]
    tensor([[1.]])
    """
    check_inputs(query, key, value)
    power = check_power(power, allow_signed=allow_signed)
    if query.shape[-2] != 1 or key.shape[-2] != 1:
        raise ValueError(
            f"query and key must be one token, (..., 1, D), got shapes {tuple(query.shape)} "
            f"and {tuple(key.shape)}"
        )
    scale = scale_of(check_radius(radius, query))
    offset = key.detach() if state is None else state.offset
    seen, keys = (_map(x, scale, frequencies, offset) for x in (query, key))
    values, total = keys.mT @ value.to(keys.dtype), keys
    if state is not None:
        values, total = values + state.values, total + state.total
    numerator = seen @ values / (seen.shape[-1] // 2)
    empty = torch.zeros((), dtype=torch.bool, device=query.device)
    output, undefined = _ratio(numerator, weight_sums(seen, total), empty, signed=power % 2 == 1)
    if readable(query):
        _warn(0.0, undefined)
    return output.to(query.dtype), FeatureState(values, total, offset)


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
        None: over all keys. Otherwise over j <= i, by running sums over blocks of so many tokens
        and the weights inside a block.

    Returns
    -------
    Tensor, Tensor
        ``(..., N, D_v)``, and ``(..., 1, 2m)`` or causal ``(..., N, 2m)``.
    """
    m = query_map.shape[-1] // 2
    if chunk is None:
        return query_map @ (key_map.mT @ value) / m, key_map.sum(dim=-2, keepdim=True)
    n = query_map.shape[-2]
    # Later keys are cut off, missing ones have no feature.
    key_map, value = (pad(x, (0, 0, 0, n - x.shape[-2])) for x in (key_map, value))
    q, k, v = (_blocks(x, min(chunk, max(n, 1))) for x in (query_map, key_map, value))
    ends = (k.mT @ v).cumsum(dim=-3)
    # Shifted, not subtracted: what a block adds must not come back as rounding.
    before = pad(ends, (0, 0, 0, 0, 1, -1))  # (..., blocks, 2m, D_v)
    inside = (q @ k.mT).tril()
    numerator = (q @ before + inside @ v).flatten(-3, -2)[..., :n, :]
    return numerator / m, key_map.cumsum(dim=-2)


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
    value = each.mean(dim=-1, keepdim=True)
    if m == 1:
        return WeightSums(value, torch.full_like(value, math.inf))
    spread = (each.detach() - value.detach()).square().sum(dim=-1, keepdim=True)
    return WeightSums(value, (spread / (m * (m - 1))).sqrt())


def _maps(
    query: Tensor,
    key: Tensor,
    scale: Tensor,
    frequencies: Tensor,
    key_padding_mask: Tensor | None,
    is_causal: bool,
) -> tuple[Tensor, Tensor]:
    """Return the features of queries and keys, counted from one of the keys or their mean.

    Weights depend on differences, so the point is free, and small phases keep their digits; a
    causal row must not depend on the later keys of a mean, not in its last bit.
    """
    centre = key.detach()[..., :1, :] if is_causal else key.detach().mean(dim=-2, keepdim=True)
    query_map, key_map = (_map(x, scale, frequencies, centre) for x in (query, key))
    if key_padding_mask is not None:
        key_map = key_map.masked_fill(over_heads(key_padding_mask, key)[..., None], 0.0)
    return query_map, key_map


def _map(x: Tensor, scale: Tensor, frequencies: Tensor, offset: Tensor) -> Tensor:
    if frequencies.ndim != 2 or frequencies.shape[-1] != x.shape[-1] or not len(frequencies):
        raise ValueError(
            f"frequencies must have shape (features, {x.shape[-1]}), "
            f"got shape {tuple(frequencies.shape)}"
        )
    working = WORKING_DTYPE[x.dtype]
    with torch.autocast(x.device.type, enabled=False):
        moved = x.to(working) - offset.to(working)
        return feature_map(scale * moved, frequencies.to(x.device, working))


def _blocks(x: Tensor, size: int) -> Tensor:
    """Return ``(..., blocks, size, features)``, zeros at the end."""
    x = pad(x, (0, 0, 0, -x.shape[-2] % size))
    return x.reshape(*x.shape[:-2], -1, size, x.shape[-1])


def _ratio(
    numerator: Tensor, sums: WeightSums, empty: Tensor, *, signed: bool
) -> tuple[Tensor, Tensor]:
    """Return numerator over weight sums, and where that is undefined, ``(..., N, 1)``."""
    size = sums.value.abs() if signed else sums.value
    undefined = ~(size > sums.standard_error) & ~empty
    output = numerator / sums.value.masked_fill(undefined | empty, 1.0)
    output = torch.where(empty, 0.0, output)
    return torch.where(undefined, math.nan, output), undefined


def _without_keys(
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


def _check_padding(mask: Tensor | None, key: Tensor) -> None:
    if mask is None:
        return
    shape = (*key.shape[:-3], key.shape[-2])
    if not isinstance(mask, Tensor) or mask.dtype is not torch.bool:
        kind = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
        raise TypeError(f"key_padding_mask must be a boolean tensor, got {kind}")
    if mask.shape != shape:
        raise ValueError(f"key_padding_mask must have shape {shape}, got shape {tuple(mask.shape)}")


def _warn(spread: float, undefined: Tensor) -> None:
    parts = []
    if spread > USEFUL_SPREAD:
        parts.append(
            f"the phases of the random features have a spread of a = {spread:.2f}, and features "
            f"are useful up to {USEFUL_SPREAD}: use fourier_attention, or a smaller radius"
        )
    if lost := int(undefined.sum()):
        parts.append(
            f"{lost} of {undefined.numel()} estimated sums of weights are not above their "
            "standard error, and the outputs there are NaN"
        )
    if parts:
        warnings.warn("; ".join(parts), PhaseSpreadWarning, stacklevel=3)
