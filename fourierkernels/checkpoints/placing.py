"""Where a network computes: the processor, or an accelerator."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


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
    return next((one.device for one in model.parameters()), torch.device("cpu"))


@contextmanager
def computing_on(device: torch.device) -> Iterator[None]:
    """Make new tensors on a device, and let it compute in full float32."""
    if device.type == "cpu":
        yield
        return
    with device, torch.backends.cudnn.flags(allow_tf32=False):
        yield
