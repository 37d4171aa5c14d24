"""One tiny model of each kind with a batch for it and the loss it is trained by."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from fourierkernels import models


def numbers(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def doubles(*shape: int, seed: int = 0) -> Tensor:
    return numbers(*shape, seed=seed, dtype=torch.float64)


def tokens(*shape: int, vocabulary: int, low: int = 3, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(low, vocabulary, shape, generator=generator)


@dataclass(frozen=True)
class Tiny:
    """`build` takes the mixer; `loss` runs the model it is given, wrapped or not."""

    build: Callable[..., nn.Module]
    loss: Callable[[nn.Module], Tensor]
    causal: bool = False


V = 23
SIZES: dict[str, Any] = {"dim": 16, "hidden": 32, "layers": 2, "heads": 2}


def language(mixer: str = "fourier", **changes: Any) -> models.LanguageModel:
    sizes = {**SIZES, "vocabulary": V, "cutoffs": (8, 15), "length": 12, "dropout": 0.0}
    sizes |= {"mixer": mixer, **changes}
    return models.LanguageModel(models.language_config("small", **sizes))


def vision(mixer: str = "softmax", **changes: Any) -> models.VisionTransformer:
    sizes = {**SIZES, "image": 8, "patch": 4, "classes": 3, "mixer": mixer}
    sizes |= {"drop_path": 0.0, **changes}
    return models.VisionTransformer(models.vision_config("deit_tiny", **sizes))


def encoder_config(mixer: str = "fnet", **changes: Any) -> models.EncoderConfig:
    sizes = {**SIZES, "vocabulary": V, "length": 12, "dropout": 0.0, "mixer": mixer, **changes}
    return models.encoder_config("fnet_base", **sizes)


def translation(preset: str = "dft_both", **changes: Any) -> models.TranslationModel:
    sizes = {**SIZES, "decoder_layers": 2, "vocabulary": V, "length": 12, "dropout": 0.0, **changes}
    return models.TranslationModel(models.translation_config(preset, **sizes))


def series(mixer: str = "softmax", **changes: Any) -> models.SeriesClassifier:
    sizes = {**SIZES, "channels": 3, "classes": 4, "length": 10, "dropout": 0.0, "mixer": mixer}
    return models.SeriesClassifier(models.series_config("small", **{**sizes, **changes}))


def decision(mixer: str = "softmax", **changes: Any) -> models.DecisionTransformer:
    sizes = {"dim": 16, "layers": 2, "heads": 2, "context": 4, "episode": 9, "dropout": 0.0}
    sizes |= {"states": 5, "actions": 2, "mixer": mixer, **changes}
    return models.DecisionTransformer(models.decision_config("hopper", **sizes))


def arena(mixer: str = "fnet", **changes: Any) -> models.ArenaClassifier:
    sizes = {**SIZES, "vocabulary": V, "classes": 3, "length": 15, "dropout": 0.0, "mixer": mixer}
    return models.ArenaClassifier(models.arena_config("text", **{**sizes, **changes}))


def trajectory() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    steps = torch.arange(4).expand(3, 4) + 1
    return numbers(3, 4, 1), numbers(3, 4, 5, seed=1), numbers(3, 4, 2, seed=2), steps


def _language_loss(model: nn.Module) -> Tensor:
    text = tokens(4, 13, vocabulary=V)
    return model(text[:, :-1], text[:, 1:]).mean()


def _vision_loss(model: nn.Module) -> Tensor:
    return cross_entropy(model(numbers(6, 3, 8, 8)), torch.arange(6) % 3)


def _encoder_loss(model: nn.Module) -> Tensor:
    text = tokens(4, 12, vocabulary=V)
    words, next_sentence = model(text)
    return cross_entropy(words.transpose(1, 2), text) + cross_entropy(
        next_sentence, torch.arange(4) % 2
    )


def _translation_loss(model: nn.Module) -> Tensor:
    source, target = tokens(4, 9, vocabulary=V), tokens(4, 8, vocabulary=V, seed=1)
    return cross_entropy(model(source, target[:, :-1]).transpose(1, 2), target[:, 1:])


def _series_loss(model: nn.Module) -> Tensor:
    return cross_entropy(model(numbers(8, 10, 3)), torch.arange(8) % 4)


def _decision_loss(model: nn.Module) -> Tensor:
    returns, states, actions, steps = trajectory()
    found = model(returns, states, actions, steps)
    errors = (found.actions - actions, found.states - states, found.returns - returns)
    return sum((error.square().mean() for error in errors), torch.zeros(()))


def _arena_loss(model: nn.Module) -> Tensor:
    return cross_entropy(model(tokens(6, 15, vocabulary=V)), torch.arange(6) % 3)


TINY = {
    "language": Tiny(language, _language_loss, causal=True),
    "vision": Tiny(vision, _vision_loss),
    "encoder": Tiny(
        lambda mixer="fnet", **changes: models.PretrainingEncoder(encoder_config(mixer, **changes)),
        _encoder_loss,
    ),
    "translation": Tiny(
        lambda mixer="dft", **changes: translation(
            "dft_both", mixer=mixer, mixer_options={}, **changes
        ),
        _translation_loss,
    ),
    "series": Tiny(series, _series_loss),
    "decision": Tiny(decision, _decision_loss, causal=True),
    "arena": Tiny(arena, _arena_loss),
}
