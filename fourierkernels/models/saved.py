"""The models of this package as single files: weights, class and config in one .safetensors.

To save another model, add a row to :data:`MODELS`.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import mode
from typing import Any

from torch import Tensor, nn

from fourierkernels.foundation.validation import check_choice
from fourierkernels.models.decision import DecisionConfig, DecisionTransformer
from fourierkernels.models.encoder import (
    Encoder,
    EncoderClassifier,
    EncoderConfig,
    PretrainingEncoder,
)
from fourierkernels.models.language import LanguageConfig, LanguageModel
from fourierkernels.models.lra import ArenaClassifier, ArenaConfig
from fourierkernels.models.series import SeriesClassifier, SeriesConfig
from fourierkernels.models.tensor_files import (
    load_exactly,
    read_metadata,
    read_tensors,
    write_tensors,
)
from fourierkernels.models.translation import TranslationModel
from fourierkernels.models.translation_sizes import TranslationConfig
from fourierkernels.models.vision import VisionConfig, VisionTransformer

CLASS, CONFIG = "fourierkernels_class", "config"  # entries in the head of a file

# Mixer options that files of earlier versions name otherwise. A flag could say only two of the four
# shapes of a radius, for which layers, mixers and transformers now have one option.
_FORMER_OPTIONS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "radius_per_feature": lambda flag: {"radius_shape": "feature" if flag else "scalar"},
}


def _config_of(model: Any) -> Any:
    return model.config


def _of_encoder(model: Any) -> Any:
    return model.encoder.config


@dataclass(frozen=True)
class Model:
    """A model that can be saved.

    Attributes
    ----------
    build : type
        From a config, and from options if there are any, to the model.
    config : type
        The dataclass of its hyperparameters.
    find : callable
        From a model to its config.
    options : callable
        From a model to the other arguments of `build`.
    """

    build: Callable[..., nn.Module]
    config: type
    find: Callable[[Any], Any] = _config_of
    options: Callable[[Any], dict[str, Any]] = lambda model: {}


MODELS = {
    "ArenaClassifier": Model(ArenaClassifier, ArenaConfig),
    "DecisionTransformer": Model(DecisionTransformer, DecisionConfig),
    "Encoder": Model(Encoder, EncoderConfig),
    "EncoderClassifier": Model(
        EncoderClassifier,
        EncoderConfig,
        _of_encoder,
        lambda model: {"classes": model.head.out_features},
    ),
    "LanguageModel": Model(LanguageModel, LanguageConfig),
    "PretrainingEncoder": Model(PretrainingEncoder, EncoderConfig, _of_encoder),
    "SeriesClassifier": Model(SeriesClassifier, SeriesConfig),
    "TranslationModel": Model(TranslationModel, TranslationConfig),
    "VisionTransformer": Model(VisionTransformer, VisionConfig),
}


def save_model(model: nn.Module, path: str | Path) -> None:
    """Write a model of this package to a .safetensors file, from which it can be built again.

    The whole file is written, or nothing.

    Parameters
    ----------
    model : nn.Module
        A model whose class is in :data:`MODELS`.
    path : str or Path
        In an existing folder; a file of that name is replaced.

    Raises
    ------
    ValueError
        If the class is not known, the name does not end in .safetensors, or an option of a mixer
        cannot be written as JSON.

    Examples
    --------
    >>> import tempfile
    >>> from fourierkernels.models import language_config
    >>> config = language_config("small", vocabulary=9, cutoffs=(), dim=8, layers=1, hidden=8)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(LanguageModel(config), Path(folder) / "model.safetensors")
    ...     load_model(Path(folder) / "model.safetensors").config == config
    True
    """
    name = check_choice("model", type(model).__name__, list(MODELS))
    row = MODELS[name]
    if type(model) is not row.build:
        raise ValueError(f"model must be a model of fourierkernels, got {type(model)}")
    config = {**asdict(row.find(model)), **row.options(model)}
    try:
        text = json.dumps(config)
    except TypeError as error:
        raise ValueError(f"config must fit into JSON, got one that fails: {error}") from error
    write_tensors(Path(path), model.state_dict(), {CLASS: name, CONFIG: text})


def load_model(path: str | Path) -> nn.Module:
    """Return the model of a file that :func:`save_model` wrote, in evaluation mode.

    Each tensor has the dtype in which it was saved.

    Raises
    ------
    ValueError
        If the file is not one of these, is damaged, or its tensors are not those of the model.
    """
    file = Path(path)
    name, config = saved_class(file)
    model, tensors = build_model(name, config), read_tensors(file)
    _take_dtypes(model, tensors)
    load_exactly(model, tensors)
    return model.eval()


def saved_class(file: Path) -> tuple[str, dict[str, Any]]:
    """Return the class and the config that a file written by :func:`save_model` names.

    Raises
    ------
    ValueError
        If the file names none.
    """
    if not file.is_file():
        raise ValueError(f"path must be a file, got {file}")
    head = read_metadata(file)
    if not {CLASS, CONFIG} <= head.keys():
        raise ValueError(f"{file.name} must name its class and config, as save_model writes them")
    return head[CLASS], read_config(head[CONFIG], file.name)


def read_config(text: str, source: str) -> dict[str, Any]:
    """Return a config from JSON; `source` is what messages call its file.

    Raises
    ------
    ValueError
        If it is not one JSON object.
    """
    try:
        config = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"config of {source} must be JSON, got one that fails: {error}") from error
    if not isinstance(config, dict):
        raise ValueError(f"config of {source} must be a JSON object, got {type(config).__name__}")
    return config


def build_model(name: str, config: Mapping[str, Any]) -> nn.Module:
    """Return a model of this package with random weights.

    Parameters
    ----------
    name : str
        A key of :data:`MODELS`.
    config : mapping
        Fields of its config and options of its class; a list is read as a tuple.

    Raises
    ------
    ValueError
        If the class is unknown, or the config does not fit it.
    """
    row = MODELS[check_choice("model_class", name, list(MODELS))]
    known = {field.name for field in fields(row.config)}
    options = {key: value for key, value in config.items() if key not in known}
    hyperparameters = {key: _from_json(value) for key, value in config.items() if key in known}
    try:
        return row.build(row.config(**hyperparameters), **options)
    except (TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError) as error:
        raise ValueError(f"config must fit {name}, got one that fails: {error}") from error


def _take_dtypes(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Give each parameter and buffer the dtype of its tensor, unsaved tables the commonest one.

    The model is built in torch's default dtype, whatever that is now.
    """
    wide = [tensor.dtype for tensor in tensors.values() if tensor.is_floating_point()]
    if wide:
        model.to(mode(wide))
    state = model.state_dict(keep_vars=True)
    for name in state.keys() & tensors.keys():
        state[name].data = state[name].data.to(tensors[name].dtype)


def _from_json(value: Any) -> Any:
    """Return a field of a config from JSON, with mixer options under their present names."""
    if isinstance(value, list):
        return tuple(_from_json(entry) for entry in value)
    if not isinstance(value, dict):
        return value
    options: dict[str, Any] = {}
    for key, option in value.items():
        options |= (
            _FORMER_OPTIONS[key](option) if key in _FORMER_OPTIONS else {key: _from_json(option)}
        )
    return options
