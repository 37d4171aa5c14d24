"""Token mixers: attention, Fourier transforms and baselines, behind one interface."""

from fourierkernels.foundation.extras import needed_for

with needed_for("fourierkernels.mixing"):
    import torch  # noqa: F401

from fourierkernels.mixing.attention import (
    AttentionMixer,
    FourierMixer,
    GaussianMixer,
    SoftmaxMixer,
)
from fourierkernels.mixing.causal import CausalDFTMixer, causal_dft
from fourierkernels.mixing.costs import Size
from fourierkernels.mixing.features import LinearFourierMixer
from fourierkernels.mixing.fourier import DFTMixer, fourier_mixing
from fourierkernels.mixing.hard_gaussian import HardGaussianMixer
from fourierkernels.mixing.matrices import mixing_matrices
from fourierkernels.mixing.mixer import FixedMixer, PaddingIgnoredWarning, TokenMixer
from fourierkernels.mixing.performer import PerformerMixer
from fourierkernels.mixing.registry import MIXERS, Mixer, cost_table, create_mixer, mixer_names

__all__ = [
    "MIXERS",
    "AttentionMixer",
    "CausalDFTMixer",
    "DFTMixer",
    "FixedMixer",
    "FourierMixer",
    "GaussianMixer",
    "HardGaussianMixer",
    "LinearFourierMixer",
    "Mixer",
    "PaddingIgnoredWarning",
    "PerformerMixer",
    "Size",
    "SoftmaxMixer",
    "TokenMixer",
    "causal_dft",
    "cost_table",
    "create_mixer",
    "fourier_mixing",
    "mixer_names",
    "mixing_matrices",
]
