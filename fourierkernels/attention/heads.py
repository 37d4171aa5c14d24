"""How heads attend: with Fourier and with Gaussian weights, for layers and mixers alike."""

from typing import Any

from torch import Tensor

from fourierkernels.attention.fourier import fourier_attention
from fourierkernels.attention.gaussian import fused_gaussian_attention, weighted_gaussian_attention
from fourierkernels.attention.multihead import MultiheadCore
from fourierkernels.attention.radius import RadiusShape, add_log_radius
from fourierkernels.attention.validation import check_eps, check_power
from fourierkernels.foundation.validation import check_number


class HeadsWithRadius(MultiheadCore):
    """Heads with a trained radius R, kept as its logarithm.

    Attributes
    ----------
    log_radius : Parameter or Tensor
        log R.
    radius_shape : {"scalar", "head", "feature", "head_feature"}
        A key of :data:`~fourierkernels.attention.radius.RADIUS_SHAPES`.
    """

    log_radius: Tensor

    def add_radius(
        self, radius: float, *, shape: RadiusShape = "scalar", learn: bool = True, **options: Any
    ) -> None:
        """Add log R, which starts at `radius` in every place of `shape`.

        Parameters
        ----------
        learn : bool
            Whether it is a parameter or a fixed buffer.
        **options
            ``device`` and ``dtype``.
        """
        self.radius_shape, self.initial_radius = shape, radius
        add_log_radius(
            self,
            radius,
            shape=shape,
            heads=self.num_heads,
            dim=self.head_dim,
            learn=learn,
            **options,
        )

    @property
    def radius(self) -> Tensor:
        """R, positive: shape ``(1,)``, ``(H, 1)``, ``(D,)`` or ``(H, D)``."""
        return self.log_radius.exp()


class FourierHeads(HeadsWithRadius):
    """Heads that attend by :func:`~fourierkernels.attention.fourier_attention`."""

    def add_kernel(self, *, power: int, eps: float, allow_signed: bool) -> None:
        """Set the power l of the kernel and what is added to the denominator."""
        self.power = check_power(power, allow_signed=allow_signed)
        self.allow_signed, self.eps = allow_signed, check_eps(eps)

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
        options |= {"power": self.power, "eps": self.eps, "allow_signed": self.allow_signed}
        inputs = (query, key, value, self.radius)
        if return_weights:
            pair: tuple[Tensor, Tensor] = fourier_attention(*inputs, return_weights=True, **options)
            return pair
        return fourier_attention(*inputs, **options), None


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
