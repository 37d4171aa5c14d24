"""The kernel of Fourier attention: its options, its trainable radius, its call.

What is trained is log R, so that no step of an optimiser can make R negative, or R itself, as in
the code that the FourierFormer authors published. One radius for all is a tensor of one entry,
``(1,)``: sharded training (FSDP) refuses parameters without a dimension.
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


RadiusParameter = Literal["log", "direct"]


@dataclass(frozen=True)
class Parametrisation:
    """One row of :data:`RADIUS_PARAMETERS`: which number is trained for a radius R.

    Attributes
    ----------
    name : str
        Of the tensor on a module.
    start : callable
        From R to its first value.
    radius : callable
        From the tensor to R.
    """

    name: str
    start: Callable[[float], float]
    radius: Callable[[Tensor], Tensor]


# A step of an optimiser changes log R by the rate, R itself by R times the rate. The published code
# (github.com/minhtannguyen/FourierFormer_NeurIPS, paramR in wikitext103/lmtool-fwms/src/
# mem_transformer.py and imagenet/models.py) trains R directly. Nothing keeps it positive there: its
# kernel sin(R u) / (R u) is even in R, so a negative R counts as |R|. At R = 0 its gradient is not
# finite; here it is refused, where values can be read.
RADIUS_PARAMETERS = {
    "log": Parametrisation("log_radius", math.log, torch.exp),
    "direct": Parametrisation("signed_radius", float, torch.abs),
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
    radius_parameter: RadiusParameter = "log"

    def __post_init__(self) -> None:
        check_power(self.power, allow_signed=self.allow_signed)
        check_eps(self.eps)
        check_choice("radius_shape", self.radius_shape, list(RADIUS_SHAPES))
        check_choice("radius_parameter", self.radius_parameter, list(RADIUS_PARAMETERS))
        check_number("radius", self.radius, above=0.0)

    @property
    def parametrisation(self) -> Parametrisation:
        """Which number is trained for the radius."""
        return RADIUS_PARAMETERS[self.radius_parameter]

    def add_radius(
        self,
        module: nn.Module,
        heads: int,
        dim: int,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        """Give `module`, of H heads with D features each, the tensor of its radius.

        That is ``log_radius``, which starts at log R, or ``signed_radius``, which starts at R.

        State dicts of earlier versions, in which one radius for all has the shape ``()``, are
        loaded.
        """
        shape = RADIUS_SHAPES[self.radius_shape](heads, dim)
        row = self.parametrisation
        tensor = torch.full(shape, row.start(self.radius), device=device, dtype=dtype)
        if self.learn_radius:
            module.register_parameter(row.name, nn.Parameter(tensor))
        else:
            module.register_buffer(row.name, tensor)
        module.register_load_state_dict_pre_hook(_give_dimension)  # type: ignore[no-untyped-call]

    def radius_of(self, module: nn.Module, dtype: torch.dtype | None = None) -> Tensor:
        """Return the present R of a module that :meth:`add_radius` gave one, in a dtype."""
        tensor: Tensor = getattr(module, self.parametrisation.name)
        return self.parametrisation.radius(tensor if dtype is None else tensor.to(dtype))

    def restart(self, module: nn.Module) -> None:
        """Set the radius of a module to that at the start."""
        row = self.parametrisation
        with torch.no_grad():
            getattr(module, row.name).fill_(row.start(self.radius))

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
