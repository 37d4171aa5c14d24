"""The models of the papers, assembled from blocks around an interchangeable token mixer.

Published checkpoints are read by :mod:`fourierkernels.models.huggingface` and
:mod:`fourierkernels.models.fourierformer`.
"""

from fourierkernels.foundation.extras import needed_for

with needed_for("fourierkernels.models"):
    import torch  # noqa: F401

from fourierkernels.models.averaging import average_models
from fourierkernels.models.blocks import Block, BlockConfig
from fourierkernels.models.decision import (
    DECISION_PRESETS,
    DecisionConfig,
    DecisionTransformer,
    decision_config,
)
from fourierkernels.models.encoder import (
    ENCODER_PRESETS,
    Encoder,
    EncoderClassifier,
    EncoderConfig,
    PretrainingEncoder,
    encoder_config,
)
from fourierkernels.models.generation import Generation, generate
from fourierkernels.models.language import LanguageModel
from fourierkernels.models.language_sizes import (
    LANGUAGE_PRESETS,
    LanguageConfig,
    language_config,
)
from fourierkernels.models.lra import ARENA_PRESETS, ArenaClassifier, ArenaConfig, arena_config
from fourierkernels.models.parameters import count_parameters
from fourierkernels.models.saved import MODELS, load_model, save_model
from fourierkernels.models.search import Hypotheses, beam_search
from fourierkernels.models.series import (
    SERIES_PRESETS,
    SeriesClassifier,
    SeriesConfig,
    series_config,
)
from fourierkernels.models.smoothed_loss import TranslationLoss, translation_loss
from fourierkernels.models.translating import translate
from fourierkernels.models.translation import TranslationModel
from fourierkernels.models.translation_sizes import (
    LENGTH_CLASSES,
    TRANSLATION_PRESETS,
    TRANSLATION_SIZES,
    TranslationConfig,
    translation_config,
)
from fourierkernels.models.vision import (
    VISION_PRESETS,
    VisionConfig,
    VisionTransformer,
    vision_config,
)

__all__ = [
    "ARENA_PRESETS",
    "DECISION_PRESETS",
    "ENCODER_PRESETS",
    "LANGUAGE_PRESETS",
    "LENGTH_CLASSES",
    "MODELS",
    "SERIES_PRESETS",
    "TRANSLATION_PRESETS",
    "TRANSLATION_SIZES",
    "VISION_PRESETS",
    "ArenaClassifier",
    "ArenaConfig",
    "Block",
    "BlockConfig",
    "DecisionConfig",
    "DecisionTransformer",
    "Encoder",
    "EncoderClassifier",
    "EncoderConfig",
    "Generation",
    "Hypotheses",
    "LanguageConfig",
    "LanguageModel",
    "PretrainingEncoder",
    "SeriesClassifier",
    "SeriesConfig",
    "TranslationConfig",
    "TranslationLoss",
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
