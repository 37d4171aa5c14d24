"""How softmax, Gaussian and Fourier networks answer to corrupted inputs: is any more robust.

    python experiments/robustness.py [FOLDER] [--output FOLDER] [--quick]

[nguyen2022fourierformer]_ (remark 1) prefers kernels of the distance to dot products because they
are Lipschitz, and a Lipschitz network is robust. Both ends of that argument, on trained networks:

recall     Language models that find what is asked, which no control does: those of FOLDER, the
           output of `fourierkernels reproduce language-recall`, with 24 seeds for each kernel.
           They read windows of its test text as long as in training; what counts is their answers
           to questions about pairs that they read. The losses of all kinds of words in the whole
           test text, as its perplexity has them, say what they learned.
language   The committed twins of language_heads.py, one network each, on their 16 windows of test
           text; all words count.

Embeddings get noise, or move along the gradient of the loss of the network itself; words are
replaced, blanked by <unk>, or left out. Losses are of the words of the clean text. Measured are
loss and accuracy, their change, the weight of the heads and the probability of the predictions that
move (total variation), the mean cosine of the last states of different words, and local Lipschitz
estimates: largest singular values of Jacobians at the inputs themselves, from embeddings to
log-probabilities and of each layer of attention alone. Those are lower bounds of Lipschitz
constants; the first is multiplied by the norm of the embeddings. All networks get the same draws,
and those at larger rates contain those at smaller ones.

Differences from softmax are paired; their t intervals are over seeds and windows, or windows alone
of the twins, and corrected (Bonferroni) for the differences of a part in the same measure. Beside
each is the smallest true difference that would have shown with a power of 80 %.

Writes, each CSV with its provenance as JSON:
robustness            one row per part, kernel, measure, corruption and rate;
robustness_networks   one row per network: how it was trained, and how good it is.
"""

import argparse
import json
import math
import time
from collections import Counter
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _robustness import ITERATIONS, SEED, STEEPEST, Measures, lipschitz, measures

from fourierkernels.foundation.provenance import write_study
from fourierkernels.foundation.run_folder import BEST
from fourierkernels.foundation.workers import one_thread
from fourierkernels.models import LanguageModel, load_model
from fourierkernels.studies.engine.comparison_table import same_columns
from fourierkernels.studies.engine.contenders import learned_radii
from fourierkernels.studies.engine.controls import CONTROL_MIXERS
from fourierkernels.studies.engine.mixers import ChosenMixer
from fourierkernels.studies.engine.power import smallest_gain, widest_reach
from fourierkernels.studies.engine.reproduction import reproduce
from fourierkernels.studies.engine.run_setup import load_setup
from fourierkernels.studies.language.comparison import VECTOR_RADIUS, RecallComparison
from fourierkernels.studies.language.recall_text import GIVEN, recall_lines

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "experiments/results"
PACKAGES = ("torch", "safetensors")
MIXERS = {"softmax": "softmax", "gaussian": "gaussian", "fourier": "l = 4"}  # of the recall text
TWINS = {"softmax": "language_softmax", "l = 4": "language_fourier"}
LINE = [*["pairs"] * GIVEN, *["questions", "answers"] * GIVEN, "ends"]  # kinds of its words
UNREAD = "answers without their pair"
Row = dict[str, Any]
Part = tuple[dict[str, Measures], list[Row]]  # by kernel; a row per network


@dataclass(frozen=True)
class Settings:
    """Budget; the same for all kernels."""

    recall_windows: int = 32
    at_windows: int = 3  # of these, where Jacobians are taken
    windows: int = 16  # of the twins
    length: int = 256
    at_words: int = 64
    rates: tuple[tuple[str, tuple[float, ...]], ...] = (
        ("noise", (0.25, 0.5, 1.0)),
        (STEEPEST, (0.05, 0.1, 0.2)),
        ("replaced", (0.1, 0.2)),
        ("blanked", (0.1, 0.2)),
        ("deleted", (0.1, 0.2)),
    )


QUICK = Settings(2, 2, 2, 16, 6, (("noise", (0.5,)), (STEEPEST, (0.1,)), ("deleted", (0.2,))))


def kernel_of(mixer: ChosenMixer) -> str:
    """Return the name of a kernel of the recall text, or of a control."""
    return VECTOR_RADIUS if "radius_shape" in mixer.options else MIXERS.get(mixer.name, mixer.name)


def recall_runs(folder: Path, comparison: RecallComparison) -> dict[str, dict[int, Path]]:
    """Return the folders of networks by kernel and seed, in the order of the comparison.

    Raises
    ------
    ValueError
        If a kernel lacks a seed that another one has, or there are none.
    """
    found: dict[str, dict[int, Path]] = {}
    for run in sorted((folder / "runs").glob("*")):
        setup, _ = load_setup(run)
        kernel, recipe = kernel_of(setup.mixer), setup.recipe
        if recipe.seed in comparison.seeds and recipe.steps == comparison.steps:
            found.setdefault(kernel, {})[recipe.seed] = run
    whole = {kernel: dict(sorted(runs.items())) for kernel, runs in sorted(found.items())}
    seeds = [list(runs) for runs in whole.values()]
    if "softmax" not in whole or any(own != seeds[0] for own in seeds):
        said = {kernel: list(runs) for kernel, runs in whole.items()} or "none"
        raise ValueError(
            f"folder must have the networks of reproduce language-recall, of every kernel from the "
            f"same seeds, got {said} in {folder}"
        )
    return {"softmax": whole.pop("softmax"), **whole}


def recall_windows(words: list[str], length: int) -> tuple[torch.Tensor, np.ndarray]:
    """Return the windows of the test text, ``(w, length + 1)``, and the kind of each next word."""
    ids = {word: place for place, word in enumerate(words)}
    lines = list(recall_lines("test"))
    text = [word for line in lines for word in (*line, "<eos>")]
    kinds = [kind for line in range(len(lines)) for kind in LINE]
    starts = range(0, len(text) - length, length)
    for first in starts:
        for place in (p for p in range(first + 1, first + length + 1) if kinds[p] == "answers"):
            line = place - place % len(LINE)
            given = [word[0] for word in text[line : line + GIVEN]]
            if line + given.index(text[place - 1][0]) < first:
                kinds[place] = UNREAD
    windows = torch.tensor([[ids[w] for w in text[i : i + length + 1]] for i in starts])
    return windows, np.array([kinds[i + 1 : i + length + 1] for i in starts])


def losses_by_kind(model: LanguageModel, windows: torch.Tensor, kinds: np.ndarray) -> Row:
    """Return the mean losses of each kind of words."""
    with torch.no_grad():
        losses = model(windows[:, :-1], windows[:, 1:]).numpy()
    every = dict.fromkeys([*LINE, UNREAD])
    return {f"loss of {kind}": float(losses[kinds == kind].mean()) for kind in every}


def recall(folder: Path, settings: Settings, comparison: RecallComparison) -> Part:
    """Return measures of each kernel, ``(seeds, windows)``, and one row per network."""
    found: dict[str, list[Measures]] = {}
    rows: list[Row] = []
    for kernel, runs in recall_runs(folder, comparison).items():
        for seed, run in runs.items():
            words = (run / "vocabulary.txt").read_text(encoding="utf-8").split()
            model = read_model(run / BEST)
            windows, kinds = recall_windows(words, model.config.length)
            learned = losses_by_kind(model, windows, kinds)
            if kernel in CONTROL_MIXERS:  # no heads to look at
                rows.append({"part": "recall", "kernel": kernel, "seed": seed, **learned})
                continue
            few = windows[: settings.recall_windows]
            counts = kinds[: settings.recall_windows] == "answers"
            own, row = measured(model, settings, few, counts, few[: settings.at_windows, :-1])
            row |= learned
            found.setdefault(kernel, []).append(own)
            rows.append({"part": "recall", "kernel": kernel, "seed": seed, **row})
            print(rows[-1], flush=True)
    joined = {
        kernel: {key: np.stack([each[key] for each in own]) for key in own[0]}
        for kernel, own in found.items()
    }
    return joined, rows


def language(settings: Settings) -> Part:
    """Return measures of each twin, ``(1, windows)``, and one row per network."""
    lines = (RESULTS / "language_heads_test.txt").read_text(encoding="utf-8").splitlines()
    ids = [[int(word) for word in line.split()] for line in lines[: settings.windows]]
    windows = torch.tensor(ids)[:, : settings.length]
    found, rows = {}, []
    for kernel, name in TWINS.items():
        model = read_model(RESULTS / name / "model.safetensors")
        counts = np.ones((len(windows), windows.shape[1] - 1), dtype=bool)
        own, row = measured(model, settings, windows, counts, windows[:, : settings.at_words])
        found[kernel] = {key: values[None] for key, values in own.items()}
        rows.append({"part": "language", "kernel": kernel, "seed": "", **row})
        print(rows[-1], flush=True)
    return found, rows


def read_model(file: Path) -> LanguageModel:
    """Return a language model, in evaluation."""
    model = load_model(file).float().eval()
    if not isinstance(model, LanguageModel):
        raise TypeError(f"{file} must be a language model, got {type(model).__name__}")
    return model


def measured(
    model: LanguageModel,
    settings: Settings,
    windows: torch.Tensor,
    counts: np.ndarray,
    short: torch.Tensor,
) -> tuple[Measures, Row]:
    """Return what one network does with windows, Jacobians at shorter ones, and its row."""
    begun = time.process_time()
    found = measures(model, windows, dict(settings.rates), counts) | lipschitz(model, short)
    return found, {
        "radii": learned_radii(model),
        "seconds": round(time.process_time() - begun, 1),
        "loss": float(found["loss", "none", 0.0].mean()),
        "accuracy": float(found["accuracy", "none", 0.0].mean()),
    }


def table(part: str, found: dict[str, Measures]) -> list[Row]:
    """Return one row per kernel, measure, corruption and rate of a part."""
    first, *others = found
    keys = list(found[first])
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
            **difference(own[key], found[first][key], comparisons[key[0].split(", layer")[0]]),
        }
        for key, (kernel, own) in product(keys, found.items())
    ]


def difference(own: np.ndarray, less: np.ndarray, comparisons: int) -> Row:
    """Return the mean of own - less ``(seeds, items)``, its interval, and what would have shown."""
    gaps = own - less
    over = [gaps.mean(axis=1), gaps.mean(axis=0)] if len(gaps) > 1 else [gaps[0]]
    deviations = [float(values.std(ddof=1)) for values in over]
    sizes = [len(values) for values in over]
    errors = [d / math.sqrt(n) for d, n in zip(deviations, sizes, strict=True)] + [0.0]
    reach = widest_reach(errors[0], errors[1], sizes[0], comparisons)
    least = smallest_gain(deviations[0], sizes[0], comparisons=comparisons, of_items=errors[1])
    mean = float(gaps.mean())
    ends = {"difference": mean, "low": mean - reach, "high": mean + reach}
    return {**ends, "smallest": least, "comparisons": comparisons}


@one_thread()
def main() -> None:
    """Measure all networks and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "folder",
        type=Path,
        nargs="?",
        default=Path("reproduced"),
        help="output of reproduce language-recall",
    )
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--quick", action="store_true", help="two windows; networks of its own")
    options = parser.parse_args()
    comparison, folder, settings = RecallComparison(), options.folder, Settings()
    if options.quick:
        comparison, folder, settings = comparison.quick(folder), options.output / "recall", QUICK
        reproduce("language-recall", comparison, folder)
    parts = {"recall": recall(folder, settings, comparison), "language": language(settings)}
    rows = [row for part, (found, _) in parts.items() for row in table(part, found)]
    networks = same_columns([row for _, own in parts.values() for row in own])
    config = {**asdict(settings), "iterations": ITERATIONS, "seed": SEED, "threads": 1}
    for name, lines in {"robustness": rows, "robustness_networks": networks}.items():
        write_study(options.output, name, lines, config, source=Path(__file__), packages=PACKAGES)
    print(json.dumps(rows[-1]))


if __name__ == "__main__":
    main()
