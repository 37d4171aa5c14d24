"""Networks of Hugging Face transformers: folders as its classes save them, and single files.

Everything is read offline, and no code in a folder is run: neither custom classes nor pickled
objects.
"""

import inspect
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor

from fourierkernels.checkpoints.checkpoint import Checkpoint
from fourierkernels.checkpoints.contexts import offline_and_quiet, one_line
from fourierkernels.checkpoints.formats.adapters import merge_adapter
from fourierkernels.checkpoints.formats.request import LoadRequest
from fourierkernels.checkpoints.formats.transformers_networks import transformers_checkpoint
from fourierkernels.checkpoints.formats.transformers_weights import (
    check_index,
    class_hint,
    recomputed,
    take_side,
    unused_note,
)
from fourierkernels.checkpoints.memory import check_size
from fourierkernels.checkpoints.options import Config
from fourierkernels.models.tensor_files import check_uncompressed, read_tensors, without_wrappers

Loaded = tuple[Any, tuple[str, ...], tuple[str, ...]]  # a network, what is untrained, and notes

_EAGER = {"attn_implementation": "eager", "dtype": torch.float32}


def load_folder(request: LoadRequest) -> Checkpoint:
    """Load a folder with a config.json, or its architecture with random weights."""
    folder, files = request.files.path, request.files
    if request.config is not None:
        raise ValueError("config must be left out for a folder, which has its own, got one")
    task = files.task_class if request.task_head and request.model_class is None else None
    build = _build if request.random_weights else _load
    with offline_and_quiet():
        model, untrained, notes = build(folder, task or request.model_class)
    if files.adapter is not None and not request.random_weights:
        untrained = merge_adapter(model, files.adapter, untrained)
        merged = f"adapter: {files.adapter.name}, merged into the weights of {folder.name}"
        notes = (*notes, merged)
    loaded = transformers_checkpoint(model, request)
    loaded = replace(loaded, untrained=untrained, notes=(*loaded.notes, *notes))
    if task is None or model.base_model is model:
        return loaded
    body = transformers_checkpoint(model.base_model, request)
    return replace(loaded, body=replace(body, notes=(*body.notes, *notes)))


def load_pretrained(request: LoadRequest) -> Checkpoint:
    """Load a file of weights of a class of transformers with the config.json of that class."""
    model_class = request.model_class or ""
    if request.config is None:
        raise ValueError(
            f"config must be the config.json of {model_class} for a single file, got None"
        )
    file = request.files.path
    tensors = None if request.random_weights else read_tensors(file)
    model = _build_from_tensors(model_class, request.config, tensors, file.name)
    return transformers_checkpoint(model, request)


def _config(folder: Path, model_class: str | None) -> Any:
    auto = model_class is None
    reader = transformers.AutoConfig if auto else _named_class(str(model_class)).config_class
    _check_file(folder)
    hint = " (name its class: --model-class)" if auto and _names_no_type(folder) else ""
    with one_line(f"config.json of {folder.name} cannot be used{hint}"):
        return reader.from_pretrained(folder, local_files_only=True, trust_remote_code=False)


def _check_file(folder: Path) -> None:
    """Refuse hyperparameters of a network that would not fit into memory, before any use."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (ValueError, OSError, RecursionError):  # transformers says what is wrong
        return
    if isinstance(config, dict):
        check_size(config, folder.name)


def _names_no_type(folder: Path) -> bool:
    try:
        return "model_type" not in json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (ValueError, RecursionError):  # no JSON at all: transformers says so
        return False


def _named_class(model_class: str) -> Any:
    """Return a model class of transformers by its name."""
    model = getattr(transformers, model_class, None)
    if not (inspect.isclass(model) and issubclass(model, transformers.PreTrainedModel)):
        raise ValueError(f"model_class must be a model of transformers, got {model_class!r}")
    return model


def _build(folder: Path, model_class: str | None) -> Loaded:
    """Build the architecture of config.json with random weights, none of which is untrained."""
    config = _config(folder, model_class)
    with one_line(f"config.json of {folder.name} cannot be used"):
        if model_class is None:
            auto = transformers.AutoModel
            return auto.from_config(config, trust_remote_code=False, **_EAGER), (), ()
        return _named_class(model_class)._from_config(config, **_EAGER), (), ()


def _load(folder: Path, model_class: str | None) -> Loaded:
    """Load the weights: safetensors first, else a .bin of plain tensors.

    Also return the parameters behind the last map that they leave at random values, and a note if
    they hold tensors of the body that the network of the config does not have.
    """
    if model_class is not None and (side := _load_side(folder, model_class)) is not None:
        return side
    config = _config(folder, model_class)
    owner = transformers.AutoModel if model_class is None else _named_class(model_class)
    with one_line(f"weights of {folder.name} cannot be read"):
        check_index(folder)
    if not any(folder.glob("*.safetensors")):
        for file in folder.glob("pytorch_model*.bin"):
            check_uncompressed(file)
    with one_line(f"weights of {folder.name} cannot be read"):
        model, report = owner.from_pretrained(
            folder,
            config=config,
            local_files_only=True,
            trust_remote_code=False,
            weights_only=True,
            ignore_mismatched_sizes=True,  # they are refused below, by name
            output_loading_info=True,
            # Said here and not only afterwards: a config may name an implementation to download.
            # In float32: a half-precision checkpoint would otherwise stay so.
            **_EAGER,
        )
    untrained = _check_complete(folder.name, model, report)
    # sdpa, the default, returns an empty tuple of maps without a warning.
    model.set_attn_implementation("eager")
    return model, untrained, unused_note(folder.name, model, report["unexpected_keys"])


def _load_side(folder: Path, model_class: str) -> Loaded | None:
    """Return the part of a class of a network of images and texts; None for any other network.

    transformers reads some of these parts from a whole network, and leaves others random.
    """
    wanted = _named_class(model_class).config_class
    with suppress(ValueError):  # the class itself may read what the whole does not
        whole = {} if _names_no_type(folder) else vars(_config(folder, None))
        if any(type(part) is wanted for part in whole.values()):
            model, _, notes = _load(folder, None)
            side = take_side(model, model_class)
            return None if side is None else (side, (), notes)
    return None


def _build_from_tensors(
    model_class: str, config: Config, tensors: Mapping[str, Tensor] | None, name: str
) -> Any:
    """Return a model of transformers from its config and tensors, or with random weights.

    Raises
    ------
    ValueError
        If the class is none of transformers, the config none of the class, or the tensors are not
        exactly those of the model; ties and old names are resolved as transformers does.
    """
    owner = _named_class(model_class)
    check_size(config, name)
    with offline_and_quiet(), one_line(f"config of {name} cannot be used"):
        known = owner.config_class.from_dict(dict(config))
        if tensors is None:
            return owner._from_config(known, **_EAGER)
    with offline_and_quiet(), one_line(f"weights of {name} cannot be read"):
        model, report = owner.from_pretrained(
            None,
            config=known,
            state_dict=without_wrappers(tensors, _names(owner, known)),
            ignore_mismatched_sizes=True,
            output_loading_info=True,
            **_EAGER,
        )
    misshapen = {key for key, *_ in report["mismatched_keys"]}
    misfits = {
        "missing": report["missing_keys"] - recomputed(model, report["missing_keys"]),
        "unexpected": report["unexpected_keys"],
        "misshapen": misshapen,
    }
    if any(misfits.values()):
        text = "; ".join(
            f"{len(keys)} {kind}, first {min(keys)}" for kind, keys in misfits.items() if keys
        )
        raise ValueError(f"weights of {name} must be the tensors of {model_class}, got {text}")
    return model


def _names(owner: Any, config: Any) -> list[str]:
    """Return the names of the tensors of a class, for which no memory is taken.

    Also those with and without the prefix of the network inside, which transformers adds and drops.
    """
    with torch.device("meta"):
        names = list(owner._from_config(config).state_dict())
    base = f"{owner.base_model_prefix}."
    return [*names, *(base + name for name in names), *(name.removeprefix(base) for name in names)]


def _check_complete(name: str, model: Any, report: Any) -> tuple[str, ...]:
    """Refuse weights that leave parameters of the network at random values, silently otherwise.

    The pooler and a task's head come after the last map: theirs are returned.
    """
    prefix = "" if model.base_model is model else f"{model.base_model_prefix}."
    random = {*report["missing_keys"], *(key for key, *_ in report["mismatched_keys"])}
    random -= recomputed(model, report["missing_keys"])
    wrong = sorted(
        key
        for key in random
        if key.startswith(prefix) and not key.removeprefix(prefix).startswith("pooler.")
    )
    if wrong:
        raise ValueError(
            f"weights of {name} must fit {type(model).__name__}, "
            f"got {len(wrong)} parameters missing or of another shape, first {wrong[0]}"
            f"{class_hint(model, wrong)}"
        )
    return tuple(sorted(random))
