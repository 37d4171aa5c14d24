"""Fourier attention as a layer, with projections and a trainable radius."""

import math
from functools import partial
from typing import Any, Literal, overload

import torch
from torch import Tensor, nn

from fourierkernels.attention.functional import fourier_attention
from fourierkernels.attention.radius import RADIUS_SHAPES, add_log_radius
from fourierkernels.attention.validation import (
    check_dropout,
    check_eps,
    check_mask_kind,
    check_power,
    check_tensor,
)
from fourierkernels.validation import check_choice, check_integer, check_number


class FourierAttention(nn.Module):
    """Multi-head Fourier attention with projections, batch first.

    Source: [nguyen2022fourierformer]_, Definition 1, one radius per layer as its language models.
    The radius is trained through its logarithm, so that no step can make it negative.

    Parameters
    ----------
    embed_dim, num_heads : int
        Features E of the input and output, and heads H; D = E / H must be whole.
    power : int
        l of the kernel.
    radius : float
        R at the start, in every place of `radius_shape`. The paper takes 2 for language and 1 for
        images.
    radius_shape : {"scalar", "head", "feature", "head_feature"}
        Which of heads and features have a radius of their own.
    learn_radius : bool
        Whether the radius is a parameter or a fixed buffer.
    dropout : float
        In [0, 1): probability of dropping a weight, in training only.
    bias : bool
        Whether the four projections have one.
    kdim, vdim : int or None
        Features of key and value; `embed_dim` if None.
    eps : float
        Added to the denominator.
    allow_signed : bool
        Accept odd powers.
    device, dtype
        Of the parameters.

    Attributes
    ----------
    log_radius : Parameter or Tensor
        log R.

    Raises
    ------
    ValueError, TypeError
        If an option breaks its rule.

    Examples
    --------
    >>> layer = FourierAttention(8, 2, radius=1.0)
    >>> layer(torch.zeros(3, 5, 8), is_causal=True).shape
    torch.Size([3, 5, 8])
    """

    log_radius: Tensor

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        *,
        power: int = 4,
        radius: float = 2.0,
        radius_shape: Literal["scalar", "head", "feature", "head_feature"] = "scalar",
        learn_radius: bool = True,
        dropout: float = 0.0,
        bias: bool = True,
        kdim: int | None = None,
        vdim: int | None = None,
        eps: float = 0.0,
        allow_signed: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.embed_dim = check_integer("embed_dim", embed_dim)
        self.num_heads = _check_heads(num_heads, embed_dim)
        self.power = check_power(power, allow_signed=allow_signed)
        self.allow_signed = allow_signed
        self.radius_shape = check_choice("radius_shape", radius_shape, list(RADIUS_SHAPES))
        self.initial_radius = check_number("radius", radius, above=0.0)
        self.dropout, self.eps = check_dropout("dropout", dropout), check_eps(eps)
        self._add_projections(kdim, vdim, {"bias": bias, "device": device, "dtype": dtype})
        self._add_radius(learn_radius, {"device": device, "dtype": dtype})
        self.reset_parameters()

    def _add_projections(self, kdim: int | None, vdim: int | None, options: dict[str, Any]) -> None:
        kdim = self.embed_dim if kdim is None else check_integer("kdim", kdim)
        vdim = self.embed_dim if vdim is None else check_integer("vdim", vdim)
        self.query_projection = nn.Linear(self.embed_dim, self.embed_dim, **options)
        self.key_projection = nn.Linear(kdim, self.embed_dim, **options)
        self.value_projection = nn.Linear(vdim, self.embed_dim, **options)
        self.output_projection = nn.Linear(self.embed_dim, self.embed_dim, **options)

    def _add_radius(self, learn: bool, options: dict[str, Any]) -> None:
        add_log_radius(
            self, self.initial_radius, shape=self.radius_shape, heads=self.num_heads,
            dim=self.embed_dim // self.num_heads, learn=learn, **options,
        )  # fmt: skip

    def reset_parameters(self) -> None:
        """Draw the projections anew (Xavier uniform, biases zero); the radius starts over."""
        for projection in self.children():
            if isinstance(projection, nn.Linear):
                nn.init.xavier_uniform_(projection.weight)
                if projection.bias is not None:
                    nn.init.zeros_(projection.bias)
        with torch.no_grad():
            self.log_radius.fill_(math.log(self.initial_radius))

    @property
    def radius(self) -> Tensor:
        """R, positive: shape ``()``, ``(H, 1)``, ``(D,)`` or ``(H, D)``."""
        return self.log_radius.exp()

    @overload
    def forward(
        self,
        query: Tensor,
        key: Tensor | None = ...,
        value: Tensor | None = ...,
        *,
        attn_mask: Tensor | None = ...,
        key_padding_mask: Tensor | None = ...,
        is_causal: bool = ...,
        need_weights: Literal[False] = ...,
    ) -> Tensor: ...
    @overload
    def forward(
        self,
        query: Tensor,
        key: Tensor | None = ...,
        value: Tensor | None = ...,
        *,
        attn_mask: Tensor | None = ...,
        key_padding_mask: Tensor | None = ...,
        is_causal: bool = ...,
        need_weights: Literal[True],
    ) -> tuple[Tensor, Tensor]: ...
    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        *,
        attn_mask: Tensor | None = None,
        key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
        need_weights: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Attend from `query` to `key` and `value`.

        Parameters
        ----------
        query : Tensor
            ``(B, N, E)``.
        key, value : Tensor or None
            ``(B, M, kdim)`` and ``(B, M, vdim)``; a missing value is the key, a missing key is the
            query.
        attn_mask : Tensor or None
            Broadcastable to ``(B, H, N, M)``, as in :func:`fourier_attention`: True attends.
        key_padding_mask : Tensor or None
            Boolean, ``(B, M)``. True is padding, to be ignored: the name and the convention of
            torch.nn.MultiheadAttention, the opposite of `attn_mask`.
        is_causal : bool
            Query i attends to keys j <= i.
        need_weights : bool
            Return also the applied weights of every head, ``(B, H, N, M)``.

        Returns
        -------
        Tensor
            ``(B, N, E)``.
        """
        key, value = _complete(query, key, value)
        self._check_shapes(query, key, value)
        mask, is_causal = _merge_masks(attn_mask, key_padding_mask, is_causal, query, key)
        attend = partial(
            fourier_attention,
            self._heads(self.query_projection(query)),
            self._heads(self.key_projection(key)),
            self._heads(self.value_projection(value)),
            self.radius,
            power=self.power,
            attn_mask=mask,
            is_causal=is_causal,
            dropout_p=self.dropout if self.training else 0.0,
            eps=self.eps,
            allow_signed=self.allow_signed,
        )
        if need_weights:
            output, weights = attend(return_weights=True)
            return self._join(output), weights
        return self._join(attend())

    def extra_repr(self) -> str:
        """Show what the projections do not."""
        shown = ("embed_dim", "num_heads", "power", "radius_shape", "dropout", "eps")
        learnt = f"learn_radius={isinstance(self.log_radius, nn.Parameter)}"
        return ", ".join([*(f"{name}={getattr(self, name)!r}" for name in shown), learnt])

    def _heads(self, projected: Tensor) -> Tensor:
        shape = (*projected.shape[:2], self.num_heads, self.embed_dim // self.num_heads)
        return projected.reshape(shape).transpose(1, 2)  # (B, H, N, D)

    def _join(self, heads: Tensor) -> Tensor:
        joined: Tensor = self.output_projection(heads.transpose(1, 2).flatten(start_dim=2))
        return joined  # (B, N, E)

    def _check_shapes(self, query: Tensor, key: Tensor, value: Tensor) -> None:
        inputs = {"query": query, "key": key, "value": value}
        for name, tensor in inputs.items():
            check_tensor(name, tensor)
            features = self.get_submodule(f"{name}_projection").in_features
            if tensor.ndim != 3 or tensor.shape[-1] != features:
                raise ValueError(
                    f"{name} must have shape (batch, length, {features}), "
                    f"got shape {tuple(tensor.shape)}"
                )


def _check_heads(num_heads: int, embed_dim: int) -> int:
    heads = check_integer("num_heads", num_heads)
    if embed_dim % heads:
        raise ValueError(f"num_heads must divide embed_dim = {embed_dim}, got {num_heads}")
    return heads


def _complete(query: Tensor, key: Tensor | None, value: Tensor | None) -> tuple[Tensor, Tensor]:
    if key is None:
        if value is not None:
            raise ValueError(f"value must come with a key, got shape {tuple(value.shape)} alone")
        key = query
    return key, key if value is None else value


def _merge_masks(
    attn_mask: Tensor | None,
    key_padding_mask: Tensor | None,
    is_causal: bool,
    query: Tensor,
    key: Tensor,
) -> tuple[Tensor | None, bool]:
    """Return one mask for the three, and whether the causal one is still to be applied."""
    if key_padding_mask is None or (is_causal and attn_mask is not None):
        return attn_mask, is_causal  # two masks at once are refused by fourier_attention
    attend = _check_padding(key_padding_mask, key).logical_not()[:, None, None, :]  # (B, 1, 1, M)
    if is_causal:
        shape = (query.shape[1], key.shape[1])
        return attend & torch.ones(shape, dtype=torch.bool, device=key.device).tril(), False
    if attn_mask is None:
        return attend, False
    check_mask_kind(attn_mask, query)
    if attn_mask.dtype is torch.bool:
        return attend & attn_mask, False
    return attn_mask.masked_fill(~attend, -math.inf), False


def _check_padding(key_padding_mask: Tensor, key: Tensor) -> Tensor:
    if not isinstance(key_padding_mask, Tensor):
        raise TypeError(f"key_padding_mask must be a tensor, got {type(key_padding_mask).__name__}")
    if key_padding_mask.dtype is not torch.bool:
        raise TypeError(f"key_padding_mask must be boolean, got {key_padding_mask.dtype}")
    if key_padding_mask.shape != key.shape[:2]:
        raise ValueError(
            f"key_padding_mask must have shape {tuple(key.shape[:2])}, "
            f"got shape {tuple(key_padding_mask.shape)}"
        )
    return key_padding_mask
