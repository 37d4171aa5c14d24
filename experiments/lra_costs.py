"""Training speed and memory of each mixer on long sequences, the shape of the FNet paper's tables.

    python experiments/lra_costs.py [--output FOLDER] [--quick] [--seconds S] [--memory GB]
                                   [--again MIXER ...]

[leethorp2021fnet]_ tables 7 and 8: steps per second and peak memory in training, text of 512 to
16,386 bytes. Here one sequence and the classifier of the preset "text" with 1 layer of 64 features
(4 heads, feed-forward 128), on a CPU or a GPU if there is one. Each cell runs in its own process
with a limit on memory; what passes it is FAIL, as in those tables, and what a shorter sequence has
shown to take longer than --seconds is "skipped". Steps per second are of the best step within a
second, by the processor time of one thread on a CPU; memory is the process's peak above what it had
before the model was built. The paper's numbers, of another model, batch and machine, stand beside.
Quote ratios from one run, not seconds.

Writes lra_costs, CSV with its provenance as JSON.
"""

import argparse
import csv
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch.nn import functional

from fourierkernels.foundation.device import default_device
from fourierkernels.foundation.provenance import write_study
from fourierkernels.models import ArenaClassifier, arena_config

ROOT = Path(__file__).parents[1]
MIXERS = ("softmax", "fourier", "linear_fourier", "performer", "linear", "fnet", "none")
SIZES = (1024, 2048, 4096, 8192, 16_384)
QUICK_SIZES = (64, 128)
DIM, HIDDEN, HEADS, LAYERS = 64, 128, 4, 1
SECONDS = 1.0  # of steps of which the best counts
LEAST = 3  # steps: the first one finds its memory
SEED = 2022
NAN = float("nan")
# Tables 7 and 8, the rows of one GPU: steps per second and GB, at 512, 1024, …; None where FAIL.
PAPER_SIZES = (512, 1024, 2048, 4096, 8192)
PAPER_SPEED = {
    "softmax": (26, 11, 4, None, None),
    "linear": (49, 23, 11, 4, None),
    "fnet": (60, 30, 16, 8, 4),
    "performer": (32, 19, 10, 5, 2),
}
PAPER_MEMORY = {
    "softmax": (1.6, 4.0, 12.2, None, None),
    "linear": (0.9, 1.6, 2.8, 6.9, None),
    "fnet": (0.8, 1.3, 2.2, 3.9, 7.4),
    "performer": (1.1, 1.9, 3.1, 5.5, 10.4),
}


@dataclass(frozen=True)
class Cell:
    """One measurement; memory in MB, NaN where it failed."""

    mixer: str
    n: int
    device: str
    steps_per_second: float
    peak_mb: float
    status: str
    paper_steps_per_second: str = ""
    paper_gb: str = ""


def build(mixer: str, n: int) -> ArenaClassifier:
    """Return the classifier."""
    torch.manual_seed(SEED)
    sizes = {"dim": DIM, "hidden": HIDDEN, "heads": HEADS, "layers": LAYERS, "dropout": 0.0}
    return ArenaClassifier(arena_config("text", length=n - 1, mixer=mixer, **sizes))


def step(model: ArenaClassifier, n: int, device: str) -> None:
    """Make one pass there and back; with the class token there are n tokens."""
    tokens = torch.randint(1, 257, (1, n - 1), device=device)
    model.zero_grad()
    functional.cross_entropy(
        model(tokens), torch.zeros(1, dtype=torch.long, device=device)
    ).backward()
    if device == "cuda":
        torch.cuda.synchronize()


def measure(mixer: str, n: int, device: str, seconds: float = SECONDS) -> Cell:
    """Run one cell in this process."""
    torch.set_num_threads(1)
    step(build(mixer, 64).to(device), 64, device)  # what is compiled is compiled here
    before = _memory(device)
    model = build(mixer, n).to(device)
    clock = time.perf_counter if device == "cuda" else time.process_time
    start, runs = time.perf_counter(), []
    while len(runs) < LEAST or (time.perf_counter() - start < seconds and len(runs) < 20):
        begun = clock()
        step(model, n, device)
        runs.append(clock() - begun)
    return Cell(mixer, n, device, 1 / min(runs), _memory(device) - before, "ok")


def run_cell(mixer: str, n: int, device: str, seconds: float, memory: float) -> Cell:
    """Measure in a fresh process; what fails becomes a row that says so."""
    command = [sys.executable, __file__, "--cell", mixer, str(n), device, str(memory)]
    environment = {**os.environ, "NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=60 + 10 * seconds, env=environment
        )
        return Cell(**json.loads(done.stdout.splitlines()[-1]))
    except subprocess.TimeoutExpired:
        status = "timeout"
    except (json.JSONDecodeError, IndexError):
        last = (done.stderr.strip().splitlines() or ["killed"])[-1]
        status = "FAIL" if "memory" in last.lower() or last == "killed" else last[:80]
    return Cell(mixer, n, device, NAN, NAN, status)


def sweep(
    mixers: Iterable[str], sizes: tuple[int, ...], device: str, seconds: float, memory: float
) -> list[Cell]:
    """Measure mixers; one that is too slow or too large is not tried at longer sequences."""
    cells = []
    for mixer in mixers:
        over = ""
        for n in sizes:
            skipped = Cell(mixer, n, device, NAN, NAN, over)
            cell = skipped if over else run_cell(mixer, n, device, seconds, memory)
            cells.append(with_paper(cell))
            print(cell, file=sys.stderr, flush=True)
            if cell.status != "ok":
                over = cell.status
            elif 4 / cell.steps_per_second > seconds:  # twice the tokens, up to four times as long
                over = "skipped"
    return cells


def measured_before(folder: Path, again: Collection[str]) -> dict[str, list[dict[str, str]]]:
    """Return the rows of a table that is there, by mixer, but for those to be measured again."""
    if not again:
        return {}
    with (folder / "lra_costs.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {
        name: [row for row in rows if row["mixer"] == name] for name in MIXERS if name not in again
    }


def with_paper(cell: Cell) -> Cell:
    """Put the paper's numbers beside a measurement, where it has some."""
    if cell.mixer not in PAPER_SPEED or cell.n not in PAPER_SIZES:
        return cell
    place = PAPER_SIZES.index(cell.n)
    shown = (
        "FAIL" if table[cell.mixer][place] is None else str(table[cell.mixer][place])
        for table in (PAPER_SPEED, PAPER_MEMORY)
    )
    speed, memory = shown
    return Cell(**{**asdict(cell), "paper_steps_per_second": speed, "paper_gb": memory})


def limit_memory(gigabytes: float) -> None:
    """Let this process have that much of its own memory."""
    size = int(gigabytes * 2**30)
    resource.setrlimit(resource.RLIMIT_DATA, (size, size))


def _memory(device: str) -> float:
    if device == "cuda":
        return torch.cuda.max_memory_allocated() / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Run all cells and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "experiments/results")
    parser.add_argument("--quick", action="store_true", help="short sequences, one step of each")
    parser.add_argument("--seconds", type=float, default=10.0, help="most for one step")
    parser.add_argument("--memory", type=float, default=4.0, help="most for one cell, in GB")
    parser.add_argument("--again", nargs="+", default=(), help="mixers; the others keep their rows")
    parser.add_argument("--cell", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cell:
        mixer, n, device, memory = options.cell
        limit_memory(float(memory))
        print(json.dumps(asdict(measure(mixer, int(n), device))))
        return
    device = default_device().type
    limits = options.seconds, options.memory
    if options.quick:
        quick = (measure(name, n, device, 0.0) for name in MIXERS for n in QUICK_SIZES)
        cells = [asdict(with_paper(cell)) for cell in quick]
    else:
        kept = measured_before(options.output, options.again)
        new = sweep([name for name in MIXERS if name not in kept], SIZES, device, *limits)
        rows = [row for own in kept.values() for row in own] + [asdict(cell) for cell in new]
        cells = sorted(rows, key=lambda row: MIXERS.index(row["mixer"]))
    config = {
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu, 1 thread",
        "load": [round(value, 2) for value in os.getloadavg()],
        "model": {"dim": DIM, "hidden": HIDDEN, "heads": HEADS, "layers": LAYERS, "batch": 1},
        "seconds": options.seconds,
        "memory_gb": options.memory,
        "seed": SEED,
    }
    options.output.mkdir(parents=True, exist_ok=True)
    packages = ("torch",)
    write_study(
        options.output, "lra_costs", cells, config, source=Path(__file__), packages=packages
    )


if __name__ == "__main__":
    main()
