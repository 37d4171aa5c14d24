"""Checks of tensors and options, made once at the public edge of attention.

Types, shapes, dtypes and devices are always checked: they cost nothing. Values are read only on a
CPU: on a GPU the answer would have to come back before the next kernel starts, which stalls every
call and cannot be captured in a graph, and under torch.compile or vmap there is no one value to
read. There a NaN spreads to the output, where it is seen.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar

import torch
from torch import Tensor
from torch._C._functorch import is_functorch_wrapped_tensor

from fourierkernels.foundation.validation import check_integer, check_number

# Half precision is widened to float32; the others are kept.
WORKING_DTYPE = {
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
    torch.float32: torch.float32,
    torch.float64: torch.float64,
}

# A product of D factors to the power l is kept with an exponent of 32 bits, and at the far end of
# float64 a factor is not below 2^-103: 2^24 of them do not overflow. Rounding is amplified l times,
# and at l = 2^14 the sinc differs from its Gaussian limit by 3e-6 at one standard deviation.
_LARGEST_POWER = 2**14
_MOST_FACTORS = 2**24
_Function = TypeVar("_Function", bound=Callable[..., object])


def check_tensor(name: str, tensor: Tensor) -> None:
    """Refuse anything but a floating-point tensor of at least two dimensions."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{name} must be a tensor, got {type(tensor).__name__}")
    if tensor.dtype not in WORKING_DTYPE:
        raise TypeError(f"{name} must be float16, bfloat16, float32 or float64, got {tensor.dtype}")
    if tensor.ndim < 2:
        raise ValueError(f"{name} must be (..., length, features), got shape {tuple(tensor.shape)}")


def check_inputs(
    query: Tensor, key: Tensor, value: Tensor, *, enable_gqa: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """Return ``(..., N, D)``, ``(..., M, D)`` and ``(..., M, D_v)``: one dtype, one leading shape.

    As in torch's scaled_dot_product_attention, leading dimensions broadcast, and under autocast
    dtypes below float64 may differ: they become the widest of them, and are not lowered.

    Parameters
    ----------
    enable_gqa : bool
        Repeat heads of keys and values for as many consecutive heads of queries.
    """
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        check_tensor(name, tensor)
        _check_alike(name, tensor, query)
        _check_finite(name, tensor)
    if not query.dtype == key.dtype == value.dtype:  # as autocast may have left them
        wide = torch.promote_types(torch.promote_types(query.dtype, key.dtype), value.dtype)
        query, key, value = query.to(wide), key.to(wide), value.to(wide)
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(
            f"key must have the {query.shape[-1]} features of query {tuple(query.shape)}, "
            f"got shape {tuple(key.shape)}"
        )
    if key.shape[-2] != value.shape[-2]:
        raise ValueError(
            f"value must have one row for each of the {key.shape[-2]} keys of {tuple(key.shape)}, "
            f"got shape {tuple(value.shape)}"
        )
    if key.shape[-1] == 0:
        raise ValueError(f"key must have at least one feature, got shape {tuple(key.shape)}")
    if enable_gqa:
        key, value = (_for_query_heads(n, t, query) for n, t in (("key", key), ("value", value)))
    return _with_common_lead(query, key, value)


def check_some_keys(key: Tensor) -> None:
    """Refuse no keys at all where sums over them are estimated."""
    if key.shape[-2] == 0:
        raise ValueError(f"key must not be empty, got shape {tuple(key.shape)}")


def _for_query_heads(name: str, tensor: Tensor, query: Tensor) -> Tensor:
    """Return keys or values with each head as often as queries share it."""
    if query.ndim < 3 or tensor.ndim < 3:
        raise ValueError(
            f"{name} must have heads beside those of query, (..., H, length, features), with "
            f"enable_gqa=True, got shapes {tuple(tensor.shape)} and {tuple(query.shape)}"
        )
    heads, given = query.shape[-3], tensor.shape[-3]
    if given == 0 or heads % given:
        raise ValueError(
            f"{name} must have heads that divide the {heads} of query with enable_gqa=True, "
            f"got shape {tuple(tensor.shape)}"
        )
    return tensor if given == heads else tensor.repeat_interleave(heads // given, dim=-3)


def _with_common_lead(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the three with their leading dimensions broadcast, without a copy."""
    lead = query.shape[:-2]
    if key.shape[:-2] == lead and value.shape[:-2] == lead:
        return query, key, value
    for name, tensor in (("key", key), ("value", value)):
        try:
            lead = torch.broadcast_shapes(lead, tensor.shape[:-2])  # type: ignore[no-untyped-call]
        except RuntimeError:
            raise ValueError(
                f"{name} must have leading dimensions that broadcast with {tuple(lead)}, "
                f"got shape {tuple(tensor.shape)}"
            ) from None
    query, key, value = (tensor.expand(*lead, -1, -1) for tensor in (query, key, value))
    return query, key, value


def check_layouts(
    inputs: Mapping[str, Tensor], features: Sequence[int], *, batch_first: bool
) -> None:
    """Refuse inputs of a layer that are not all ``(B, N, E)`` or all ``(N, E)``.

    Parameters
    ----------
    inputs : mapping of str to Tensor
        The query first; keys are their names in messages.
    features : sequence of int
        E of each.
    batch_first : bool
        Whether batched inputs are ``(B, N, E)`` rather than ``(N, B, E)``.
    """
    layout = "batch, length" if batch_first else "length, batch"
    query = next(iter(inputs.values()))
    for (name, tensor), size in zip(inputs.items(), features, strict=True):
        check_tensor(name, tensor)
        wrong = tensor.ndim not in {2, 3} or tensor.shape[-1] != size
        if wrong or tensor.ndim != query.ndim:
            form = f"({layout}, {size})"
            if tensor is query or query.ndim == 2:
                form += f" or, without a batch, (length, {size})"
            raise ValueError(f"{name} must have shape {form}, got shape {tuple(tensor.shape)}")


def check_power(power: int, *, allow_signed: bool, features: int = 1) -> int:
    """Return the power l, from 1 to 2^14; odd only on request."""
    power = check_integer("power", power)
    largest = min(_LARGEST_POWER, _MOST_FACTORS // features)
    if power > largest:
        where = "" if largest == _LARGEST_POWER else f" with {features} features"
        raise ValueError(f"power must be at most {largest}{where}, got {power}")
    if power % 2 and not allow_signed:
        raise ValueError(
            "power must be even unless allow_signed=True: an odd power gives negative weights, "
            f"whose sum can vanish and with which training diverges, got {power}"
        )
    return power


def check_mask(
    attn_mask: Tensor | None, *, is_causal: bool, query: Tensor, key: Tensor
) -> Tensor | None:
    """Return the mask, boolean or floating, broadcastable to ``(..., N, M)``, or None."""
    if attn_mask is None:
        return None
    check_mask_kind(attn_mask, query)
    if is_causal:
        raise ValueError(
            "attn_mask must be None when is_causal=True, "
            f"got a mask of shape {tuple(attn_mask.shape)}"
        )
    shape = (*query.shape[:-1], key.shape[-2])
    if not broadcasts(attn_mask.shape, shape):
        raise ValueError(f"attn_mask must broadcast to {shape}, got shape {tuple(attn_mask.shape)}")
    return attn_mask


def check_mask_kind(attn_mask: Tensor, query: Tensor) -> None:
    """Refuse anything but a boolean or floating-point mask on the device of `query`."""
    if not isinstance(attn_mask, Tensor):
        raise TypeError(f"attn_mask must be a tensor, got {type(attn_mask).__name__}")
    if attn_mask.dtype is not torch.bool and not attn_mask.is_floating_point():
        raise TypeError(f"attn_mask must be boolean or floating point, got {attn_mask.dtype}")
    if attn_mask.device != query.device:
        raise ValueError(f"attn_mask must be on {query.device}, as query, got {attn_mask.device}")
    if attn_mask.is_floating_point():
        _check_finite("attn_mask", attn_mask, minus_infinity=True)


def check_dropout(name: str, value: float) -> float:
    """Return the probability of dropping a weight, below 1.

    scaled_dot_product_attention accepts 1 and returns zeros. The factor 1/(1 - p) does not exist
    there, so the value is always a mistake.
    """
    number = check_option(name, value)
    if not 0 <= number < 1:
        raise ValueError(f"{name} must be at least 0 and below 1, got {value}")
    return number


def check_eps(eps: float) -> float:
    """Return the number added to the denominator, finite and not negative."""
    number = check_option("eps", eps)
    if number < 0:
        raise ValueError(f"eps must be finite and at least 0, got {eps}")
    return number


def check_option(name: str, value: float) -> float:
    """Return a finite number; under torch.compile, where it may be a symbol, as it is."""
    return value if torch.compiler.is_compiling() else check_number(name, value)


def _check_alike(name: str, tensor: Tensor, query: Tensor) -> None:
    if tensor.dtype != query.dtype and not _may_differ(tensor, query):
        raise TypeError(f"{name} must have the dtype of query, {query.dtype}, got {tensor.dtype}")
    if tensor.device != query.device:
        raise ValueError(f"{name} must be on {query.device}, as query, got {tensor.device}")


def _may_differ(tensor: Tensor, query: Tensor) -> bool:
    """Whether autocast would make the dtypes one, which it does below float64 only."""
    if torch.float64 in (tensor.dtype, query.dtype):
        return False
    return torch.is_autocast_enabled(query.device.type)


def _check_finite(name: str, tensor: Tensor, *, minus_infinity: bool = False) -> None:
    if not readable(tensor) or math.isfinite(tensor.sum().item()):  # one pass settles nearly all
        return
    bad = ~torch.isfinite(tensor)
    if minus_infinity:
        bad &= tensor != -math.inf
    if bad.any():
        place = tuple(bad.nonzero()[0].tolist())
        rule = "finite or minus infinity" if minus_infinity else "finite"
        raise ValueError(f"{name} must be {rule}, got {tensor[place].item()} at index {place}")


def broadcasts(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """Whether `shape` broadcasts to `target` without enlarging it."""
    tail = target[len(target) - len(shape) :]
    return len(shape) <= len(target) and all(
        size == 1 or size == want  # no set: hashing fixes a length that a compiler leaves open
        for size, want in zip(shape, tail, strict=True)
    )


def constant_when_compiled(function: _Function) -> _Function:
    """Mark a function whose result a compiler takes as constant.

    As `torch.compiler.assume_constant_result`, which loads the compiler to do so, in a second.
    """
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


def readable(tensor: Tensor) -> bool:
    """Whether values may be read: not under a compiler or a transform, nor on a GPU."""
    if torch.compiler.is_compiling() or is_functorch_wrapped_tensor(tensor):
        return False
    return tensor.device.type == "cpu"


# torch.compile of 2.11 cannot trace what is asked here.
@constant_when_compiled
def _has_autocast(device_type: str) -> bool:
    return torch.amp.is_autocast_available(device_type)


def without_autocast(device_type: str) -> AbstractContextManager[object]:
    """Turn autocast off: it would run the products of matrices in half precision, silently."""
    if not _has_autocast(device_type):
        return nullcontext()
    return torch.autocast(device_type, enabled=False)
