"""What a training step and a pass of FNet's encoders cost, beside BERT's: time, memory, operations.

    python experiments/fnet_costs.py [--sizes A B ...] [--batch B] [--repeats N] [--output FOLDER]
                                     [--quick]

[leethorp2021fnet]_ has milliseconds per training step in its table 3, on V100 cards and TPUs, and
sizes in table 5. Here are whole pre-training models as configured (32,000 words, both heads, 512
tokens, float32): BERT, Linear, FNet by FFTs and by matrices, Random, FF-only and the hybrid.
A training step is forward, loss (a vector of logits for each token, 15 % of them masked words),
backward, clip and Adam; inference is a pass of the encoder alone, without the head over the words.
Models take turns, each in a fresh process that makes two passes and two training steps and times
the second ones, on a card if there is one (synchronised) and otherwise in processor time of one
thread; what counts are ratios to BERT within a turn. Peak memory is that of the process, torch
itself included on a CPU. A batch that does not fit (64 sequences on a card, one or two on a CPU) is
halved, for all models of a size.

GFLOPs are twice the multiply-adds of a forward pass of one sequence, counted as in the tables of
mixing.costs; a complex multiply-add is 8 of them. The paper gives no such numbers for whole models.
Parameters count the output matrix beside the embedding, as its table 5 does.

Writes fnet_costs as CSV, one row per size and model, with its provenance as JSON.
"""

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from fourierkernels.foundation.device import default_device
from fourierkernels.foundation.provenance import write_study
from fourierkernels.mixing import cost_table
from fourierkernels.models import PretrainingEncoder, count_parameters, encoder_config
from fourierkernels.models.encoder import EncoderConfig

ROOT = Path(__file__).parents[1]
SIZES = ("base",)
QUICK_SIZE = "128x2"
CARD_BATCH, CPU_BATCHES = 64, {"128x2": 4, "256x4": 2, "micro": 2}  # of others one
REPEATS, SEED = 2, 2022
MASKED = 0.15
OF_COMPLEX = 8  # real operations of a complex multiply-add
MEMORY_GB = 8.0


@dataclass(frozen=True)
class Model:
    """A model of the paper: the beginning of its presets, options, and what is printed of it.

    Attributes
    ----------
    gpu, tpu : float or None
        Milliseconds per step of the base size in table 3, batches of 64 and 256.
    parameters : mapping
        Millions in table 5, by size.
    """

    kind: str
    options: dict[str, Any] = field(default_factory=dict)
    gpu: float | None = None
    tpu: float | None = None
    parameters: dict[str, int] = field(default_factory=dict)


_SIZE_NAMES = ("large", "base", "512x12", "512x8", "mini", "256x4", "micro", "128x2")


def _millions(*found: int) -> dict[str, int]:
    return dict(zip(_SIZE_NAMES, found, strict=True))


MODELS = {
    "BERT": Model("bert", {}, 161, 41, _millions(372, 136, 72, 59, 46, 20, 18, 9)),
    "Linear": Model("linear", {}, 28, 23, _millions(302, 118, 72, 59, 46, 20, 18, 9)),
    "FNet": Model("fnet", {}, 24, 21, _millions(271, 108, 72, 59, 46, 20, 18, 9)),
    "FNet (matrices)": Model("fnet", {"method": "matrix"}),
    "Random": Model("random", {}, 26, 21),
    "FF-only": Model("ff_only", {}, 21, 20),
    "Hybrid": Model("fnet_hybrid", {}, 28, 22),
}


def configured(name: str, size: str) -> EncoderConfig:
    """Return the configuration of a model of the paper."""
    model = MODELS[name]
    return replace(encoder_config(f"{model.kind}_{size}"), mixer_options=model.options)


def operations(config: EncoderConfig) -> float:
    """Return the GFLOPs of a forward pass of one sequence, both heads included."""
    n, dim = config.length, config.dim
    rows = {row.name: row for row in cost_table(dim=dim, length=n)}

    def mixing(mixer: str) -> float:
        row = rows[mixer]
        matrices = config.mixer_options.get("method") == "matrix" and mixer == config.mixer
        count = rows["random"].operations if matrices else row.operations
        return count * (OF_COMPLEX if row.complex_operations else 2)

    mixed = config.layers - config.attention_layers
    layers = mixed * mixing(config.mixer) + config.attention_layers * mixing("softmax")
    dense = 2 * config.layers * 2 * n * dim * config.hidden
    ends = 2 * (2 * n * dim**2 + n * dim * config.vocabulary + dim**2 + 2 * dim)
    return float(layers + dense + ends) / 1e9


class Steps:
    """Training steps and passes of one model on one batch of random words."""

    def __init__(self, name: str, size: str, batch: int, device: str) -> None:
        config = configured(name, size)
        torch.manual_seed(SEED)
        self._device = device
        self._model = PretrainingEncoder(config).to(device)
        shape = (batch, config.length)
        self._tokens = torch.randint(4, config.vocabulary, shape).to(device)
        self._masked = (torch.rand(shape) < MASKED).to(device)
        self._next = torch.randint(2, (batch,)).to(device)
        self._optimiser = torch.optim.Adam(self._model.parameters(), lr=1e-4)

    def training(self) -> float:
        """Return the seconds of a training step."""
        self._model.train()
        begun = self._now()
        self._optimiser.zero_grad()
        words, next_sentence = self._model(self._tokens)
        loss = self._loss(words) + cross_entropy(next_sentence, self._next)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self._model.parameters(), 1.0)
        self._optimiser.step()
        return self._now() - begun

    def inference(self) -> float:
        """Return the seconds of a pass of the encoder."""
        self._model.eval()
        begun = self._now()
        with torch.inference_mode():
            self._model.encoder(self._tokens)
        return self._now() - begun

    def _loss(self, words: Tensor) -> Tensor:
        return cross_entropy(words[self._masked], self._tokens[self._masked])

    def _now(self) -> float:
        if self._device == "cuda":
            torch.cuda.synchronize()
            return time.perf_counter()
        return time.process_time()


@dataclass(frozen=True)
class Cell:
    """One measurement: seconds of a training step and of a pass, peak memory in MiB."""

    training: float
    inference: float
    peak: float


def measure(name: str, size: str, batch: int, device: str, memory: float) -> Cell:
    """Measure a model in this process, which may have so many GB, or any number."""
    torch.set_num_threads(1)
    if device == "cpu" and memory < np.inf:
        limit = int(memory * 2**30)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    steps = Steps(name, size, batch, device)
    inference = [steps.inference() for _ in range(2)]  # the first call reserves memory
    training = [steps.training() for _ in range(2)]
    return Cell(training[-1], inference[-1], _memory(device))


def _memory(device: str) -> float:
    """Return the peak memory of this process, on a card that of its tensors, in MiB."""
    if device == "cuda":
        return round(torch.cuda.max_memory_allocated() / 2**20)
    status = Path("/proc/self/status").read_text(encoding="utf-8")  # ru_maxrss has the parent's
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return round(int(found[1]) / 1024) if found else float("nan")


def run_cell(name: str, size: str, batch: int, device: str, memory: float) -> Cell | None:
    """Measure in a fresh process; None where it needs more memory than there is."""
    command = [sys.executable, __file__, "--cell", name, size, str(batch), device, str(memory)]
    environment = {**os.environ, "NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode == 0:
        return Cell(**json.loads(done.stdout.splitlines()[-1]))
    last = (done.stderr.strip().splitlines() or ["killed"])[-1]
    if "memory" in last.lower() or last == "killed":
        return None
    raise RuntimeError(f"{name} of size {size} failed: {last}")


def quick_turn(size: str, device: str, memory: float) -> dict[str, Cell]:
    """Measure all models on one sequence, but for the first in this process."""
    first, *others = MODELS
    apart = run_cell(first, size, 1, device, memory)
    if apart is None:
        raise MemoryError(f"memory must do for one sequence of size {size}, got {memory} GB")
    return {first: apart} | {name: measure(name, size, 1, device, np.inf) for name in others}


def turn(size: str, batch: int, device: str, memory: float) -> dict[str, Cell] | None:
    """Measure all models, one after the other; None if any of them does not fit."""
    found = {}
    for name in MODELS:
        cell = run_cell(name, size, batch, device, memory)
        if cell is None:
            return None
        found[name] = cell
    return found


def costs(size: str, batch: int, device: str, repeats: int, memory: float) -> list[dict[str, Any]]:
    """Return one row per model of a size, for the largest batch that all models bear."""
    while (first := turn(size, batch, device, memory)) is None:
        batch //= 2
        if not batch:
            raise MemoryError(f"memory must do for one sequence of size {size}, got {memory} GB")
    turns = [first, *(turn(size, batch, device, memory) for _ in range(repeats - 1))]
    cells = [found for found in turns if found is not None]
    return [_row(name, size, batch, cells) for name in MODELS]


def _row(name: str, size: str, batch: int, turns: list[dict[str, Cell]]) -> dict[str, Any]:
    config, model = configured(name, size), MODELS[name]
    both = [[found[key] for found in turns] for key in (name, "BERT")]
    memory, of_bert = (float(np.median([c.peak for c in cells])) for cells in both)
    with torch.device("meta"):
        counted = count_parameters(PretrainingEncoder(replace(config, tied_output=False)))
    base, bert = size == "base", MODELS["BERT"]
    return {
        "size": size,
        "model": name,
        "batch": batch,
        "length": config.length,
        "parameters": counted,
        "paper_millions": model.parameters.get(size, ""),
        "gflops": operations(config),
        "turns": len(turns),
        **_ratios("training", *(np.array([c.training for c in cells]) for cells in both)),
        **_ratios("inference", *(np.array([c.inference for c in cells]) for cells in both)),
        "peak_mib": memory,
        "peak_of_bert": memory / of_bert,
        "paper_gpu": _of(bert.gpu, model.gpu) if base else "",
        "paper_tpu": _of(bert.tpu, model.tpu) if base else "",
    }


def _ratios(what: str, own: np.ndarray, bert: np.ndarray) -> dict[str, float]:
    """Return the median time, and how many times as long a model of BERT takes: turn by turn."""
    times = bert / own
    return {
        f"{what}_ms": 1e3 * float(np.median(own)),
        f"{what}_speed": float(np.median(times)),
        f"{what}_least": float(times.min()),
        f"{what}_greatest": float(times.max()),
    }


def _of(bert: float | None, own: float | None) -> float | str:
    return "" if bert is None or own is None else bert / own


def main() -> None:
    """Measure all sizes and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "experiments/results")
    parser.add_argument("--sizes", nargs="+", default=list(SIZES), help="of table 5; base")
    parser.add_argument("--batch", type=int, help="sequences, if they fit")
    parser.add_argument("--repeats", type=int, default=REPEATS, help="turns")
    parser.add_argument("--memory", type=float, default=MEMORY_GB, help="most of a process, in GB")
    parser.add_argument("--quick", action="store_true", help="the smallest size, one turn")
    parser.add_argument("--cell", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cell:
        name, size, batch, device, memory = options.cell
        print(json.dumps(asdict(measure(name, size, int(batch), device, float(memory)))))
        return
    device = default_device().type
    rows: list[dict[str, Any]] = []
    if options.quick:
        cells = [quick_turn(QUICK_SIZE, device, options.memory)]
        rows = [_row(name, QUICK_SIZE, 1, cells) for name in MODELS]
    for size in [] if options.quick else options.sizes:
        usual = CARD_BATCH if device == "cuda" else CPU_BATCHES.get(size, 1)
        rows += costs(size, options.batch or usual, device, options.repeats, options.memory)
        for row in rows[-len(MODELS) :]:
            print(row, flush=True)
    config = {
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu, 1 thread",
        "load": [round(value, 2) for value in os.getloadavg()],
        "memory_gb": options.memory,
        "seed": SEED,
    }
    source = Path(__file__)
    write_study(options.output, "fnet_costs", rows, config, source=source, packages=("torch",))


if __name__ == "__main__":
    main()
