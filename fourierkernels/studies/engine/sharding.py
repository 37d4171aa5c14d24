"""Parameters that several processes share by FSDP, and the whole ones that a checkpoint holds.

FSDP is accelerate's (``accelerate launch --use_fsdp --fsdp_version 2``, or ``ACCELERATE_USE_FSDP``
and ``FSDP_VERSION`` in the environment of ``torchrun``). accelerate knows it on accelerators alone.
"""

import copy
import os
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import register_fsdp_forward_method
from torch.distributed.tensor import DTensor, distribute_tensor

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


def gather_optimiser(state: Mapping[str, Any]) -> dict[str, Any]:
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


def shard_optimiser(state: Mapping[str, Any], optimiser: torch.optim.Optimizer) -> dict[str, Any]:
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
