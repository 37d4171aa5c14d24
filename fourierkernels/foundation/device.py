"""Choice of the device, the CPU or CUDA: by default, as requested, and among several processes."""

import getpass
import os
import tempfile
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from fourierkernels.foundation.extras import needed_for
from fourierkernels.foundation.files import claimed

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


_VISIBLE = "CUDA_VISIBLE_DEVICES"
_kept = ExitStack()  # claims of this process, until it ends
_own: list[str] = []


def keep_devices(count: int, sharing: int = 1) -> None:
    """Keep so many CUDA devices of this machine for this process and those that it starts.

    What other processes keep in this way is not visible to it any more. It has to be called before
    anything is computed on a device, and does nothing where there is none, or when it is called
    again.

    Parameters
    ----------
    count : int
        Devices, no two of which are the same.
    sharing : int
        Processes that may keep the same device.

    Raises
    ------
    ValueError
        If fewer are free.
    """
    import torch

    if _own or not torch.cuda.device_count():
        return
    given = os.environ.get(_VISIBLE)
    names = given.split(",") if given else list(map(str, range(torch.cuda.device_count())))
    place = Path(tempfile.gettempdir()) / f"fourierkernels-{getpass.getuser()}"
    with ExitStack() as claims:
        found: list[str] = []
        for share, name in product(range(sharing), names):  # first those that nobody keeps
            wanted = len(found) < count and name not in found
            if wanted and _enter(claims, place / f"device-{name}-{share}"):
                found.append(name)
        if len(found) < count:
            raise ValueError(
                f"devices must be {count} for each network trained at a time, got {len(found)} "
                f"free of {len(names)}: fewer processes, or fewer that train a network together"
            )
        _kept.push(claims.pop_all())
    _own.extend(found)
    os.environ[_VISIBLE] = ",".join(found)


def device_sharing(processes: int, together: int) -> int:
    """Return how many networks share a CUDA device, 1 where there is none.

    Parameters
    ----------
    processes : int
        Networks trained at a time.
    together : int
        Processes that train each, on a device each.

    Raises
    ------
    ValueError
        If there are too few devices for one network.

    Examples
    --------
    >>> device_sharing(processes=1, together=1)
    1
    """
    import torch

    count = torch.cuda.device_count()
    if count and together > count:
        raise ValueError(
            f"together must be at most {count}, the number of CUDA devices, got {together}"
        )
    return -(-processes * together // count) if count else 1


def _enter(claims: ExitStack, folder: Path) -> bool:
    try:
        claims.enter_context(claimed(folder))
    except ValueError:  # another process keeps it
        return False
    return True


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
