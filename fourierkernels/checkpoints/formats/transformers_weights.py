"""Weights of transformers: where their parts lie, what they may lack, and whose they may be."""

import inspect
from collections.abc import Collection, Iterable, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor

from fourierkernels.models.saved import read_config

_LISTS = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
_BLOBS, _SNAPSHOTS = "blobs", "snapshots"  # of huggingface_hub: files, and links to them


def check_index(folder: Path) -> None:
    """Refuse a list of parts that lie outside the folder.

    A link is followed. Those of huggingface_hub's cache, from a snapshot to the blobs of the same
    repository, are as good as files.

    Raises
    ------
    ValueError
        If a part lies elsewhere, or a list is no list of parts.
    """
    for name in _LISTS:
        file = folder / name
        if file.is_file():
            for part in sorted(_parts(file)):
                _check_inside(folder, part, name)


def _parts(file: Path) -> set[str]:
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{file.name} must be UTF-8, got {error}") from error
    files: Any = read_config(text, file.name).get("weight_map")
    if not isinstance(files, dict) or not all(isinstance(part, str) for part in files.values()):
        raise ValueError(f"{file.name} must have a weight_map of names and files, got none")
    return set(files.values())


def _check_inside(folder: Path, part: str, name: str) -> None:
    lexical = Path(part)
    inside = not lexical.is_absolute() and ".." not in lexical.parts and "\0" not in part
    if inside:
        target, home = (folder / lexical).resolve(), folder.resolve()
        homes = [home]
        if home.parent.name == _SNAPSHOTS:
            homes.append(home.parent.parent / _BLOBS)
        inside = any(target.is_relative_to(home) for home in homes)
    if not inside:
        raise ValueError(f"{name} must list files inside its folder, got {part!r}")


def recomputed(model: Any, names: Collection[str]) -> set[str]:
    """Return those of the names whose values are the class's own, and not drawn or learnt.

    Sinusoidal positions are an example: transformers does not save those of Marian. The class
    builds such a parameter without a gradient, and gives it the same values from every seed, those
    that it has. A parameter with a gradient was learnt even if its initial values are constants, as
    those of a LayerNorm.

    Parameters
    ----------
    model : PreTrainedModel
        As transformers has loaded it.
    """
    if not names:
        return set()
    with torch.device("meta"):
        built = dict(type(model)._from_config(model.config).named_parameters())
    frozen = (name for name in names if name in built and not built[name].requires_grad)
    return {name for name in frozen if _is_formula(model, name)}


def _is_formula(model: Any, name: str) -> bool:
    owner, _, own = name.rpartition(".")
    module = model.get_submodule(owner)
    drawn = (_drawn(model, module, own, seed) for seed in (0, 1))
    return all(torch.equal(values, getattr(module, own)) for values in drawn)


@torch.no_grad()
def _drawn(model: Any, module: Any, name: str, seed: int) -> Tensor:
    """Return a parameter as the class initialises it, in a copy of its module."""
    copy = deepcopy(module)
    parameter: Tensor = getattr(copy, name)
    parameter.fill_(torch.nan)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model._init_weights(copy)
    return parameter


def unused_note(name: str, model: Any, unexpected: Collection[str]) -> tuple[str, ...]:
    """Return a note on tensors of the body that a network has no place for; nothing without any.

    A config that is not that of the weights leaves out layers or biases, and the maps are those of
    another network. Heads for tasks are left out on purpose, and buffers are computed.

    Parameters
    ----------
    name : str
        Of the folder.
    model : PreTrainedModel
        The network that was loaded.
    unexpected : collection of str
        Names of tensors that it does not have.
    """
    body, prefix = model.base_model, f"{model.base_model_prefix}."
    children, buffers = dict(body.named_children()), dict(body.named_buffers())
    bare = {key.removeprefix(prefix) for key in unexpected} - buffers.keys()
    unused = sorted(key for key in bare if children.get(key.partition(".")[0]) is not None)
    if not unused:
        return ()
    return (
        f"tensors in the weights of {name} that {type(model).__name__} of its config.json does "
        f"not have: {len(unused)}, first {unused[0]}",
    )


def class_hint(model: Any, missing: Sequence[str]) -> str:
    """Return the end of a message: the class to name whose network has none of what is missing.

    Parameters
    ----------
    model : PreTrainedModel
        The network that lacks parameters.
    missing : sequence of str
        Their names.

    Returns
    -------
    str
        Empty if the config names no such class, and there is no encoder of this one.
    """
    name = type(model).__name__
    named = getattr(model.config, "architectures", None)
    candidates = (
        [model for model in named if isinstance(model, str)] if isinstance(named, list) else []
    )
    for candidate in dict.fromkeys((*candidates, f"{name.removesuffix('Model')}EncoderModel")):
        if (
            candidate != name
            and is_model(candidate)
            and not _has_any(candidate, model.config, missing)
        ):
            return (
                f"; the weights may be those of {candidate}, which has to be named: "
                f"--model-class {candidate}"
            )
    return ""


def sides(model: Any) -> tuple[str, ...]:
    """Return the classes of the sides of a network of images and texts that read no more than that.

    Siglip2's images come as patches with their sizes, so that only the side of its texts is named.
    """
    parts = (getattr(model, name, None) for name in ("vision_model", "text_model"))
    names = (type(part).__name__ for part in parts if _reads_one_input(part))
    return tuple(name for name in names if is_model(name))


def take_side(model: Any, name: str) -> Any:
    """Return the part of a network that is of a class; None if there is none.

    Examples
    --------
    >>> both = torch.nn.ModuleDict({"a": torch.nn.Linear(1, 1), "b": torch.nn.ReLU()})
    >>> take_side(both, "ReLU"), take_side(both, "GELU")
    (ReLU(), None)
    """
    return next((part for part in model.children() if type(part).__name__ == name), None)


def is_model(name: str) -> bool:
    """Return whether transformers has a model of that name."""
    model = getattr(transformers, name, None)
    return isinstance(model, type) and issubclass(model, transformers.PreTrainedModel)


def _reads_one_input(part: Any) -> bool:
    if part is None:
        return False
    given = inspect.signature(part.forward).parameters.values()
    empty = inspect.Parameter.empty
    kinds = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    needed = [
        parameter.name
        for parameter in given
        if parameter.default is empty and parameter.kind not in kinds
    ]
    return set(needed) <= {"pixel_values", "input_ids"}


def _has_any(name: str, config: Any, missing: Iterable[str]) -> bool:
    """Return whether a class has one of the parameters, with a prefix or without."""
    owner = getattr(transformers, name)
    if owner.config_class is not type(config):
        return True
    try:
        with torch.device("meta"):
            keys = owner._from_config(config).state_dict()
    except Exception:  # a class that cannot be built is no hint
        return True
    return any(key == name or key.endswith(f".{name}") for name in missing for key in keys)
