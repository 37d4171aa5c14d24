"""Attention as a token mixer: softmax, Gaussian and Fourier weights behind one interface.

Projections, heads and weights are those of the core in :mod:`fourierkernels.attention.multihead`;
what is added here is the interface of a mixer: time, padding, the cache of decoding, and reading
another sequence (cross-attention).
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from fourierkernels.attention import softmax_attention
from fourierkernels.attention.kernel import KernelOptions, RadiusParameter, RadiusShape
from fourierkernels.attention.masks import merge_masks
from fourierkernels.attention.multihead import (
    FourierHeads,
    GaussianHeads,
    HeadsWithRadius,
    MultiheadCore,
    check_heads,
)
from fourierkernels.foundation.validation import check_choice, check_integer, check_number
from fourierkernels.mixing.masked_after import masked_after
from fourierkernels.mixing.mixer import ReadingMixer, State

MASKS = ("before", "after")


class AttentionMixer(ReadingMixer, MultiheadCore):
    """Multi-head attention, batch first, over the tokens themselves or over a memory.

    Parameters
    ----------
    heads : int
        H; it must divide `dim`.
    dropout : float
        In [0, 1): probability of dropping a weight, in training only.
    bias : bool
        Whether the four projections have one.
    **options
        Options of :class:`~fourierkernels.mixing.mixer.TokenMixer`.
    """

    masks_padding = True

    def __init__(
        self,
        dim: int,
        *,
        heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        length: int | None = None,
        causal: bool = False,
    ) -> None:
        super().__init__(dim, length=length, causal=causal)
        check_heads(check_integer("heads", heads), dim, name="heads", of="dim")
        self.add_heads(dim, heads, dropout=dropout, bias=bias)

    def values(self, x: Tensor) -> Tensor:
        """Return the value projection, ``(B, H, N, D)``."""
        return self.split_heads(self.value_projection(x))

    def combine(self, mixed: Tensor) -> Tensor:
        """Return the output projection of the joined heads, ``(B, N, E)``."""
        return self.join_heads(mixed)

    def mixing_matrix(self, x: Tensor, *, padding: Tensor | None = None) -> Tensor:
        """Return the attention weights without dropout, ``(B, H, N, N)``."""
        self.check_tokens(x, padding)
        mask, is_causal = self.merge_masks(x, padding)
        query, key = self.queries(x), self.split_heads(self.key_projection(x))  # (B, H, N, D) each
        return self.weights(query, key, attn_mask=mask, is_causal=is_causal)

    def forward(self, x: Tensor, *, padding: Tensor | None = None) -> Tensor:
        """Mix tokens ``(B, N, E)``; padded keys are left out."""
        self.check_tokens(x, padding)
        return self._attend(self.queries(x), self.memory(x), *self.merge_masks(x, padding))

    def queries(self, x: Tensor) -> Tensor:
        """Return the query projection, ``(B, H, N, D)``."""
        return self.split_heads(self.query_projection(x))

    def memory(self, tokens: Tensor) -> State:
        """Return keys and values ``(B, H, M, D)`` of another sequence, for :meth:`read`."""
        return self.split_heads(self.key_projection(tokens)), self.values(tokens)

    def read(
        self, x: Tensor, memory: State, *, padding: Tensor | None = None, first: int = 0
    ) -> Tensor:
        """Attend from tokens ``(B, N, E)`` to a memory; `padding` is that of the memory."""
        return self._attend(self.queries(x), memory, *merge_masks(None, padding, False, x, x))

    def step(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """Mix one more token ``(B, 1, E)``: the state is the keys and values so far."""
        self.check_step(x)
        memory = self.memory(x)
        if state is not None:
            memory = tuple(torch.cat(pair, dim=-2) for pair in zip(state, memory, strict=True))
        self.check_length(memory[0].shape[-2])
        return self.read(x, memory), memory

    def prefill(self, x: Tensor) -> tuple[Tensor, State]:
        """Mix the first tokens at once; the state is their keys and values."""
        self.check_causal("prefill")
        return self(x), self.memory(x)

    def merge_masks(self, x: Tensor, padding: Tensor | None) -> tuple[Tensor | None, bool]:
        """Return one mask for padding and time, and whether time is still to be masked."""
        return merge_masks(None, padding, self.causal, x, x)

    def _attend(self, query: Tensor, memory: State, mask: Tensor | None, is_causal: bool) -> Tensor:
        options: dict[str, Any] = {"attn_mask": mask, "is_causal": is_causal}
        mixed, _ = self.attend(query, *memory, dropout_p=self.dropout_p, **options)  # (B, H, N, D)
        return self.combine(mixed)


class SoftmaxMixer(AttentionMixer):
    """Dot-product attention, [vaswani2017attention]_ eq. 1, by torch's fused function.

    Parameters
    ----------
    scale : float or None
        Factor of the dot products; 1/√D if None.
    mask : {"before", "after"}
        Where the causal mask M acts. "before" is the usual softmax(M(QKᵀ/√D)). "after"
        is what [chen_attention]_ writes in section 3.1.2, M ⊙ softmax(QKᵀ/√D): rows no longer sum
        to one, and every weight is divided by a sum over the later tokens, too. So later tokens,
        the one to be predicted among them, change earlier outputs: rows differ between training
        and decoding. It has no steps and no cache; each token is decoded from the last row of a
        whole pass, in which nothing is masked. The report has no 1/√D either, nor projections:
        trained projections make up for the factor.
    **options
        Options of :class:`AttentionMixer`.

    Examples
    --------
    >>> SoftmaxMixer(8, heads=2)(torch.zeros(1, 3, 8)).shape
    torch.Size([1, 3, 8])
    """

    def __init__(
        self,
        dim: int,
        *,
        heads: int,
        scale: float | None = None,
        mask: str = "before",
        **options: Any,
    ) -> None:
        super().__init__(dim, heads=heads, **options)
        self.scale = None if scale is None else check_number("scale", scale, above=0.0)
        self.mask = check_choice("mask", mask, list(MASKS))
        self.sees_later = self.mask == "after"
        if self.sees_later and not self.causal:
            raise ValueError("mask must be before without a causal order, got 'after'")

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        return_weights: bool = False,
        **options: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """Return softmax(scale q·k) v, masked before or after, and the weights or None."""
        options |= {"scale": self.scale}
        if self.sees_later:
            return masked_after(query, key, value, return_weights=return_weights, **options)
        if return_weights:
            return softmax_attention(query, key, value, return_weights=True, **options)
        return scaled_dot_product_attention(query, key, value, **options), None

    def merge_masks(self, x: Tensor, padding: Tensor | None) -> tuple[Tensor | None, bool]:
        """Return the masks, those of padding and time apart where they act apart."""
        if self.sees_later:
            return merge_masks(None, padding, False, x, x)[0], True
        return super().merge_masks(x, padding)

    def check_causal(self, what: str) -> None:
        """Refuse to decode from a state where a later token changes it."""
        super().check_causal(what)
        if self.sees_later:
            raise ValueError(
                f"{what} needs outputs that later tokens leave alone, got mask='after'; read the "
                "whole beginning again for each token"
            )


class GaussianMixer(GaussianHeads, AttentionMixer):
    """Attention with Gaussian weights exp(-|q - k|²/(2σ²)), [nguyen2022fourierformer]_ eq. 7.

    Parameters
    ----------
    sigma : float or None
        σ; D^(1/4) if None, which is softmax attention for keys of one norm.
    **options
        Options of :class:`AttentionMixer`.
    """

    def __init__(self, dim: int, *, heads: int, sigma: float | None = None, **options: Any) -> None:
        super().__init__(dim, heads=heads, **options)
        self.add_kernel(sigma)


class FourierMixer(FourierHeads, AttentionMixer):
    """Fourier attention, [nguyen2022fourierformer]_ eq. 15, with trained or fixed radii.

    Parameters
    ----------
    power, radius, radius_shape, learn_radius, eps, allow_signed, radius_parameter, radius_penalty
        Options of the kernel, as for :class:`~fourierkernels.attention.FourierAttention`.
    **options
        Options of :class:`AttentionMixer`.
    """

    def __init__(
        self,
        dim: int,
        *,
        heads: int,
        power: int = 4,
        radius: float = 2.0,
        radius_shape: RadiusShape = "scalar",
        learn_radius: bool = True,
        eps: float = 0.0,
        allow_signed: bool = False,
        radius_parameter: RadiusParameter = "log",
        radius_penalty: float = 0.0,
        **options: Any,
    ) -> None:
        super().__init__(dim, heads=heads, **options)
        kernel = KernelOptions(
            radius=radius,
            power=power,
            eps=eps,
            radius_shape=radius_shape,
            learn_radius=learn_radius,
            allow_signed=allow_signed,
            radius_parameter=radius_parameter,
        )
        self.add_kernel(kernel, radius_penalty=radius_penalty)


def radius_penalties(model: nn.Module) -> list[Tensor]:
    """Return what the heads of a model with trained radii ask to be added to its loss."""
    heads = (module for module in model.modules() if isinstance(module, HeadsWithRadius))
    given = (module.penalty() for module in heads)
    return [penalty for penalty in given if penalty is not None]
