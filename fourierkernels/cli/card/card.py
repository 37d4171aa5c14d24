"""What results on a card depend on, card, driver, toolkit and PyTorch; and the files they go to."""

import csv
import json
import math
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch

from fourierkernels.cli.card.libraries import build_all, wanted
from fourierkernels.foundation.device import check_device, default_device
from fourierkernels.foundation.provenance import provenance
from fourierkernels.ops.cuda.build import SIZES, sources_digest
from fourierkernels.ops.cuda.toolkit import driver_release, find_toolkit, text_of

_FIELDS = ("driver_version", "clocks.max.sm")
# Outcomes that the same command would find again; others are measured again by the next run.
FINAL = ("ok", "out of memory", "too large", "not for causal")

Key = tuple[str, bool, str, str]


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

    @property
    def sentence(self) -> str:
        """The device and its software in words."""
        driver = "" if self.driver == "none" else f", driver {self.driver}"
        return f"{self.name}{driver}, torch {self.torch}, nvcc {self.toolkit}"


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


def build_for(device: torch.device, reals: Sequence[str], jobs: int) -> None:
    """Build what the device will need before anything waits for it, `jobs` at a time."""
    if device.type == "cuda":
        build_all(wanted([arch_of(device)], reals, SIZES), jobs=jobs)


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


@dataclass(frozen=True)
class Line:
    """One measurement.

    Attributes
    ----------
    status : str
        "ok"; "out of memory"; "too large", if its arrays would not fit; "not for causal"; "no time
        left"; or "failed", with the error as note.
    milliseconds, quartile_low, quartile_high : float
        Of one call; NaN unless ok. Backward alone, its forward left out.
    floor, of_floor : float
        `floor_ms` in milliseconds, and the time over it.
    peak_bytes : int
        Of all tensors, inputs included; 0 on a CPU.
    error : float
        Relative error of the output of some queries against float64; NaN for another formula.
    """

    shape: str
    batch: int
    heads: int
    n: int
    dim: int
    causal: bool
    contender: str
    direction: str
    status: str = ""
    milliseconds: float = math.nan
    quartile_low: float = math.nan
    quartile_high: float = math.nan
    runs: int = 0
    floor: float = math.nan
    of_floor: float = math.nan
    peak_bytes: int = 0
    error: float = math.nan
    note: str = ""

    @property
    def key(self) -> Key:
        """What tells it from the others of a run."""
        return self.shape, self.causal, self.contender, self.direction


class Results:
    """A table that grows line by line, and its provenance beside it as JSON.

    Parameters
    ----------
    path : Path
        The CSV. Lines of an earlier run are kept unless they failed.
    record : mapping
        Provenance, the card and the software included.

    Raises
    ------
    ValueError
        If there are results of another card, other versions or other CUDA sources.
    """

    def __init__(self, path: Path, record: Mapping[str, Any]) -> None:
        self._path, beside = path, path.with_suffix(".json")
        if path.exists() and beside.exists():
            _check_same(path, json.loads(beside.read_text(encoding="utf-8")), record)
        self.lines = [line for line in _read(path) if line.status in FINAL]
        text = json.dumps(record, indent=2, ensure_ascii=False) + "\n"
        beside.write_text(text, encoding="utf-8")
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow([field.name for field in fields(Line)])
            writer.writerows([_cells(line) for line in self.lines])

    def add(self, line: Line) -> None:
        """Append a line, so that what is measured outlives whatever ends the run."""
        self.lines.append(line)
        with self._path.open("a", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerow(_cells(line))


def _cells(line: Line) -> list[object]:
    """Return the cells of a line; what was not measured is empty."""
    values = asdict(line).values()
    return ["" if isinstance(v, float) and math.isnan(v) else v for v in values]


def _read(path: Path) -> Sequence[Line]:
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return [_line(row) for row in csv.DictReader(file)]


def _line(row: Mapping[str, str]) -> Line:
    parse: dict[Any, Any] = {
        str: str,
        int: int,
        bool: lambda text: text == "True",
        float: lambda text: float(text or "nan"),
    }
    return Line(**{field.name: parse[field.type](row[field.name]) for field in fields(Line)})


def _check_same(path: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    for name in ("card", "sources", "versions"):
        if before.get(name) != now.get(name):
            raise ValueError(
                f"output must be new, or results of the same card, sources and versions to be "
                f"continued; got {path} with another {name}: {before.get(name)}"
            )


def shortened(number: float) -> str:
    """Return a number with two digits, nothing for NaN."""
    return "" if math.isnan(number) else f"{number:.1e}"
