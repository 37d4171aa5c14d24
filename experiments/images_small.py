"""The image table of the FourierFormer paper in small: kernels of attention on two sets of images.

    python experiments/images_small.py [--output FOLDER] [--quick]
    python experiments/images_small.py --images fashion --data FOLDER [--output FOLDER]

[nguyen2022fourierformer]_, table 2, compares softmax with Fourier attention in DeiT-tiny on
ImageNet. Here the preset "digits" (2 layers of 2 heads of 16 features, 17 tokens) is trained on
scikit-learn's digits: 1,439 images for training, 179 for validation, 179 for the test. Softmax,
Gaussian and Fourier attention (l = 4) start at the same two sharpnesses (see _language_networks.py;
5.3 is the paper's R = 1), with one rate, 100 updates of 32 images (2.2 epochs, by no means the end
of learning) and five seeds, which decide first weights, order of the images and stochastic depth.
With --images fashion the preset "fashion" (4 layers of 4 heads of 16 features, 17 tokens) is
trained on Fashion-MNIST, which data_images.py fetches into --data: 200 updates of 64 of its 54,000
training images, from the sharpness that was the better one for all kernels on digits, three seeds.
Differences from softmax of the same sharpness are paired by seed, with t intervals whose level is
corrected (Bonferroni) for the number of comparisons. They are over seeds alone.

Writes, each CSV with its provenance as JSON:
images_networks, images_fashion_networks   one row per network;
images_small, images_fashion               one row per kernel, sharpness and split: mean accuracy
                                           and loss, differences.

An interrupted study resumes where it stopped.
"""

import argparse
import contextlib
import io
import json
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from _language_networks import Finished, kernel_options, learned_radii, use_one_thread
from language_tables import LEVEL, interval

from fourierkernels.foundation.provenance import write_study
from fourierkernels.models import load_model
from fourierkernels.studies import setup, train

ROOT = Path(__file__).parents[1]
PACKAGES = ("torch", "transformers", "accelerate", "safetensors", "pillow")
SOFTMAX = "softmax"
SPLITS = ("valid", "test")


@dataclass(frozen=True)
class Settings:
    """Budget; the same for all kernels."""

    steps: int = 100
    kernels: tuple[str, ...] = (SOFTMAX, "gaussian", "l = 4")
    sharpness: tuple[float, ...] = (1.0, 16 / 3)  # R = 1 at l = 4 and 16 features
    seeds: tuple[int, ...] = (1, 2, 3, 4, 5)
    preset: str = "digits"


NAMES = {  # of the tables, by images
    "digits": ("images_networks", "images_small"),
    "fashion": ("images_fashion_networks", "images_fashion"),
}
SETTINGS = {
    "digits": Settings(),
    "fashion": Settings(steps=200, sharpness=(1.0,), seeds=(1, 2, 3), preset="fashion"),
}
QUICK = Settings(steps=2, kernels=(SOFTMAX, "l = 4"), sharpness=(1.0,), seeds=(1, 2))


@dataclass(frozen=True)
class Network:
    """One network: its kernel, where it starts, how long it is trained."""

    kernel: str
    sharpness: float
    seed: int
    steps: int
    preset: str

    @property
    def key(self) -> str:
        """A text that no other network has."""
        return json.dumps(asdict(self), sort_keys=True)


def networks(settings: Settings) -> Iterator[Network]:
    """Yield all networks, seed by seed."""
    for seed, s, kernel in product(settings.seeds, settings.sharpness, settings.kernels):
        yield Network(kernel, s, seed, settings.steps, settings.preset)


def train_network(network: Network, data: Path | None = None) -> dict[str, Any]:
    """Train a network by the engine and return its row of the table."""
    begun = time.process_time()
    mixer, options = kernel_options(network.kernel, network.sharpness)
    options.pop("allow_signed", None)
    run = setup(
        "images",
        preset=network.preset,
        data=data,
        mixer=mixer,
        mixer_options=options,
        steps=network.steps,
        warmup=network.steps // 10,
        evaluate_every=network.steps,
        save_every=network.steps,
        log_every=network.steps,
        seed=network.seed,
    )
    with tempfile.TemporaryDirectory() as scratch, contextlib.redirect_stdout(io.StringIO()):
        measured = train(run, Path(scratch) / "run")
        model = load_model(Path(scratch) / "run/model.safetensors")
    return {
        **asdict(network),
        "options": json.dumps(options),
        "radii": learned_radii(model),
        "seconds": round(time.process_time() - begun, 1),
        **{f"{row.split} {row.metric}": row.value for row in measured},
    }


def summaries(rows: list[dict[str, Any]], settings: Settings) -> list[dict[str, Any]]:
    """Return one row per kernel, sharpness and split."""
    comparisons = (len(settings.kernels) - 1) * len(settings.sharpness)
    return [
        _summary(rows, kernel, s, split, comparisons)
        for kernel, s, split in product(settings.kernels, settings.sharpness, SPLITS)
    ]


def _summary(
    rows: list[dict[str, Any]], kernel: str, sharpness: float, split: str, comparisons: int
) -> dict[str, Any]:
    own, softmax = (
        {r["seed"]: r for r in rows if (r["kernel"], r["sharpness"]) == (name, sharpness)}
        for name in (kernel, SOFTMAX)
    )
    found: dict[str, Any] = {
        "kernel": kernel,
        "sharpness": sharpness,
        "split": split,
        "seeds": len(own),
        "comparisons": comparisons,
    }
    for metric in ("top-1", "cross-entropy"):
        column = f"{split} {metric}"
        gaps = np.array([own[seed][column] - softmax[seed][column] for seed in sorted(own)])
        middle, reach = interval(gaps, comparisons)
        found[metric] = float(np.mean([row[column] for row in own.values()]))
        found[f"{metric} minus softmax"] = middle
        found[f"{metric} low"], found[f"{metric} high"] = middle - reach, middle + reach
    return found


def main() -> None:
    """Train all networks, or those that are not yet trained, and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "experiments/results")
    parser.add_argument("--images", choices=list(SETTINGS), default="digits")
    parser.add_argument("--data", type=Path, help="folder that data_images.py wrote, for fashion")
    parser.add_argument("--quick", action="store_true", help="two steps of four networks, digits")
    options = parser.parse_args()
    use_one_thread()
    settings = QUICK if options.quick else SETTINGS[options.images]
    names = NAMES[settings.preset]
    options.output.mkdir(parents=True, exist_ok=True)
    partial = options.output / f"{names[1]}.partial.jsonl"
    finished, wanted = Finished(partial), list(networks(settings))
    for network in wanted:
        if network not in finished:
            finished.add(network, train_network(network, options.data))
    rows = list(finished.rows(wanted))
    config = {**asdict(settings), "level": LEVEL, "threads": 1}
    for name, lines in zip(names, (rows, summaries(rows, settings)), strict=True):
        write_study(options.output, name, lines, config, source=Path(__file__), packages=PACKAGES)
    partial.unlink()
    for line in summaries(rows, settings):
        print(line)


if __name__ == "__main__":
    main()
