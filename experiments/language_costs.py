"""What a training step costs with each kernel: processor time in turns, and memory.

Used by language_tables.py, on the preset "twin" (6 layers of 8 heads of 16 features, context 256).
"""

import multiprocessing
import resource
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from language_networks import kernel_options

from fourierkernels.train import setup
from fourierkernels.train.optimisers import create_optimiser
from fourierkernels.train.studies.registry import choose_preset, choose_study

REPEATS = 5


class Steps:
    """Training steps of one model on one batch, by hand: forward, backward, clip, update."""

    def __init__(self, kernel: str, preset: str, data: str) -> None:
        mixer, options = kernel_options(kernel, 1.0)
        run, study = (
            setup("language", preset=preset, mixer=mixer, data=data),
            choose_study("language"),
        )
        size = choose_preset(study, preset)
        text = study.read(size, data)
        torch.manual_seed(0)
        self._model = study.build(size, text, mixer, options).train()
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


def costs(kernels: Sequence[str], data: str, *, quick: bool) -> list[dict[str, Any]]:
    """Return time and memory of each kernel, and the ratio to softmax, from steps in turns."""
    preset = "mini" if quick else "twin"
    steps = {kernel: Steps(kernel, preset, data) for kernel in kernels}
    for own in steps.values():
        own.seconds()  # first calls compile
    times = {kernel: [] for kernel in kernels}
    for _ in range(REPEATS):
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


def _peak(kernel: str, preset: str, data: str) -> float:
    torch.set_num_threads(1)
    steps = Steps(kernel, preset, data)
    for _ in range(3):
        steps.seconds()
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)  # Linux: KiB
