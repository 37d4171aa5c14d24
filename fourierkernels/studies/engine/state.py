"""The state of an optimiser and of random numbers as tensors and JSON, from which no code is run.

torch's own files of states are pickles; these are .safetensors files.
"""

import json
import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

GROUPS, SCHEDULE = "groups", "schedule"  # entries in the head of the file of an optimiser

Tensors = dict[str, Tensor]
Texts = dict[str, str]


def pack_optimiser(
    optimiser: Mapping[str, Any], schedule: Mapping[str, Any]
) -> tuple[Tensors, Texts]:
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
    tensors: Mapping[str, Tensor], texts: Mapping[str, str], own: Mapping[str, Any]
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
    assert (version, kind) == (3, "MT19937")
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
