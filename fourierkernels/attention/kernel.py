"""The kernel of Fourier attention: its options, its trainable radius, its call.

What is trained is log R, so that no step of an optimiser can make R negative, or R itself, as in
the code that the FourierFormer authors published. One radius for all is a tensor of one entry,
``(1,)``: sharded training (FSDP) refuses parameters without a dimension.

Matrices of radii have three dimensions, and begin as R times the identity. Of log R they are the
matrix exponential, which no step can make singular. Its determinant is positive, which is no loss:
the kernel does not see the sign of a row of R.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from fourierkernels.attention.fourier import fourier_attention
from fourierkernels.attention.validation import (
    WORKING_DTYPE,
    check_eps,
    check_power,
    without_autocast,
)
from fourierkernels.foundation.validation import check_choice, check_number

RadiusShape = Literal["scalar", "head", "feature", "head_feature", "matrix", "head_matrix"]
# From heads H and features D per head to the shape of R; another way to share radii is a row. Three
# dimensions are matrices, (1 or H, D, D).
RADIUS_SHAPES: dict[str, Callable[[int, int], tuple[int, ...]]] = {
    "scalar": lambda heads, dim: (1,),
    "head": lambda heads, dim: (heads, 1),
    "feature": lambda heads, dim: (dim,),
    "head_feature": lambda heads, dim: (heads, dim),
    "matrix": lambda heads, dim: (1, dim, dim),
    "head_matrix": lambda heads, dim: (heads, dim, dim),
}
_MATRIX_DIMS = 3


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
    matrix : callable
        From a tensor of matrices, ``(..., D, D)``, to matrices R.
    """

    name: str
    start: Callable[[float], float]
    radius: Callable[[Tensor], Tensor]
    matrix: Callable[[Tensor], Tensor]


def _matrix_exp(logarithm: Tensor) -> Tensor:
    """Return exp of matrices, in float32 at least, which is what torch has it for.

    The mean of the diagonal goes by itself, so that multiples of the identity are those of a
    number: torch's series errs by up to 8e-5 in float32, for them as for others.
    """
    wide = logarithm.to(torch.promote_types(logarithm.dtype, torch.float32))
    mean = wide.diagonal(dim1=-2, dim2=-1).mean(dim=-1)[..., None, None]
    with without_autocast(logarithm.device.type):
        eye = torch.eye(wide.shape[-1], dtype=wide.dtype, device=wide.device)
        matrices: Tensor = mean.exp() * torch.linalg.matrix_exp(wide - mean * eye)
    return matrices


# A step of an optimiser changes log R by the rate, R itself by R times the rate. The published code
# (github.com/minhtannguyen/FourierFormer_NeurIPS, paramR in wikitext103/lmtool-fwms/src/
# mem_transformer.py and imagenet/models.py) trains R directly. Nothing keeps it positive there: its
# kernel sin(R u) / (R u) is even in R, so a negative R counts as |R|. At R = 0 its gradient is not
# finite; here it is refused, where values can be read.
RADIUS_PARAMETERS = {
    "log": Parametrisation("log_radius", math.log, torch.exp, _matrix_exp),
    "direct": Parametrisation("signed_radius", float, torch.abs, lambda matrices: matrices),
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

        That is ``log_radius``, which starts at log R, or ``signed_radius``, which starts at R;
        matrices start at these times the identity.

        State dicts of earlier versions, in which one radius for all has the shape ``()``, are
        loaded.
        """
        row = self.parametrisation
        tensor = torch.empty(
            RADIUS_SHAPES[self.radius_shape](heads, dim), device=device, dtype=dtype
        )
        self._start(tensor)
        if self.learn_radius:
            module.register_parameter(row.name, nn.Parameter(tensor))
        else:
            module.register_buffer(row.name, tensor)
        module.register_load_state_dict_pre_hook(_give_dimension)  # type: ignore[no-untyped-call]

    def radius_of(self, module: nn.Module, dtype: torch.dtype | None = None) -> Tensor:
        """Return the present R of a module that :meth:`add_radius` gave one, in a dtype."""
        tensor: Tensor = getattr(module, self.parametrisation.name)
        return self._as_radius(tensor if dtype is None else tensor.to(dtype))

    def penalty_of(self, module: nn.Module) -> Tensor:
        """Return :func:`radius_penalty` of the present R of a module, a number."""
        tensor: Tensor = getattr(module, self.parametrisation.name)
        # Sharded training asks outside of the module's own pass, and has a DTensor, whose class is
        # slow to import.
        if hasattr(tensor, "full_tensor"):
            tensor = tensor.full_tensor()
        return radius_penalty(self._as_radius(tensor))

    def restart(self, module: nn.Module) -> None:
        """Set the radius of a module to that at the start."""
        self._start(getattr(module, self.parametrisation.name))

    def check_penalty(self, factor: float) -> float:
        """Return a factor of :func:`radius_penalty`, which only trained matrices may have."""
        number = check_number("radius_penalty", factor)
        if number < 0:
            raise ValueError(f"radius_penalty must be at least 0, got {factor}")
        if number and not (self.has_matrices and self.learn_radius):
            raise ValueError(
                "radius_penalty must be 0 unless radius_shape is one of matrix, head_matrix, and "
                f"learned, got {factor} with {self.radius_shape!r}"
            )
        return number

    @property
    def has_matrices(self) -> bool:
        """Whether R is a matrix, one for all heads or one each."""
        return len(RADIUS_SHAPES[self.radius_shape](1, 1)) == _MATRIX_DIMS

    def _as_radius(self, tensor: Tensor) -> Tensor:
        row = self.parametrisation
        return row.matrix(tensor) if tensor.ndim == _MATRIX_DIMS else row.radius(tensor)

    def _start(self, tensor: Tensor) -> None:
        start = self.parametrisation.start(self.radius)
        with torch.no_grad():
            tensor.fill_(start)
            if tensor.ndim == _MATRIX_DIMS:
                tensor.mul_(torch.eye(tensor.shape[-1], device=tensor.device, dtype=tensor.dtype))

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
        if isinstance(radius, Tensor):
            radius = named_by_shape(radius)
        inputs = (query, key, value, radius)
        if return_weights:
            pair: tuple[Tensor, Tensor] = fourier_attention(*inputs, return_weights=True, **call)
            return pair
        return fourier_attention(*inputs, **call), None


def named_by_shape(radius: Tensor) -> Tensor:
    """Return R of a module in a shape that tells what it is, also with as many heads as features.

    Examples
    --------
    >>> named_by_shape(torch.ones(4, 4)).shape
    torch.Size([4, 1, 4])
    """
    return radius.unsqueeze(-2) if radius.ndim == 2 else radius  # (H, 1, D or 1)


def radius_penalty(radius: Tensor) -> Tensor:
    """Return by how much matrices of radii differ from a multiple of a rotation: a number, >= 0.

    Σ_h D log(tr(RᵀR)/D) - log det(RᵀR), which in singular values s is D log(mean s²) - Σ log s².
    It is 0 where they are equal, does not change with R's scale, and is infinite where R is
    singular: added to a loss, it keeps R invertible. It is the least LogDet divergence of RᵀR from
    a multiple of the identity, with which [davis2007information]_ keep learned metrics definite.

    Parameters
    ----------
    radius : Tensor
        R, ``(..., D, D)``; differentiable. Half precision is computed in float32.

    Raises
    ------
    TypeError
        If R is not of floating point.
    ValueError
        If the last two dimensions are not those of a square matrix.

    Examples
    --------
    >>> radius_penalty(torch.tensor([[0.0, 3.0], [-3.0, 0.0]])).item()
    0.0
    >>> f"{radius_penalty(torch.diag(torch.tensor([1.0, 3.0]))).item():.4f}"  # log(5²/3²)
    '1.0217'
    """
    if radius.ndim < 2 or radius.shape[-1] != radius.shape[-2]:
        raise ValueError(f"radius must be matrices, (..., D, D), got shape {tuple(radius.shape)}")
    if radius.dtype not in WORKING_DTYPE:
        raise TypeError(f"radius must be float16, bfloat16, float32 or float64, got {radius.dtype}")
    wide = radius.to(WORKING_DTYPE[radius.dtype])
    largest = wide.detach().abs().amax(dim=(-2, -1), keepdim=True)
    zero = largest == 0
    unit = wide / largest.masked_fill(zero, 1.0)  # its squares neither overflow nor vanish
    scale = unit.square().sum(dim=(-2, -1)) / radius.shape[-1]
    scale = scale.masked_fill(zero[..., 0, 0], 1.0)
    penalty: Tensor = radius.shape[-1] * scale.log() - 2 * torch.linalg.slogdet(unit)[1]
    return penalty.sum()


def _give_dimension(module: nn.Module, state: dict[str, Any], prefix: str, *_: object) -> None:
    """Read the one radius of earlier versions, ``()``, as ``(1,)``."""
    name = f"{prefix}log_radius"
    if name in state and state[name].ndim == 0:
        state[name] = state[name].reshape(1)
