"""Time Fourier attention on a CPU beside what else computes attention, in turns.

    python experiments/benchmarks/attention.py [--output FOLDER] [--quick] [--seconds S]

One thread, N = 8 to 4,096, D = 8 to 128, 4,096 tokens in all: heads times N (attention_cpu.csv).
Forward without gradients and the backward pass alone, without a mask, in causal order, and with a
tenth of the weights dropped. Unit-normal inputs, R = 2. On a card, ``fourierkernels cuda check``
compares every shape, mask and precision with float64, and ``fourierkernels cuda bench`` times the
shapes of models beside the floor and the same methods.

All methods take turns at a task, so that other work on the machine, which process time feels less
than a clock, meets all alike; `milliseconds` is the least of the rounds, `median` and `most` tell
how they scatter. `error` is the relative norm of the output's difference from float64, where the
method computes our formula. The reference, and KeOps if it is installed, run where their arrays
are small. Quote ratios from one run, not milliseconds.

Our loops have vectors of 512 bits where the processor has them and loses nothing by them, by an
attribute of each function. Without it LLVM prefers 256 bits on processors of Intel. With 512 bits
eight heads of N = 256 took 0.77 to 0.95 of the process time on an Intel Xeon with AVX512-FP16, in
three runs in turns. On an AMD EPYC (Zen 4) LLVM takes 512 bits anyway; made to prefer 256, it took
longer: 0.79 to 0.93 of its time is left forward, 0.92 to 1.12 with the backward pass, in three
runs. Sums are taken in another order, so results differ in rounding.
"""

import argparse
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.util import find_spec
from itertools import product
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as softmax

from fourierkernels.attention import fourier_attention
from fourierkernels.cli.card.contenders import CONTENDERS, POWER, RADIUS, Contender, Run, Shape
from fourierkernels.foundation.provenance import write_study
from fourierkernels.foundation.timing import rounds

ROOT = Path(__file__).parents[2]
SEED = 2022
_LARGEST = 2**26  # bytes that the arrays of a method may take
_TOKENS, DROPPED = 4096, 0.1
_ROWS = 16  # of which errors are taken
LENGTHS, DIMS = (8, 16, 32, 64, 256, 1024, 4096), (8, 16, 64, 128)
SHAPES = [Shape(f"N={n} D={d}", 1, _TOKENS // n, n, d) for n, d in product(LENGTHS, DIMS)]
QUICK_SHAPES = [Shape("N=64 D=16", 1, 2, 64, 16)]
Call = Callable[[], Tensor | tuple[Tensor, ...]]


def _distances(mode: str) -> Run:
    def run(query: Tensor, key: Tensor, value: Tensor, causal: bool) -> Tensor:
        return torch.cdist(query, key, compute_mode=mode)

    return run


# The names of the table, with contenders of the card's benchmark and what only a CPU is timed with.
METHODS: dict[str, Contender] = {
    "ours": CONTENDERS["ours"],
    "reference": CONTENDERS["reference, eager"],
    "cdist, direct": Contender(_distances("donot_use_mm_for_euclid_dist"), 1.0),
    "cdist, by products": Contender(_distances("use_mm_for_euclid_dist"), 1.0),
    "softmax": CONTENDERS["softmax, float32"],
    "KeOps": CONTENDERS["KeOps"],
}
# What is asked of a method: the name, which a task begins with, and whether later keys are hidden.
KINDS = {"": False, "causal": True, "dropout": False}
FORWARD_ONLY = ("cdist, direct", "cdist, by products", "KeOps")


def _dropped(name: str) -> Run | None:
    """Return a method with dropout, None if it has none."""
    if name == "softmax":
        return lambda q, k, v, causal: softmax(q, k, v, dropout_p=DROPPED, is_causal=causal)
    if name == "ours":
        return lambda q, k, v, causal: fourier_attention(
            q, k, v, RADIUS, power=POWER, dropout_p=DROPPED, is_causal=causal
        )
    return None


@dataclass(frozen=True)
class Cell:
    """One measurement; NaN where there is no error to measure."""

    shape: str
    heads: int
    n: int
    dim: int
    task: str
    method: str
    milliseconds: float
    median: float
    most: float
    rounds: int
    error: float


def draw(shape: Shape) -> list[Tensor]:
    """Return unit-normal query, key and value that require gradients."""
    generator = torch.Generator().manual_seed(SEED)
    size = (shape.batch, shape.heads, shape.n, shape.dim)
    return [torch.randn(size, generator=generator).requires_grad_() for _ in range(3)]


def calls_of(run: Run, shape: Shape, direction: str) -> Call:
    """Return what is timed: the forward without gradients, or the backward alone."""
    query, key, value = leaves = draw(shape)

    @torch.no_grad()
    def forward() -> Tensor:
        return run(query, key, value, shape.causal)

    if direction == "forward":
        return forward
    output = run(query, key, value, shape.causal)
    grad = torch.randn_like(output)
    return partial(torch.autograd.grad, output, leaves, grad, retain_graph=True)


def tasks(shape: Shape) -> Iterable[tuple[str, dict[str, Call]]]:
    """Yield the name of each task with the calls of the methods that can do it."""
    for (name, causal), direction in product(KINDS.items(), ("forward", "backward")):
        given = replace(shape, causal=causal)
        runs: dict[str, Run | None] = {
            method: _dropped(method) if name == "dropout" else row.run
            for method, row in METHODS.items()
            if applies(row, given)
            and not (method in FORWARD_ONLY and (causal or direction == "backward"))
        }
        yield (
            f"{name} {direction}".strip(),
            {key: calls_of(run, given, direction) for key, run in runs.items() if run},
        )


def error_of(output: Tensor, shape: Shape) -> float:
    """Return the relative error of an output over the first rows of the first head."""
    query, key, value = (tensor.detach()[:1, :1].double() for tensor in draw(shape))
    exact = METHODS["reference"].run(query[:, :, :_ROWS], key, value, False)
    return float((output[:1, :1, :_ROWS].double() - exact).norm() / exact.norm())


def measure(shape: Shape, seconds: float) -> Iterable[Cell]:
    """Time all methods on one shape, in turns."""
    for task, calls in tasks(shape):
        times = rounds(calls, least=3, seconds=seconds, clock=time.process_time)
        for method, found in times.items():
            exact = METHODS[method].exact and task == "forward"
            output = calls[method]() if exact else None
            yield Cell(
                shape.name,
                shape.heads,
                shape.n,
                shape.dim,
                task,
                method,
                1e3 * min(found),
                1e3 * statistics.median(found),
                1e3 * max(found),
                len(found),
                error_of(output, shape) if isinstance(output, Tensor) else math.nan,
            )


def applies(method: Contender, shape: Shape) -> bool:
    """Whether a method is installed and its arrays fit."""
    fits = method.stored(shape, "forward") <= _LARGEST
    return fits and find_spec(method.package) is not None


def timings(shapes: Iterable[Shape], seconds: float) -> list[Cell]:
    """Time every method that is installed and fits."""
    cells = []
    for shape in shapes:
        for cell in measure(shape, seconds):
            print(asdict(cell), file=sys.stderr, flush=True)
            cells.append(cell)
    return cells


def main() -> None:
    """Time and write the table."""
    import numba

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "experiments/results")
    parser.add_argument("--quick", action="store_true", help="one small shape")
    parser.add_argument("--seconds", type=float, default=0.5, help="of one task and shape")
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
