"""Attention as a token mixer: softmax, Gaussian and Fourier weights behind one layer.

Projections, heads, masks and the cache of decoding are shared; a kind of attention is the two
methods that weigh and attend. The same layer reads another sequence (cross-attention).
"""

import math
from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from fourierkernels.attention import fourier_attention, gaussian_attention, softmax_attention
from fourierkernels.attention.gaussian import fused_gaussian_attention
from fourierkernels.mixing.mixer import State, TokenMixer
from fourierkernels.validation import check_integer, check_number


class AttentionMixer(TokenMixer):
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
        Of :class:`TokenMixer`.
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
        self.heads = check_integer("heads", heads)
        if dim % heads:
            raise ValueError(f"heads must divide dim = {dim}, got {heads}")
        self.dropout = check_number("dropout", dropout)
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout must be at least 0 and below 1, got {dropout}")
        (
            self.query_projection,
            self.key_projection,
            self.value_projection,
            self.output_projection,
        ) = (nn.Linear(dim, dim, bias=bias) for _ in range(4))

    @abstractmethod
    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, is_causal: bool
    ) -> Tensor:
        """Return outputs ``(B, H, N, D)``; True in `mask` attends."""

    @abstractmethod
    def weights(self, query: Tensor, key: Tensor, mask: Tensor | None, is_causal: bool) -> Tensor:
        """Return the weights ``(B, H, N, M)``, without dropout."""

    def values(self, x: Tensor) -> Tensor:
        """Return the value projection, ``(B, H, N, D)``."""
        return self._split(self.value_projection(x))

    def combine(self, mixed: Tensor) -> Tensor:
        """Return the output projection of the merged heads, ``(B, N, E)``."""
        projected: Tensor = self.output_projection(mixed.transpose(1, 2).flatten(start_dim=2))
        return projected

    def mixing_matrix(self, x: Tensor, *, padding: Tensor | None = None) -> Tensor:
        """Return the attention weights, ``(B, H, N, N)``."""
        self.check_tokens(x, padding)
        mask, is_causal = self._mask(x.shape[1], padding)
        query, key = self._split(self.query_projection(x)), self._split(self.key_projection(x))
        return self.weights(query, key, mask, is_causal)

    def forward(self, x: Tensor, *, padding: Tensor | None = None) -> Tensor:
        """Mix tokens ``(B, N, E)``; padded keys are left out."""
        self.check_tokens(x, padding)
        mask, is_causal = self._mask(x.shape[1], padding)
        query, (key, value) = self._split(self.query_projection(x)), self.memory(x)
        return self.combine(self.attend(query, key, value, mask, is_causal))

    def memory(self, tokens: Tensor) -> State:
        """Return keys and values ``(B, H, M, D)`` of another sequence, for :meth:`read`."""
        return self._split(self.key_projection(tokens)), self._split(self.value_projection(tokens))

    def read(self, x: Tensor, memory: State, *, padding: Tensor | None = None) -> Tensor:
        """Attend from tokens ``(B, N, E)`` to a memory; `padding` is that of the memory."""
        mask = None if padding is None else ~padding[:, None, None, :]
        query, (key, value) = self._split(self.query_projection(x)), memory
        return self.combine(self.attend(query, key, value, mask, False))

    def step(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """Mix one more token ``(B, 1, E)``: the state is the keys and values so far."""
        self.check_step(x)
        seen = self.memory(x)
        if state is not None:
            seen = tuple(torch.cat(pair, dim=-2) for pair in zip(state, seen, strict=True))
        if self.length is not None and seen[0].shape[-2] > self.length:
            raise ValueError(
                f"x must have at most length = {self.length} tokens, got {seen[0].shape[-2]}"
            )
        return self.read(x, seen), seen

    def _split(self, projected: Tensor) -> Tensor:
        heads = projected.reshape(*projected.shape[:2], self.heads, -1)
        return heads.transpose(1, 2)  # (B, H, N, D)

    def _mask(self, n: int, padding: Tensor | None) -> tuple[Tensor | None, bool]:
        """Return one mask for padding and time, and whether time is still to be masked."""
        if padding is None:
            return None, self.causal
        mask = ~padding[:, None, None, :]  # (B, 1, 1, N)
        if self.causal:
            mask = mask & torch.ones(n, n, dtype=torch.bool, device=padding.device).tril()
        return mask, False

    def _dropout(self) -> float:
        return self.dropout if self.training else 0.0


class SoftmaxMixer(AttentionMixer):
    """Dot-product attention, [vaswani2017attention]_ eq. 1, by torch's fused function.

    Examples
    --------
    >>> SoftmaxMixer(8, heads=2)(torch.zeros(1, 3, 8)).shape
    torch.Size([1, 3, 8])
    """

    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, is_causal: bool
    ) -> Tensor:
        """Return softmax(q·k/√D) v."""
        return scaled_dot_product_attention(
            query, key, value, attn_mask=mask, is_causal=is_causal, dropout_p=self._dropout()
        )

    def weights(self, query: Tensor, key: Tensor, mask: Tensor | None, is_causal: bool) -> Tensor:
        """Return softmax(q·k/√D)."""
        return softmax_attention(
            query, key, key, attn_mask=mask, is_causal=is_causal, return_weights=True
        )[1]


class GaussianMixer(AttentionMixer):
    """Attention with Gaussian weights exp(-|q - k|²/(2σ²)), [nguyen2022fourierformer]_ eq. 7.

    By torch's fused softmax, without the differences (``attention/gaussian.py``).

    Parameters
    ----------
    sigma : float or None
        σ; D^(1/4) if None, which is softmax attention for keys of one norm.
    """

    def __init__(self, dim: int, *, heads: int, sigma: float | None = None, **options: Any) -> None:
        super().__init__(dim, heads=heads, **options)
        default = (dim // heads) ** 0.25
        self.sigma = default if sigma is None else check_number("sigma", sigma, above=0.0)

    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, is_causal: bool
    ) -> Tensor:
        """Return the weighted mean of the values."""
        return fused_gaussian_attention(
            query,
            key,
            value,
            sigma=self.sigma,
            attn_mask=mask,
            is_causal=is_causal,
            dropout_p=self._dropout(),
        )

    def weights(self, query: Tensor, key: Tensor, mask: Tensor | None, is_causal: bool) -> Tensor:
        """Return the normalised Gaussian weights."""
        return gaussian_attention(
            query,
            key,
            key,
            sigma=self.sigma,
            attn_mask=mask,
            is_causal=is_causal,
            return_weights=True,
        )[1]


class FourierMixer(AttentionMixer):
    """Fourier attention, [nguyen2022fourierformer]_ eq. 15, with one trained radius a layer.

    Parameters
    ----------
    power : int
        l.
    radius : float
        R at the start: 2 for language and 1 for images in the paper.
    radius_per_feature : bool
        One radius for each of the D features of a head, the paper's ablation.
    eps : float
        Added to the denominator; 1e-6 is the implementation its authors published.
    allow_signed : bool
        Accept odd powers.
    """

    def __init__(
        self,
        dim: int,
        *,
        heads: int,
        power: int = 4,
        radius: float = 2.0,
        radius_per_feature: bool = False,
        eps: float = 0.0,
        allow_signed: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(dim, heads=heads, **options)
        self.power, self.eps, self.allow_signed = check_integer("power", power), eps, allow_signed
        start = math.log(check_number("radius", radius, above=0.0))
        shape = (dim // heads,) if radius_per_feature else ()
        self.log_radius = nn.Parameter(torch.full(shape, start))

    @property
    def radius(self) -> Tensor:
        """R, positive: shape ``()`` or ``(D,)``."""
        return self.log_radius.exp()

    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, is_causal: bool
    ) -> Tensor:
        """Return the Nadaraya-Watson estimate."""
        return fourier_attention(
            query,
            key,
            value,
            self.radius,
            power=self.power,
            attn_mask=mask,
            is_causal=is_causal,
            dropout_p=self._dropout(),
            eps=self.eps,
            allow_signed=self.allow_signed,
        )

    def weights(self, query: Tensor, key: Tensor, mask: Tensor | None, is_causal: bool) -> Tensor:
        """Return the normalised weights."""
        return fourier_attention(
            query,
            key,
            key,
            self.radius,
            power=self.power,
            attn_mask=mask,
            is_causal=is_causal,
            eps=self.eps,
            allow_signed=self.allow_signed,
            return_weights=True,
        )[1]
