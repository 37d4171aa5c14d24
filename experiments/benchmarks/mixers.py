"""Time and memory of every token mixer against the length of the sequence.

    python experiments/benchmarks/mixers.py [--output FOLDER] [--quick] [--seconds S] [--memory GB]

The shape of Tables 7 to 9 of Lee-Thorp et al. (2021), on a CPU or a GPU if there is one: two blocks
of 256 features (feed-forward 1024, 4 heads), one sequence, float32; a pass without gradients, and a
training step with them. Each cell runs in its own process with a limit on memory; what passes the
limit is FAIL, as in those tables, and what a shorter sequence has shown to take longer than
--seconds is "skipped". Time: best of the runs that fit into half a second; on a CPU the processor
time of one thread, which other work on the machine disturbs least. Memory: the process's peak above
what it had before the blocks were built, so with their parameters and gradients. Writes CSV and the
provenance as JSON; quote ratios from one run, not seconds.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from fourierkernels.foundation.device import default_device
from fourierkernels.foundation.provenance import write_study
from fourierkernels.foundation.timing import rounds
from fourierkernels.mixing import MIXERS
from fourierkernels.models.blocks import BlockConfig, build_blocks, run_blocks

ROOT = Path(__file__).parents[2]
SIZES = (128, 256, 512, 1024, 2048, 4096, 8192)
QUICK = 64  # the one length of the quick mode
APART = ("softmax",)  # of the quick mode: in a process of its own, as every cell of the full one
SECONDS = 0.5  # of runs of which the best counts
DIM, HIDDEN, HEADS, LAYERS = 256, 1024, 4, 2
SEED = 2022


@dataclass(frozen=True)
class Variant:
    """A mixer in one of its forms."""

    mixer: str
    options: dict[str, Any] = field(default_factory=dict)
    causal: bool = False


VARIANTS = {
    **{name: Variant(name) for name, row in MIXERS.items() if row.encoder},
    "fnet (matrix)": Variant("fnet", {"method": "matrix"}),
    "causal_dft": Variant("causal_dft", causal=True),
    "causal_dft (one convolution)": Variant("causal_dft", {"method": "chirp"}, causal=True),
    "causal_dft (matrix)": Variant("causal_dft", {"method": "matrix"}, causal=True),
}


@dataclass(frozen=True)
class Cell:
    """One measurement; times in milliseconds, memory in MB, NaN where it failed."""

    variant: str
    n: int
    device: str
    forward_ms: float
    training_ms: float
    peak_mb: float
    status: str


def build(variant: Variant, n: int) -> torch.nn.ModuleList:
    """Return the blocks."""
    torch.manual_seed(SEED)
    config = BlockConfig(
        DIM,
        HIDDEN,
        heads=HEADS,
        length=n,
        mixer=variant.mixer,
        mixer_options=variant.options,
        causal=variant.causal,
        dropout=0.0,
    )
    return build_blocks(config, LAYERS)


def best_time(call: Any, device: str, seconds: float) -> float:
    """Return the shortest of the runs within some seconds, at least one, in milliseconds."""

    def finished() -> None:
        call()
        torch.cuda.synchronize()

    timed, clock = (finished, time.perf_counter) if device == "cuda" else (call, time.process_time)
    times = rounds({"": timed}, least=1, most=50, seconds=seconds, warm=0, clock=clock)
    return 1e3 * min(times[""])


def measure(name: str, n: int, device: str, seconds: float = SECONDS) -> Cell:
    """Run one cell in this process."""
    torch.set_num_threads(1)
    warm = build(VARIANTS[name], 64).to(device)  # what is compiled is compiled here
    run_blocks(warm, torch.randn(1, 64, DIM, device=device)).sum().backward()
    before = _memory(device)
    blocks = build(VARIANTS[name], n).to(device)
    x = torch.randn(1, n, DIM, device=device)

    def infer() -> None:
        with torch.no_grad():
            run_blocks(blocks, x)

    def train() -> None:
        blocks.zero_grad()
        run_blocks(blocks, x).square().mean().backward()

    training, forward = (best_time(run, device, seconds) for run in (train, infer))
    return Cell(name, n, device, forward, training, _memory(device) - before, "ok")


def _memory(device: str) -> float:
    if device == "cuda":
        return torch.cuda.max_memory_allocated() / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def run_cell(name: str, n: int, device: str, seconds: float, memory: float) -> Cell:
    """Measure in a fresh process; what fails becomes a row that says so."""
    command = [sys.executable, __file__, "--cell", name, str(n), device, str(memory)]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=60 + 10 * seconds,
            env={**os.environ, "NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        )
        return Cell(**json.loads(done.stdout.splitlines()[-1]))
    except subprocess.TimeoutExpired:
        status = "timeout"
    except (json.JSONDecodeError, IndexError):
        last = (done.stderr.strip().splitlines() or ["killed"])[-1]
        status = "FAIL" if "memory" in last.lower() or last == "killed" else last[:80]
    return Cell(name, n, device, float("nan"), float("nan"), float("nan"), status)


def limit_memory(gigabytes: float) -> None:
    """Let this process have that much of its own memory."""
    size = int(gigabytes * 2**30)
    resource.setrlimit(resource.RLIMIT_DATA, (size, size))


def sweep(sizes: tuple[int, ...], device: str, seconds: float, memory: float) -> list[Cell]:
    """Measure all variants; one that is too slow or too large is not tried at longer sequences."""
    cells = []
    for name in VARIANTS:
        over = ""
        for n in sizes:
            nan = float("nan")
            cell = (
                Cell(name, n, device, nan, nan, nan, over)
                if over
                else run_cell(name, n, device, seconds, memory)
            )
            cells.append(cell)
            print(cell, file=sys.stderr, flush=True)
            # Twice the tokens take up to four times as long, and a cell runs each twice.
            if cell.status != "ok":
                over = cell.status
            elif 8e-3 * (cell.training_ms + cell.forward_ms) > seconds:
                over = "skipped"
    return cells


def quick_cells(device: str, seconds: float, memory: float) -> list[Cell]:
    """Run every variant once on a short sequence, most of them in this process."""
    return [
        run_cell(name, QUICK, device, seconds, memory)
        if name in APART
        else measure(name, QUICK, device, seconds=0.0)
        for name in VARIANTS
    ]


def settings(device: str, seconds: float, memory: float) -> dict[str, object]:
    """Return what the numbers depend on beside machine and versions."""
    return {
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu, 1 thread",
        "load": [round(value, 2) for value in os.getloadavg()],
        "blocks": {"dim": DIM, "hidden": HIDDEN, "heads": HEADS, "layers": LAYERS, "batch": 1},
        "seconds": seconds,
        "memory_gb": memory,
        "seed": SEED,
    }


def main() -> None:
    """Run all cells and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "experiments/results")
    parser.add_argument("--quick", action="store_true", help="one short sequence, one run of each")
    parser.add_argument("--seconds", type=float, default=30.0, help="most for one cell")
    parser.add_argument("--memory", type=float, default=6.0, help="most for one cell, in GB")
    parser.add_argument("--cell", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cell:
        name, n, device, memory = options.cell
        limit_memory(float(memory))
        print(json.dumps(asdict(measure(name, int(n), device))))
        return
    device = default_device().type
    limits = options.seconds, options.memory
    cells = quick_cells(device, *limits) if options.quick else sweep(SIZES, device, *limits)
    config = settings(device, *limits)
    write_study(options.output, "mixers", cells, config, source=Path(__file__), packages=("torch",))


if __name__ == "__main__":
    main()
