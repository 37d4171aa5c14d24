"""Mixers on three tasks of the Long-Range Arena in very small, tuned alike.

    python experiments/lra_small.py [--output FOLDER] [--quick]

[leethorp2021fnet]_ table 6 compares a Transformer, Linear and FNet on sequences of 1,000 to 16,000
tokens, the best of several runs. Here networks of one layer of 32 features are trained on short
stand-ins: ListOps of 9 to 63 tokens (preset "tiny"), 128 bytes of Python's manual or library
("text_tiny") and the 64 pixels of handwritten digits ("image_tiny"). Nothing here is long; it shows
what mixes and what does not, and the arena's harness at work.

Every mixer gets the same two trials: learning rates. The one with the least validation loss is
trained from six seeds, which decide first weights, order of the sequences and random features.
The classifier sees the class token alone: without mixing, "none", it sees nothing else, a control.

Differences from softmax are in points of test accuracy, paired by seed, with t intervals whose
level is corrected (Bonferroni) for the number of comparisons. They are over seeds alone: the test
sequences are always the same. A task counts as learnt where the test loss of each seed is a tenth
of a nat or more below that of an even guess.

Writes, each CSV with its provenance as JSON:
lra_networks    one row per network: settings, losses, accuracy;
lra_small       one row per task and mixer, the paper's accuracy on the long task beside.

An interrupted study resumes where it stopped.
"""

import argparse
import contextlib
import csv
import io
import json
import math
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from _language_networks import Finished, use_one_thread
from language_tables import LEVEL, interval

from fourierkernels.foundation.provenance import write_study
from fourierkernels.studies import Setup, setup, train
from fourierkernels.studies.lra.presets import ACCURACY, ARENA, PAPER, TASKS
from fourierkernels.studies.lra.study import LOSS

ROOT = Path(__file__).parents[1]
PACKAGES = ("torch", "transformers", "accelerate", "safetensors", "scikit-learn")
MIXERS = ("softmax", "fourier", "fnet", "linear", "performer", "none")
PRESETS = {"listops": "tiny", "text": "text_tiny", "image": "image_tiny"}
CLASSES = {"listops": 10, "text": 2, "image": 10}
BELOW = 0.1  # nats below chance in which a task counts as learnt


@dataclass(frozen=True)
class Settings:
    """Budget; the same for all mixers."""

    steps: tuple[tuple[str, int], ...] = (("listops", 300), ("text", 80), ("image", 300))
    rates: tuple[float, ...] = (2e-3, 8e-3)
    seeds: tuple[int, ...] = (1, 2, 3, 4, 5, 6)
    trial_seed: int = 2022


QUICK = Settings(steps=(("listops", 3), ("text", 2)), rates=(2e-3,), seeds=(1, 2))


@dataclass(frozen=True)
class Network:
    """One network: what it is for, what it is and how it is trained."""

    part: str
    task: str
    mixer: str
    rate: float
    steps: int
    seed: int

    @property
    def key(self) -> str:
        """A text that no other network has."""
        return json.dumps(asdict(self), sort_keys=True)

    def setup(self) -> Setup:
        """Return the run, validated four times."""
        every = max(self.steps // 4, 1)
        return setup(
            "lra",
            preset=PRESETS[self.task],
            mixer=self.mixer,
            learning_rate=self.rate,
            steps=self.steps,
            warmup=self.steps // 10,
            evaluate_every=every,
            save_every=every,
            log_every=every,
            seed=self.seed,
        )


def trials(settings: Settings) -> list[Network]:
    """Return the networks that choose a rate for each task and mixer."""
    return [
        Network("trials", task, mixer, rate, steps, settings.trial_seed)
        for (task, steps), mixer, rate in product(settings.steps, MIXERS, settings.rates)
    ]


def compared(settings: Settings, chosen: Mapping[tuple[str, str], float]) -> list[Network]:
    """Return the networks of the table, seed by seed."""
    steps = dict(settings.steps)
    return [
        Network("compared", *key, rate, steps[key[0]], seed)
        for seed in settings.seeds
        for key, rate in chosen.items()
    ]


def best(
    rows: Iterable[Mapping[str, Any]], networks: Iterable[Network]
) -> dict[tuple[str, str], float]:
    """Return the rate with the least validation loss for each task and mixer."""
    found: dict[tuple[str, str], tuple[float, float]] = {}
    for row, own in zip(rows, networks, strict=True):
        key, loss = (own.task, own.mixer), float(row["valid_loss"])
        if key not in found or loss < found[key][0]:
            found[key] = loss, own.rate
    return {key: rate for key, (_, rate) in found.items()}


def train_network(network: Network) -> dict[str, Any]:
    """Train a network by the engine and return what there is to know of it, one row."""
    begun = time.process_time()
    silence = io.StringIO()
    with tempfile.TemporaryDirectory() as scratch:
        output = Path(scratch) / "run"
        with contextlib.redirect_stdout(silence), contextlib.redirect_stderr(silence):
            measured = train(network.setup(), output)
        text = (output / "curve.csv").read_text(encoding="utf-8")
        facts = json.loads((output / "results.json").read_text(encoding="utf-8"))["config"]
    curve = csv.DictReader(io.StringIO(text))
    losses = [float(row["valid_loss"]) for row in curve if row["valid_loss"]]
    of_test = {row.metric: row for row in measured if row.split == "test"}
    return {
        **asdict(network),
        "valid_loss": min(losses),
        "test_sequences": of_test[ACCURACY].positions,
        "accuracy": of_test[ACCURACY].value,
        "loss": of_test[LOSS].value,
        "chance_loss": facts["chance_loss"],
        "largest_class": facts["largest_class_of_test"],
        "parameters": facts["parameters"],
        "seconds": round(time.process_time() - begun, 1),
    }


def train_all(networks: Iterable[Network], finished: Finished) -> None:
    """Train what is not yet trained and keep each network's row as soon as it is there."""
    for own in networks:
        if own not in finished:
            finished.add(own, train_network(own))
            print(own.part, own.task, own.mixer, own.rate, own.seed, flush=True)


def table(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return one row per task and mixer: mean accuracy and loss, and differences from softmax."""
    own = [row for row in rows if row["part"] == "compared"]
    keys = list(dict.fromkeys((row["task"], row["mixer"]) for row in own))
    comparisons = sum(mixer != "softmax" for _, mixer in keys)
    return [summary(own, task, mixer, comparisons) for task, mixer in keys]


def summary(
    rows: Iterable[Mapping[str, Any]], task: str, mixer: str, comparisons: int
) -> dict[str, Any]:
    """Return one row of the table, with an interval over the seeds."""
    by_mixer = {
        name: {r["seed"]: r for r in rows if (r["task"], r["mixer"]) == (task, name)}
        for name in (mixer, "softmax")
    }
    seeds = sorted(by_mixer[mixer])
    ours, softmax = ([by_mixer[name][seed] for seed in seeds] for name in (mixer, "softmax"))
    accuracy, loss = (np.array([float(row[name]) for row in ours]) for name in ("accuracy", "loss"))
    gaps = accuracy - [float(row["accuracy"]) for row in softmax]
    middle, reach = interval(gaps, comparisons)
    chance = math.log(CLASSES[task])
    paper = (PAPER | ARENA).get(mixer)
    return {
        "task": task,
        "mixer": mixer,
        "rate": ours[0]["rate"],
        "seeds": len(seeds),
        "test_sequences": ours[0]["test_sequences"],
        "accuracy": accuracy.mean(),
        "least": accuracy.min(),
        "largest": accuracy.max(),
        "largest_class": ours[0]["largest_class"],
        "loss": loss.mean(),
        "chance_loss": chance,
        "learnt": bool((loss < chance - BELOW).all()),
        "difference": middle,
        "low": middle - reach,
        "high": middle + reach,
        "comparisons": comparisons,
        "paper_long_task": "" if paper is None else paper[TASKS.index(task)],
    }


def study(settings: Settings, finished: Finished) -> list[dict[str, Any]]:
    """Train all networks and return their rows."""
    first = trials(settings)
    train_all(first, finished)
    second = compared(settings, best(finished.rows(first), first))
    train_all(second, finished)
    return list(finished.rows([*first, *second]))  # type: ignore[list-item]


def main() -> None:
    """Train all networks, or those that are not yet trained, and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--output", type=Path, default=ROOT / "experiments/results")
    parser.add_argument("--quick", action="store_true", help="a few updates on two tasks")
    options = parser.parse_args()
    use_one_thread()
    options.output.mkdir(parents=True, exist_ok=True)
    partial = options.output / "lra_small.partial.jsonl"
    settings = QUICK if options.quick else Settings()
    rows = study(settings, Finished(partial))
    config = {**asdict(settings), "mixers": MIXERS, "level": LEVEL, "threads": 1}
    written = {"lra_networks": rows, "lra_small": table(rows)}
    for name, lines in written.items():
        write_study(options.output, name, lines, config, source=Path(__file__), packages=PACKAGES)
    partial.unlink()
    for line in written["lra_small"]:
        print(line)


if __name__ == "__main__":
    main()
