"""What the attention layers share: projections, heads, masks, the arguments of torch's layer."""

import math
from abc import ABC, abstractmethod
from typing import Any, Literal, Self, overload

import torch
from torch import Tensor, nn

from fourierkernels.attention.validation import check_dropout, check_mask_kind, check_tensor
from fourierkernels.validation import check_integer


class MultiheadKernelAttention(nn.Module, ABC):
    """Multi-head kernel regression between four projections; a kernel is the method `attend`.

    Arguments have the names of `torch.nn.MultiheadAttention`, with these differences: batches come
    first unless `batch_first` is False; a key and value may be left out; only the output is
    returned unless weights are asked for, and those of every head unless an average is; and
    `attn_mask` follows scaled_dot_product_attention, where True attends.

    Parameters
    ----------
    embed_dim, num_heads : int
        Features E of the input and output, and heads H; D = E / H must be whole.
    dropout : float
        In [0, 1): probability of dropping a weight, in training only.
    bias : bool
        Whether the four projections have one.
    add_bias_kv : bool
        Whether one learnt key and value are appended to every sequence.
    add_zero_attn : bool
        Whether a key and value of zeros are appended to every sequence.
    kdim, vdim : int or None
        Features of key and value; `embed_dim` if None.
    batch_first : bool
        Whether batched inputs are ``(B, N, E)`` rather than ``(N, B, E)``.
    device, dtype
        Of the parameters.
    """

    bias_key: Tensor | None
    bias_value: Tensor | None

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        *,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.embed_dim = check_integer("embed_dim", embed_dim)
        self.num_heads = _check_heads(num_heads, embed_dim)
        self.dropout, self.batch_first = check_dropout("dropout", dropout), batch_first
        self.add_zero_attn = add_zero_attn
        self._add_projections(kdim, vdim, {"bias": bias, "device": device, "dtype": dtype})
        for name in ("bias_key", "bias_value"):
            empty = torch.empty(self.embed_dim, device=device, dtype=dtype)
            self.register_parameter(name, nn.Parameter(empty) if add_bias_kv else None)

    @classmethod
    def from_multihead(cls, module: nn.MultiheadAttention, **options: Any) -> Self:
        """Return a layer with the sizes and weights of torch's, its `dropout` and `batch_first`.

        Parameters
        ----------
        **options
            Of this class; what `module` says cannot be changed.

        Examples
        --------
        >>> from fourierkernels.attention import FourierAttention
        >>> FourierAttention.from_multihead(torch.nn.MultiheadAttention(8, 2), radius=1.0).num_heads
        2
        """
        weight = module.out_proj.weight
        layer = cls(
            module.embed_dim,
            module.num_heads,
            dropout=module.dropout,
            bias=module.in_proj_bias is not None,
            add_bias_kv=module.bias_k is not None,
            add_zero_attn=module.add_zero_attn,
            kdim=module.kdim,
            vdim=module.vdim,
            batch_first=module.batch_first,
            device=weight.device,
            dtype=weight.dtype,
            **options,
        )
        layer.load_state_dict(_weights_of(module), strict=False)
        return layer

    @abstractmethod
    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        return_weights: bool,
        **options: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """Return outputs ``(B, H, N, D)`` of projected heads, and the weights or None.

        `options` are ``attn_mask``, ``is_causal`` and ``dropout_p``.
        """

    def reset_parameters(self) -> None:
        """Draw the projections anew (Xavier uniform, biases zero) and what starts with them."""
        for projection in self.children():
            if isinstance(projection, nn.Linear):
                nn.init.xavier_uniform_(projection.weight)
                if projection.bias is not None:
                    nn.init.zeros_(projection.bias)
        for extra in (self.bias_key, self.bias_value):
            if extra is not None:
                nn.init.normal_(extra, std=self.embed_dim**-0.5)

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
        average_attn_weights: bool = ...,
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
        average_attn_weights: bool = ...,
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
        average_attn_weights: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Attend from `query` to `key` and `value`.

        Parameters
        ----------
        query : Tensor
            ``(B, N, E)``, ``(N, B, E)`` without `batch_first`, or ``(N, E)`` without a batch.
        key, value : Tensor or None
            ``(B, M, kdim)`` and ``(B, M, vdim)``, likewise; a missing value is the key, a missing
            key is the query.
        attn_mask : Tensor or None
            Broadcastable to ``(B, H, N, M)``: boolean, True attends, or added to log|w|.
        key_padding_mask : Tensor or None
            ``(B, M)``, or ``(M,)`` without a batch. Boolean, True is padding, to be ignored: the
            convention of torch.nn.MultiheadAttention, the opposite of `attn_mask`. Or floating,
            added to log|w|.
        is_causal : bool
            Query i attends to keys j <= i.
        need_weights : bool
            Return also the applied weights, ``(B, H, N, M)``, without B if there is no batch.
        average_attn_weights : bool
            Return their mean over heads, ``(B, N, M)``.

        Returns
        -------
        Tensor
            In the layout of `query`.
        """
        key, value = _complete(query, key, value)
        self._check_shapes(query, key, value)
        batched = query.ndim == 3
        query, key, value = (self._batch_first(side) for side in (query, key, value))
        if key_padding_mask is not None and not batched and isinstance(key_padding_mask, Tensor):
            key_padding_mask = key_padding_mask[None]
        mask, is_causal = _merge_masks(attn_mask, key_padding_mask, is_causal, query, key)
        keys = self._with_extras(self.key_projection(key), self.bias_key)
        values = self._with_extras(self.value_projection(value), self.bias_value)
        extra = keys.shape[1] - key.shape[1]
        if extra:
            mask, is_causal = _widened(mask, is_causal, extra, query, key), False
        output, weights = self.attend(
            self._heads(self.query_projection(query)),
            self._heads(keys),
            self._heads(values),
            return_weights=need_weights,
            attn_mask=mask,
            is_causal=is_causal,
            dropout_p=self.dropout if self.training else 0.0,
        )
        output = self._as_given(self._join(output), batched)
        if weights is None:
            return output
        weights = weights.mean(dim=1) if average_attn_weights else weights
        return output, weights if batched else weights[0]

    def _add_projections(self, kdim: int | None, vdim: int | None, options: dict[str, Any]) -> None:
        kdim = self.embed_dim if kdim is None else check_integer("kdim", kdim)
        vdim = self.embed_dim if vdim is None else check_integer("vdim", vdim)
        self.query_projection = nn.Linear(self.embed_dim, self.embed_dim, **options)
        self.key_projection = nn.Linear(kdim, self.embed_dim, **options)
        self.value_projection = nn.Linear(vdim, self.embed_dim, **options)
        self.output_projection = nn.Linear(self.embed_dim, self.embed_dim, **options)

    def _batch_first(self, tensor: Tensor) -> Tensor:
        if tensor.ndim == 2:
            return tensor[None]
        return tensor if self.batch_first else tensor.transpose(0, 1)  # (B, N, E)

    def _as_given(self, tensor: Tensor, batched: bool) -> Tensor:
        if not batched:
            return tensor[0]
        return tensor if self.batch_first else tensor.transpose(0, 1)

    def _with_extras(self, projected: Tensor, bias: Tensor | None) -> Tensor:
        batch, _, features = projected.shape
        parts = [projected]
        if bias is not None:
            parts.append(bias.to(projected.dtype).expand(batch, 1, features))
        if self.add_zero_attn:
            parts.append(projected.new_zeros((batch, 1, features)))
        return torch.cat(parts, dim=1) if len(parts) > 1 else projected

    def _heads(self, projected: Tensor) -> Tensor:
        shape = (*projected.shape[:2], self.num_heads, self.embed_dim // self.num_heads)
        return projected.reshape(shape).transpose(1, 2)  # (B, H, N, D)

    def _join(self, heads: Tensor) -> Tensor:
        joined: Tensor = self.output_projection(heads.transpose(1, 2).flatten(start_dim=2))
        return joined  # (B, N, E)

    def _check_shapes(self, query: Tensor, key: Tensor, value: Tensor) -> None:
        layout = "batch, length" if self.batch_first else "length, batch"
        inputs = {"query": query, "key": key, "value": value}
        for name, tensor in inputs.items():
            check_tensor(name, tensor)
            features = self.get_submodule(f"{name}_projection").in_features
            wrong = tensor.ndim not in {2, 3} or tensor.shape[-1] != features
            if wrong or tensor.ndim != query.ndim:
                form = f"({layout}, {features})"
                if tensor is query or query.ndim == 2:
                    form += f" or, without a batch, (length, {features})"
                raise ValueError(f"{name} must have shape {form}, got shape {tuple(tensor.shape)}")


def _weights_of(module: nn.MultiheadAttention) -> dict[str, Tensor]:
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
    if attn_mask is not None:
        check_mask_kind(attn_mask, query)
    if key_padding_mask is None or (is_causal and attn_mask is not None):
        return attn_mask, is_causal  # two masks at once are refused by fourier_attention
    padding = _check_padding(key_padding_mask, key)[:, None, None, :]  # (B, 1, 1, M)
    if is_causal:
        attn_mask = _causal(query, key)
    if padding.dtype is torch.bool:
        padding = padding.logical_not()
    return (padding if attn_mask is None else _both(padding, attn_mask, query)), False


def _both(first: Tensor, second: Tensor, query: Tensor) -> Tensor:
    if first.dtype is torch.bool and second.dtype is torch.bool:
        return first & second
    return _added(first, query) + _added(second, query)


def _added(mask: Tensor, query: Tensor) -> Tensor:
    """Return a mask as what is added to log|w|."""
    if mask.dtype is not torch.bool:
        return mask
    return query.new_zeros(mask.shape).masked_fill(~mask, -math.inf)


def _causal(query: Tensor, key: Tensor) -> Tensor:
    shape = (query.shape[1], key.shape[1])
    return torch.ones(shape, dtype=torch.bool, device=key.device).tril()


def _widened(
    mask: Tensor | None, is_causal: bool, extra: int, query: Tensor, key: Tensor
) -> Tensor | None:
    """Return the mask with `extra` keys more, which every query attends to."""
    if is_causal:
        if mask is not None:
            raise ValueError(
                "attn_mask must be None when is_causal=True, "
                f"got a mask of shape {tuple(mask.shape)}"
            )
        mask = _causal(query, key)
    if mask is None:
        return None
    mask = mask.expand(*mask.shape[:-1], key.shape[1])
    seen = mask.new_ones if mask.dtype is torch.bool else mask.new_zeros
    return torch.cat([mask, seen((*mask.shape[:-1], extra))], dim=-1)


def _check_padding(key_padding_mask: Tensor, key: Tensor) -> Tensor:
    if not isinstance(key_padding_mask, Tensor):
        raise TypeError(f"key_padding_mask must be a tensor, got {type(key_padding_mask).__name__}")
    if key_padding_mask.dtype is not torch.bool and not key_padding_mask.is_floating_point():
        raise TypeError(
            f"key_padding_mask must be boolean or floating point, got {key_padding_mask.dtype}"
        )
    if key_padding_mask.shape != key.shape[:2]:
        raise ValueError(
            f"key_padding_mask must have shape {tuple(key.shape[:2])}, "
            f"got shape {tuple(key_padding_mask.shape)}"
        )
    return key_padding_mask
