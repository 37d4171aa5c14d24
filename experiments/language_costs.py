"""The cost of a training step of a language model with each kernel of attention.

    python experiments/language_costs.py [--data FOLDER] [--output FOLDER] [--quick]

Forward, backward, clip and update of the preset "twin" (6 layers of 8 heads of 16 features,
context 256, 8 segments) on one thread: processor time of the kernels in turns, its ratio to that of
softmax, and the peak memory of a fresh process each (on Linux). --data is a folder that
data_manuals.py wrote.

Writes language_costs as CSV, one row per kernel, with its provenance as JSON.
"""

import argparse
import multiprocessing
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fourierkernels.foundation.provenance import write_study
from fourierkernels.foundation.workers import one_thread
from fourierkernels.studies import setup
from fourierkernels.studies.engine.contenders import KERNELS
from fourierkernels.studies.engine.mixers import mixer_of_kernel
from fourierkernels.studies.engine.optimisers import create_optimiser
from fourierkernels.studies.registry import choose_preset, choose_study

ROOT = Path(__file__).parents[1]
REPEATS = 9


class Steps:
    """Training steps of one model on one batch, by hand: forward, backward, clip, update."""

    def __init__(self, kernel: str, preset: str, data: str) -> None:
        mixer = mixer_of_kernel(kernel, 1.0)
        run, study = (
            setup("language", preset=preset, mixer=mixer.name, data=data),
            choose_study("language"),
        )
        size = choose_preset(study, preset)
        text = study.read(size, data)
        torch.manual_seed(0)
        self._model = study.build(size, text, mixer).train()
        self._loss = study.objective(size, text, run.recipe).loss
        segments = study.batches(size, text, run.recipe)
        self._batch = segments.__getitems__(list(range(run.recipe.batch)))
        self._optimiser = create_optimiser(self._model, run.recipe)

    def seconds(self) -> float:
        """Return the processor time of a step."""
        begun = time.process_time()
        self._optimiser.zero_grad()
        self._loss(self._model, self._batch).backward()
        torch.nn.utils.clip_grad_norm_(self._model.parameters(), 0.25)
        self._optimiser.step()
        return time.process_time() - begun


def costs(preset: str, data: str, repeats: int) -> list[dict[str, Any]]:
    """Return time and memory of each kernel, and the ratio to softmax, from steps in turns."""
    steps = {kernel: Steps(kernel, preset, data) for kernel in KERNELS}
    for own in steps.values():
        own.seconds()  # first calls compile
    times: dict[str, list[float]] = {kernel: [] for kernel in KERNELS}
    for _ in range(repeats):
        for kernel, own in steps.items():
            times[kernel].append(own.seconds())
    softmax = np.array(times["softmax"])
    return [
        {
            "kernel": kernel,
            "preset": preset,
            "seconds": float(np.median(found)),
            "ratio": float(np.median(np.array(found) / softmax)),
            "least_ratio": float(np.min(np.array(found) / softmax)),
            "greatest_ratio": float(np.max(np.array(found) / softmax)),
            "peak_mib": peak(kernel, preset, data),
        }
        for kernel, found in times.items()
    ]


def peak(kernel: str, preset: str, data: str) -> float:
    """Return the peak memory of a fresh process that makes three steps, in MiB."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        return pool.apply(_peak, (kernel, preset, data))


@one_thread()
def _peak(kernel: str, preset: str, data: str) -> float:
    steps = Steps(kernel, preset, data)
    for _ in range(3):
        steps.seconds()
    status = Path("/proc/self/status").read_text(encoding="utf-8")  # ru_maxrss has the parent's
    return round(int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) / 1024)


@one_thread()
def main() -> None:
    """Time the kernels."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="manuals", help="folder that data_manuals.py wrote")
    parser.add_argument("--output", type=Path, default=ROOT / "experiments/results")
    parser.add_argument("--quick", action="store_true", help="small models, Python's own text")
    options = parser.parse_args()
    preset, data, repeats = (
        ("mini", "python", 2) if options.quick else ("twin", options.data, REPEATS)
    )
    rows = costs(preset, data, repeats)
    config = {"preset": preset, "repeats": repeats, "threads": 1}
    write_study(
        options.output, "language_costs", rows, config, source=Path(__file__), packages=("torch",)
    )
    for row in rows:
        print(row)


if __name__ == "__main__":
    main()
