"""The reference estimator, as every attention function calls it: in the working precision."""

from contextlib import AbstractContextManager, nullcontext
from functools import partial

import torch
from torch import Tensor

from fourierkernels.attention.validation import WORKING_DTYPE
from fourierkernels.ops.nadaraya_watson import Drop, additive, nadaraya_watson
from fourierkernels.ops.reference import ScoreFunction


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


# torch.compile of 2.11 cannot trace what is asked here.
@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _has_autocast(device_type: str) -> bool:
    return torch.amp.is_autocast_available(device_type)


def without_autocast(device_type: str) -> AbstractContextManager[object]:
    """Turn autocast off: it would run the products of matrices in half precision, silently."""
    if not _has_autocast(device_type):
        return nullcontext()
    return torch.autocast(device_type, enabled=False)
