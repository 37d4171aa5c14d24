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

from fourierkernels.attention.features import (
    PhaseSpreadWarning,
    fourier_features,
    phase_spread,
)
from fourierkernels.attention.functional import (
    fourier_attention,
    gaussian_attention,
    softmax_attention,
)
from fourierkernels.attention.linear import (
    FeatureState,
    linear_fourier_attention,
    linear_fourier_step,
)
from fourierkernels.attention.modules import FourierAttention, GaussianAttention

__all__ = [
    "FeatureState",
    "FourierAttention",
    "GaussianAttention",
    "PhaseSpreadWarning",
    "fourier_attention",
    "fourier_features",
    "gaussian_attention",
    "linear_fourier_attention",
    "linear_fourier_step",
    "phase_spread",
    "softmax_attention",
]
