"""The control table of the FourierFormer paper in small: three kernels on generated episodes.

    python experiments/control_small.py [--data FILE] [--output FOLDER] [--quick]

[nguyen2022fourierformer]_, table 4, compares softmax with Fourier attention in decision
transformers on nine sets of D4RL. Here very small networks (preset "tiny": 1 layer of 2 heads of 16
features, 10 steps of context, 800 updates) learn Hopper from the replay mix that data_control.py
generates: 192 episodes of at most 300 steps, the best of which has about a tenth of the expert's
return. So no number here can be compared with one of the paper.

Every kernel gets the same three trials: initial radii (widths, scales) of equal sharpness, see
_language_networks.py. The one with the least validation error is trained from five seeds, which
decide first weights, windows and dropout. Each network is measured by the error of its actions on
the test episodes, and plays 20 episodes for each of two returns asked for, from the same starts.

Differences from softmax are paired by seed, with t intervals over seeds whose level is corrected
(Bonferroni) for the number of comparisons: kernels times measures. The episodes that a network
learns from are always the same.

Writes, each CSV with its provenance as JSON:
control_networks   one row per network: settings, errors, returns, radii;
control_small      one row per kernel and measure.

An interrupted study resumes where it stopped.
"""

import argparse
import contextlib
import csv
import io
import json
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from _language_networks import Finished, kernel_options, learned_radii, use_one_thread
from data_control import QUICK as QUICK_SEARCH
from language_tables import LEVEL, interval

from fourierkernels.foundation.provenance import write_study
from fourierkernels.models import load_model
from fourierkernels.studies import Setup, setup, train
from fourierkernels.studies.control.control_data import read_control
from fourierkernels.studies.control.episodes import write_recorded
from fourierkernels.studies.control.generating import generate
from fourierkernels.studies.control.study import BASELINE, ERROR
from fourierkernels.studies.engine.study import Measured

ROOT = Path(__file__).parents[1]
PACKAGES = ("torch", "transformers", "accelerate", "safetensors", "gymnasium", "mujoco")
KERNELS = ("softmax", "gaussian", "l = 4")
MEASURES = ("test_error", "return_high", "return_low")


@dataclass(frozen=True)
class Settings:
    """Budget; the same for all kernels."""

    steps: int = 800
    sharpness: tuple[float, ...] = (0.2, 1.0, 5.0)
    seeds: tuple[int, ...] = (1, 2, 3, 4, 5)
    trial_seed: int = 2022
    preset: str = "tiny"


QUICK = Settings(steps=2, sharpness=(0.2, 1.0), seeds=(1, 2))


@dataclass(frozen=True)
class Network:
    """One network: what it is for, what it is and how it is trained."""

    part: str
    kernel: str
    sharpness: float
    preset: str
    steps: int
    seed: int

    @property
    def key(self) -> str:
        """A text that no other network has."""
        return json.dumps(asdict(self), sort_keys=True)

    def setup(self, data: str) -> Setup:
        """Return the run, validated ten times."""
        every = max(self.steps // 10, 1)
        mixer, options = kernel_options(self.kernel, self.sharpness)
        return setup(
            "control",
            preset=self.preset,
            mixer=mixer,
            mixer_options=options,
            data=data,
            steps=self.steps,
            warmup=self.steps // 10,
            evaluate_every=every,
            save_every=every,
            log_every=every,
            seed=self.seed,
        )


def trials(settings: Settings) -> list[Network]:
    """Return the networks that choose a start for each kernel."""
    return [
        Network("trials", kernel, s, settings.preset, settings.steps, settings.trial_seed)
        for kernel, s in product(KERNELS, settings.sharpness)
    ]


def compared(settings: Settings, chosen: Mapping[str, float]) -> list[Network]:
    """Return the networks of the table, seed by seed."""
    return [
        Network("compared", kernel, s, settings.preset, settings.steps, seed)
        for seed in settings.seeds
        for kernel, s in chosen.items()
    ]


def best(rows: Iterable[Mapping[str, Any]], networks: Iterable[Network]) -> dict[str, float]:
    """Return the sharpness with the least validation error for each kernel."""
    found: dict[str, tuple[float, float]] = {}
    for row, own in zip(rows, networks, strict=True):
        error = float(row["valid_error"])
        if own.kernel not in found or error < found[own.kernel][0]:
            found[own.kernel] = error, own.sharpness
    return {kernel: sharpness for kernel, (_, sharpness) in found.items()}


def train_network(network: Network, data: str) -> dict[str, Any]:
    """Train a network by the engine and return what there is to know of it, one row."""
    begun = time.process_time()
    silence = io.StringIO()
    with tempfile.TemporaryDirectory() as scratch:
        output = Path(scratch) / "run"
        with contextlib.redirect_stdout(silence), contextlib.redirect_stderr(silence):
            measured = train(network.setup(data), output)
        curve = list(csv.DictReader(io.StringIO((output / "curve.csv").read_text("utf-8"))))
        model = load_model(output / "model.safetensors")
    losses = {int(row["step"]): float(row["valid_loss"]) for row in curve if row["valid_loss"]}
    return {
        **asdict(network),
        "best_step": min(losses, key=lambda step: losses[step]),
        **numbers(measured),
        "largest_gradient": max(float(row["grad_norm"]) for row in curve if row["grad_norm"]),
        "radii": learned_radii(model),
        "seconds": round(time.process_time() - begun, 1),
    }


def numbers(measured: Iterable[Measured]) -> dict[str, Any]:
    """Return errors of actions, and returns and scores for the higher and the lower target."""
    found = {(row.split, row.metric): row for row in measured}
    played = [row for row in measured if " asked for" in row.metric]  # return and score, by target
    high, high_score, low, low_score = (row.value for row in played)
    return {
        "valid_error": found["valid", ERROR].value,
        "test_error": found["test", ERROR].value,
        "mean_action_error": found["test", BASELINE].value,
        "test_steps": found["test", ERROR].positions,
        "episodes": played[0].positions,
        "return_high": high,
        "score_high": high_score,
        "return_low": low,
        "score_low": low_score,
    }


def train_all(networks: Iterable[Network], finished: Finished, data: str) -> None:
    """Train what is not yet trained and keep each network's row as soon as it is there."""
    for own in networks:
        if own not in finished:
            finished.add(own, train_network(own, data))
            print(own.part, own.kernel, own.sharpness, own.seed, flush=True)


def table(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return one row per kernel and measure: the mean, and the difference from softmax."""
    own = [row for row in rows if row["part"] == "compared"]
    kernels = list(dict.fromkeys(row["kernel"] for row in own))
    comparisons = (len(kernels) - 1) * len(MEASURES)
    return [summary(own, *pair, comparisons) for pair in product(kernels, MEASURES)]


def summary(
    rows: Iterable[Mapping[str, Any]], kernel: str, measure: str, comparisons: int
) -> dict[str, Any]:
    """Return one row of the table, with an interval over the seeds."""
    by_kernel = {
        name: {row["seed"]: row for row in rows if row["kernel"] == name}
        for name in (kernel, "softmax")
    }
    seeds = sorted(by_kernel[kernel])
    ours, softmax = (
        np.array([float(by_kernel[name][seed][measure]) for seed in seeds])
        for name in (kernel, "softmax")
    )
    middle, reach = interval(ours - softmax, comparisons)
    return {
        "kernel": kernel,
        "measure": measure,
        "sharpness": by_kernel[kernel][seeds[0]]["sharpness"],
        "seeds": len(seeds),
        "mean": ours.mean(),
        "deviation": ours.std(ddof=1),
        "difference": middle,
        "low": middle - reach,
        "high": middle + reach,
        "comparisons": comparisons,
    }


def write_few(folder: Path) -> str:
    """Write a set of a few steps, and return its file."""
    file = folder / "hopper-random-generated.npz"
    write_recorded(file, generate("hopper", "random", search=QUICK_SEARCH))
    return str(file)


def described(data: str) -> dict[str, Any]:
    """Return what the networks learn from, for the provenance."""
    read = read_control(data)
    returns = read.episodes.returns
    return {
        "corpus": read.corpus,
        "digest": read.digest,
        "episodes": len(returns),
        "steps": read.counts,
        "mean_return": float(returns.mean()),
        "largest_return": float(returns.max()),
        "targets": read.targets,
    }


def study(settings: Settings, finished: Finished, data: str) -> list[dict[str, Any]]:
    """Train all networks and return their rows."""
    first = trials(settings)
    train_all(first, finished, data)
    second = compared(settings, best(finished.rows(first), first))
    train_all(second, finished, data)
    return list(finished.rows([*first, *second]))  # type: ignore[list-item]


def main() -> None:
    """Train all networks, or those that are not yet trained, and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", default="generated", help="a set of data_control.py")
    parser.add_argument("--output", type=Path, default=ROOT / "experiments/results")
    parser.add_argument("--quick", action="store_true", help="a few updates on a few steps")
    options = parser.parse_args()
    use_one_thread()
    options.output.mkdir(parents=True, exist_ok=True)
    partial = options.output / "control_small.partial.jsonl"
    with tempfile.TemporaryDirectory() as scratch:
        data = write_few(Path(scratch)) if options.quick else options.data
        settings = QUICK if options.quick else Settings()
        rows = study(settings, Finished(partial), data)
        facts = described(data)
    config = {**asdict(settings), "kernels": KERNELS, "level": LEVEL, "threads": 1, "data": facts}
    written = {"control_networks": rows, "control_small": table(rows)}
    for name, lines in written.items():
        write_study(options.output, name, lines, config, source=Path(__file__), packages=PACKAGES)
    partial.unlink()
    for line in written["control_small"]:
        print(line)


if __name__ == "__main__":
    main()
