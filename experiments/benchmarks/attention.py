"""Time Fourier attention on a CPU beside what else computes attention, in one run.

    python experiments/benchmarks/attention.py [--output FOLDER] [--quick] [--seconds S]

One thread, B·H = 8, N = 256 and 1024, D = 16, 32, 64 (attention_cpu.csv). Unit-normal inputs,
R = 2. On a card, ``fourierkernels cuda check`` compares every shape, mask and precision with
float64, and ``fourierkernels cuda bench`` times the shapes of models beside the floor and the same
methods.

`milliseconds` is a median of process time, which other work on the machine disturbs less than a
clock. `error` is the relative norm of the output's difference from float64, where the method
computes our formula; `floor`, `of_floor` and `peak_mb` are empty on a CPU. Peers: pip install
pykeops; a missing one is left out. Quote ratios from one run, not milliseconds.
"""

import argparse
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, astuple, dataclass
from functools import partial
from importlib.util import find_spec
from itertools import product
from pathlib import Path

import torch
from torch import Tensor

from fourierkernels.cli.card.contenders import CONTENDERS, POWER, RADIUS, Contender, Run, Shape
from fourierkernels.foundation.provenance import write_study
from fourierkernels.foundation.timing import rounds

ROOT = Path(__file__).parents[2]
SEED = 2022
_LARGEST = 2**31  # bytes that the arrays of a method may take
SHAPES = [Shape(f"N={n} D={d}", 1, 8, n, d) for n in (256, 1024) for d in (16, 32, 64)]
QUICK_SHAPES = [Shape("N=64 D=16", 1, 2, 64, 16)]


def _distances(mode: str) -> Run:
    def run(query: Tensor, key: Tensor, value: Tensor, causal: bool) -> Tensor:
        return torch.cdist(query, key, compute_mode=mode)

    return run


def _matrix(shape: Shape, direction: str) -> int:
    return 4 * shape.pairs


# The names of the table, with contenders of the card's benchmark and what only a CPU is timed with.
METHODS: dict[str, Contender] = {
    "ours": CONTENDERS["ours"],
    "reference": CONTENDERS["reference, eager"],
    "cdist, direct": Contender(_distances("donot_use_mm_for_euclid_dist"), 1.0, stored=_matrix),
    "cdist, by products": Contender(_distances("use_mm_for_euclid_dist"), 1.0, stored=_matrix),
    "softmax": CONTENDERS["softmax, float32"],
    "KeOps": CONTENDERS["KeOps"],
}
FORWARD_ONLY = ("cdist, direct", "cdist, by products", "KeOps")


@dataclass(frozen=True)
class Cell:
    """One measurement; NaN where there is nothing to measure."""

    device: str
    shape: str
    batch: int
    heads: int
    n: int
    dim: int
    causal: bool
    method: str
    task: str
    milliseconds: float
    floor: float
    of_floor: float
    peak_mb: float
    error: float


def draw(shape: Shape) -> list[Tensor]:
    """Return unit-normal query, key and value that require gradients."""
    generator = torch.Generator().manual_seed(SEED)
    size = (shape.batch, shape.heads, shape.n, shape.dim)
    return [torch.randn(size, generator=generator).requires_grad_() for _ in range(3)]


def calls_of(name: str, shape: Shape) -> dict[str, Callable[[], Tensor | tuple[Tensor, ...]]]:
    """Return what is timed: the forward without gradients, the backward alone."""
    query, key, value = leaves = draw(shape)
    run = METHODS[name].run

    @torch.no_grad()
    def forward() -> Tensor:
        return run(query, key, value, shape.causal)

    calls: dict[str, Callable[[], Tensor | tuple[Tensor, ...]]] = {"forward": forward}
    if name not in FORWARD_ONLY:
        output = run(query, key, value, shape.causal)
        grad = torch.randn_like(output)
        calls["backward"] = partial(torch.autograd.grad, output, leaves, grad, retain_graph=True)
    return calls


def error_of(output: Tensor, shape: Shape) -> float:
    """Return the relative error of an output over the first head."""
    first = [tensor.detach()[:1, :1].double() for tensor in draw(shape)]
    exact = METHODS["reference"].run(*first, shape.causal)
    return float((output[:1, :1].double() - exact).norm() / exact.norm())


def measure(name: str, shape: Shape, seconds: float) -> list[Cell]:
    """Time one method on one shape."""
    cells = []
    for task, call in calls_of(name, shape).items():
        times = rounds({task: call}, least=3, seconds=seconds, warm=2, clock=time.process_time)
        exact = METHODS[name].exact and task == "forward"
        cells.append(
            Cell(
                "cpu",
                *astuple(shape),
                method=name,
                task=task,
                milliseconds=1e3 * statistics.median(times[task]),
                floor=math.nan,
                of_floor=math.nan,
                peak_mb=math.nan,
                error=error_of(call(), shape) if exact else math.nan,
            )
        )
    return cells


def applies(method: Contender, shape: Shape) -> bool:
    """Whether a method is installed and its arrays fit."""
    fits = method.stored(shape, "forward") <= _LARGEST
    return fits and find_spec(method.package) is not None


def timings(shapes: Iterable[Shape], seconds: float) -> list[Cell]:
    """Time every method that is installed and fits."""
    cells = []
    for shape, (name, method) in product(shapes, METHODS.items()):
        if applies(method, shape):
            new = measure(name, shape, seconds)
            print(*map(asdict, new), sep="\n", file=sys.stderr, flush=True)
            cells += new
    return cells


def main() -> None:
    """Time and write the table."""
    import numba

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "experiments/results")
    parser.add_argument("--quick", action="store_true", help="one small shape")
    parser.add_argument("--seconds", type=float, default=3.0, help="of one measurement")
    options = parser.parse_args()
    shapes, seconds = (QUICK_SHAPES, 0.05) if options.quick else (SHAPES, options.seconds)
    torch.set_num_threads(1)
    numba.set_num_threads(1)
    config = {"seed": SEED, "radius": RADIUS, "power": POWER, "threads": torch.get_num_threads()}
    cells, packages = timings(shapes, seconds), ("torch", "pykeops")
    source = Path(__file__)
    write_study(options.output, "attention_cpu", cells, config, source=source, packages=packages)


if __name__ == "__main__":
    main()
