"""The benchmark on a card: contenders on shapes, forward and backward, each failure a line."""

import gc
import math
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import torch
from rich import box
from rich.table import Table
from torch import Tensor

from fourierkernels.attention import fourier_attention
from fourierkernels.cli.card.card import (
    Card,
    Key,
    Line,
    Results,
    build_for,
    card_of,
    card_or_cpu,
    record,
    shortened,
)
from fourierkernels.cli.card.check import is_usable
from fourierkernels.cli.card.compared import relative_error
from fourierkernels.cli.card.contenders import (
    CONTENDERS,
    POWER,
    QUICK,
    RADIUS,
    SHAPES,
    SLOTS,
    Contender,
    Shape,
    both_ways,
    floor_ms,
    installed,
)
from fourierkernels.foundation.console import standard_output
from fourierkernels.foundation.timing import Times, measure
from fourierkernels.foundation.validation import check_choice, check_number
from fourierkernels.ops.cuda.build import REALS

SEED = 2022
_INPUT_SETS = 3
_SHARE = 0.8  # of the free memory, that a contender's arrays may take
_CPU_BYTES = 2**30  # the same on a CPU
_RUNS = 6  # warm-up included, that a long measurement takes at least
_REFERENCE_BYTES = 2**28  # of one array of the float64 reference that an error is measured against
_LONGEST_NOTE = 500
_LONGEST_CELL = 60  # of a note in the table
_QUICK_SECONDS = 0.05


@dataclass(frozen=True)
class Plan:
    """Where to measure, and for how long.

    Attributes
    ----------
    seconds : float
        Of one measurement.
    until : float
        On the clock of `time.monotonic`: nothing that would end later is begun.
    """

    device: torch.device
    card: Card
    seconds: float
    until: float = math.inf


def run_bench(
    shapes: Iterable[Shape], names: Sequence[str], plan: Plan, done: Collection[Key] = ()
) -> Iterator[Line]:
    """Yield a line for each shape, with and without the causal mask, contender and direction.

    The first contender comes first on every shape, so that a run cut short has all its times.
    Keys in `done` are left out. After an error that leaves the device unusable every further line
    says so.
    """
    lost = ""
    for shape, empty in _asked(list(shapes), names):
        if empty.key in done:
            continue
        if lost:
            yield replace(empty, status="failed", note=f"not run: the device was lost by {lost}")
            continue
        line = _line(shape, empty, plan)
        if line.note:
            gc.collect()  # the arrays of a failure hang on its traceback
        usable = is_usable(plan.device)
        lost = "" if usable else f"{empty.contender} on {shape.name}, {empty.direction}"
        yield line


def _asked(shapes: Sequence[Shape], names: Sequence[str]) -> Iterator[tuple[Shape, Line]]:
    for contenders in (names[:1], names[1:]):
        for shape in (way for given in shapes for way in both_ways(given)):
            for name, direction in product(contenders, SLOTS):
                yield shape, Line(shape.name, **_facts(shape), contender=name, direction=direction)


def _facts(shape: Shape) -> dict[str, Any]:
    return {name: fact for name, fact in vars(shape).items() if name != "name"}


def _line(shape: Shape, empty: Line, plan: Plan) -> Line:
    contender = CONTENDERS[empty.contender]
    empty = replace(empty, floor=floor_ms(shape, empty.direction, plan.card))
    reason = _reason_to_leave_out(contender, shape, empty, plan)
    if reason:
        return replace(empty, status=reason)
    try:
        times = _times(contender, shape, empty.direction, plan)
        error = _error(contender, shape, plan.device) if empty.direction == "forward" else math.nan
    except torch.OutOfMemoryError as problem:
        return _failed(empty, "out of memory", problem)
    except Exception as problem:
        return _failed(empty, "failed", problem)
    return replace(
        empty,
        status="ok",
        milliseconds=times.median,
        quartile_low=times.low,
        quartile_high=times.high,
        runs=times.runs,
        of_floor=times.median / empty.floor,
        peak_bytes=times.peak_bytes,
        error=error,
    )


def _failed(empty: Line, status: str, problem: Exception) -> Line:
    note = " ".join(f"{type(problem).__name__}: {problem}".split())
    return replace(empty, status=status, note=note[:_LONGEST_NOTE])


def _reason_to_leave_out(contender: Contender, shape: Shape, empty: Line, plan: Plan) -> str:
    if shape.causal and not contender.causal:
        return "not for causal"
    if contender.stored(shape, empty.direction) > _SHARE * _free_bytes(plan.device):
        return "too large"
    known = 0.0 if math.isnan(empty.floor) else empty.floor
    needed = max(plan.seconds, _RUNS * contender.pace * known / 1e3)
    return "no time left" if time.monotonic() + needed > plan.until else ""


def _free_bytes(device: torch.device) -> int:
    return torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else _CPU_BYTES


# ---- one measurement ----------------------------------------------------------------------------


def _times(contender: Contender, shape: Shape, direction: str, plan: Plan) -> Times:
    contender.prepare()
    stores = contender.stored(shape, direction) > 0
    sets = 1 if stores else _INPUT_SETS  # arrays of all pairs leave nothing in the cache anyway
    build = {"forward": _forward, "backward": _backward}[direction]
    calls = [build(contender, shape, plan.device, seed) for seed in range(sets)]
    return measure(calls, plan.device, plan.seconds)


def _inputs(shape: Shape, device: torch.device, seed: int) -> list[Tensor]:
    """Return query, key and value: standard normal, which a model's are at its start."""
    generator = torch.Generator(device).manual_seed(SEED + seed)
    size = (shape.batch, shape.heads, shape.n, shape.dim)
    return [torch.randn(size, generator=generator, device=device) for _ in range(3)]


def _forward(
    contender: Contender, shape: Shape, device: torch.device, seed: int
) -> Callable[[], object]:
    query, key, value = _inputs(shape, device, seed)

    @torch.no_grad()
    def forward() -> Tensor:
        return contender.run(query, key, value, shape.causal)

    return forward


def _backward(
    contender: Contender, shape: Shape, device: torch.device, seed: int
) -> Callable[[], object]:
    query, key, value = leaves = [x.requires_grad_() for x in _inputs(shape, device, seed)]
    output = contender.run(query, key, value, shape.causal)
    grad = torch.randn_like(output)
    return partial(torch.autograd.grad, output, leaves, grad, retain_graph=True)


@torch.no_grad()
def _error(contender: Contender, shape: Shape, device: torch.device) -> float:
    """Return the relative error of some queries of the first head; NaN for another formula."""
    if not contender.exact:
        return math.nan
    inputs = query, key, value = _inputs(shape, device, 0)
    found = contender.run(query, key, value, shape.causal)[0, 0]
    query, key, value = (tensor[:1, :1].double() for tensor in inputs)
    count = max(1, min(shape.n, _REFERENCE_BYTES // (8 * shape.n * shape.dim)))
    rows = torch.linspace(0, shape.n - 1, count, device=device).long()
    seen = rows[:, None] >= torch.arange(shape.n, device=device) if shape.causal else None
    exact = fourier_attention(
        query[..., rows, :],
        key,
        value,
        RADIUS,
        power=POWER,
        attn_mask=seen,
        implementation="reference",
    )
    return relative_error(found[rows], exact[0, 0].cpu())


# ---- the command ---------------------------------------------------------------------------------


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
    build_for(device, REALS[:1], jobs)
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


def bench_table(lines: Sequence[Line], card: Card, missing: Sequence[str]) -> Table:
    """Return one line for each measurement."""
    header = ("shape", "causal", "method", "", "ms", "quartiles", "floor", "ratio", "MB", "error")
    told = f"{card.sentence}, {card.multiprocessors} multiprocessors, {card.clock:.3g} GHz"
    note = f"{told}; ratio: over the issue floor of our kernels. {_left(lines)}"
    if missing:
        note += f"Left out: {'; '.join(missing)}."
    table = Table(*header, box=box.SIMPLE_HEAD, caption=note)
    for line in lines:
        if line.status != "no time left":
            causal = "yes" if line.causal else ""
            table.add_row(line.shape, causal, line.contender, line.direction, *_numbers(line))
    return table


def _numbers(line: Line) -> list[str]:
    if line.status != "ok":
        return [f"{line.status} {line.note[:_LONGEST_CELL]}".strip()]
    quartiles = f"{line.quartile_low:.3g} to {line.quartile_high:.3g}"
    memory = f"{line.peak_bytes / 1e6:.0f}" if line.peak_bytes else ""
    numbers = (line.floor, line.of_floor)
    floor, ratio = ("" if math.isnan(number) else f"{number:.3g}" for number in numbers)
    return [f"{line.milliseconds:.3g}", quartiles, floor, ratio, memory, shortened(line.error)]


def _left(lines: Sequence[Line]) -> str:
    left = sum(line.status == "no time left" for line in lines)
    return f"No time was left for {left}: run again with the same output. " if left else ""
