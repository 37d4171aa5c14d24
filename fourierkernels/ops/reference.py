"""The reference: weight functions, exact and slow, of the estimator that every attention is.

An attention is only its weight function, a function of this module that returns log|w_ij|; what
is done with weights is shared by all (:mod:`fourierkernels.ops.nadaraya_watson`). Products of D
factors underflow long before their logarithms do, so no weight is ever formed before its row's
maximum is known.

Pairs that a mask hides have a weight of 0 whatever q_i and k_j are. Where these are not finite,
0 times the slope of the weight is NaN, so differences of hidden pairs are set to 0 before anything
is computed of them. Dot products have no such place: :func:`softmax_scores`, a control, lets a
hidden key that is not finite into gradients, as torch's own attention does.

The (N, M, D) differences are stored: memory is the price of formulas that can be read.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import forward_ad

from fourierkernels.ops.shapes import LOG_SINC_SLOPE

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


# Of queries (..., N, D), keys (..., M, D) and which pairs are hidden, (..., N, M), if any are.
ScoreFunction = Callable[[Tensor, Tensor, Tensor | None], Scores]


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


class _MappedLogAbsSinc(_LogAbsSinc):
    """The same with a rule for `vmap`, which torch.compile does not accept."""

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None], x: Tensor) -> tuple[Tensor, int | None]:
        return log_abs_sinc(x), in_dims[0]


def _log_abs_sinc_by_operations(x: Tensor) -> Tensor:
    """Return log|sin x / x| in operations of torch, which forward mode may enter more than once.

    Of a function of one's own torch keeps the innermost tangent and loses some of what the outer
    ones add, so that `jvp` of `jvp` would be wrong. Here |x| < 0.5 has the integrated series.
    """
    near = x.abs() < _SERIES_LIMIT
    small = torch.where(near, x, 0.0).square()
    series = torch.zeros_like(x)
    for count, coefficient in reversed(list(enumerate(LOG_SINC_SLOPE, 1))):
        series = series * small + coefficient / (2 * count)
    far = torch.where(near, 1.0, x)
    sine = torch.sin(far)
    at_zero = sine == 0  # the weight is zero, whatever its slope
    logarithm = torch.where(at_zero, 1.0, sine / far).abs().log().masked_fill(at_zero, -math.inf)
    return torch.where(near, -small * series, logarithm)


def in_forward_mode() -> bool:
    """Return whether a `dual_level` is open: `torch.func.jvp` and what calls it open one."""
    return forward_ad._current_level >= 0


def log_abs_sinc(x: Tensor) -> Tensor:
    """Return log|sin x / x| elementwise, with a finite derivative everywhere.

    Examples
    --------
    >>> log_abs_sinc(torch.tensor([0.0, 1.0]))
    tensor([ 0.0000, -0.1726])
    """
    if torch.compiler.is_compiling():
        result: Tensor = _LogAbsSinc.apply(x)  # type: ignore[no-untyped-call]
    elif in_forward_mode():
        result = _log_abs_sinc_by_operations(x)
    else:
        result = _MappedLogAbsSinc.apply(x)  # type: ignore[no-untyped-call]
    return result


def fourier_scores(
    query: Tensor,
    key: Tensor,
    hidden: Tensor | None = None,
    *,
    radius: Tensor,
    power: int,
    matrix: Tensor | None = None,
) -> Scores:
    """Return w_ij = ∏_d (sin x_d / x_d)^l at x = R (q_i - k_j).

    Source: [nguyen2022fourierformer]_, eq. 15 with φ(z) = z^l.

    Parameters
    ----------
    query, key : Tensor
        ``(..., N, D)`` and ``(..., M, D)``.
    hidden : Tensor or None
        Which pairs a mask hides, broadcastable to ``(..., N, M)``; their weight is that of x = 0.
    radius : Tensor
        R, broadcastable to ``(..., N, M, D)``.
    power : int
        l; odd powers give signed weights.
    matrix : Tensor or None
        Multiplies the differences before R does, ``(..., D, D)``.
    """
    u = _differences(query, key, hidden)
    if matrix is not None:
        u = u @ matrix.mT.unsqueeze(-3)
    x = _seen(radius * u, hidden)  # (..., N, M, D)
    log_abs = power * log_abs_sinc(x).sum(dim=-1)
    if power % 2 == 0:
        return Scores(log_abs)
    return Scores(log_abs, torch.sinc(x.detach() / math.pi).sign().prod(dim=-1))


def softmax_scores(
    query: Tensor, key: Tensor, hidden: Tensor | None = None, *, scale: float
) -> Scores:
    """Return w_ij = exp(scale q_i·k_j) for query ``(..., N, D)`` and key ``(..., M, D)``.

    Source: [vaswani2017attention]_, eq. 1.
    """
    return Scores(scale * (query @ key.mT))


def gaussian_scores(
    query: Tensor, key: Tensor, hidden: Tensor | None = None, *, sigma: float
) -> Scores:
    """Return w_ij = exp(-|q_i - k_j|² / (2σ²)) for query ``(..., N, D)`` and key ``(..., M, D)``.

    Source: [nguyen2022fourierformer]_, eq. 7.
    """
    squared = _differences(query, key, hidden).square().sum(dim=-1)
    return Scores(-squared / (2 * sigma**2))


def _differences(query: Tensor, key: Tensor, hidden: Tensor | None) -> Tensor:
    return _seen(query.unsqueeze(-2) - key.unsqueeze(-3), hidden)  # (..., N, M, D)


def _seen(pairs: Tensor, hidden: Tensor | None) -> Tensor:
    """Return numbers of pairs and features, 0 for pairs that are hidden: so is their gradient."""
    return pairs if hidden is None else torch.where(hidden.unsqueeze(-1), 0.0, pairs)
