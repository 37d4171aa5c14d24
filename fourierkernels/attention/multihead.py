"""The core of multi-head attention: four projections and the heads between them.

The layers with the interface of torch (:mod:`fourierkernels.attention.layer`) and the token mixers
of :mod:`fourierkernels.mixing` are this core behind two interfaces. What turns queries, keys and
values into outputs is the one method :meth:`MultiheadCore.attend`, which is also the one place
where attention can be recorded. Its two forms follow, with Fourier and with Gaussian weights.
"""

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn

from fourierkernels.attention.controls import fused_gaussian_attention, weighted_gaussian_attention
from fourierkernels.attention.kernel import KernelOptions
from fourierkernels.attention.validation import WORKING_DTYPE, check_dropout
from fourierkernels.foundation.validation import check_number


class MultiheadCore(nn.Module, ABC):
    """Project tokens, split them into heads, attend, join the heads and project again.

    A subclass calls :meth:`add_heads` in its constructor and says how its heads attend.

    Attributes
    ----------
    num_heads, head_dim : int
        H and D = E / H.
    dropout : float
        Probability of dropping a weight, in training only.
    """

    num_heads: int
    head_dim: int
    dropout: float

    def add_heads(
        self,
        dim: int,
        heads: int,
        *,
        key_dim: int | None = None,
        value_dim: int | None = None,
        dropout: float = 0.0,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        """Add the projections of query, key, value and output, in this order.

        Parameters
        ----------
        dim, heads : int
            Features E of the input and output, and heads H, which divide them.
        key_dim, value_dim : int or None
            Features of keys and values before they are projected; `dim` if None.
        dropout : float
            In [0, 1).
        bias : bool
            Whether the projections have one.
        """
        self.num_heads, self.head_dim = heads, dim // heads
        self.dropout = check_dropout("dropout", dropout)
        options: dict[str, Any] = {"bias": bias, "device": device, "dtype": dtype}
        self.query_projection = nn.Linear(dim, dim, **options)
        self.key_projection = nn.Linear(dim if key_dim is None else key_dim, dim, **options)
        self.value_projection = nn.Linear(dim if value_dim is None else value_dim, dim, **options)
        self.output_projection = nn.Linear(dim, dim, **options)

    @abstractmethod
    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        return_weights: bool = False,
        **options: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """Return outputs of projected heads and, if asked for, the weights that were applied.

        Parameters
        ----------
        query, key, value : Tensor
            ``(B, H, N, D)``, ``(B, H, M, D)`` and ``(B, H, M, D)``.
        return_weights : bool
            Whether the weights ``(B, H, N, M)`` are returned, or None.
        **options
            ``attn_mask``, ``is_causal`` and ``dropout_p``, as scaled_dot_product_attention has
            them.

        Returns
        -------
        Tensor, Tensor or None
            ``(B, H, N, D)`` and the weights.
        """

    def weights(self, query: Tensor, key: Tensor, **options: Any) -> Tensor:
        """Return the weights ``(B, H, N, M)`` of projected heads; options as :meth:`attend`."""
        _, weights = self.attend(query, key, key, return_weights=True, **options)
        return weights  # type: ignore[return-value]  # they were asked for

    def split_heads(self, projected: Tensor) -> Tensor:
        """Return ``(B, H, N, D)`` of projected tokens ``(B, N, E)``."""
        shape = (*projected.shape[:2], self.num_heads, self.head_dim)  # (B, N, H, D)
        return projected.reshape(shape).transpose(1, 2)  # (B, H, N, D)

    def join_heads(self, heads: Tensor) -> Tensor:
        """Return the output projection ``(B, N, E)`` of heads ``(B, H, N, D)``."""
        joined: Tensor = self.output_projection(heads.transpose(1, 2).flatten(start_dim=2))
        return joined

    @property
    def dropout_p(self) -> float:
        """Probability that a weight is dropped now."""
        return self.dropout if self.training else 0.0


def check_heads(heads: int, dim: int, *, name: str, of: str) -> None:
    """Refuse a number of heads that does not divide the features.

    Parameters
    ----------
    name, of : str
        Names of the two in messages.
    """
    if dim % heads:
        raise ValueError(f"{name} must divide {of} = {dim}, got {heads}")


def weights_of(module: nn.MultiheadAttention) -> dict[str, Tensor]:
    """Return the tensors of torch's layer under the names of ours."""
    names = ("query", "key", "value")
    if module._qkv_same_embed_dim:
        weights = module.in_proj_weight.chunk(3)
    else:
        weights = (module.q_proj_weight, module.k_proj_weight, module.v_proj_weight)
    state = {f"{n}_projection.weight": w for n, w in zip(names, weights, strict=True)}
    state["output_projection.weight"] = module.out_proj.weight
    if module.in_proj_bias is not None:
        thirds = module.in_proj_bias.chunk(3)
        state |= {f"{n}_projection.bias": b for n, b in zip(names, thirds, strict=True)}
        state["output_projection.bias"] = module.out_proj.bias
    if module.bias_k is not None and module.bias_v is not None:
        state |= {"bias_key": module.bias_k.flatten(), "bias_value": module.bias_v.flatten()}
    return state


class HeadsWithRadius(MultiheadCore):
    """Heads with a trained radius R, kept as its logarithm or as it is.

    Attributes
    ----------
    kernel : KernelOptions
        Options of the kernel.
    log_radius or signed_radius : Parameter or Tensor
        log R, or R up to its sign.
    radius_penalty : float
        Factor of :func:`~fourierkernels.attention.radius_penalty` in ``penalty()``.
    """

    kernel: KernelOptions
    radius_penalty: float
    log_radius: Tensor
    signed_radius: Tensor

    def add_kernel(
        self,
        kernel: KernelOptions,
        *,
        radius_penalty: float = 0.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        """Keep the options and add the radius."""
        self.kernel = kernel
        self.radius_penalty = kernel.check_penalty(radius_penalty)
        kernel.add_radius(self, self.num_heads, self.head_dim, device=device, dtype=dtype)

    @property
    def radius(self) -> Tensor:
        """R, positive: shape ``(1,)``, ``(H, 1)``, ``(D,)`` or ``(H, D)``; or matrices.

        These are ``(1, D, D)`` or ``(H, D, D)``.
        """
        return self.kernel.radius_of(self)

    @property
    def mean_radius(self) -> Tensor:
        """Mean of R, of matrices of |det R|^(1/D): a number."""
        radius = self.radius
        if self.kernel.has_matrices:
            radius = radius.to(WORKING_DTYPE[radius.dtype])  # torch has no determinant below it
            radius = (torch.linalg.slogdet(radius)[1] / radius.shape[-1]).exp()
        return radius.mean()

    def penalty(self) -> Tensor | None:
        """Return what is to be added to the loss, `radius_penalty` times that of R, or None."""
        if not self.radius_penalty:
            return None
        return self.radius_penalty * self.kernel.penalty_of(self)

    @property
    def without_decay(self) -> tuple[str, ...]:
        """Names of what weight decay leaves alone: it would draw R to 1 or 0."""
        return (self.kernel.parametrisation.name,)


class FourierHeads(HeadsWithRadius):
    """Heads that attend by :func:`~fourierkernels.attention.fourier_attention`."""

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        return_weights: bool = False,
        **options: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the Nadaraya-Watson estimate with kernel ∏ sinc^l, and the weights or None."""
        inputs = (query, key, value, self.radius)
        return self.kernel.attend(*inputs, return_weights=return_weights, **options)


class GaussianHeads(MultiheadCore):
    """Heads that attend with weights exp(-|q - k|²/(2σ²)); σ is fixed unless a subclass trains it.

    Attributes
    ----------
    initial_sigma : float
        σ at the start.
    """

    initial_sigma: float

    def add_kernel(self, sigma: float | None) -> None:
        """Set σ; D^(1/4) if None, which is softmax attention for keys of one norm."""
        default = self.head_dim**0.25
        self.initial_sigma = default if sigma is None else check_number("sigma", sigma, above=0.0)

    @property
    def sigma(self) -> Tensor | float:
        """σ, positive."""
        return self.initial_sigma

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        return_weights: bool = False,
        **options: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the Nadaraya-Watson estimate with the Gaussian kernel, and the weights or None."""
        inputs, options = (query, key, value), {"sigma": self.sigma, **options}
        if return_weights:
            return weighted_gaussian_attention(*inputs, **options)
        return fused_gaussian_attention(*inputs, **options), None
