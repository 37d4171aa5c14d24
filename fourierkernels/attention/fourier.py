"""Fourier attention as a function: the operator, or the reference where only that has an answer.

Shapes, masks, ``is_causal`` and dropout are those of
`torch.nn.functional.scaled_dot_product_attention`. Half precision is computed in float32, with
autocast off, and returned as it came. The controls call the reference estimator, too.
"""

from functools import partial
from typing import Literal, overload

import torch
from torch import Tensor

from fourierkernels.attention.radii import check_radius, map_rows
from fourierkernels.attention.validation import (
    WORKING_DTYPE,
    check_dropout,
    check_eps,
    check_inputs,
    check_mask,
    check_power,
    constant_when_compiled,
    without_autocast,
)
from fourierkernels.foundation.validation import check_choice
from fourierkernels.ops.arguments import ForwardCall, Inputs, Options, first_seen
from fourierkernels.ops.dropout import draw_seed, drop
from fourierkernels.ops.nadaraya_watson import Drop, additive, nadaraya_watson
from fourierkernels.ops.reference import ScoreFunction, fourier_scores
from fourierkernels.ops.transforms import attend_anywhere

NEAR = 8.0  # of R k, or k/σ: rows are taken as they are if the first key is within it


@overload
def fourier_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    radius: Tensor | float,
    *,
    power: int = ...,
    attn_mask: Tensor | None = ...,
    is_causal: bool = ...,
    dropout_p: float = ...,
    eps: float = ...,
    scale: float | None = ...,
    enable_gqa: bool = ...,
    return_weights: Literal[False] = ...,
    allow_signed: bool = ...,
    implementation: Literal["fused", "reference"] = ...,
) -> Tensor: ...
@overload
def fourier_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    radius: Tensor | float,
    *,
    power: int = ...,
    attn_mask: Tensor | None = ...,
    is_causal: bool = ...,
    dropout_p: float = ...,
    eps: float = ...,
    scale: float | None = ...,
    enable_gqa: bool = ...,
    return_weights: Literal[True],
    allow_signed: bool = ...,
    implementation: Literal["fused", "reference"] = ...,
) -> tuple[Tensor, Tensor]: ...
def fourier_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    radius: Tensor | float,
    *,
    power: int = 4,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    dropout_p: float = 0.0,
    eps: float = 0.0,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_weights: bool = False,
    allow_signed: bool = False,
    implementation: Literal["fused", "reference"] = "fused",
) -> Tensor | tuple[Tensor, Tensor]:
    """Nadaraya-Watson regression of the values on the keys with the kernel ∏ sinc^l.

    h_i = Σ_j w_ij v_j / (Σ_j w_ij + eps), w_ij = ∏_d (sin x_d / x_d)^l, x = R (q_i - k_j):
    [nguyen2022fourierformer]_, eq. 15. No weight underflows: products are kept as significand and
    exponent, or as logarithms. The fused implementation stores no N x M array but the weights, if
    they are asked for. Second and higher derivatives and forward mode are the reference's, which
    stores O(N M D).

    Parameters
    ----------
    query, key, value : Tensor
        ``(..., H, N, D)``, ``(..., H, M, D)`` and ``(..., H, M, D_v)``, one floating dtype; leading
        dimensions broadcast. Under autocast float32 and half precision may be mixed: the widest of
        them is the dtype of the result.
    radius : Tensor or float
        R, positive: a number, ``(D,)`` per feature, ``(H, 1)`` per head, or ``(H, D)``. Or a
        matrix, ``(D, D)``, and one per head, ``(H, D, D)``: x = R (q_i - k_j), as
        :class:`~fourierkernels.estimators.NadarayaWatson` has it; signs and zeros are allowed, and
        det R cancels (eps is added to Σ_j ∏_d sinc^l without it). Where H = D, write ``(1, D, D)``
        or ``(H, 1, D)``. Differentiable. Computed in the precision of the other inputs.
    power : int
        l, at most 2^14, and 2^24 / D in more than 1,024 features.
    attn_mask : Tensor or None
        Broadcastable to ``(..., H, N, M)``: boolean, True where the query attends, or floating,
        added to log|w|, differentiable. Not together with `is_causal`. Numbers
        are added as they are rounded: beside one of -1e30 nothing remains of log|w|, and a row that
        is masked whole by it returns the mean of the values whose weights are not zero. Fused, two
        different numbers beyond 1.8e8 weigh the same if the larger is at most 1/32 above the other.
    is_causal : bool
        Query i attends to keys j <= i, also when N and M differ.
    dropout_p : float
        In [0, 1): probability that a normalised weight is dropped, at every call. The draw is a
        function of one seed ([salmon2011parallel]_), which comes from torch's generator of the
        inputs' device: after the same `torch.manual_seed` either implementation drops the same
        pairs, on any device to which the same seed comes.
    eps : float
        Added to the denominator: 0 is the paper, 1e-6 the implementation its authors published.
    scale : float or None
        Positive, 1 if None. It multiplies the differences q - k, and so R, where torch's multiplies
        the products q·k: a factor c of q·k in softmax attention, the Gaussian kernel of q - k for
        keys of one norm, is a scale of √c here.
    enable_gqa : bool
        Key and value have fewer heads, which divide H: each serves H over their number of
        consecutive heads of queries. The radius and masks are those of the queries' heads.
    return_weights : bool
        Return also the weights that were applied, ``(..., H, N, M)``: after dropout.
    allow_signed : bool
        Accept odd powers. Their denominator may be negative or close to zero; the ratio is
        returned all the same.
    implementation : {"fused", "reference"}
        The operator for CPU and CUDA, or always the reference, for any device. Phases R (q - c) and
        R (k - c) of the operator are rounded, where c is 0 or near the first key that the mask
        leaves to a query: where that one is far from the others, the reference is more exact.

    Returns
    -------
    Tensor
        ``(..., H, N, D_v)``. Queries left without any key get zero, M = 0 included. Where inputs
        cannot be checked, on a GPU, compiled or transformed, what is not finite shows as NaN in
        all that sees it (so does plus infinity in a mask); a masked key is not seen.

    Raises
    ------
    ValueError
        If a value breaks its rule, or shapes or devices do not match. Values of tensors are read
        on a CPU only.
    TypeError
        If an argument or dtype is of the wrong kind.
    RuntimeError
        In an export to ONNX, which has no such operator.
    BuildError
        If the CUDA kernels are needed and cannot be built; the message says what to do.

    Examples
    --------
    >>> query, key = torch.zeros(1, 1, 2), torch.tensor([[[0.0, 0.0], [1.0, 0.0]]])
    >>> fourier_attention(query, key, torch.tensor([[[0.0], [1.0]]]), 2.0, power=2)
    tensor([[[0.1713]]])
    """
    _refuse_onnx()
    query, key, value = check_inputs(query, key, value, enable_gqa=enable_gqa)
    checked = check_radius(radius, query, scale)
    power = check_power(power, allow_signed=allow_signed, features=query.shape[-1] or 1)
    attn_mask = check_mask(attn_mask, is_causal=is_causal, query=query, key=key)
    dropout_p, eps = check_dropout("dropout_p", dropout_p), check_eps(eps)
    check_choice("implementation", implementation, list(IMPLEMENTATIONS))
    options = Options(power, is_causal, eps, dropout_p, return_weights)
    inputs = Inputs(query, key, value, checked.scale, attn_mask)
    if dropout_p:
        inputs = inputs._replace(seed=draw_seed(query.device))
    output, weights = IMPLEMENTATIONS[implementation](inputs, options, checked.matrix)
    return (output, weights) if return_weights else output


def _refuse_onnx() -> None:
    """Refuse what traces a network for ONNX: it would end in an unknown operator."""
    if (torch.compiler.is_compiling() or torch._C._get_tracing_state()) and _in_onnx_export():
        raise RuntimeError(
            "fourier_attention cannot be exported to ONNX, which has no such operator; "
            "torch.export keeps it"
        )


@constant_when_compiled
def _in_onnx_export() -> bool:
    return torch.onnx.is_in_onnx_export()


def _fused(inputs: Inputs, options: Options, matrix: Tensor | None) -> tuple[Tensor, Tensor]:
    """Call the operator in its own shapes: (B, H, N, D), and a radius per head and feature."""
    query, key, value, radius, mask, seed = inputs
    given, working = query.dtype, WORKING_DTYPE[query.dtype]
    width = value.shape[-1]
    if options.return_weights and width == 0:  # the operator has no weights without sums
        value = torch.nn.functional.pad(value, (0, 1))
    query4, key4, value4 = (with_batch(tensor.to(working)) for tensor in (query, key, value))
    heads = query.shape[-3] if query.ndim > 2 else 1
    if radius.ndim > 1:
        radius = radius[:, 0, 0, :]  # (H or 1, D or 1)
    radius = radius.expand(heads, query.shape[-1])  # (H, D)
    mask = None if mask is None else mask_with_batch(mask, query)
    if mask is not None and mask.dtype is not torch.bool:
        mask = mask.to(working)
    if matrix is not None:
        query4, key4 = _mapped(query4, key4, matrix, mask)
    with without_autocast(query.device.type):
        output, weights = attend_anywhere(
            ForwardCall(Inputs(query4, key4, value4, radius, mask, seed), options)
        )
    rows = query.shape[:-1]
    output = output.reshape(*rows, value.shape[-1])[..., :width].to(given)  # (..., H, N, D_v)
    return output, weights.reshape(*rows, weights.shape[-1]).to(given)


def _mapped(
    query: Tensor, key: Tensor, matrix: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return R (q - c) and R (k - c) of four dimensions: c is the first key seen if that is far.

    Only differences count, and sums of far terms would lose their digits.
    """
    if key.shape[2]:
        first = first_seen(key.detach(), mask)
        largest = matrix.detach().abs().amax(dim=-2).view(-1, 1, key.shape[3])  # (H or 1, 1, D)
        far = (largest * first.abs() > NEAR).any(dim=-1, keepdim=True)
        offset = torch.where(far & torch.isfinite(first), first, 0.0)
        query, key = query - offset, key - offset
    return map_rows(query, matrix), map_rows(key, matrix)


def _by_reference(inputs: Inputs, options: Options, matrix: Tensor | None) -> tuple[Tensor, Tensor]:
    query, key, value, radius, mask, seed = inputs
    return estimate(
        partial(fourier_scores, radius=radius, power=options.power, matrix=matrix),
        query,
        key,
        value,
        additive_bias(mask, options.causal, query, key),
        None if seed is None else partial(drop, seed=seed, p=options.dropout_p),
        options.eps,
    )


IMPLEMENTATIONS = {"fused": _fused, "reference": _by_reference}


def with_batch(tensor: Tensor) -> Tensor:
    """Return queries, keys or values in four dimensions, ``(B, H, N, D)``."""
    if tensor.ndim < 4:
        return tensor[(None,) * (4 - tensor.ndim)]
    return tensor.flatten(0, -4)


def mask_with_batch(mask: Tensor, query: Tensor) -> Tensor:
    """Return the mask in four dimensions; what it shares is expanded only beyond one batch."""
    mask = mask[(None,) * (max(4, query.ndim) - mask.ndim)]
    if query.ndim > 4:
        mask = mask.expand(*query.shape[:-3], *mask.shape[-3:]).flatten(0, -4)
    return mask


def estimate(
    score: ScoreFunction,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    drop: Drop | None,
    eps: float,
) -> tuple[Tensor, Tensor]:
    """Run the estimator in the working precision and return it in that of the inputs."""
    given, working = query.dtype, WORKING_DTYPE[query.dtype]
    query, key, value = query.to(working), key.to(working), value.to(working)
    with without_autocast(query.device.type):
        output, weights = nadaraya_watson(score, query, key, value, bias=bias, drop=drop, eps=eps)
    return output.to(given), weights.to(given)


def torch_dropout(dropout_p: float) -> Drop | None:
    """Return dropout as torch draws it."""
    if not dropout_p:
        return None
    return partial(torch.dropout, p=dropout_p, train=True)


def additive_bias(
    attn_mask: Tensor | None, is_causal: bool, query: Tensor, key: Tensor
) -> Tensor | None:
    """Return the mask as what is added to the log-weights in the working precision."""
    working = query.to(WORKING_DTYPE[query.dtype])
    return additive(attn_mask, working, key.shape[-2], is_causal=is_causal)
