"""Softmax attention in linear time by positive random features: FAVOR+ of the Performer.

With w from N(0, I) and q' = q/D^(1/4), k' = k/D^(1/4),

    exp(q·k/√D) = E [exp(w·q' - |q'|²/2) exp(w·k' - |k'|²/2)],

[choromanski2021rethinking]_ lemma 1: unlike those of sines and cosines, features are positive, and
so is every sum of weights. A factor that is the same for all features of a query, or for all keys,
cancels in the quotient of the sums; so the largest exponent of each query, and the largest over all
keys and features, are subtracted before they are raised (``performer_attention.py`` of
https://github.com/google-research/long-range-arena, which leaves |x|²/2 out of the maxima and so
adds its constant to smaller features). Causal outputs must not depend on the later keys of a
maximum, not in their last bit: there a number is subtracted that the draws alone decide.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from fourierkernels.attention.feature_sums import check_frequencies, feature_products, without_keys
from fourierkernels.attention.features import orthogonal_normals, over_heads
from fourierkernels.attention.validation import (
    WORKING_DTYPE,
    check_eps,
    check_inputs,
    check_some_keys,
    without_autocast,
)
from fourierkernels.foundation.validation import check_choice, check_integer

EPS = 1e-6  # added to each feature: numerical_stabilizer of the published code
_LARGEST = 60.0  # of the exponents of causal keys: exp(60) times the tokens fits into float32


class PositiveState(NamedTuple):
    """State of decoding: sums over the keys so far, of a size that does not depend on their number.

    Attributes
    ----------
    values : Tensor
        Σ_j φ(k_j) v_j, ``(..., m, D_v)``.
    total : Tensor
        Σ_j φ(k_j), ``(..., 1, m)``.
    """

    values: Tensor
    total: Tensor


def gaussian_features(
    dim: int,
    features: int,
    *,
    kind: str = "orthogonal",
    generator: torch.Generator | None = None,
) -> Tensor:
    """Draw standard normal frequencies ``(features, dim)``, float64.

    Parameters
    ----------
    dim : int
        D.
    features : int
        m.
    kind : {"orthogonal", "iid"}
        Rows orthogonal in blocks of D, with the norms of independent ones, or independent.
    generator : torch.Generator or None
        A generator on the CPU; torch's global one if None.

    Raises
    ------
    ValueError, TypeError
        If an argument breaks its rule.

    Examples
    --------
    >>> gaussian_features(4, 6).shape
    torch.Size([6, 4])
    """
    dim, features = check_integer("dim", dim), check_integer("features", features)
    return DRAWS[check_choice("kind", kind, list(DRAWS))](dim, features, generator)


def exponents(x: Tensor, frequencies: Tensor) -> Tensor:
    """Return w_r·x' - |x'|²/2, ``(..., N, m)``, x' = x/D^(1/4), in the working precision.

    The mean of exp over many draws at q and k, added, is exp(q·k/√D).
    """
    dim = x.shape[-1]
    check_frequencies(frequencies, dim)
    working = WORKING_DTYPE[x.dtype]
    with without_autocast(x.device.type):
        scaled = x.to(working) * dim**-0.25  # (..., N, D)
        products = scaled @ frequencies.to(x.device, working).mT  # (..., N, m)
        exponent: Tensor = products - scaled.square().sum(dim=-1, keepdim=True) / 2
        return exponent


def performer_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    frequencies: Tensor,
    is_causal: bool = False,
    key_padding_mask: Tensor | None = None,
    chunk: int = 64,
    eps: float = EPS,
) -> Tensor:
    """Estimate softmax attention, weights exp(q·k/√D), in O(N m (D + D_v)).

    Parameters
    ----------
    query, key, value : Tensor
        ``(..., H, N, D)``, ``(..., H, M, D)`` and ``(..., H, M, D_v)``, one floating dtype; half
        precision is computed in float32.
    frequencies : Tensor
        ``(m, D)``, from :func:`gaussian_features`.
    is_causal : bool
        Query i attends to keys j <= i, also when N and M differ.
    key_padding_mask : Tensor or None
        Boolean, True at keys to be left out: ``(..., M)``, one for all heads.
    chunk : int
        Tokens in one causal block, whose weights are formed. It affects only the running time.
    eps : float
        Added to each feature, whose largest are near 1. Where it is 0, a query none of whose keys
        is anywhere near can get NaN.

    Returns
    -------
    Tensor
        ``(..., H, N, D_v)``. Queries without any key get zero.

    Raises
    ------
    ValueError, TypeError
        If an argument breaks its rule.

    Examples
    --------
    >>> draws = gaussian_features(2, 4096, generator=torch.Generator().manual_seed(0))
    >>> query, key = torch.ones(1, 1, 2), torch.tensor([[[0.0, 0.0], [0.5, 0.0]]])
    >>> value = torch.tensor([[[0.0], [1.0]]])
    >>> f"{performer_attention(query, key, value, frequencies=draws).item():.2f}"
    '0.59'
    >>> f"{torch.sigmoid(torch.tensor(0.5 / 2**0.5)).item():.2f}"
    '0.59'
    """
    query, key, value = check_inputs(query, key, value)
    check_some_keys(key)
    eps = check_eps(eps)
    kept = None if key_padding_mask is None else ~over_heads(key_padding_mask, key)[..., None]
    query_map = query_features(query, frequencies, eps)  # (..., N, m)
    key_map = key_features(key, frequencies, eps, kept=kept, is_causal=is_causal)  # (..., M, m)
    block = check_integer("chunk", chunk) if is_causal else None
    with without_autocast(query.device.type):
        products, total = feature_products(query_map, key_map, value.to(key_map.dtype), chunk=block)
    empty = without_keys(key_padding_mask, query, key, is_causal)
    sums = (query_map * total).sum(dim=-1, keepdim=True)  # (..., N, 1)
    return torch.where(empty, 0.0, products / sums.masked_fill(empty, 1.0)).to(query.dtype)


def query_features(query: Tensor, frequencies: Tensor, eps: float) -> Tensor:
    """Return φ(q) over the largest of each query, ``(..., N, m)``."""
    exponent = exponents(query, frequencies)
    return (exponent - exponent.detach().amax(dim=-1, keepdim=True)).exp() + eps


def key_features(
    key: Tensor,
    frequencies: Tensor,
    eps: float,
    *,
    kept: Tensor | None = None,
    is_causal: bool = False,
) -> Tensor:
    """Return φ(k) over one number for all keys, ``(..., M, m)``; zero where a key is left out.

    Parameters
    ----------
    kept : Tensor or None
        True at keys that count, ``(..., M, 1)``.
    is_causal : bool
        Whether that number must not depend on the keys.
    """
    exponent = exponents(key, frequencies)
    if kept is not None:
        exponent = exponent.masked_fill(
            ~kept, -math.inf
        )  # before the power: no infinity, no NaN gradient
    features = (exponent - _shift(exponent, frequencies, is_causal)).exp() + eps
    return features if kept is None else features.masked_fill(~kept, 0.0)


def performer_state(
    key: Tensor, value: Tensor, *, frequencies: Tensor, eps: float = EPS
) -> PositiveState:
    """Return the state of decoding after these keys, as so many steps leave it."""
    _, key, value = check_inputs(key, key, value)
    check_some_keys(key)
    keys = key_features(key, frequencies, eps, is_causal=True)
    with without_autocast(key.device.type):
        values = keys.mT @ value.to(keys.dtype)  # (..., m, D_v)
    return PositiveState(values, keys.sum(dim=-2, keepdim=True))


def performer_step(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    state: PositiveState | None = None,
    *,
    frequencies: Tensor,
    eps: float = EPS,
) -> tuple[Tensor, PositiveState]:
    """Attend from one more token ``(..., H, 1, D)`` to itself and all before it.

    Successive steps return what one causal pass over the sequence returns.
    """
    new = performer_state(key, value, frequencies=frequencies, eps=eps)
    if state is not None:
        new = PositiveState(new.values + state.values, new.total + state.total)
    features = query_features(query, frequencies, eps)
    with without_autocast(query.device.type):
        numerator = features @ new.values  # (..., 1, D_v)
    output = numerator / (features * new.total).sum(dim=-1, keepdim=True)
    return output.to(query.dtype), new


def _shift(exponent: Tensor, frequencies: Tensor, is_causal: bool) -> Tensor:
    """Return what is subtracted from the exponents of keys.

    w·k - |k|²/2 is at most |w|²/2, so causal features cannot overflow whatever the keys are.
    """
    if is_causal:
        bound = frequencies.square().sum(dim=-1).amax() / 2
        return (bound - _LARGEST).clamp(min=0.0).to(exponent.device, exponent.dtype)
    largest = exponent.detach().amax(dim=(-2, -1), keepdim=True)
    return largest.masked_fill(largest == -math.inf, 0.0)


def _iid(dim: int, m: int, generator: torch.Generator | None) -> Tensor:
    return torch.randn(m, dim, dtype=torch.float64, device="cpu", generator=generator)


Draw = Callable[[int, int, torch.Generator | None], Tensor]
DRAWS: dict[str, Draw] = {"orthogonal": orthogonal_normals, "iid": _iid}
