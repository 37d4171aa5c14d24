"""A trainable radius on a module: its shapes, its start, its sign.

R is kept through its logarithm, so that no step of an optimiser can make it negative.
"""

import math
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import nn

from fourierkernels.validation import check_choice, check_number

RadiusShape = Literal["scalar", "head", "feature", "head_feature"]
# From heads H and head features D to the shape of R; a new way to share radii is a new row.
RADIUS_SHAPES: dict[str, Callable[[int, int], tuple[int, ...]]] = {
    "scalar": lambda heads, dim: (),
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

    Parameters
    ----------
    shape : {"scalar", "head", "feature", "head_feature"}
        A key of :data:`RADIUS_SHAPES`; the tensor is ``()``, ``(H, 1)``, ``(D,)`` or ``(H, D)``.
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
