"""Parameters that weights may lack, because the class of the network computes them."""

from collections.abc import Collection
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor


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
