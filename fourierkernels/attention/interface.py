"""Attention of this package behind transformers' attention interface: one row per name.

Another attention is a row of :data:`IMPLEMENTATIONS`, made known by :func:`register`, and its
options are what a configuration holds under its name. Names begin with "fourierkernels", by which
what records attention knows that it returns its weights.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import sdpa_mask
from transformers.utils import output_capturing

from fourierkernels.attention.controls import fused_gaussian_attention, gaussian_attention
from fourierkernels.attention.kernel import KernelOptions
from fourierkernels.attention.served import head_sizes
from fourierkernels.foundation.validation import check_number

FOURIER, GAUSSIAN = "fourierkernels", "fourierkernels_gaussian"
_REFUSED = ("softcap", "s_aux", "position_bias", "cache")  # what would change the formula


@dataclass(frozen=True)
class Implementation:
    """One row of :data:`IMPLEMENTATIONS`.

    Attributes
    ----------
    options : type
        A frozen dataclass that checks its fields: what a configuration may say.
    attend : callable
        From a module, its options, its softmax scale, the tensors query, key and value with all
        heads ``(B, H, N, D)``, and as keywords `return_weights`, `attn_mask`, `is_causal` and
        `dropout_p`, to outputs ``(B, H, N, D_v)`` and the weights or None.
    equip : callable or None
        From a module and its options: add what is trained, if anything is.
    """

    options: type
    attend: Callable[..., tuple[Tensor, Tensor | None]]
    equip: Callable[[nn.Module, Any], None] | None = None


@dataclass(frozen=True)
class GaussianOptions:
    """Options of Gaussian attention in a configuration: σ, by default that of the softmax scale."""

    sigma: float | None = None

    def __post_init__(self) -> None:
        if self.sigma is not None:
            check_number("sigma", self.sigma, above=0.0)


def attention_forward(
    name: str,
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    **kwargs: Any,
) -> tuple[Tensor, Tensor | None]:
    """Return outputs ``(B, N, H, D_v)`` and, where they are recorded, weights ``(B, H, N, M)``.

    The signature, without the name of the implementation, is that of transformers' interface.
    """
    row = IMPLEMENTATIONS[name]
    key, value, mask, causal = _prepare(
        module, query, key, value, attention_mask, is_causal, kwargs
    )
    output, weights = row.attend(
        module,
        row.options(**(getattr(module.config, name, None) or {})),
        scaling,
        query,
        key,
        value,
        return_weights=_recorded(kwargs),
        attn_mask=mask,
        is_causal=causal,
        dropout_p=dropout,
    )
    return output.transpose(1, 2).contiguous(), weights


def register(name: str) -> None:
    """Make an implementation known to transformers; importing this module does it for its own."""
    AttentionInterface.register(name, partial(attention_forward, name))
    AttentionMaskInterface.register(name, sdpa_mask)  # boolean, True attends, or None


def _fourier(
    module: nn.Module,
    options: KernelOptions,
    scaling: float | None,
    *inputs: Tensor,
    return_weights: bool,
    **call: Any,
) -> tuple[Tensor, Tensor | None]:
    """Attend with kernel ∏ sinc^l; the radius takes the place of the softmax scale."""
    parameter = options.parametrisation.name
    if options.learn_radius and not hasattr(module, parameter):
        raise ValueError(
            "model must have the radii that its configuration says are learned: load it by "
            f"load_fourier_attention, got a {type(module).__name__} without {parameter}"
        )
    radius: Tensor | float = options.radius
    if hasattr(module, parameter):
        radius = options.radius_of(module, torch.promote_types(inputs[0].dtype, torch.float32))
    query, key, value = inputs
    return options.attend(query, key, value, radius, return_weights=return_weights, **call)


def _add_radius(module: nn.Module, options: KernelOptions) -> None:
    weight = next(module.parameters())
    wide = torch.promote_types(weight.dtype, torch.float32)
    options.add_radius(module, *head_sizes(module), device=weight.device, dtype=wide)


def _gaussian(
    module: nn.Module,
    options: GaussianOptions,
    scaling: float | None,
    *inputs: Tensor,
    return_weights: bool,
    **call: Any,
) -> tuple[Tensor, Tensor | None]:
    """Attend with weights exp(-|q - k|²/(2σ²)); without a σ it is scaling^(-1/2).

    That is softmax attention for keys of one norm.
    """
    query, key, value = inputs
    sigma = options.sigma
    if sigma is None:
        sigma = query.shape[-1] ** 0.25 if scaling is None else scaling**-0.5
    if return_weights:
        return gaussian_attention(query, key, value, sigma=sigma, return_weights=True, **call)
    return fused_gaussian_attention(query, key, value, sigma=sigma, **call), None


IMPLEMENTATIONS = {
    FOURIER: Implementation(KernelOptions, _fourier, _add_radius),
    GAUSSIAN: Implementation(GaussianOptions, _gaussian),
}


def _prepare(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    is_causal: bool | None,
    kwargs: dict[str, Any],
) -> tuple[Tensor, Tensor, Tensor | None, bool]:
    """Return key and value with all heads, the mask, and whether time is still to be masked."""
    for name in _REFUSED:
        if kwargs.get(name) is not None:
            raise ValueError(
                f"{name} must be None: it has no counterpart in kernel attention, "
                f"got one from {type(module).__name__}"
            )
    groups = query.shape[1] // key.shape[1]  # grouped-query attention
    if groups > 1:
        key, value = (side.repeat_interleave(groups, dim=1) for side in (key, value))
    if mask is not None and mask.is_floating_point():  # a mask of the user's own
        mask = mask.masked_fill(mask <= torch.finfo(mask.dtype).min, -torch.inf)
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    return key, value, mask, bool(causal) and mask is None and query.shape[2] > 1


def _recorded(kwargs: dict[str, Any]) -> bool:
    """Whether the caller wants the weights; not all models pass ``output_attentions`` on."""
    if kwargs.get("output_attentions"):
        return True
    if torch.compiler.is_compiling():  # the collector cannot be traced
        return False
    collected = output_capturing._active_collector.get() or {}
    return any(name.endswith("attentions") for name in collected)


for _name in IMPLEMENTATIONS:
    register(_name)
