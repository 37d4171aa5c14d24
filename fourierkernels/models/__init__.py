"""The models of the papers, assembled from blocks around an interchangeable token mixer.

Published checkpoints are read by :mod:`fourierkernels.models.huggingface` and
:mod:`fourierkernels.models.fourierformer`.
"""

from fourierkernels.foundation.extras import needed_for

with needed_for("fourierkernels.models"):
    import torch  # noqa: F401

from fourierkernels.models.averaging import average_models
from fourierkernels.models.blocks import Block, BlockConfig
from fourierkernels.models.decision import DecisionConfig, DecisionTransformer, decision_config
from fourierkernels.models.encoder import (
    ENCODER_PRESETS,
    Encoder,
    EncoderClassifier,
    EncoderConfig,
    PretrainingEncoder,
    encoder_config,
)
from fourierkernels.models.generation import generate
from fourierkernels.models.language import (
    LANGUAGE_PRESETS,
    LanguageConfig,
    LanguageModel,
    language_config,
)
from fourierkernels.models.losses import translation_loss
from fourierkernels.models.lra import ArenaClassifier, ArenaConfig, arena_config
from fourierkernels.models.parameters import count_parameters
from fourierkernels.models.saved import MODELS, load_model, save_model
from fourierkernels.models.search import Hypotheses, beam_search
from fourierkernels.models.series import SeriesClassifier, SeriesConfig, series_config
from fourierkernels.models.translating import translate
from fourierkernels.models.translation import TranslationModel
from fourierkernels.models.translation_sizes import (
    TRANSLATION_PRESETS,
    TRANSLATION_SIZES,
    TranslationConfig,
    translation_config,
)
from fourierkernels.models.vision import VisionConfig, VisionTransformer, vision_config

__all__ = [
    "ENCODER_PRESETS",
    "LANGUAGE_PRESETS",
    "MODELS",
    "TRANSLATION_PRESETS",
    "TRANSLATION_SIZES",
    "ArenaClassifier",
    "ArenaConfig",
    "Block",
    "BlockConfig",
    "DecisionConfig",
    "DecisionTransformer",
    "Encoder",
    "EncoderClassifier",
    "EncoderConfig",
    "Hypotheses",
    "LanguageConfig",
    "LanguageModel",
    "PretrainingEncoder",
    "SeriesClassifier",
    "SeriesConfig",
    "TranslationConfig",
    "TranslationModel",
    "VisionConfig",
    "VisionTransformer",
    "arena_config",
    "average_models",
    "beam_search",
    "count_parameters",
    "decision_config",
    "encoder_config",
    "generate",
    "language_config",
    "load_model",
    "save_model",
    "series_config",
    "translate",
    "translation_config",
    "translation_loss",
    "vision_config",
]
