"""Contexts in which a network is loaded and run: offline, on a device, and left as it was."""

import random
import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import huggingface_hub.constants
import numpy as np
import torch
import transformers
from torch import nn

Kept = tuple[dict[str, Any], list[tuple[dict[Any, Any], dict[Any, Any]]]]


@contextmanager
def offline_and_quiet() -> Iterator[None]:
    """Forbid downloads and silence transformers; restore its settings afterwards."""
    logging = transformers.utils.logging
    offline, verbosity = huggingface_hub.constants.HF_HUB_OFFLINE, logging.get_verbosity()
    bars = logging.is_progress_bar_enabled()
    huggingface_hub.constants.HF_HUB_OFFLINE = True
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        huggingface_hub.constants.HF_HUB_OFFLINE = offline
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


@contextmanager
def one_line(what: str) -> Iterator[None]:
    """Turn any exception that a library raises on a file into a ValueError of one line."""
    try:
        yield
    except Exception as error:
        if type(error).__name__ == "UnpicklingError":  # of torch.load with weights_only=True
            reason = "the file would have to run code to be read; convert it to safetensors"
        else:
            reason = re.sub(r"\x1b\[\d+m", "", str(error)).strip().split("\n")[0]
        raise ValueError(f"{what}: {reason or type(error).__name__}") from error


def check_device(device: str) -> str:
    """Return a device that torch can use on this machine.

    Raises
    ------
    ValueError
        If there is no such device, or it computes nothing.

    Examples
    --------
    >>> check_device("cpu")
    'cpu'
    """
    try:
        (torch.zeros(1, device=device) + 1).item()
    except (RuntimeError, AssertionError, NotImplementedError, TypeError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(
            f"device must be one that torch can use on this machine, got {device!r}: {reason}"
        ) from error
    return device


def device_of(model: nn.Module) -> torch.device:
    """Return the device of a model's first parameter; the processor if it has none."""
    return next((parameter.device for parameter in model.parameters()), torch.device("cpu"))


@contextmanager
def computing_on(device: torch.device) -> Iterator[None]:
    """Make new tensors on a device, and let it compute in full float32."""
    if device.type == "cpu":
        yield
        return
    with device, torch.backends.cudnn.flags(allow_tf32=False):
        yield


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
    configs = {
        id(config): config
        for config in (vars(m).get("config") for m in modules)
        if config is not None
    }
    own = [
        config for config in configs.values() if isinstance(getattr(config, "__dict__", None), dict)
    ]
    return [*modules, *own]


def _attributes(owner: Any) -> Kept:
    """Return attributes by name, and those that are dictionaries with what is in them."""
    attributes = dict(vars(owner))
    return attributes, [
        (value, dict(value)) for value in attributes.values() if isinstance(value, dict)
    ]


def _put_back(owner: Any, attributes: Kept) -> None:
    own, inside = attributes
    vars(owner).clear()
    vars(owner).update(own)
    for one, content in inside:
        one.clear()
        one.update(content)


@dataclass(frozen=True)
class Isolation:
    """Runs a network with the same random numbers each time, and leaves it as it was.

    Attributes
    ----------
    alone, by_length : bool
        Whether items are run one by one, or only those of equal length share a batch.
    exchanged : set of int
        Numbers of the runs that left other modules in the network than they found, to look at.
    """

    model: nn.Module
    alone: bool = False
    by_length: bool = False
    exchanged: set[int] = field(default_factory=set)
    _numbers: Iterator[int] = field(default_factory=count)

    def run(self, run: Callable[[Sequence[Any]], Any], items: Sequence[Any], seed: int = 0) -> Any:
        """Run a batch of items with the random numbers of a seed."""
        before = set(map(id, self.model.modules()))
        with left_as_it_was(self.model, seed=seed):
            random.seed(seed)
            np.random.seed(seed)  # noqa: NPY002 (it is the one that networks draw from)
            output = run(items)
            if set(map(id, self.model.modules())) != before:
                self.exchanged.add(len(items))
        return output

    def batch_key(self, key: Hashable, spans: Hashable) -> Hashable:
        """Return the key of an item from that of its padding and its numbers of tokens."""
        if self.alone:
            return next(self._numbers)
        return (key, spans) if self.by_length else key
