"""Attention as nonparametric regression: Fourier, softmax and Gaussian.

This is the reference: exact and slow. It needs PyTorch, the extra ``torch`` of this package;
``import fourierkernels`` loads it only when attention is first used.
"""

try:
    import torch  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "torch":  # torch is there, but something it needs is not
        raise
    raise ImportError(
        'fourierkernels.attention needs PyTorch: pip install "fourierkernels[torch]"'
    ) from error

from fourierkernels.attention.functional import (
    fourier_attention,
    gaussian_attention,
    softmax_attention,
)
from fourierkernels.attention.modules import FourierAttention

__all__ = ["FourierAttention", "fourier_attention", "gaussian_attention", "softmax_attention"]
