"""Attention as nonparametric regression: Fourier, softmax and Gaussian.

Fourier attention runs as fused code, on CPU and CUDA, that stores no N x M array but those asked
for. :func:`softmax_attention` and :func:`gaussian_attention`, the controls, are always the
reference; the Gaussian layer is fused, too. All of these are exact. Only
:func:`linear_fourier_attention` estimates.

Attention needs PyTorch, the extra ``torch`` of this package; ``import fourierkernels`` loads it
only when attention is first used.
"""

from fourierkernels.foundation.extras import needed_for

with needed_for("fourierkernels.attention"):
    import torch  # noqa: F401

from fourierkernels.attention.controls import gaussian_attention, softmax_attention
from fourierkernels.attention.features import PhaseSpreadWarning, fourier_features, phase_spread
from fourierkernels.attention.fourier import fourier_attention
from fourierkernels.attention.kernel import radius_penalty
from fourierkernels.attention.linear import (
    FeatureState,
    linear_fourier_attention,
    linear_fourier_step,
)
from fourierkernels.attention.modules import FourierAttention, GaussianAttention
from fourierkernels.attention.torch_multihead import TorchMultihead

__all__ = [
    "FeatureState",
    "FourierAttention",
    "GaussianAttention",
    "PhaseSpreadWarning",
    "TorchMultihead",
    "fourier_attention",
    "fourier_features",
    "gaussian_attention",
    "linear_fourier_attention",
    "linear_fourier_step",
    "phase_spread",
    "radius_penalty",
    "softmax_attention",
]
