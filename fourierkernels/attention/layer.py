"""The interface of torch.nn.MultiheadAttention around the core: layouts, masks, extra keys."""

from typing import Literal, overload

import torch
from torch import Tensor, nn

from fourierkernels.attention.masks import merge_checked, widen_mask
from fourierkernels.attention.multihead import MultiheadCore, check_heads
from fourierkernels.attention.validation import check_layouts
from fourierkernels.foundation.validation import check_integer


class MultiheadKernelAttention(MultiheadCore):
    """Multi-head kernel regression with the interface of torch's layer.

    A subclass supplies the kernel, as the method `attend`.

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
        Whether one learned key and value are appended to every sequence.
    add_zero_attn : bool
        Whether a key and value of zeros are appended to every sequence.
    kdim, vdim : int or None
        Features of key and value; `embed_dim` if None.
    batch_first : bool
        Whether batched inputs are ``(B, N, E)`` rather than ``(N, B, E)``.
    device, dtype
        Device and dtype of the parameters.
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
        heads = check_integer("num_heads", num_heads)
        check_heads(heads, embed_dim, name="num_heads", of="embed_dim")
        self.batch_first, self.add_zero_attn = batch_first, add_zero_attn
        self.add_heads(
            self.embed_dim,
            heads,
            key_dim=None if kdim is None else check_integer("kdim", kdim),
            value_dim=None if vdim is None else check_integer("vdim", vdim),
            dropout=dropout,
            bias=bias,
            device=device,
            dtype=dtype,
        )
        for name in ("bias_key", "bias_value"):
            empty = torch.empty(self.embed_dim, device=device, dtype=dtype)
            self.register_parameter(name, nn.Parameter(empty) if add_bias_kv else None)

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
            ``(B, M, kdim)`` and ``(B, M, vdim)``, likewise; a missing value is the key, and a
            missing key is the query.
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
        check_layouts(
            {"query": query, "key": key, "value": value},
            (self.embed_dim, self.key_projection.in_features, self.value_projection.in_features),
            batch_first=self.batch_first,
        )
        batched = query.ndim == 3
        query, key, value = (self._batch_first(side) for side in (query, key, value))
        masks = (attn_mask, key_padding_mask, is_causal)
        mask, is_causal = merge_checked(*masks, query, key, batched=batched)
        keys = self._with_extras(self.key_projection(key), self.bias_key)  # (B, M + extra, E)
        values = self._with_extras(self.value_projection(value), self.bias_value)
        if extra := keys.shape[1] - key.shape[1]:
            mask, is_causal = widen_mask(mask, is_causal, extra, query, key), False
        output, weights = self.attend(
            self.split_heads(self.query_projection(query)),  # (B, H, N, D)
            self.split_heads(keys),  # (B, H, M + extra, D)
            self.split_heads(values),
            return_weights=need_weights,
            attn_mask=mask,
            is_causal=is_causal,
            dropout_p=self.dropout_p,
        )
        output = self._as_given(self.join_heads(output), batched)
        if weights is None:
            return output
        weights = weights.mean(dim=1) if average_attn_weights else weights
        return output, weights if batched else weights[0]

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


def _complete(query: Tensor, key: Tensor | None, value: Tensor | None) -> tuple[Tensor, Tensor]:
    if key is None:
        if value is not None:
            raise ValueError(f"value must come with a key, got shape {tuple(value.shape)} alone")
        key = query
    return key, key if value is None else value
