"""States of a run as tensors and JSON, and the parameters that several processes share.

The state of an optimiser and of random numbers as tensors and JSON, from which no code is run.

torch's own files of states are pickles; these are .safetensors files.

Parameters that several processes share by FSDP, and the whole ones that a checkpoint holds.

FSDP is accelerate's (``accelerate launch --use_fsdp --fsdp_version 2``, or ``ACCELERATE_USE_FSDP``
and ``FSDP_VERSION`` in the environment of ``torchrun``). accelerate knows it on accelerators alone.
"""

import copy
import json
import os
import random
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributed.fsdp import register_fsdp_forward_method
from torch.distributed.tensor import DTensor, distribute_tensor

GROUPS, SCHEDULE, SCALER = (
    "groups",
    "schedule",
    "scaler",
)  # entries in the head of the file of an optimiser

State = Mapping[str, Any]  # what state_dict() of an optimiser or a schedule of torch returns
Tensors = dict[str, Tensor]
Texts = dict[str, str]


def pack_optimiser(optimiser: State, schedule: State) -> tuple[Tensors, Texts]:
    """Return the states of an optimiser and of its schedule as tensors and texts.

    Parameters
    ----------
    optimiser, schedule : mapping
        What ``state_dict()`` returns.

    Raises
    ------
    TypeError
        If the optimiser keeps something else than tensors for a parameter.
    """
    tensors = {}
    for number, state in optimiser["state"].items():
        for name, value in state.items():
            if not isinstance(value, Tensor):
                raise TypeError(f"{name} of an optimiser must be a tensor, got {value!r}")
            tensors[f"{number}.{name}"] = value
    texts = {
        GROUPS: json.dumps(optimiser["param_groups"]),
        SCHEDULE: json.dumps(dict(schedule)),
    }
    return tensors, texts


def unpack_optimiser(
    tensors: Mapping[str, Tensor], texts: Mapping[str, str], own: State
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the states that :func:`pack_optimiser` packed.

    Parameters
    ----------
    own : mapping
        ``state_dict()`` of the optimiser that is to take them.

    Raises
    ------
    ValueError
        If they are not those of such an optimiser.
    """
    try:
        groups, schedule = json.loads(texts[GROUPS]), json.loads(texts[SCHEDULE])
        for group, known in zip(groups, own["param_groups"], strict=True):
            if group.keys() != known.keys() or group["params"] != known["params"]:
                raise ValueError("groups of other parameters or with other options")
            group["betas"] = tuple(group["betas"])
        state: dict[int, dict[str, Tensor]] = {}
        for key, tensor in tensors.items():
            number, _, name = key.partition(".")
            state.setdefault(int(number), {})[name] = tensor
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(
            f"optimiser state must be that of this model and recipe, got {error}"
        ) from error
    return {"state": state, "param_groups": groups}, dict(schedule)


def pack_random() -> Tensors:
    """Return the state of all random numbers of this process."""
    version, words, gauss = random.getstate()
    kind, key, position, has_gauss, cached = np.random.get_state(legacy=True)  # noqa: NPY002
    if (version, kind) != (3, "MT19937"):
        raise ValueError(f"generators must be version 3 and MT19937, got {version} and {kind}")
    found = {
        "python": torch.tensor(words),
        "python_gauss": torch.tensor([] if gauss is None else [gauss], dtype=torch.float64),
        "numpy": torch.from_numpy(np.asarray(key, dtype=np.int64)),
        "numpy_rest": torch.tensor([position, has_gauss, cached], dtype=torch.float64),
        "torch": torch.get_rng_state(),
    }
    if torch.cuda.is_available():
        found["cuda"] = torch.cuda.get_rng_state()
    return found


def restore_random(states: Mapping[str, Tensor]) -> None:
    """Set all random numbers of this process to a state that :func:`pack_random` returned.

    Raises
    ------
    ValueError
        If it is no such state, or one of a machine with another kind of device.
    """
    expected = pack_random().keys()
    if states.keys() != expected:
        raise ValueError(
            f"random state must have {', '.join(sorted(expected))}, "
            f"got {', '.join(sorted(states))}: it is that of another kind of device"
        )
    gauss = states["python_gauss"].tolist()
    random.setstate((3, tuple(states["python"].tolist()), gauss[0] if gauss else None))
    position, has_gauss, cached = states["numpy_rest"].tolist()
    key = states["numpy"].numpy().astype(np.uint32)
    np.random.set_state(("MT19937", key, int(position), int(has_gauss), cached))  # noqa: NPY002
    torch.set_rng_state(states["torch"].clone())  # torch reads a view from its storage's start
    if "cuda" in states:
        torch.cuda.set_rng_state(states["cuda"].clone())


_ASKED = "ACCELERATE_USE_FSDP"
_VERSION = 2


def check_sharding(accelerator: Any) -> bool:
    """Return whether parameters are sharded.

    Raises
    ------
    ValueError
        If FSDP is asked for where accelerate leaves it out, or in its first version, which flattens
        parameters, so that the decay of a weight could not be told from that of a bias.
    """
    plugin = getattr(accelerator.state, "fsdp_plugin", None)
    if plugin is None and os.environ.get(_ASKED, "false").lower() == "true":
        raise ValueError(
            "FSDP must be on accelerators, with torchrun or accelerate launch, got "
            f"{_ASKED}=true on device {accelerator.device.type}, where accelerate "
            f"{version('accelerate')} leaves it out; unset it to train with whole parameters (DDP)"
        )
    if plugin is not None and plugin.fsdp_version != _VERSION:
        raise ValueError(
            f"FSDP_VERSION must be {_VERSION} (accelerate launch --fsdp_version {_VERSION}), "
            f"got {plugin.fsdp_version}"
        )
    return plugin is not None


def skeleton(model: nn.Module) -> nn.Module:
    """Return a copy of a model without memory, to be filled when its own parameters are sharded."""
    return copy.deepcopy(model).to("meta")


def gather_model(model: nn.Module, bare: nn.Module) -> nn.Module:
    """Return a model with whole parameters on the CPU; all processes have to call it.

    Parameters
    ----------
    model : nn.Module
        The one that is trained.
    bare : nn.Module
        Its :func:`skeleton`.
    """
    tensors = {name: whole(tensor).cpu() for name, tensor in model.state_dict().items()}
    filled = copy.deepcopy(bare)
    filled.load_state_dict(tensors, assign=True)
    return filled


def gather_optimiser(state: State) -> dict[str, Any]:
    """Return an optimiser's ``state_dict()`` with whole tensors; all processes have to call it."""
    tensors = {
        number: {name: whole(value) for name, value in values.items()}
        for number, values in state["state"].items()
    }
    return {**state, "state": tensors}


def shard_model(tensors: Mapping[str, Tensor], model: nn.Module) -> dict[str, Tensor]:
    """Return whole tensors as `model` holds them, sharded or not."""
    own = model.state_dict()
    return {name: _as_held(tensor, own.get(name)) for name, tensor in tensors.items()}


def shard_optimiser(state: State, optimiser: torch.optim.Optimizer) -> dict[str, Any]:
    """Return an optimiser's whole state as `optimiser` holds it, sharded or not."""
    parameters = [p for group in optimiser.param_groups for p in group["params"]]
    held = {
        number: {name: _as_held(value, parameters[number]) for name, value in values.items()}
        for number, values in state["state"].items()
    }
    return {**state, "state": held}


def whole(tensor: Tensor) -> Tensor:
    """Return all of a tensor; for a sharded one all processes have to call it."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def own_part(tensor: Tensor) -> Tensor:
    """Return the part of a tensor that lies in this process."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def gather_for(module: nn.Module, method: str) -> None:
    """Have a method of a sharded module find whole parameters, as ``forward`` does."""
    register_fsdp_forward_method(module, method)


def _as_held(tensor: Tensor, own: Tensor | None) -> Tensor:
    """Return a tensor sharded as `own` is; one of another shape (a count of steps) is on no shard.

    Each process has all of it and takes its part without a message.
    """
    if not isinstance(own, DTensor) or tensor.shape != own.shape:
        return tensor
    return distribute_tensor(
        tensor.to(own.device), own.device_mesh, own.placements, src_data_rank=None
    )
