"""Fourier attention in linear time as a token mixer: random features in place of the weights."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from fourierkernels.attention.features import fourier_features
from fourierkernels.attention.linear import (
    FeatureState,
    linear_fourier_attention,
    linear_fourier_step,
)
from fourierkernels.mixing.attention import AttentionMixer
from fourierkernels.mixing.mixer import State
from fourierkernels.validation import check_integer, check_number


class LinearFourierMixer(AttentionMixer):
    """Random-feature Fourier attention, with one trained radius a layer.

    It is the future work of [nguyen2022fourierformer]_. Where an estimated sum of weights is lost
    in the noise of the draws the output is NaN, with a
    :class:`~fourierkernels.attention.PhaseSpreadWarning`: keep the radius small.

    Parameters
    ----------
    power : int
        l, even.
    features : int
        m; the draws are constants, one set for all heads, saved with the model.
    kind : {"orthogonal", "sobol", "iid"}
        Of :func:`~fourierkernels.attention.fourier_features`.
    radius : float or None
        R at the start; √(3/(8lD)) if None, a phase spread of ½ for q and k of unit variance.
    **options
        Of :class:`AttentionMixer`; there are no weights that `dropout` could drop.

    Examples
    --------
    >>> LinearFourierMixer(8, heads=2, features=32)(torch.zeros(1, 3, 8)).shape
    torch.Size([1, 3, 8])
    """

    frequencies: Tensor

    def __init__(
        self,
        dim: int,
        *,
        heads: int,
        power: int = 4,
        features: int = 256,
        kind: str = "orthogonal",
        radius: float | None = None,
        **options: Any,
    ) -> None:
        super().__init__(dim, heads=heads, **options)
        if self.dropout:
            raise ValueError(f"dropout must be 0 without weights to drop, got {self.dropout}")
        self.power = check_integer("power", power)
        start = math.sqrt(0.375 / (power * (dim // heads))) if radius is None else radius
        self.log_radius = nn.Parameter(
            torch.tensor(math.log(check_number("radius", start, above=0.0)))
        )
        draws = fourier_features(dim // heads, features, power=power, kind=kind)
        self.register_buffer("frequencies", draws.to(torch.get_default_dtype()))

    @property
    def radius(self) -> Tensor:
        """R, positive."""
        return self.log_radius.exp()

    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, is_causal: bool
    ) -> Tensor:
        """Return the estimate; `mask` is one of keys alone, ``(B, 1, 1, M)``."""
        return linear_fourier_attention(
            query,
            key,
            value,
            self.radius,
            power=self.power,
            frequencies=self.frequencies,
            key_padding_mask=None if mask is None else ~mask[:, 0, 0],
            is_causal=is_causal,
        )

    def weights(self, query: Tensor, key: Tensor, mask: Tensor | None, is_causal: bool) -> Tensor:
        """Return the normalised weights, which this mixer itself never forms; some negative."""
        each = torch.eye(key.shape[-2], dtype=key.dtype, device=key.device)
        one_hot = each.expand(*key.shape[:-2], *each.shape)  # value j is the unit vector j
        return self.attend(query, key, one_hot, mask, is_causal)

    def step(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """Mix one more token ``(B, 1, E)``: the state is three sums and how many tokens they hold.

        Its size does not depend on the number of tokens.
        """
        self.check_step(x)
        count = torch.ones(x.shape[0], dtype=torch.int64, device=x.device)
        if state is not None:
            count = count + state[3]
        if self.length is not None and count[0] > self.length:
            raise ValueError(f"x must have at most length = {self.length} tokens, got {count[0]}")
        query, (key, value) = self._split(self.query_projection(x)), self.memory(x)
        mixed, sums = linear_fourier_step(
            query,
            key,
            value,
            self.radius,
            None if state is None else FeatureState(*state[:3]),
            frequencies=self.frequencies,
            power=self.power,
        )
        return self.combine(mixed), (*sums, count)

    def _mask(self, n: int, padding: Tensor | None) -> tuple[Tensor | None, bool]:
        """Return padding and time apart: together they would be one mask of N × N."""
        return None if padding is None else ~padding[:, None, None, :], self.causal
