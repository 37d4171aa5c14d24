"""Token mixing by Fourier transforms, without attention weights."""

try:
    import torch  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "torch":  # torch is there, but something it needs is not
        raise
    raise ImportError(
        'fourierkernels.mixing needs PyTorch: pip install "fourierkernels[torch]"'
    ) from error

from fourierkernels.mixing.causal import causal_dft
from fourierkernels.mixing.fourier import fourier_mixing

__all__ = ["causal_dft", "fourier_mixing"]
