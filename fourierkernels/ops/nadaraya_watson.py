"""The estimator that every attention is: a mean of values, weighted by a kernel of keys.

Keys are the design points, values the responses, queries the new points: the output is
h_i = Σ_j w_ij v_j / Σ_j w_ij ([nadaraya1964estimating]_, [watson1964smooth]_, and
[nguyen2022fourierformer]_, eq. 7 and 15). Which weights, is a function of
:mod:`fourierkernels.ops.reference`.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from fourierkernels.ops.reference import ScoreFunction, Scores

Drop = Callable[[Tensor], Tensor]  # of normalised weights, (..., N, M)


def normalise(scores: Scores, *, eps: float = 0.0) -> Tensor:
    """Return P_ij = w_ij / (Σ_j w_ij + eps), shape ``(..., N, M)``.

    A row without any weight (all its keys masked, or all their weights zero) is zero, and so is
    its gradient. Signed weights may cancel: their ratio is returned as it is, however large.

    Examples
    --------
    >>> normalise(Scores(torch.tensor([[-1000.0, -1000.0]])))
    tensor([[0.5000, 0.5000]])
    """
    if scores.log_abs.shape[-1] == 0:  # no keys have no peak
        return scores.log_abs
    peak, empty = _peak(scores.log_abs, eps)
    weights = torch.exp(scores.log_abs - peak)
    if scores.sign is not None:
        weights = weights * scores.sign
    total = weights.sum(dim=-1, keepdim=True)
    if eps > 0:
        total = total + torch.exp(math.log(eps) - peak)
    return weights / total.masked_fill(empty, 1.0)


def nadaraya_watson(
    score: ScoreFunction,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    bias: Tensor | None = None,
    drop: Drop | None = None,
    eps: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Return the estimate h_i = Σ_j P_ij v_j, ``(..., N, D_v)``, and P, ``(..., N, M)``.

    Parameters
    ----------
    score : callable
        From query ``(..., N, D)``, key ``(..., M, D)`` and which pairs are hidden, ``(..., N, M)``
        or None, to the weights before normalisation.
    value : Tensor
        ``(..., M, D_v)``.
    bias : Tensor or None
        Added to log|w|, broadcastable to ``(..., N, M)``; minus infinity removes a key, which
        then does not count even if it is not finite.
    drop : callable or None
        Dropout of the normalised weights.
    eps : float
        Added to the denominator.
    """
    hidden = None
    if bias is None:
        weights = normalise(score(query, key, None), eps=eps)
    else:
        hidden = bias == -math.inf
        scores = score(query, key, hidden)
        added = (scores.log_abs + bias).masked_fill(hidden, -math.inf)
        weights = normalise(scores._replace(log_abs=added), eps=eps)
        weights = weights.masked_fill(hidden, 0.0)  # in rows that are NaN, too
    if drop is not None:
        weights = drop(weights)
    return _apply(weights, value, hidden), weights


def _apply(weights: Tensor, value: Tensor, hidden: Tensor | None) -> Tensor:
    """Return W v, in which values of hidden pairs do not count even if they are not finite.

    Of values that are not finite, queries that see them get NaN. In the product that is a second
    one, of which values are not finite and who sees them: 0 · NaN would show them to everybody.
    """
    if hidden is None:
        return weights @ value
    finite = torch.isfinite(value)
    seen = (1.0 + 0.0 * weights).masked_fill(hidden, 0.0)  # depends on the weights, as W v does
    spoilt = seen @ (~finite).to(value.dtype)  # (..., N, D_v)
    return weights @ torch.where(finite, value, 0.0) + spoilt * _nan_where(spoilt.detach() > 0)


def _nan_where(condition: Tensor) -> Tensor:
    return torch.where(condition, math.nan, 0.0)


def additive(mask: Tensor | None, query: Tensor, keys: int, *, is_causal: bool) -> Tensor | None:
    """Return a mask as what is added to log|w|, broadcastable to ``(..., N, M)``, or None.

    Examples
    --------
    >>> additive(None, torch.zeros(2, 1), 2, is_causal=True)
    tensor([[0., -inf],
            [0., 0.]])
    """
    bias = None
    if mask is not None:
        bias = mask.to(query.dtype)
        if mask.dtype is torch.bool:
            bias = torch.zeros_like(bias).masked_fill(~mask, -math.inf)
    if is_causal:
        later = torch.ones(query.shape[-2], keys, dtype=torch.bool, device=query.device).triu(1)
        bias = (query.new_zeros(()) if bias is None else bias).masked_fill(later, -math.inf)
    return bias


def _peak(log_abs: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Return the finite reference point of each row and whether the row is empty, ``(..., N, 1)``.

    eps is a key more, of log-weight log eps and value zero, and so takes part in the maximum: with
    the maximum m of the true keys alone, eps exp(-m) overflows float32 below about m = -100, and
    at eps = 0 would be 0·inf. This is logaddexp, but open to denominators with a sign.
    """
    # P does not depend on the reference point, so it carries no gradient.
    peak = log_abs.detach().amax(dim=-1, keepdim=True)
    if eps > 0:
        peak = peak.clamp(min=math.log(eps))
    empty = peak == -math.inf
    return peak.masked_fill(empty, 0.0), empty
