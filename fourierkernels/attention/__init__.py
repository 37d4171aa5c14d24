"""Attention as nonparametric regression: Fourier, softmax and Gaussian.

Functions and layers run fused code that stores no N x M array, for CPU and CUDA. Weights that are
returned, dropout and trained masks take the reference of :mod:`fourierkernels.ops.reference`, which
stores all pairs and is slow; so does ``implementation="reference"``. Both are exact. Only
:func:`linear_fourier_attention` estimates.

Attention needs PyTorch, the extra ``torch`` of this package; ``import fourierkernels`` loads it
only when attention is first used.
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
from fourierkernels.attention.fourier import fourier_attention
from fourierkernels.attention.gaussian import gaussian_attention
from fourierkernels.attention.linear import (
    FeatureState,
    linear_fourier_attention,
    linear_fourier_step,
)
from fourierkernels.attention.modules import FourierAttention, GaussianAttention
from fourierkernels.attention.softmax import softmax_attention

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
