"""Choice of the device, the CPU or CUDA: by default, and as requested; how its threads wait."""

import os
from typing import TYPE_CHECKING

from fourierkernels.foundation.extras import needed_for

if TYPE_CHECKING:
    import torch


def share_cores() -> None:
    """Let threads sleep while they wait; to be called before PyTorch is loaded.

    OpenMP's threads else spin, which takes the cores from whatever else computes here: two small
    trainings side by side on two cores took 3 s a step in place of 0.05. How many threads there are
    stays as it is (``OMP_NUM_THREADS``): results depend on it in their last digits, and must not
    depend on what else runs. A policy in the environment stays, too.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def default_device() -> "torch.device":
    """Return the current CUDA device if this machine has one that PyTorch can use, else the CPU.

    PyTorch's CUDA builds name an accelerator (``torch.accelerator.current_accelerator()``) also
    where there is none. Devices of other kinds are not used, since the operator of Fourier
    attention computes on CPUs and CUDA devices alone.
    """
    import torch

    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def check_device(device: str) -> str:
    """Return "cpu" or the name of a CUDA device that this machine has.

    PyTorch is not loaded for the CPU.

    Raises
    ------
    ImportError
        If a CUDA device is asked for and PyTorch is not installed.
    ValueError
        If the device is of another kind or not there.

    Examples
    --------
    >>> check_device("cpu")
    'cpu'
    """
    if device == "cpu":
        return device
    kind, _, index = str(device).partition(":")
    if kind != "cuda" or (index and not index.isdecimal()):
        raise ValueError(f"device must be 'cpu', 'cuda' or 'cuda:<index>', got {device!r}")
    with needed_for(f"device {device!r}"):
        import torch
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if not count:
        raise ValueError(
            f"device must be 'cpu' on this machine: torch sees no CUDA device, got {device!r}"
        )
    if int(index or 0) >= count:
        raise ValueError(f"device must be one of the {count} of this machine, got {device!r}")
    return device
