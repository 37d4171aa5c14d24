"""A trainable radius on a module: its shape, its initial value, its sign.

The parameter is log R, so that no step of an optimiser can make R negative. One radius for all is
a tensor of one entry, ``(1,)``: sharded training (FSDP) refuses parameters without a dimension.
"""

import math
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import nn

from fourierkernels.foundation.validation import check_choice, check_number

RadiusShape = Literal["scalar", "head", "feature", "head_feature"]
# From heads H and features D per head to the shape of R; another way to share radii is a row.
RADIUS_SHAPES: dict[str, Callable[[int, int], tuple[int, ...]]] = {
    "scalar": lambda heads, dim: (1,),
    "head": lambda heads, dim: (heads, 1),
    "feature": lambda heads, dim: (dim,),
    "head_feature": lambda heads, dim: (heads, dim),
}


def add_log_radius(
    module: nn.Module,
    radius: float,
    *,
    shape: str,
    heads: int,
    dim: int,
    learn: bool,
    **options: Any,
) -> None:
    """Give `module` a ``log_radius``, a parameter or a fixed buffer, that starts at log `radius`.

    State dicts of earlier versions, in which one radius for all has the shape ``()``, are loaded.

    Parameters
    ----------
    shape : {"scalar", "head", "feature", "head_feature"}
        A key of :data:`RADIUS_SHAPES`: the tensor is ``(1,)``, ``(H, 1)``, ``(D,)`` or ``(H, D)``.
    heads, dim : int
        H and D.
    learn : bool
        Whether it is a parameter.
    **options
        ``device`` and ``dtype``.
    """
    check_choice("radius_shape", shape, list(RADIUS_SHAPES))
    check_number("radius", radius, above=0.0)
    log_radius = torch.full(RADIUS_SHAPES[shape](heads, dim), math.log(radius), **options)
    if learn:
        module.log_radius = nn.Parameter(log_radius)
    else:
        module.register_buffer("log_radius", log_radius)
    module.register_load_state_dict_pre_hook(_give_dimension)  # type: ignore[no-untyped-call]


def _give_dimension(module: nn.Module, state: dict[str, Any], prefix: str, *_: object) -> None:
    """Read the one radius of earlier versions, ``()``, as ``(1,)``."""
    name = f"{prefix}log_radius"
    if name in state and state[name].ndim == 0:
        state[name] = state[name].reshape(1)
