"""The kernel of Fourier attention: its options, its trainable radius, its call.

The parameter is log R, so that no step of an optimiser can make R negative. One radius for all is
a tensor of one entry, ``(1,)``: sharded training (FSDP) refuses parameters without a dimension.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from fourierkernels.attention.fourier import fourier_attention
from fourierkernels.attention.validation import check_eps, check_power
from fourierkernels.foundation.validation import check_choice, check_number

RadiusShape = Literal["scalar", "head", "feature", "head_feature"]
# From heads H and features D per head to the shape of R; another way to share radii is a row.
RADIUS_SHAPES: dict[str, Callable[[int, int], tuple[int, ...]]] = {
    "scalar": lambda heads, dim: (1,),
    "head": lambda heads, dim: (heads, 1),
    "feature": lambda heads, dim: (dim,),
    "head_feature": lambda heads, dim: (heads, dim),
}


@dataclass(frozen=True, kw_only=True)
class KernelOptions:
    """Options of the kernel ∏ sinc^l, checked: what layers, mixers and configurations hold.

    They are those of :class:`~fourierkernels.attention.FourierAttention`, except that the radius
    is fixed unless a configuration says that it is learned.

    Raises
    ------
    ValueError, TypeError
        If an option breaks its rule.
    """

    radius: float = 2.0
    power: int = 4
    eps: float = 0.0
    radius_shape: RadiusShape = "scalar"
    learn_radius: bool = False
    allow_signed: bool = False

    def __post_init__(self) -> None:
        check_power(self.power, allow_signed=self.allow_signed)
        check_eps(self.eps)
        check_choice("radius_shape", self.radius_shape, list(RADIUS_SHAPES))
        check_number("radius", self.radius, above=0.0)

    def add_radius(
        self,
        module: nn.Module,
        heads: int,
        dim: int,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        """Give `module`, of H heads with D features each, a ``log_radius`` that starts at log R.

        State dicts of earlier versions, in which one radius for all has the shape ``()``, are
        loaded.
        """
        shape = RADIUS_SHAPES[self.radius_shape](heads, dim)
        log_radius = torch.full(shape, math.log(self.radius), device=device, dtype=dtype)
        if self.learn_radius:
            module.log_radius = nn.Parameter(log_radius)
        else:
            module.register_buffer("log_radius", log_radius)
        module.register_load_state_dict_pre_hook(_give_dimension)  # type: ignore[no-untyped-call]

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        radius: Tensor | float,
        *,
        return_weights: bool,
        **call: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """Return :func:`~fourierkernels.attention.fourier_attention`, and its weights or None.

        Parameters
        ----------
        radius : Tensor or float
            The present R.
        **call
            ``attn_mask``, ``is_causal`` and ``dropout_p``.
        """
        call |= {"power": self.power, "eps": self.eps, "allow_signed": self.allow_signed}
        inputs = (query, key, value, radius)
        if return_weights:
            pair: tuple[Tensor, Tensor] = fourier_attention(*inputs, return_weights=True, **call)
            return pair
        return fourier_attention(*inputs, **call), None


def _give_dimension(module: nn.Module, state: dict[str, Any], prefix: str, *_: object) -> None:
    """Read the one radius of earlier versions, ``()``, as ``(1,)``."""
    name = f"{prefix}log_radius"
    if name in state and state[name].ndim == 0:
        state[name] = state[name].reshape(1)
