"""Attention in linear time as token mixers: random features in place of the weights."""

import math
from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor

from fourierkernels.attention.feature_sums import FAINT
from fourierkernels.attention.features import fourier_features
from fourierkernels.attention.kernel import (
    KernelOptions,
    RadiusParameter,
    RadiusShape,
    named_by_shape,
)
from fourierkernels.attention.linear import (
    FeatureState,
    linear_fourier_attention,
    linear_fourier_state,
    linear_fourier_step,
)
from fourierkernels.attention.masks import merge_masks
from fourierkernels.attention.multihead import HeadsWithRadius
from fourierkernels.attention.validation import check_power
from fourierkernels.foundation.validation import check_choice
from fourierkernels.mixing.attention import AttentionMixer
from fourierkernels.mixing.mixer import State


class FeatureMixer(AttentionMixer):
    """Base of attention by random features, which forms no weights.

    Parameters
    ----------
    **options
        Options of :class:`AttentionMixer` except `dropout`: there are no weights to drop.
    """

    frequencies: Tensor

    def __init__(self, dim: int, *, heads: int, **options: Any) -> None:
        super().__init__(dim, heads=heads, **options)
        if self.dropout:
            raise ValueError(f"dropout must be 0 without weights to drop, got {self.dropout}")

    @abstractmethod
    def estimate(
        self, query: Tensor, key: Tensor, value: Tensor, padding: Tensor | None, is_causal: bool
    ) -> Tensor:
        """Return the outputs ``(B, H, N, D)``; `padding` ``(B, M)`` is True at keys left out."""

    @abstractmethod
    def sums(self, key: Tensor, value: Tensor) -> State:
        """Return the sums over keys and values ``(B, H, M, D)`` that decoding keeps."""

    @abstractmethod
    def estimate_step(
        self, query: Tensor, key: Tensor, value: Tensor, sums: State | None
    ) -> tuple[Tensor, State]:
        """Return the output ``(B, H, 1, D)`` of one more token, and the sums after it."""

    def step(self, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """Mix one more token ``(B, 1, E)``: the state is sums and how many tokens they hold.

        Its size does not depend on the number of tokens.
        """
        self.check_step(x)
        sums, tokens = (None, None) if state is None else (state[:-1], state[-1])
        count = self.counted(x, tokens)
        key, value = self.memory(x)
        mixed, sums = self.estimate_step(self.queries(x), key, value, sums)
        return self.combine(mixed), (*sums, count)

    def prefill(self, x: Tensor) -> tuple[Tensor, State]:
        """Mix the first tokens at once; the state is that of as many steps."""
        self.check_causal("prefill")
        sums = self.sums(*self.memory(x))  # before a pass that may draw other features
        count = torch.full((len(x),), x.shape[1], dtype=torch.int64, device=x.device)
        return self(x), (*sums, count)

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        return_weights: bool = False,
        **options: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the estimate and, if asked for, its weights.

        The estimate never forms them: they are its outputs for one-hot values. `attn_mask` is one
        of keys alone, ``(B, 1, 1, M)``.
        """
        if return_weights:
            each = torch.eye(key.shape[-2], dtype=key.dtype, device=key.device)  # (M, M)
            one_hot = each.expand(*key.shape[:-2], *each.shape)  # value j is the unit vector j
            weights, _ = self.attend(query, key, one_hot, **options)
            return weights @ value, weights
        mask: Tensor | None = options.get("attn_mask")
        padding = None if mask is None else ~mask[:, 0, 0]  # (B, M)
        return self.estimate(query, key, value, padding, options.get("is_causal", False)), None

    def merge_masks(self, x: Tensor, padding: Tensor | None) -> tuple[Tensor | None, bool]:
        """Return padding and time apart: together they would be one mask of N × N."""
        return merge_masks(None, padding, False, x, x)[0], self.causal

    def counted(self, x: Tensor, tokens: Tensor | None) -> Tensor:
        """Return how many tokens there are with one more, ``(B,)``, at most the longest."""
        count = torch.ones(x.shape[0], dtype=torch.int64, device=x.device)
        if tokens is not None:
            count = count + tokens
        if self.length is not None:  # reading the count waits for a GPU
            self.check_length(int(count[0]))
        return count


class LinearFourierMixer(HeadsWithRadius, FeatureMixer):
    """Random-feature Fourier attention, with one trained radius per layer.

    It is the future work of [nguyen2022fourierformer]_. Training moves queries and keys apart until
    estimated sums of weights are lost in the noise of the draws. Such a sum is replaced by its
    standard error, in training, evaluation and decoding alike: outputs and gradients stay finite
    and time linear. The price is that those outputs approximate Fourier attention no longer; a
    :class:`~fourierkernels.attention.PhaseSpreadWarning` counts them. Exact rows in their place
    would cost the time that features save, and keys that decoding does not keep.

    Parameters
    ----------
    power : int
        l, even.
    features : int
        m; the draws are constants, one set for all heads, saved with the model.
    kind : {"orthogonal", "sobol", "iid"}
        How the draws depend on each other, see :func:`~fourierkernels.attention.fourier_features`.
    radius : float or None
        R at the start; √(3/(8lD)) if None, a phase spread of ½ for q and k of unit variance.
    radius_shape : {"scalar", "head", "feature", "head_feature", "matrix", "head_matrix"}
        As for :class:`FourierMixer`.
    learn_radius : bool
        Whether the radius is a parameter or a fixed buffer.
    radius_parameter : {"log", "direct"}
        As for :class:`FourierMixer`.
    radius_penalty : float
        As for :class:`FourierMixer`.
    faint : {"bounded", "nan"}
        How to treat outputs whose sum of weights is lost in noise, see
        :func:`~fourierkernels.attention.linear_fourier_attention`.
    **options
        Options of :class:`AttentionMixer` except `dropout`: there are no weights to drop.

    Examples
    --------
    >>> LinearFourierMixer(8, heads=2, features=32)(torch.zeros(1, 3, 8)).shape
    torch.Size([1, 3, 8])
    """

    def __init__(
        self,
        dim: int,
        *,
        heads: int,
        power: int = 4,
        features: int = 256,
        kind: str = "orthogonal",
        radius: float | None = None,
        radius_shape: RadiusShape = "scalar",
        learn_radius: bool = True,
        radius_parameter: RadiusParameter = "log",
        radius_penalty: float = 0.0,
        faint: str = "bounded",
        **options: Any,
    ) -> None:
        super().__init__(dim, heads=heads, **options)
        power = check_power(power, allow_signed=False)
        self.faint = check_choice("faint", faint, list(FAINT))
        start = math.sqrt(0.375 / (power * self.head_dim)) if radius is None else radius
        self.add_kernel(
            KernelOptions(
                radius=start,
                power=power,
                radius_shape=radius_shape,
                learn_radius=learn_radius,
                radius_parameter=radius_parameter,
            ),
            radius_penalty=radius_penalty,
        )
        draws = fourier_features(self.head_dim, features, power=power, kind=kind)
        self.register_buffer("frequencies", draws.to(torch.get_default_dtype()))

    def estimate(
        self, query: Tensor, key: Tensor, value: Tensor, padding: Tensor | None, is_causal: bool
    ) -> Tensor:
        """Return the estimate, some of whose weights are negative."""
        return linear_fourier_attention(
            query,
            key,
            value,
            named_by_shape(self.radius),
            power=self.kernel.power,
            frequencies=self.frequencies,
            key_padding_mask=padding,
            is_causal=is_causal,
            faint=self.faint,
        )

    def estimate_step(
        self, query: Tensor, key: Tensor, value: Tensor, sums: State | None
    ) -> tuple[Tensor, State]:
        """Return the output of one more token, and the three sums after it."""
        return linear_fourier_step(
            query,
            key,
            value,
            named_by_shape(self.radius),
            None if sums is None else FeatureState(*sums),
            frequencies=self.frequencies,
            power=self.kernel.power,
            faint=self.faint,
        )

    def sums(self, key: Tensor, value: Tensor) -> State:
        """Return the three sums over keys and values."""
        return linear_fourier_state(
            key, value, named_by_shape(self.radius), frequencies=self.frequencies
        )
