"""Tiny models of this package, whose heads differ."""

from typing import Any

import torch
from torch import nn

from fourierkernels import models

SIZES: dict[str, Any] = {"dim": 16, "hidden": 32, "layers": 2, "heads": 2}
WORDS: dict[str, Any] = {**SIZES, "vocabulary": 14, "length": 12, "dropout": 0.0}


def language(mixer: str = "softmax", **changes: Any) -> nn.Module:
    sizes = {**WORDS, "cutoffs": (8,), "mixer": mixer, **changes}
    return models.LanguageModel(models.language_config("small", **sizes))


def encoder(mixer: str = "softmax", **changes: Any) -> nn.Module:
    return models.Encoder(models.encoder_config("fnet_base", **WORDS, mixer=mixer, **changes))


def vision(mixer: str = "softmax", **changes: Any) -> nn.Module:
    sizes = {**SIZES, "image": 8, "patch": 4, "classes": 3, "mixer": mixer, **changes}
    return models.VisionTransformer(models.vision_config("deit_tiny", **sizes))


def translation(preset: str = "attention", **changes: Any) -> nn.Module:
    sizes = {**WORDS, "decoder_layers": 2, **changes}
    return models.TranslationModel(models.translation_config(preset, **sizes))


def stirred(model: nn.Module) -> nn.Module:
    """Return a model after adding noise to its weights."""
    generator = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn(parameter.shape, generator=generator)
    return model
