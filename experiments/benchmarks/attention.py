"""Check and time Fourier attention beside what else computes attention, in one run.

    python experiments/benchmarks/attention.py [--output FOLDER] [--quick] [--device cpu|cuda]

On a GPU: first every shape, mask and precision against float64 (attention_cuda_checks.csv), then
forward and backward of the shapes of the paper's models (attention_cuda.csv). Without one: one
thread, B·H = 8, N = 256 and 1024, D = 16, 32, 64 (attention_cpu.csv). Unit-normal inputs, R = 2.

`milliseconds` is a median: of device events on a GPU, of process time on a CPU, which other work on
the machine disturbs less than a clock. `floor` is the time that issuing the instructions of our own
kernels would take (counted from their machine code: 9.89 a pair and feature, 1.42 a pair and
column, backward 52), on `--clock` GHz; `of_floor` the measured time over it. `error` is the
relative norm of the output's difference from float64, where the method computes our formula.
Peers: pip install pykeops; `fourier_layer_cuda`, the extension published with the paper, built by
hand. A missing one is left out. Quote ratios from one run, not milliseconds.
"""

import argparse
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import partial
from importlib.util import find_spec
from itertools import product
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from fourierkernels.attention import fourier_attention
from fourierkernels.foundation.device import default_device
from fourierkernels.foundation.provenance import write_study

ROOT = Path(__file__).parents[2]
RADIUS, POWER, SEED = 2.0, 4, 2022
# Entries that the arrays of a method may have: some hold several such arrays at once.
_ENTRIES = {"cpu": 2**27, "cuda": 2**31}
_SLOTS, _SLOTS_PER_COLUMN, _SLOTS_BACKWARD = 9.89, 1.42, 52.0
_LANES = 128  # warp instructions times lanes that a multiprocessor issues in one clock


@dataclass(frozen=True)
class Shape:
    """One problem; `causal` skips what lies above the diagonal."""

    name: str
    batch: int
    heads: int
    n: int
    dim: int
    causal: bool = False

    @property
    def elements(self) -> float:
        """Pairs times features that have to be computed, by tiles of 64."""
        share = 0.5 + 32 / self.n if self.causal and self.n > 64 else 1.0
        return self.batch * self.heads * self.n**2 * self.dim * share


CPU_SHAPES = [Shape(f"N={n} D={d}", 1, 8, n, d) for n in (256, 1024) for d in (16, 32, 64)]
QUICK_SHAPES = [Shape("N=64 D=16", 1, 2, 64, 16)]
GPU_SHAPES = [
    Shape("language model, small", 96, 8, 256, 16, causal=True),
    Shape("language model, medium", 56, 8, 384, 32, causal=True),
    Shape("DeiT-tiny", 256, 3, 197, 64),
    Shape("long, 4096", 1, 8, 4096, 64),
    Shape("long, 16384", 1, 8, 16384, 64),
]


@dataclass(frozen=True)
class Peer:
    """A method: `run(q, k, v, causal)` gives the output, or what takes its place."""

    run: Callable[[Tensor, Tensor, Tensor, bool], Tensor]
    exact: bool = False  # computes our formula, so that an error can be measured
    dense: int = 0  # arrays of pairs it stores; -1: of pairs times features
    package: str = "torch"
    devices: tuple[str, ...] = ("cpu", "cuda")
    differentiable: bool = True
    causal: bool = True


def _fused(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
    return fourier_attention(q, k, v, RADIUS, power=POWER, is_causal=causal)


def _reference(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
    return fourier_attention(
        q, k, v, RADIUS, power=POWER, is_causal=causal, implementation="reference"
    )


def _distances(mode: str) -> Callable[[Tensor, Tensor, Tensor, bool], Tensor]:
    def run(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
        return torch.cdist(q, k, compute_mode=mode)

    return run


def _softmax(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
    return scaled_dot_product_attention(q, k, v, is_causal=causal)


def _softmax_half(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
    return _softmax(q.bfloat16(), k.bfloat16(), v.bfloat16(), causal)


def _keops(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
    from pykeops.torch import LazyTensor

    a, b = LazyTensor(RADIUS * q[..., :, None, :]), LazyTensor(RADIUS * k[..., None, :, :])
    scores = (POWER * (a - b).sinxdivx().abs().log()).sum(-1)
    return scores.sumsoftmaxweight(LazyTensor(v[..., None, :, :].contiguous()), dim=q.ndim - 1)


class _Product(torch.autograd.Function):
    """The published extension: products of sinc, (N, M, B, H), of q and k as (N, B, H, D)."""

    @staticmethod
    def forward(ctx, q: Tensor, k: Tensor, radius: Tensor) -> Tensor:  # type: ignore[no-untyped-def]
        import fourier_layer_cuda

        result = fourier_layer_cuda.forward(q, k, radius)
        ctx.save_for_backward(q, k, radius, result)
        return result

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, ...]:  # type: ignore[no-untyped-def]
        import fourier_layer_cuda

        return tuple(fourier_layer_cuda.backward(grad.contiguous(), *ctx.saved_tensors))


def _published(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
    # One radius per feature: with the single one of the publication it reads beyond its end.
    radius = torch.full((q.shape[-1],), RADIUS, device=q.device)
    weights = _Product.apply(*(x.permute(2, 0, 1, 3).contiguous() for x in (q, k)), radius) ** POWER
    if causal:
        later = torch.ones(weights.shape[:2], dtype=torch.bool, device=q.device).triu(1)
        weights = weights.masked_fill(later[..., None, None], 0.0)
    weights = weights / (weights.sum(dim=1, keepdim=True) + 1e-6)
    return torch.einsum("nmbh,bhmc->bhnc", weights, v)


PEERS = {
    "ours": Peer(_fused, exact=True),
    "reference": Peer(_reference, exact=True, dense=-1),
    "cdist, direct": Peer(
        _distances("donot_use_mm_for_euclid_dist"), dense=1, differentiable=False
    ),
    "cdist, by products": Peer(_distances("use_mm_for_euclid_dist"), dense=1, differentiable=False),
    "softmax": Peer(_softmax),
    "softmax, bfloat16": Peer(_softmax_half, devices=("cuda",)),
    "KeOps": Peer(_keops, exact=True, package="pykeops", differentiable=False, causal=False),
    "published extension": Peer(
        _published, dense=4, package="fourier_layer_cuda", devices=("cuda",)
    ),
}


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


@dataclass(frozen=True)
class Check:
    """Errors of one case on a GPU against float64: relative norms."""

    dtype: str
    queries: int
    keys: int
    dim: int
    columns: int
    power: int
    mask: str
    output: float
    dq: float
    dk: float
    dv: float
    dradius: float


def draw(shape: Shape, device: str) -> list[Tensor]:
    """Return unit-normal query, key and value that require gradients."""
    generator = torch.Generator().manual_seed(SEED)
    size = (shape.batch, shape.heads, shape.n, shape.dim)
    tensors = (torch.randn(size, generator=generator).to(device) for _ in range(3))
    return [tensor.requires_grad_() for tensor in tensors]


def floor(shape: Shape, task: str, device: str, clock: float) -> float:
    """Return the issue-rate floor in milliseconds; NaN on a CPU."""
    if device != "cuda":
        return math.nan
    slots = _SLOTS + _SLOTS_PER_COLUMN if task == "forward" else _SLOTS_BACKWARD
    units = torch.cuda.get_device_properties(0).multi_processor_count
    return shape.elements * slots / (_LANES * units * clock * 1e6)


def runs_of(call: Callable[[], object], device: str, seconds: float) -> list[float]:
    """Return milliseconds of repeated calls: warm, at least 3, for about `seconds`."""
    call()
    call()
    times: list[float] = []
    start = time.perf_counter()
    while len(times) < 3 or time.perf_counter() - start < seconds:
        times.append(_one_run(call, device))
    return times


def _one_run(call: Callable[[], object], device: str) -> float:
    if device == "cpu":
        begin = time.process_time()
        call()
        return 1e3 * (time.process_time() - begin)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    call()
    end.record()
    torch.cuda.synchronize()
    return float(begin.elapsed_time(end))


def calls_of(peer: Peer, shape: Shape, device: str) -> dict[str, Callable[[], object]]:
    """Return what is timed: the forward without gradients, the backward alone."""
    query, key, value = draw(shape, device)

    @torch.no_grad()
    def forward() -> Tensor:
        return peer.run(query, key, value, shape.causal)

    calls: dict[str, Callable[[], object]] = {"forward": forward}
    if peer.differentiable:
        output = peer.run(query, key, value, shape.causal)
        grad = torch.randn_like(output)
        calls["backward"] = lambda: torch.autograd.grad(
            output, (query, key, value), grad, retain_graph=True
        )
    return calls


def error_of(output: Tensor, shape: Shape, device: str) -> float:
    """Return the relative error of an output over the first head; NaN if it is too large."""
    if shape.n**2 * shape.dim > _ENTRIES[device]:
        return math.nan
    first = [tensor.detach()[:1, :1].double() for tensor in draw(shape, device)]
    exact = _reference(*first, shape.causal)
    return float((output[:1, :1].double() - exact).norm() / exact.norm())


def measure(name: str, shape: Shape, device: str, seconds: float, clock: float) -> list[Cell]:
    """Time one method on one shape."""
    peer, cells = PEERS[name], []
    for task, call in calls_of(peer, shape, device).items():
        if device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        took = statistics.median(runs_of(call, device, seconds))
        peak = torch.cuda.max_memory_allocated() / 2**20 if device == "cuda" else math.nan
        error = math.nan
        if peer.exact and task == "forward":
            error = error_of(call(), shape, device)  # type: ignore[arg-type]
        least = floor(shape, task, device, clock) if name == "ours" else math.nan
        cells.append(
            Cell(
                device,
                shape.name,
                shape.batch,
                shape.heads,
                shape.n,
                shape.dim,
                shape.causal,
                name,
                task,
                took,
                least,
                took / least,
                peak,
                error,
            )
        )
    return cells


def applies(peer: Peer, shape: Shape, device: str) -> bool:
    """Whether a method is installed, does what the shape wants, and its arrays fit."""
    pairs = shape.batch * shape.heads * shape.n**2
    entries = pairs * (shape.dim if peer.dense < 0 else peer.dense)
    installed = device in peer.devices and find_spec(peer.package) is not None
    return installed and (peer.causal or not shape.causal) and entries <= _ENTRIES[device]


def timings(shapes: Iterable[Shape], device: str, seconds: float, clock: float) -> list[Cell]:
    """Time every method that is installed and fits."""
    cells = []
    for shape, (name, peer) in product(shapes, PEERS.items()):
        if applies(peer, shape, device):
            new = measure(name, shape, device, seconds, clock)
            print(*map(asdict, new), sep="\n", file=sys.stderr, flush=True)
            cells += new
    return cells


# ---- correctness on a GPU -----------------------------------------------------------------------

LENGTHS = [(64, 64), (1, 1), (70, 90), (197, 197), (256, 33)]
WIDTHS = [(16, 16), (5, 3), (32, 64), (64, 64), (128, 128), (256, 256), (80, 16)]
MASKS: dict[str, Callable[[int, int, torch.Generator], dict[str, object]]] = {
    "none": lambda n, m, g: {},
    "causal": lambda n, m, g: {"is_causal": True},
    "boolean": lambda n, m, g: {"attn_mask": torch.rand(2, 3, n, m, generator=g) > 0.4},
    "padding": lambda n, m, g: {"attn_mask": torch.rand(2, 1, 1, m, generator=g) > 0.4},
    "additive": lambda n, m, g: {"attn_mask": torch.randn(1, 3, n, m, generator=g)},
    "eps": lambda n, m, g: {"eps": 1e-6},
}
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


def check(
    dtype: torch.dtype, lengths: tuple[int, int], widths: tuple[int, int], power: int, mask: str
) -> Check:
    """Compare output and gradients of one case on the GPU with float64 on the GPU."""
    (n, m), (dim, columns) = lengths, widths
    generator = torch.Generator().manual_seed(SEED)
    sizes = [(2, 3, n, dim), (2, 3, m, dim), (2, 3, m, columns), (3, dim)]
    leaves = [torch.randn(size, generator=generator).to("cuda", dtype) for size in sizes]
    leaves[0], leaves[1] = 0.5 * leaves[0], 0.5 * leaves[1]
    leaves[3] = (0.1 * leaves[3].float()).exp().to(dtype)
    options = MASKS[mask](n, m, generator)
    options = {k: v.cuda() if isinstance(v, Tensor) else v for k, v in options.items()}
    grad = torch.randn((2, 3, n, columns), generator=generator).to("cuda", dtype)
    results = []
    for kind in (dtype, torch.float64):
        inputs = [leaf.detach().to(kind).requires_grad_() for leaf in leaves]
        name = "fused" if kind is dtype and not results else "reference"
        output = fourier_attention(*inputs, power=power, implementation=name, **options)
        results.append([output, *torch.autograd.grad(output, inputs, grad.to(kind))])
    errors = [
        float((a.detach().double() - b.detach()).norm() / b.detach().norm().clamp(min=1e-30))
        for a, b in zip(*results, strict=True)
    ]
    return Check(str(dtype).removeprefix("torch."), n, m, dim, columns, power, mask, *errors)


def checks() -> list[Check]:
    """Every precision with every length, width, power and mask, one varied at a time and masks all.

    Rows of one key have no gradient but rounding: their relative error means nothing.
    """
    rows = []
    for dtype, mask in product(DTYPES, MASKS):
        cases = {(lengths, (16, 16), POWER) for lengths in LENGTHS}
        cases |= {((70, 90), widths, POWER) for widths in WIDTHS}
        cases |= {((70, 90), (16, 16), power) for power in (2, 6)}
        rows += [check(dtype, *case, mask) for case in sorted(cases)]
        print(f"checked {dtype}, {mask}", file=sys.stderr, flush=True)
    return rows


# ---- output -------------------------------------------------------------------------------------


def main() -> None:
    """Check on a GPU, time, write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "experiments/results")
    parser.add_argument("--quick", action="store_true", help="one small shape")
    parser.add_argument("--device", choices=("cpu", "cuda"))
    parser.add_argument("--seconds", type=float, default=3.0, help="of one measurement")
    parser.add_argument("--clock", type=float, default=1.755, help="GHz of the GPU, for the floor")
    options = parser.parse_args()
    device = options.device or default_device().type
    shapes, seconds = (GPU_SHAPES if device == "cuda" else CPU_SHAPES), options.seconds
    if options.quick:
        shapes, seconds = QUICK_SHAPES, 0.05
    if device == "cpu":
        _use_one_thread()
    gpu = torch.cuda.get_device_name() if device == "cuda" else "none"
    config = {
        "seed": SEED,
        "radius": RADIUS,
        "power": POWER,
        "gpu": gpu,
        "clock_ghz": options.clock,
        "threads": torch.get_num_threads(),
    }
    write = partial(
        write_study,
        options.output,
        config=config,
        source=Path(__file__),
        packages=("torch", "pykeops"),
    )
    if device == "cuda" and not options.quick:
        write("attention_cuda_checks", checks())
    write(f"attention_{device}", timings(shapes, device, seconds, options.clock))


def _use_one_thread() -> None:
    import numba

    torch.set_num_threads(1)
    numba.set_num_threads(1)


if __name__ == "__main__":
    main()
