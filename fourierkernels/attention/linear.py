"""Fourier attention in linear time: random features in place of the N × M weights.

With a feature map ψ the sums of [nguyen2022fourierformer]_, eq. 15, split into one part of the keys
and one of the query,

    Σ_j w_ij v_j ≈ (1/m) ψ(Rq_i)·Σ_j ψ(Rk_j) v_j,    Σ_j w_ij ≈ (1/m) ψ(Rq_i)·Σ_j ψ(Rk_j),

in O(N m (D + D_v)), as [katharopoulos2020transformers]_ do for softmax; causal attention keeps
running sums. Features of this kernel have both signs, so an estimated Σ_j w_ij can be anything: it
comes with its standard error, and where it is not above it there is no answer to give. A number
that is wanted is NaN there; a network that is trained divides by the standard error instead.
"""

import warnings
from typing import NamedTuple

import torch
from torch import Tensor

from fourierkernels.attention.feature_sums import (
    FAINT,
    feature_maps,
    feature_sums,
    map_tokens,
    ratio,
    weight_sums,
    without_keys,
)
from fourierkernels.attention.features import (
    USEFUL_SPREAD,
    PhaseSpreadWarning,
    fourier_features,
    phase_spread,
)
from fourierkernels.attention.radii import check_radius
from fourierkernels.attention.validation import (
    check_inputs,
    check_power,
    check_some_keys,
    readable,
    without_autocast,
)
from fourierkernels.foundation.validation import check_choice, check_integer


class FeatureState(NamedTuple):
    """State of decoding: sums over the keys so far, of a size that does not depend on their number.

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
    faint: str = "nan",
    generator: torch.Generator | None = None,
) -> Tensor:
    """Estimate :func:`~fourierkernels.attention.fourier_attention` in O(N m (D + D_v)).

    The error falls like 1/√m, from a level that grows like exp(a²/2) with the spread a of the
    phases (:func:`phase_spread`): below a ≈ 1.5 it is useful, beyond the lead over the plain mean
    of the values is soon lost, and a :class:`PhaseSpreadWarning` says so. In one and two dimensions
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
        How the draws depend on each other, see :func:`fourier_features`.
    frequencies : Tensor or None
        ``(m, D)``, used in place of new draws: for several calls with the same features, for
        decoding and for torch.compile.
    is_causal : bool
        Query i attends to keys j <= i, also when N and M differ.
    key_padding_mask : Tensor or None
        Boolean, True at keys to be left out: ``(..., M)``, one for all heads.
    chunk : int
        Tokens in one causal block, whose weights are formed. It affects only the running time.
    allow_signed : bool
        Accept odd powers.
    faint : {"nan", "bounded"}
        How to treat outputs whose estimated sum of weights is not above its standard error (for
        odd powers: not beyond it). "bounded" divides by the standard error there, with which
        outputs and gradients are finite whatever the phases are, in linear time as everywhere
        else; all other outputs are the same to the last bit. It costs accuracy where none is left:
        for D = 16, m = 256 and 512 normal keys hardly a row is faint up to a = 2, 1 in 100 at 2.5
        (relative error 2.9 there, 0.7 in the others) and 10 in 100 at 3 (3.1 and 1.4).
    generator : torch.Generator or None
        Source of the draws; torch's global one if None.

    Returns
    -------
    Tensor
        ``(..., H, N, D_v)``. Queries without any key get zero.

    Warns
    -----
    PhaseSpreadWarning
        Once per call, if a > 1.5 in some head or if sums of weights are faint, with their number.
        On a CPU only, where values can be read.

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
    query, key, value = check_inputs(query, key, value)
    check_some_keys(key)
    power = check_power(power, allow_signed=allow_signed)
    factor = check_radius(radius, query)
    _check_padding(key_padding_mask, key)
    check_choice("faint", faint, list(FAINT))
    if frequencies is None:
        frequencies = fourier_features(
            query.shape[-1], features, power=power, kind=kind, generator=generator
        )
    maps = feature_maps(query, key, factor, frequencies, key_padding_mask, is_causal)
    block = check_integer("chunk", chunk) if is_causal else None
    with without_autocast(query.device.type):
        numerator, total = feature_sums(*maps, value.to(maps[0].dtype), chunk=block)
    sums = weight_sums(maps[0], total)
    empty = without_keys(key_padding_mask, query, key, is_causal)
    output, undefined = ratio(numerator, sums, empty, signed=power % 2 == 1, faint=faint)
    if readable(query):
        spread = phase_spread(query, key, radius, power=power, key_padding_mask=key_padding_mask)
        widest = float(spread.nan_to_num().amax()) if spread.numel() else 0.0
        _warn(widest, undefined, faint)
    return output.to(query.dtype)


def linear_fourier_state(
    key: Tensor, value: Tensor, radius: Tensor | float, *, frequencies: Tensor
) -> FeatureState:
    """Return the state of decoding after these keys, as so many steps leave it.

    Parameters
    ----------
    key, value : Tensor
        ``(..., H, M, D)`` and ``(..., H, M, D_v)``, at least one token.
    frequencies : Tensor
        ``(m, D)``, those of the steps that follow.

    Examples
    --------
    >>> draws = fourier_features(1, 8, generator=torch.Generator().manual_seed(0))
    >>> linear_fourier_state(*torch.ones(2, 1, 5, 1), 1.0, frequencies=draws).total.shape
    torch.Size([1, 1, 16])
    """
    _, key, value = check_inputs(key, key, value)
    check_some_keys(key)
    offset = key.detach()[..., :1, :]
    keys = map_tokens(key, check_radius(radius, key), frequencies, offset)
    with without_autocast(key.device.type):
        values = keys.mT @ value.to(keys.dtype)  # (..., 2m, D_v)
    return FeatureState(values, keys.sum(dim=-2, keepdim=True), offset)


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
    faint: str = "nan",
) -> tuple[Tensor, FeatureState]:
    """Attend from one more token to itself and all before it, in O(m (D + D_v)) per step.

    Successive steps return what one causal pass over the sequence returns. They warn only of faint
    sums of weights.

    Parameters
    ----------
    query, key, value : Tensor
        Those of one token: ``(..., H, 1, D)``, ``(..., H, 1, D)`` and ``(..., H, 1, D_v)``.
    state : FeatureState or None
        The state after the tokens before; None at the first.
    frequencies : Tensor
        ``(m, D)``, the same at every step.
    faint : {"nan", "bounded"}
        As in :func:`linear_fourier_attention`.

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
    query, key, value = check_inputs(query, key, value)
    check_some_keys(key)
    power = check_power(power, allow_signed=allow_signed)
    check_choice("faint", faint, list(FAINT))
    if query.shape[-2] != 1 or key.shape[-2] != 1:
        raise ValueError(
            f"query and key must be one token, (..., 1, D), got shapes {tuple(query.shape)} "
            f"and {tuple(key.shape)}"
        )
    factor = check_radius(radius, query)
    offset = key.detach() if state is None else state.offset
    queries, keys = (map_tokens(x, factor, frequencies, offset) for x in (query, key))
    with without_autocast(query.device.type):
        values, total = keys.mT @ value.to(keys.dtype), keys  # (..., 2m, D_v), (..., 1, 2m)
        if state is not None:
            values, total = values + state.values, total + state.total
        numerator = queries @ values / (queries.shape[-1] // 2)  # (..., 1, D_v)
    empty = torch.zeros((), dtype=torch.bool, device=query.device)
    sums, signed = weight_sums(queries, total), power % 2 == 1
    output, undefined = ratio(numerator, sums, empty, signed=signed, faint=faint)
    if readable(query):
        _warn(0.0, undefined, faint)
    return output.to(query.dtype), FeatureState(values, total, offset)


def _check_padding(mask: Tensor | None, key: Tensor) -> None:
    if mask is None:
        return
    shape = (*key.shape[:-3], key.shape[-2])
    if not isinstance(mask, Tensor) or mask.dtype is not torch.bool:
        kind = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
        raise TypeError(f"key_padding_mask must be a boolean tensor, got {kind}")
    if mask.shape != shape:
        raise ValueError(f"key_padding_mask must have shape {shape}, got shape {tuple(mask.shape)}")


def _warn(spread: float, undefined: Tensor, faint: str) -> None:
    parts = []
    if spread > USEFUL_SPREAD:
        parts.append(
            f"the phases of the random features have a spread of a = {spread:.2f}, and features "
            f"are useful up to {USEFUL_SPREAD}: use fourier_attention, or a smaller radius"
        )
    if lost := int(undefined.sum()):
        parts.append(
            f"{lost} of {undefined.numel()} estimated sums of weights are not above their "
            f"standard error, and the outputs there are {FAINT[faint].description}"
        )
    if parts:
        warnings.warn("; ".join(parts), PhaseSpreadWarning, stacklevel=3)
