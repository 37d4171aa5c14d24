"""What results on a card depend on: the card, its driver, the toolkit, PyTorch."""

import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from fourierkernels.foundation.device import check_device, default_device
from fourierkernels.foundation.provenance import provenance
from fourierkernels.ops.cuda.build import sources_digest
from fourierkernels.ops.cuda.toolkit import driver_release, find_toolkit, text_of

_FIELDS = ("driver_version", "clocks.max.sm")


@dataclass(frozen=True)
class Card:
    """A device and what drives it; on a CPU the numbers of the card are 0.

    Attributes
    ----------
    clock : float
        The highest of the multiprocessors, in GHz; 0 if nothing tells it.
    driver, driver_cuda : str
        Version of the driver, and the newest CUDA release that it supports.
    toolkit : str
        Release of nvcc, "none" without one.
    """

    name: str
    arch: str
    multiprocessors: int
    memory_bytes: int
    cache_bytes: int
    clock: float
    driver: str
    driver_cuda: str
    toolkit: str
    torch: str
    torch_cuda: str


def card_or_cpu(name: str | None) -> torch.device:
    """Return the device of that name, by default the current card.

    Raises
    ------
    ValueError
        If PyTorch sees no such device, or none is given and it sees no card.
    """
    if name is None and default_device().type == "cpu":
        raise ValueError(
            "device must be given where PyTorch sees no card: --device cpu runs the same on the "
            "CPU operator"
        )
    return torch.device(check_device(name or "cuda"))


def card_of(device: torch.device) -> Card:
    """Return the facts of a device."""
    toolkit, driver = find_toolkit(), driver_release()
    versions = {
        "driver_cuda": text_of(driver) if driver else "none",
        "toolkit": text_of(toolkit.release) if toolkit else "none",
        "torch": torch.__version__,
        "torch_cuda": torch.version.cuda or "none",
    }
    if device.type == "cpu":
        facts = provenance({}, Path(__file__))
        return Card(str(facts["cpu"]), "cpu", 0, 0, 0, 0.0, "none", **versions)
    properties: Any = torch.cuda.get_device_properties(device)
    number, clock = _asked(properties)
    return Card(
        properties.name,
        arch_of(device),
        properties.multi_processor_count,
        properties.total_memory,
        getattr(properties, "L2_cache_size", 0),
        clock,
        number,
        **versions,
    )


def arch_of(device: torch.device) -> str:
    """Return the architecture of a card, such as sm_90."""
    major, minor = torch.cuda.get_device_capability(device)
    return f"sm_{major}{minor}"


def record(card: Card, config: dict[str, object]) -> dict[str, Any]:
    """Return the provenance of results on a card."""
    facts = provenance(config, Path(__file__), ["torch", "triton", "pykeops"])
    return facts | {"card": asdict(card), "sources": sources_digest()}


def _asked(properties: Any) -> tuple[str, float]:
    """Return the driver's version and the highest clock in GHz, as nvidia-smi tells them."""
    command = ["nvidia-smi", f"--query-gpu={','.join(_FIELDS)}", "--format=csv,noheader,nounits"]
    identity = getattr(properties, "uuid", None)
    if identity is not None:
        command += ["--id", f"GPU-{identity}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        driver, clock = done.stdout.splitlines()[0].split(", ")
        return driver, float(clock) / 1e3
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        rate: float = getattr(properties, "clock_rate", 0.0)  # kHz, where PyTorch has it
        return "unknown", rate / 1e6
