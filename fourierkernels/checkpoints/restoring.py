"""A model that is run in the middle of somebody's work, and left as it was."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn

Kept = dict[str, tuple[Any, dict[Any, Any] | None]]


@contextmanager
def left_as_it_was(model: nn.Module, *, seed: int = 0) -> Iterator[None]:
    """Let a model be run and changed; afterwards put back all but the values of its tensors.

    Put back are the attributes of every module and configuration, among them training mode,
    buffers that were replaced, hooks and the implementation of attention; which parameters require
    gradients; and the states of the random generators of torch, NumPy and Python.

    Parameters
    ----------
    seed : int
        Of torch's generators inside.
    """
    kept = [(owner, _attributes(owner)) for owner in _owners(model)]
    gradients = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
    states = random.getstate(), np.random.get_state()  # noqa: NPY002 (somebody else's)
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()  # type: ignore[no-untyped-call]
    try:
        with torch.random.fork_rng(devices=list(devices)):
            torch.default_generator.manual_seed(seed)  # torch.manual_seed would seed CUDA for later
            for device in devices:
                with torch.cuda.device(device):
                    torch.cuda.manual_seed(seed)
            yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002
        for owner, attributes in kept:
            _put_back(owner, attributes)
        for parameter, requires in gradients:
            parameter.requires_grad_(requires)


def _owners(model: nn.Module) -> list[Any]:
    """Return the modules of a model and their configurations, each once."""
    modules = list(model.modules())
    configs = {id(one): one for one in (vars(m).get("config") for m in modules) if one is not None}
    own = [one for one in configs.values() if isinstance(getattr(one, "__dict__", None), dict)]
    return [*modules, *own]


def _attributes(owner: Any) -> Kept:
    """Return attributes by name, and the content of those that are dictionaries."""
    return {
        name: (value, dict(value) if isinstance(value, dict) else None)
        for name, value in vars(owner).items()
    }


def _put_back(owner: Any, attributes: Kept) -> None:
    vars(owner).clear()
    for name, (value, content) in attributes.items():
        vars(owner)[name] = value
        if content is not None:
            value.clear()
            value.update(content)
