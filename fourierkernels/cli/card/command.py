"""What check and bench do: choose, build what is needed, run, and show."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from fourierkernels.cli.card.bench import Plan, run_bench
from fourierkernels.cli.card.card import arch_of, card_of, card_or_cpu, record
from fourierkernels.cli.card.cases import SEED
from fourierkernels.cli.card.check import chosen, run_check
from fourierkernels.cli.card.contenders import POWER, RADIUS, installed
from fourierkernels.cli.card.libraries import build_all, wanted
from fourierkernels.cli.card.measurement import Line, Results
from fourierkernels.cli.card.outcome import Row
from fourierkernels.cli.card.shapes import QUICK, SHAPES, Shape
from fourierkernels.cli.card.tables import bench_table, check_table
from fourierkernels.foundation.console import standard_output
from fourierkernels.foundation.validation import check_choice, check_number
from fourierkernels.ops.cuda.build import REALS, SIZES

_TOOLS = ("memcheck", "racecheck", "synccheck")
# Groups of cases for the sanitizer, whose own allocator leaves no room for a captured graph.
_SANITISED = ("libraries", "lengths", "masks", "eps", "options", "half precision")
_QUICK_SECONDS = 0.05


def check_command(
    name: str | None, only: Sequence[str], *, quick: bool, jobs: int
) -> tuple[list[Row], dict[str, Any]]:
    """Run the cases, show the worst of each group, and return all rows with their provenance."""
    device, asked = card_or_cpu(name), chosen(quick=quick, names=only)
    card = card_of(device)
    _build_for(device, REALS, jobs)
    rows: list[Row] = []
    for row in run_check(asked, device):
        if not rows or rows[-1].group != row.group:
            sys.stderr.write(f"checking {row.group}\n")  # names what a kernel that hangs belongs to
        rows.append(row)
        if row.bad:
            sys.stderr.write(f"{row.status}: {row.sentence}\n")
    standard_output().print(check_table(rows, card))
    return rows, record(card, {"seed": SEED, "quick": quick, "only": list(only)})


def sanitizer_command(
    check: Sequence[str], name: str | None, only: Sequence[str], *, jobs: int
) -> int:
    """Run the short check under each tool; return 1 if any of them finds something.

    Parameters
    ----------
    check : sequence of str
        The command line of the check, without its options.
    """
    program = shutil.which("compute-sanitizer")
    if program is None:
        raise ValueError(
            "sanitizer needs compute-sanitizer on PATH: it comes with the CUDA toolkit, in its bin "
            "folder"
        )
    device = card_or_cpu(name)
    _build_for(device, REALS, jobs)
    parts = [word for group in (only or _SANITISED) for word in ("--only", group)]
    again = [*check, "--quick", *parts, "--device", str(device)]
    # Every tensor in an allocation of its own: from a pool, no access would be out of bounds.
    variables = {**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    found = {}
    for tool in _TOOLS:
        command = [program, "--tool", tool, "--error-exitcode", "1", *again]
        found[tool] = subprocess.run(command, env=variables, check=False).returncode
    told = ", ".join(f"{tool} {'found errors' if code else 'ok'}" for tool, code in found.items())
    standard_output().print(f"compute-sanitizer: {told}")
    return int(any(found.values()))


def bench_command(
    name: str | None,
    asked: Mapping[str, Sequence[str]],
    limits: Mapping[str, float | None],
    output: Path | None,
    *,
    quick: bool,
    jobs: int,
) -> list[Line]:
    """Time what is asked for and show it beside the floor.

    Parameters
    ----------
    asked : mapping
        "shapes" and "methods": parts of names; all if empty.
    limits : mapping
        "minutes" of the whole run or None, and "seconds" of a measurement.
    """
    minutes, seconds = limits["minutes"], check_number("seconds", limits["seconds"], above=0.0)
    end = time.monotonic() + 60 * check_number("minutes", minutes, above=0.0) if minutes else None
    device = card_or_cpu(name)
    shapes = list(QUICK) if quick else _shapes(asked["shapes"])
    able, missing = installed(device.type)
    methods = _matching("method", asked["methods"], able)
    card = card_of(device)
    _build_for(device, REALS[:1], jobs)
    plan = Plan(device, card, _QUICK_SECONDS if quick else seconds, end or float("inf"))
    lines = _run_and_keep(shapes, methods, plan, output)
    standard_output().print(bench_table(lines, card, missing))
    return lines


def _run_and_keep(
    shapes: Sequence[Shape], methods: Sequence[str], plan: Plan, output: Path | None
) -> list[Line]:
    """Return the lines of this run and, from a file that is continued, of those before."""
    config = {"radius": RADIUS, "power": POWER, "seconds": plan.seconds, "dtype": "float32"}
    results = Results(output, record(plan.card, config)) if output else None
    lines = list(results.lines) if results else []
    for line in run_bench(shapes, methods, plan, {line.key for line in lines}):
        lines.append(line)
        if line.status == "failed":
            sys.stderr.write(f"failed: {line.contender} on {line.shape}: {line.note}\n")
        if results is not None and line.status != "no time left":
            results.add(line)
    return lines


def _shapes(parts: Sequence[str]) -> list[Shape]:
    return [SHAPES[name] for name in _matching("shape", parts, list(SHAPES))]


def _matching(what: str, parts: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return the names of which one of the parts is a part; a part of none is refused."""
    for part in parts:
        if not any(part.lower() in name.lower() for name in names):
            check_choice(what, part, tuple(names))
    return [
        name for name in names if not parts or any(part.lower() in name.lower() for part in parts)
    ]


def _build_for(device: torch.device, reals: Sequence[str], jobs: int) -> None:
    """Build what the device will need before anything waits for it, `jobs` at a time."""
    if device.type == "cuda":
        build_all(wanted([arch_of(device)], reals, SIZES), jobs=jobs)
