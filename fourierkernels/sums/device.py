"""The device of a kernel sum, checked without loading torch for the CPU."""

from fourierkernels.extras import needed_for


def check_device(device: str) -> str:
    """Return "cpu" or the name of a CUDA device that this machine has.

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
