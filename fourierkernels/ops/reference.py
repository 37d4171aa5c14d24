"""The reference: every attention as one Nadaraya-Watson estimator, exact and slow.

Keys are the design points, values the responses, queries the new points: the output is
h_i = Σ_j w_ij v_j / Σ_j w_ij ([nadaraya1964estimating]_, [watson1964smooth]_, and
[nguyen2022fourierformer]_, eq. 7 and 15). An attention is only its weight function, a row of this
module that returns log|w_ij|; normalisation is one function, shared by all. Products of D factors
underflow long before their logarithms do, so no weight is ever formed before its row's maximum is
known.

The (N, M, D) differences are stored: memory is the price of formulas that can be read.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fourierkernels.ops.coefficients import LOG_SINC_SLOPE

# Below it the quotient cancels, above it ten terms are too few: both are at 1e-16 here.
_SERIES_LIMIT = 0.5


class Scores(NamedTuple):
    """Unnormalised weights w_ij of queries i and keys j.

    Attributes
    ----------
    log_abs : Tensor
        log|w_ij|, ``(..., N, M)``; minus infinity where the weight is zero.
    sign : Tensor or None
        Sign of w_ij, ``(..., N, M)``; None where no weight can be negative.
    """

    log_abs: Tensor
    sign: Tensor | None = None


ScoreFunction = Callable[[Tensor, Tensor], Scores]


def log_sinc_slope(x: Tensor) -> Tensor:
    """Return d/dx log|sin x / x| = cot x - 1/x, finite for every finite x.

    The quotient (x cos x - sin x) / (x sin x) is 0/0 at x = 0, which is where a query meets its own
    key, so its power series serves |x| < 0.5. At a zero of the sine the slope is infinite but its
    weight is zero: any finite value gives the right product.

    Examples
    --------
    >>> log_sinc_slope(torch.tensor([0.0, 0.3]))
    tensor([-0.0000, -0.1006])
    """
    near = x.abs() < _SERIES_LIMIT
    small = torch.where(near, x, 0.0)
    series = torch.zeros_like(x)
    for coefficient in reversed(LOG_SINC_SLOPE):
        series = series * small.square() + coefficient
    sine = torch.sin(x)
    below = torch.where(near | (sine == 0), 1.0, x * sine)
    return torch.where(near, -small * series, (x * torch.cos(x) - sine) / below)


class _LogAbsSinc(torch.autograd.Function):
    """log|sin x / x| whose derivative is :func:`log_sinc_slope`.

    Torch's own derivative of sinc divides x cos x - sin x by x²: in float32 it has lost a third of
    its value at x = 1e-3 and all of it at 1e-4. Stating the slope also saves x alone, where a
    series in torch operations would keep ten powers of it.
    """

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return torch.sinc(x / math.pi).abs().log()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return gradients[0] * log_sinc_slope(x)


def log_abs_sinc(x: Tensor) -> Tensor:
    """Return log|sin x / x| elementwise, with a finite derivative everywhere.

    Examples
    --------
    >>> log_abs_sinc(torch.tensor([0.0, 1.0]))
    tensor([ 0.0000, -0.1726])
    """
    result: Tensor = _LogAbsSinc.apply(x)  # type: ignore[no-untyped-call]
    return result


def fourier_scores(query: Tensor, key: Tensor, *, radius: Tensor, power: int) -> Scores:
    """Return w_ij = ∏_d (sin x_d / x_d)^l at x = R (q_i - k_j).

    Source: [nguyen2022fourierformer]_, eq. 15 with φ(z) = z^l.

    Parameters
    ----------
    query, key : Tensor
        ``(..., N, D)`` and ``(..., M, D)``.
    radius : Tensor
        R, broadcastable to ``(..., N, M, D)``.
    power : int
        l; odd powers give signed weights.
    """
    x = radius * _differences(query, key)  # (..., N, M, D)
    log_abs = power * log_abs_sinc(x).sum(dim=-1)
    if power % 2 == 0:
        return Scores(log_abs)
    return Scores(log_abs, torch.sinc(x.detach() / math.pi).sign().prod(dim=-1))


def softmax_scores(query: Tensor, key: Tensor, *, scale: float) -> Scores:
    """Return w_ij = exp(scale q_i·k_j) for query ``(..., N, D)`` and key ``(..., M, D)``.

    Source: [vaswani2017attention]_, eq. 1.
    """
    return Scores(scale * (query @ key.mT))


def gaussian_scores(query: Tensor, key: Tensor, *, sigma: float) -> Scores:
    """Return w_ij = exp(-|q_i - k_j|² / (2σ²)) for query ``(..., N, D)`` and key ``(..., M, D)``.

    Source: [nguyen2022fourierformer]_, eq. 7.
    """
    squared = _differences(query, key).square().sum(dim=-1)
    return Scores(-squared / (2 * sigma**2))


def normalise(scores: Scores, *, eps: float = 0.0) -> Tensor:
    """Return P_ij = w_ij / (Σ_j w_ij + eps), shape ``(..., N, M)``.

    A row without any weight (all its keys masked, or all their weights zero) is zero, and so is
    its gradient. Signed weights may cancel: their ratio is returned as it is, however large.

    Examples
    --------
    >>> normalise(Scores(torch.tensor([[-1000.0, -1000.0]])))
    tensor([[0.5000, 0.5000]])
    """
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
    dropout_p: float = 0.0,
    eps: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Return the estimate h_i = Σ_j P_ij v_j, ``(..., N, D_v)``, and P, ``(..., N, M)``.

    Parameters
    ----------
    score : callable
        From query ``(..., N, D)`` and key ``(..., M, D)`` to the weights before normalisation.
    value : Tensor
        ``(..., M, D_v)``.
    bias : Tensor or None
        Added to log|w|, broadcastable to ``(..., N, M)``; minus infinity removes a key.
    dropout_p : float
        Probability that a normalised weight is set to zero, the others divided by 1 - dropout_p.
    eps : float
        Added to the denominator.
    """
    scores = score(query, key)
    if bias is not None:
        scores = scores._replace(log_abs=scores.log_abs + bias)
    weights = torch.dropout(normalise(scores, eps=eps), dropout_p, train=True)
    return weights @ value, weights


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


def _differences(query: Tensor, key: Tensor) -> Tensor:
    return query.unsqueeze(-2) - key.unsqueeze(-3)  # (..., N, M, D)


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
