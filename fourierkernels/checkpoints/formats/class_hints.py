"""Which class of transformers to name, where the one that was taken does not fit."""

import inspect
from collections.abc import Iterable, Sequence
from typing import Any

import torch
import transformers


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
    candidates = [one for one in named if isinstance(one, str)] if isinstance(named, list) else []
    for one in dict.fromkeys((*candidates, f"{name.removesuffix('Model')}EncoderModel")):
        if one != name and is_model(one) and not _has_any(one, model.config, missing):
            return (
                f"; the weights may be those of {one}, which has to be named: --model-class {one}"
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
    found = getattr(transformers, name, None)
    return isinstance(found, type) and issubclass(found, transformers.PreTrainedModel)


def _reads_one_input(part: Any) -> bool:
    if part is None:
        return False
    given = inspect.signature(part.forward).parameters.values()
    empty = inspect.Parameter.empty
    kinds = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    needed = [one.name for one in given if one.default is empty and one.kind not in kinds]
    return set(needed) <= {"pixel_values", "input_ids"}


def _has_any(name: str, config: Any, missing: Iterable[str]) -> bool:
    """Return whether a class has one of the parameters, with a prefix or without."""
    owner = getattr(transformers, name)
    if owner.config_class is not type(config):
        return True
    try:
        with torch.device("meta"):
            own = owner._from_config(config).state_dict()
    except Exception:  # a class that cannot be built is no hint
        return True
    return any(key == one or key.endswith(f".{one}") for one in missing for key in own)
