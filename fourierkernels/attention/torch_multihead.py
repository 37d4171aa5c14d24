"""Layers of this package where torch's own stand: inside `torch.nn.TransformerEncoderLayer`.

Torch's layers take `attn_mask` the other way round and return pairs, of which its Transformer
layers keep the first entry. An attention layer that returned its output alone would give them the
first item of the batch, for all items. So a layer is wrapped when it is assigned to one of these.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_module_registration_hook

from fourierkernels.attention.layer import MultiheadKernelAttention
from fourierkernels.attention.multihead import weights_of
from fourierkernels.attention.validation import check_dropout

_PARENTS = (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)


class _OutProjection(NamedTuple):
    weight: Tensor
    bias: Tensor


class TorchMultihead(nn.Module):
    """A layer of this package behind the calls of `torch.nn.MultiheadAttention`.

    It is what `from_multihead` of the layers returns. A layer that is assigned to
    `torch.nn.TransformerEncoderLayer` or `TransformerDecoderLayer` is wrapped automatically, if it
    has the `batch_first` of what it replaces; wrap it yourself where other code calls it as
    torch's.
    Arguments, their order and their defaults, the meaning of masks and the returned pair are
    torch's; torch's fused inference, which would bypass the layer, is not used.

    Parameters
    ----------
    layer : MultiheadKernelAttention
        What is wrapped, and stays an attribute: a
        :class:`~fourierkernels.attention.FourierAttention` or
        :class:`~fourierkernels.attention.GaussianAttention`.

    Examples
    --------
    >>> from fourierkernels.attention import FourierAttention
    >>> block = nn.TransformerEncoderLayer(8, 2, batch_first=True)
    >>> block.self_attn = FourierAttention.from_multihead(block.self_attn)
    >>> type(block.self_attn).__name__, block(torch.zeros(3, 5, 8)).shape
    ('TorchMultihead', torch.Size([3, 5, 8]))
    """

    _qkv_same_embed_dim = False  # what keeps torch from its fused inference

    def __init__(self, layer: MultiheadKernelAttention) -> None:
        super().__init__()
        if not isinstance(layer, MultiheadKernelAttention):
            raise TypeError(
                f"layer must be a FourierAttention or GaussianAttention, got {type(layer).__name__}"
            )
        self.layer = layer
        self.embed_dim, self.num_heads = layer.embed_dim, layer.num_heads
        self.head_dim, self.batch_first = layer.head_dim, layer.batch_first

    @property
    def dropout(self) -> float:
        """Probability of dropping a weight in training: that of the layer, which it sets."""
        return self.layer.dropout

    @dropout.setter
    def dropout(self, dropout: float) -> None:
        self.layer.dropout = check_dropout("dropout", dropout)

    @property
    def in_proj_weight(self) -> Tensor:
        """A weight that torch's encoder asks for, to see whether it is trained."""
        return self.layer.query_projection.weight

    @property
    def in_proj_bias(self) -> Tensor:
        """Likewise."""
        return self.in_proj_weight

    @property
    def out_proj(self) -> _OutProjection:
        """Likewise."""
        weight = self.layer.output_projection.weight
        return _OutProjection(weight, weight)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend as torch's layer does.

        Parameters
        ----------
        query, key, value : Tensor
            ``(B, N, E)`` and so on; ``(N, B, E)`` without `batch_first`. A nested tensor of
            sequences, as torch's encoder makes of padding, may attend to itself.
        key_padding_mask : Tensor or None
            ``(B, M)``: boolean, True is ignored, or added to log|w|.
        attn_mask : Tensor or None
            ``(N, M)`` or ``(B·H, N, M)``: boolean, True is ignored, or added to log|w|.
        is_causal : bool
            Without a mask, query i attends to keys j <= i; beside one it says that the mask does
            that, and the mask decides.

        Returns
        -------
        Tensor, Tensor or None
            The output, and the weights if they are needed: ``(B, N, M)``, or of each head.
        """
        options: dict[str, Any] = {
            "need_weights": need_weights,
            "average_attn_weights": average_attn_weights,
        }
        if query.is_nested:
            if not self.batch_first or not (query is key is value) or attn_mask is not None:
                raise ValueError(
                    "query must be the key and value, batch first and without attn_mask, "
                    "where it is a nested tensor"
                )
            return self._attend_nested(query, is_causal=is_causal, **options)
        if attn_mask is not None:
            attn_mask, is_causal = self._turned(attn_mask), False
        masks = {"attn_mask": attn_mask, "key_padding_mask": key_padding_mask}
        result = self.layer(query, key, value, is_causal=is_causal, **masks, **options)
        return result if need_weights else (result, None)

    def _turned(self, mask: Tensor) -> Tensor:
        """Return torch's mask as ours, in which True attends."""
        if mask.dtype is torch.bool:
            mask = ~mask
        return mask if mask.ndim != 3 else mask.reshape(-1, self.num_heads, *mask.shape[1:])

    def _attend_nested(self, tokens: Tensor, **options: Any) -> tuple[Tensor, Tensor | None]:
        lengths = [len(sequence) for sequence in tokens.unbind()]
        padded = tokens.to_padded_tensor(0.0)  # (B, N, E)
        places = torch.arange(padded.shape[1], device=padded.device)
        padding = places >= torch.tensor(lengths, device=padded.device)[:, None]
        output, weights = self.forward(padded, padded, padded, padding, **options)
        sequences = [row[:length] for row, length in zip(output, lengths, strict=True)]
        return torch.nested.as_nested_tensor(sequences), weights


class ReplacesMultihead(MultiheadKernelAttention):
    """A layer with the interface of torch's that can take its place, and its weights."""

    @classmethod
    def from_multihead(cls, module: nn.MultiheadAttention, **options: Any) -> TorchMultihead:
        """Return a layer with torch's calls, and the sizes, weights, dropout and mode of `module`.

        The attribute `layer` of the result is called as this class is.

        Parameters
        ----------
        **options
            Options of this class that `module` does not fix.

        Examples
        --------
        >>> from fourierkernels.attention import FourierAttention
        >>> theirs, x = nn.MultiheadAttention(8, 2, batch_first=True), torch.zeros(3, 5, 8)
        >>> ours = FourierAttention.from_multihead(theirs, radius=1.0)
        >>> [part.shape == other.shape for part, other in zip(ours(x, x, x), theirs(x, x, x))]
        [True, True]
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
        layer.load_state_dict(weights_of(module), strict=False)
        return TorchMultihead(layer).train(module.training)


def _wrap(parent: nn.Module, name: str, child: nn.Module | None) -> nn.Module | None:
    if not isinstance(parent, _PARENTS):
        return None  # registered as it is
    if isinstance(child, MultiheadKernelAttention | TorchMultihead):
        _check_layout(name, child.batch_first, parent._modules.get(name))
    return TorchMultihead(child) if isinstance(child, MultiheadKernelAttention) else None


def _check_layout(name: str, batch_first: bool, replaced: nn.Module | None) -> None:
    """Refuse a layer that would take the batch for the tokens: torch's default is the opposite."""
    wanted = getattr(replaced, "batch_first", batch_first)
    if batch_first != wanted:
        raise ValueError(
            f"{name} must have batch_first={wanted}, as the attention that it replaces, "
            f"got {batch_first}"
        )


register_module_module_registration_hook(_wrap)  # type: ignore[arg-type]  # it may replace
