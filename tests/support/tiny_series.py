"""Small problems of time series as .ts files, and short runs on them."""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from fourierkernels.studies.engine.run import train
from fourierkernels.studies.engine.run_setup import Setup, setup

LABELS = ("slow", "fast", "still")
HEADER = """# two channels
@problemName Waves
@timeStamps false
@missing false
@univariate false
@dimensions 2
@equalLength false
@classLabel true slow fast still
@data
"""


def waves(count: int, seed: int) -> str:
    """Return lines of series of 8 to 16 steps whose frequency and mean are those of their class."""
    rng = np.random.default_rng(seed)
    lines = []
    for place in range(count):
        label, steps = LABELS[place % 3], int(rng.integers(8, 17))
        angle = {"slow": 0.4, "fast": 1.6, "still": 0.0}[label] * np.arange(steps)
        shift = rng.uniform(0, 2 * np.pi)
        wave = np.stack([np.sin(angle + shift), np.cos(angle + shift)])
        noisy = 2 * wave + 0.5 * rng.normal(size=wave.shape) + [[100.0 + 3 * (place % 3)], [-3.0]]
        channels = (",".join(f"{value:.4f}" for value in channel) for channel in noisy)
        lines.append(f"{':'.join(channels)}:{label}\n")
    return "".join(lines)


def write_problem(folder: Path, name: str = "Waves", *, train: int = 60, test: int = 30) -> Path:
    """Write NAME_TRAIN.ts and NAME_TEST.ts."""
    folder.mkdir(parents=True, exist_ok=True)
    for part, count, seed in (("TRAIN", train, 0), ("TEST", test, 1)):
        (folder / f"{name}_{part}.ts").write_text(HEADER + waves(count, seed), encoding="utf-8")
    return folder


def series_run(folder: Path, mixer: str = "fourier", preset: str = "tiny", **changes: Any) -> Setup:
    """Return a run that is over in a second or two."""
    few = {"steps": 12, "evaluate_every": 6, "save_every": 3, "log_every": 1, "warmup": 2}
    return setup("series", preset=preset, mixer=mixer, data=folder, **few | changes)


def train_series(run: Setup, output: Path, **options: Any) -> Any:
    """Train in this process with one thread."""
    torch.set_num_threads(1)
    return train(run, output, **options)
