"""Fourier and Gaussian attention as layers, with projections and a trainable bandwidth."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from fourierkernels.attention.kernel import KernelOptions, RadiusParameter, RadiusShape
from fourierkernels.attention.multihead import FourierHeads, GaussianHeads
from fourierkernels.attention.torch_multihead import ReplacesMultihead


class FourierAttention(FourierHeads, ReplacesMultihead):
    """Multi-head Fourier attention with projections, batch first.

    Source: [nguyen2022fourierformer]_, Definition 1, one radius per layer as its language models.
    By default the radius is trained through its logarithm, so that no step can make it negative.
    The code that the authors published trains R itself (`radius_parameter` "direct"). A step of an
    optimiser then changes R by the rate instead of by R times the rate: from R = 2 down, the steps
    of log R are twice as large, from R = 0.1 a tenth.

    Parameters
    ----------
    embed_dim, num_heads : int
        Features E of the input and output, and heads H; D = E / H must be whole.
    power : int
        l of the kernel.
    radius : float
        R at the start, in every place of `radius_shape`. The paper takes 2 for language and 1 for
        images.
    radius_shape : {"scalar", "head", "feature", "head_feature", "matrix", "head_matrix"}
        Whether all heads and features share one radius, or each head, each feature (the paper's
        ablation) or each feature of each head has its own; or whether R is a matrix, for all heads
        or for each, which begins as `radius` times the identity.
    learn_radius : bool
        Whether the radius is a parameter or a fixed buffer.
    eps : float
        Added to the denominator; 1e-6 is the implementation its authors published.
    allow_signed : bool
        Accept odd powers.
    radius_parameter : {"log", "direct"}
        Whether log R is trained or R. The published kernel is even in R, so a direct R that crosses
        zero counts as its absolute value; R = 0 is an error on a CPU, where values can be read. Of
        a matrix the logarithm is the matrix's: R = exp(A), never singular, while a direct R is its
        entries.
    radius_penalty : float
        Factor of :func:`radius_penalty` of the matrices in what ``penalty()`` returns, for a
        training loop to add to its loss; the studies of this package do.
    **options
        Those of `torch.nn.MultiheadAttention`: dropout, bias, add_bias_kv, add_zero_attn, kdim,
        vdim, batch_first (here True by default), device, dtype.

    Attributes
    ----------
    log_radius or signed_radius : Parameter or Tensor
        log R, or R up to its sign, trained or fixed.
    radius : Tensor
        R, positive: shape ``(1,)``, ``(H, 1)``, ``(D,)`` or ``(H, D)``; or matrices,
        ``(1, D, D)`` or ``(H, D, D)``.

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

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        *,
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
        super().__init__(embed_dim, num_heads, **options)
        kernel = KernelOptions(
            radius=radius,
            power=power,
            eps=eps,
            radius_shape=radius_shape,
            learn_radius=learn_radius,
            allow_signed=allow_signed,
            radius_parameter=radius_parameter,
        )
        self.add_kernel(
            kernel,
            radius_penalty=radius_penalty,
            device=options.get("device"),
            dtype=options.get("dtype"),
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the projections anew (Xavier uniform, biases zero); the radius starts over."""
        super().reset_parameters()
        self.kernel.restart(self)

    def extra_repr(self) -> str:
        """Show the options that the projections do not."""
        kernel = self.kernel
        return (
            f"embed_dim={self.embed_dim}, num_heads={self.num_heads}, power={kernel.power}, "
            f"radius_shape={kernel.radius_shape!r}, dropout={self.dropout}, eps={kernel.eps}, "
            f"learn_radius={kernel.learn_radius}"
        )


class GaussianAttention(GaussianHeads, ReplacesMultihead):
    """Multi-head attention with weights exp(-|q - k|²/(2σ²)), the control for Fourier attention.

    Source: [nguyen2022fourierformer]_, eq. 7. With the default σ and keys of one norm it is
    `torch.nn.MultiheadAttention`. No N x M array is stored unless weights are asked for.

    Parameters
    ----------
    embed_dim, num_heads : int
        Features E of the input and output, and heads H.
    sigma : float or None
        σ at the start; D^(1/4) if None.
    learn_sigma : bool
        Whether log σ is a parameter, one per head, or a fixed buffer.
    **options
        As for :class:`FourierAttention`.

    Examples
    --------
    >>> GaussianAttention(8, 2)(torch.zeros(3, 5, 8)).shape
    torch.Size([3, 5, 8])
    """

    log_sigma: Tensor

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        *,
        sigma: float | None = None,
        learn_sigma: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(embed_dim, num_heads, **options)
        self.add_kernel(sigma)
        log_sigma = torch.empty(
            (self.num_heads, 1, 1), device=options.get("device"), dtype=options.get("dtype")
        )
        if learn_sigma:
            self.log_sigma = nn.Parameter(log_sigma)
        else:
            self.register_buffer("log_sigma", log_sigma)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the projections anew; σ starts over."""
        super().reset_parameters()
        with torch.no_grad():
            self.log_sigma.fill_(math.log(self.initial_sigma))

    @property
    def sigma(self) -> Tensor:
        """σ, positive: ``(H, 1, 1)``."""
        return self.log_sigma.exp()

    def extra_repr(self) -> str:
        """Show the options that the projections do not."""
        learnt = isinstance(self.log_sigma, nn.Parameter)
        return (
            f"embed_dim={self.embed_dim}, num_heads={self.num_heads}, dropout={self.dropout}, "
            f"learn_sigma={learnt}"
        )
