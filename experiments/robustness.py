"""How softmax, Gaussian and Fourier networks answer to corrupted inputs: is any more robust.

    python experiments/robustness.py [--output FOLDER] [--quick]

[nguyen2022fourierformer]_ (remark 1) prefers kernels of the distance to dot products because they
are Lipschitz, and a Lipschitz network is robust. Both ends of that argument, on trained networks:

digits     Image classifiers (preset "digits") with softmax, Gaussian and Fourier attention (l = 4).
           Each kernel gets the same two trials, starts of equal sharpness (contenders.py of
           fourierkernels/studies/engine), the better by validation is trained from five seeds.
           Pixels of the test images get noise, are set to the mean, or move along the gradient of
           the loss of the network itself.
language   The committed twins of language_heads.py, one network each, on their 16 windows of test
           text. Embeddings get noise; words are replaced, blanked by <unk>, or left out. The loss
           is that of predicting the words of the clean text.

Measured are loss and accuracy, their change, the weight of the heads and the probability of the
predictions that move (total variation), and local Lipschitz estimates: largest singular values of
Jacobians at the inputs themselves, from pixels (embeddings) to logits (log-probabilities) and of
each layer of attention alone. Those are lower bounds of Lipschitz constants. For language the first
is multiplied by the norm of the embeddings. All networks get the same draws, and those at larger
rates contain those at smaller ones.

Differences from softmax are paired, with percentile intervals of a bootstrap over images and seeds,
drawn independently, or over windows; their level is corrected (Bonferroni) for the differences of a
part in the same measure.

Writes, each CSV with its provenance as JSON:
robustness            one row per part, kernel, measure, corruption and rate;
robustness_networks   one row per network: how it was trained, and how good it is.
"""

import argparse
import json
import time
from collections import Counter
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _robustness import (
    ITERATIONS,
    SEED,
    STEEPEST,
    Measures,
    language_lipschitz,
    language_measures,
    vision_lipschitz,
    vision_measures,
)

from fourierkernels.foundation.provenance import write_study
from fourierkernels.foundation.workers import one_thread
from fourierkernels.models import LanguageModel, load_model
from fourierkernels.studies import setup
from fourierkernels.studies.engine.comparison_table import same_columns
from fourierkernels.studies.engine.contenders import (
    Contender,
    Tuning,
    kernel_contenders,
    learned_radii,
)
from fourierkernels.studies.engine.trained import trained
from fourierkernels.studies.images.batches import read_batch
from fourierkernels.studies.registry import choose_preset, choose_study

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "experiments/results"
PACKAGES = ("torch", "transformers", "accelerate", "safetensors", "pillow")
KERNELS = ("softmax", "gaussian", "l = 4")
TWINS = {"softmax": "language_softmax", "l = 4": "language_fourier"}
DRAWS, LEVEL = 9_999, 0.95
SIDE = 8


@dataclass(frozen=True)
class Settings:
    """Budget; the same for all kernels."""

    steps: int = 300
    sharpness: tuple[float, ...] = (1.0, 16 / 3)  # R = 1 at l = 4 and 16 features
    trial_seed: int = 2022
    seeds: tuple[int, ...] = (1, 2, 3, 4, 5)
    images: int = 179
    at_images: int = 20  # of which Jacobians are taken
    windows: int = 16
    length: int = 256
    at_words: int = 64  # of which Jacobians are taken
    pixels: tuple[tuple[str, tuple[float, ...]], ...] = (
        ("noise", (0.25, 0.5, 1.0)),
        ("zeroed", (0.1, 0.2, 0.4)),
        (STEEPEST, (0.05, 0.1, 0.2)),
    )
    words: tuple[tuple[str, tuple[float, ...]], ...] = (
        ("noise", (0.25, 0.5, 1.0)),
        ("replaced", (0.05, 0.1, 0.2)),
        ("blanked", (0.05, 0.1, 0.2)),
        ("deleted", (0.05, 0.1, 0.2)),
    )


QUICK = Settings(
    steps=4,
    sharpness=(1.0,),
    seeds=(1, 2),
    images=4,
    at_images=1,
    windows=2,
    length=16,
    at_words=6,
    pixels=(("noise", (0.5,)), (STEEPEST, (0.1,))),
    words=(("noise", (0.5,)), ("deleted", (0.2,))),
)


def train_classifier(
    kernel: Contender, sharpness: float, seed: int, steps: int
) -> tuple[Any, dict[str, Any]]:
    """Train a classifier of digits; return it and its row of the table."""
    every = max(steps // 3, 1)
    run = setup(
        "images",
        mixer=kernel.mixer,
        mixer_options=kernel.options_at(Tuning(sharpness=sharpness)),
        steps=steps,
        warmup=steps // 10,
        evaluate_every=every,
        save_every=every,
        log_every=steps,
        seed=seed,
    )
    with trained(run) as result:
        return result.model(), {
            "part": "digits",
            "kernel": kernel.name,
            "sharpness": sharpness,
            "seed": seed,
            "steps": steps,
            "radii": result.radii,
            "seconds": result.seconds,
            **{
                f"{row.split} {row.metric}": row.value
                for row in result.measured
                if row.metric in ("top-1", "cross-entropy")
            },
        }


def digits(settings: Settings) -> tuple[dict[str, Measures], list[dict[str, Any]]]:
    """Return measures of each kernel, ``(seeds, images)``, and one row per network."""
    rows, measures = [], {}
    images, labels = test_images(settings.images)
    for kernel in kernel_contenders(KERNELS, names_sign=False):
        tried = [
            train_classifier(kernel, s, settings.trial_seed, settings.steps)[1]
            for s in settings.sharpness
        ]
        best = min(tried, key=lambda row: row["valid cross-entropy"])["sharpness"]
        found = []
        for seed in settings.seeds:
            model, row = train_classifier(kernel, best, seed, settings.steps)
            rows.append({"purpose": "compared", **row})
            found.append(vision_measures(model, images, labels, dict(settings.pixels)))
            found[-1] |= vision_lipschitz(model, images[: settings.at_images])
            print(kernel.name, best, seed, row["test top-1"], flush=True)
        rows += [{"purpose": "trial", **row} for row in tried]
        measures[kernel.name] = {key: np.stack([own[key] for own in found]) for key in found[0]}
    return measures, rows


def test_images(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the first of the test images of scikit-learn's digits, and their classes."""
    study = choose_study("images")
    data = study.read(choose_preset(study, "digits"), None)
    batch = read_batch(data, "test", list(range(min(count, data.counts["test"]))), SIDE)
    return batch["images"], batch["labels"]


def language(settings: Settings) -> tuple[dict[str, Measures], list[dict[str, Any]]]:
    """Return measures of each twin, ``(1, windows)``, and one row per network."""
    lines = (RESULTS / "language_heads_test.txt").read_text(encoding="utf-8").splitlines()
    ids = [[int(word) for word in line.split()] for line in lines[: settings.windows]]
    windows = torch.tensor(ids)[:, : settings.length]
    measures, rows = {}, []
    for kernel, name in TWINS.items():
        begun = time.process_time()
        model = load_model(RESULTS / name / "model.safetensors").float()
        if not isinstance(model, LanguageModel):
            raise TypeError(f"{name} must be a language model, got {type(model).__name__}")
        words = model.config.vocabulary
        found = language_measures(model, windows, dict(settings.words), words=words)
        found |= language_lipschitz(model, windows[:, : settings.at_words])
        measures[kernel] = {key: values[None] for key, values in found.items()}
        rows.append(
            {
                "part": "language",
                "kernel": kernel,
                "file": name,
                "radii": learned_radii(model),
                "seconds": round(time.process_time() - begun, 1),
                "test cross-entropy": float(found["loss", "none", 0.0].mean()),
            }
        )
        print(rows[-1], flush=True)
    return measures, rows


def table(part: str, measures: dict[str, Measures]) -> list[dict[str, Any]]:
    """Return one row per kernel, measure, corruption and rate of a part."""
    first, *others = measures
    keys = list(measures[first])
    comparisons = Counter(key[0].split(", layer")[0] for key in keys for _ in others)
    return [
        {
            "part": part,
            "kernel": kernel,
            "measure": key[0],
            "corruption": key[1],
            "rate": key[2],
            "seeds": own[key].shape[0],
            "items": own[key].shape[1],
            "value": float(own[key].mean()),
            **difference(own[key], measures[first][key], comparisons[key[0].split(", layer")[0]]),
        }
        for key, (kernel, own) in product(keys, measures.items())
    ]


def difference(own: np.ndarray, less: np.ndarray, comparisons: int) -> dict[str, float | int]:
    """Return the mean of own - less ``(seeds, items)`` and its interval by the bootstrap.

    Seeds and items are drawn with replacement, independently of each other, the same for both.
    """
    gaps = own - less
    rng = np.random.default_rng(SEED)
    seeds, items = (
        rng.multinomial(count, np.full(count, 1 / count), size=DRAWS) / count
        for count in gaps.shape
    )
    means = np.einsum("bs,si,bi->b", seeds, gaps, items, optimize=True)
    tail = (1 - LEVEL) / 2 / comparisons
    low, high = np.quantile(means, [tail, 1 - tail])
    return {
        "difference": float(gaps.mean()),
        "low": float(low),
        "high": float(high),
        "comparisons": comparisons,
    }


@one_thread()
def main() -> None:
    """Train the classifiers, measure all networks and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--quick", action="store_true", help="four updates, two windows of text")
    options = parser.parse_args()
    settings = QUICK if options.quick else Settings()
    rows: list[dict[str, Any]] = []
    networks: list[dict[str, Any]] = []
    for part, measure in (("digits", digits), ("language", language)):
        found, own = measure(settings)
        rows += table(part, found)
        networks += own
    config = {
        **asdict(settings),
        "iterations": ITERATIONS,
        "draws": DRAWS,
        "level": LEVEL,
        "seed": SEED,
        "threads": 1,
    }
    written = {"robustness": rows, "robustness_networks": same_columns(networks)}
    for name, lines in written.items():
        write_study(options.output, name, lines, config, source=Path(__file__), packages=PACKAGES)
    print(json.dumps(rows[-1]))


if __name__ == "__main__":
    main()
