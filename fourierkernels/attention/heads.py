"""How heads attend: with Fourier and with Gaussian weights, for layers and mixers alike."""

from typing import Any

import torch
from torch import Tensor

from fourierkernels.attention.gaussian import fused_gaussian_attention, weighted_gaussian_attention
from fourierkernels.attention.kernel import KernelOptions
from fourierkernels.attention.multihead import MultiheadCore
from fourierkernels.foundation.validation import check_number


class HeadsWithRadius(MultiheadCore):
    """Heads with a trained radius R, kept as its logarithm.

    Attributes
    ----------
    kernel : KernelOptions
        Options of the kernel.
    log_radius : Parameter or Tensor
        log R.
    """

    kernel: KernelOptions
    log_radius: Tensor

    def add_kernel(
        self,
        kernel: KernelOptions,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        """Keep the options and add log R."""
        self.kernel = kernel
        kernel.add_radius(self, self.num_heads, self.head_dim, device=device, dtype=dtype)

    @property
    def radius(self) -> Tensor:
        """R, positive: shape ``(1,)``, ``(H, 1)``, ``(D,)`` or ``(H, D)``."""
        return self.log_radius.exp()


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
