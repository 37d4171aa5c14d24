"""The head table of the FourierFormer paper, measured on trained twins of ours at n = 256.

    python experiments/language_heads.py RUN [RUN ...] [--output FOLDER] [--quick]
    python experiments/language_heads.py --chance [--output FOLDER]

Each RUN is a folder that the training command has made (an hour or so of one core each):

    python experiments/data_manuals.py
    fourierkernels train language --preset twin --data manuals --mixer softmax --output softmax
    fourierkernels train language --preset twin --data manuals --mixer fourier --output fourier

[nguyen2022fourierformer]_ (table 3; 6 of the printed version) gives layer averages of distances
between heads, 6.20 ± 2.30 for softmax and 7.45 ± 2.50 for Fourier attention on training text. Here
the distance is ‖A_a - A_b‖_F, "±" the standard deviation over pairs of heads and windows. Beside
the trained networks stand two that have learned nothing: the same networks before training, and
these with each row of each head sharpened (or blunted) to the entropy of the trained row. Equal
entropy is no control of a distance, which depends on more of a row: what the trained heads share is
in language_heads_chance, beside heads with their own rows on unrelated keys. Weights are measured
in half precision, as they are stored.

Writes, each CSV with its provenance as JSON:
language_heads              one row per network, split, stage and layer: distance and entropy;
language_heads_differences  differences of layer averages, bootstrap intervals over windows;
language_heads_runs         one row per network: how it was trained, its perplexities;
language_heads_chance       one row per network, split, control and layer, from the folders and
                            windows below alone, which --chance reads without any data: distance,
                            that by chance, and the share of the heads with a t interval over
                            windows;
and for each run a folder NAME that other commands take: its weights in half precision, the words of
its text, its settings and its numbers. The windows are token ids, one per line, in
language_heads_train.txt and language_heads_test.txt.
"""

import argparse
import copy
import csv
import json
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fourierkernels.cli.head_stages import even_windows, maps_of, measure_stages, untrained_network
from fourierkernels.diagnostics import chance_distances, head_distances, head_share
from fourierkernels.diagnostics.summary import HeadAccumulator, HeadSummary
from fourierkernels.foundation.provenance import write_study
from fourierkernels.foundation.workers import one_thread
from fourierkernels.models import LanguageModel, load_model, save_model
from fourierkernels.studies import setup, train
from fourierkernels.studies.engine.contenders import learned_radii
from fourierkernels.studies.engine.run_setup import load_setup, read_data, save_setup

ROOT = Path(__file__).parents[1]
PACKAGES = ("torch", "transformers", "accelerate", "safetensors")
SPLITS = ("train", "test")
KEPT = ("language_softmax", "language_fourier")
CONTROLS = ("rows", "position")
WINDOWS = 16
DRAWS, LEVEL, SEED = 9_999, 0.95, 0
Measures = dict[tuple[str, str, str], dict[str, np.ndarray]]  # (network, split, stage) -> arrays


def networks(folder: Path) -> tuple[LanguageModel, LanguageModel, Any]:
    """Return the network of a run before training, after it in half precision, and its text."""
    run, _ = load_setup(folder)
    text = read_data(run)
    trained = load_model(folder / "model.safetensors")
    return untrained_network(run, text), trained.half().float(), text


def layer_rows(measures: Measures) -> list[dict[str, Any]]:
    """Return one row per network, split, stage and layer."""
    return [
        {
            "network": network,
            "split": split,
            "stage": stage,
            "layer": layer + 1,
            "distance": float(own["distance"][:, layer].mean()),
            "std": float(own["distance"][:, layer].std(ddof=1)),
            "entropy": float(own["entropy"][:, layer].mean()),
        }
        for (network, split, stage), own in measures.items()
        for layer in range(own["distance"].shape[1])
    ]


def differences(measures: Mapping[Any, Any]) -> list[dict[str, Any]]:
    """Return differences of layer averages: between stages of a network, and between networks."""
    names = list(dict.fromkeys(network for network, _, _ in measures))
    pairs = [((n, "trained"), (n, stage)) for n in names for stage in ("sharpened", "untrained")]
    pairs += [
        ((a, stage), (b, stage))
        for b, a in combinations(names, 2)
        for stage in ("trained", "sharpened")
    ]
    return [
        {"network": a, "stage": of, "less": b, "less_stage": less, "split": split, "measure": name}
        | bootstrap(*(measures[n, split, s][name] for n, s in ((a, of), (b, less))))
        for split in SPLITS
        for (a, of), (b, less) in pairs
        for name in ("distance", "entropy")
    ]


def bootstrap(a: np.ndarray, b: np.ndarray) -> dict[str, float]:
    """Return the mean difference and its percentile interval over windows, the same in both."""
    gaps = (a - b).reshape(len(a), -1).mean(axis=1)
    rng = np.random.default_rng(SEED)
    means = gaps[rng.integers(len(gaps), size=(DRAWS, len(gaps)))].mean(axis=1)
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return {"difference": float(gaps.mean()), "low": float(low), "high": float(high)}


def chance_rows(folder: Path) -> list[dict[str, Any]]:
    """Return what the heads of the kept networks share beyond chance, on the kept windows."""
    rows = []
    for name, split in product(KEPT, SPLITS):
        model = load_model(folder / name / "model.safetensors")
        lines = (folder / f"language_heads_{split}.txt").read_text(encoding="utf-8").splitlines()
        own = HeadAccumulator(metric="frobenius")
        chance = {control: HeadAccumulator(metric="frobenius") for control in CONTROLS}
        for line in lines:
            maps = maps_of(model, torch.tensor([list(map(int, line.split()))]))
            n = maps.shape[-1]
            own.add_distances(list(head_distances(maps, metric="frobenius")), n)
            for control, one in chance.items():
                expected = chance_distances(maps, metric="frobenius", control=control)
                one.add_distances(list(expected), n)
        for control, one in chance.items():
            rows += share_rows(own.summary(), one.summary(), network=name, split=split, of=control)
    return rows


def share_rows(
    own: HeadSummary, chance: HeadSummary, *, network: str, split: str, of: str
) -> list[dict[str, Any]]:
    """Return one row per layer, and one for the layers together."""
    share = head_share(own, chance)
    values = [own.mean, chance.mean, share.layers, share.layers_low, share.layers_high]
    layers = [(layer, *row) for layer, row in enumerate(zip(*values, strict=True), start=1)]
    ends = (own.layer_average, chance.layer_average, share.average, share.low, share.high)
    names = ("layer", "distance", "chance", "shared", "low", "high")
    return [
        {"network": network, "split": split, "control": of, **dict(zip(names, row, strict=True))}
        for row in [*layers, ("average", *ends)]
    ]


def write_chance(folder: Path) -> None:
    """Measure the kept networks again."""
    config = {"level": LEVEL, "controls": CONTROLS}
    rows = chance_rows(folder)
    name = "language_heads_chance"
    write_study(folder, name, rows, config, source=Path(__file__), packages=PACKAGES)
    for row in rows:
        if row["layer"] == "average":
            print(row)


def run_row(name: str, folder: Path, trained: LanguageModel) -> dict[str, Any]:
    """Return how a network was trained, and its perplexities."""
    facts = json.loads((folder / "results.json").read_text(encoding="utf-8"))["config"]
    with (folder / "results.csv").open(encoding="utf-8") as file:
        measured = {f"{r['split']} {r['metric']}": float(r["value"]) for r in csv.DictReader(file)}
    shown = ("preset", "mixer", "parameters", "words", "steps", "best_step")
    return {
        "network": name,
        **{key: facts[key] for key in shown},
        "options": json.dumps(facts["mixer_options"]),
        "rate": facts["recipe"]["learning_rate"],
        "seed": facts["recipe"]["seed"],
        "radii": learned_radii(trained),
        **measured,
    }


def quick_runs(folder: Path) -> list[Path]:
    """Train two small networks for a few steps."""
    for mixer in ("softmax", "fourier"):
        run = setup("language", preset="mini", mixer=mixer, steps=4, warmup=1)
        train(run, folder / mixer)
    return [folder / "softmax", folder / "fourier"]


def study(runs: list[Path], output: Path, windows: int) -> None:
    """Measure the networks of all runs on the same windows and write the tables."""
    measures: Measures = {}
    rows = []
    output.mkdir(parents=True, exist_ok=True)
    for folder in runs:
        name = f"language_{folder.name}"
        start, trained, text = networks(folder)
        keep_run(folder, output / name, trained)
        for split in SPLITS:
            tokens = even_windows(text.tokens(split), trained.config.length, windows)
            write_ids(output / f"language_heads_{split}.txt", tokens)
            for stage, own in measure_stages(start, trained, tokens).items():
                measures[name, split, stage] = own
        rows.append(run_row(name, folder, trained))
    tables = {
        "language_heads": layer_rows(measures),
        "language_heads_differences": differences(measures),
        "language_heads_runs": rows,
    }
    config = {"windows": windows, "draws": DRAWS, "level": LEVEL, "seed": SEED}
    for name, lines in tables.items():
        write_study(output, name, lines, config, source=Path(__file__), packages=PACKAGES)
    for line in tables["language_heads_differences"]:
        print(line)


def keep_run(folder: Path, place: Path, trained: LanguageModel) -> None:
    """Keep what other commands need of a run: no checkpoints, no path of this machine."""
    place.mkdir(exist_ok=True)
    save_model(copy.deepcopy(trained).half(), place / "model.safetensors")
    run, digest = load_setup(folder)
    save_setup(place, replace(run, data=run.data and Path(run.data).name), digest)
    for name in ("vocabulary.txt", "results.csv"):
        shutil.copy(folder / name, place)
    facts = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    facts["config"].pop("source")
    text = json.dumps(facts, indent=2) + "\n"
    (place / "results.json").write_text(text, encoding="utf-8")


def write_ids(path: Path, windows: Tensor) -> None:
    """Write windows as numbers, one per line."""
    lines = [" ".join(map(str, window)) + "\n" for window in windows.tolist()]
    path.write_text("".join(lines), encoding="utf-8")


@one_thread()
def main() -> None:
    """Measure the twins."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path, nargs="*", help="folders of training runs")
    parser.add_argument("--output", type=Path, default=ROOT / "experiments/results")
    parser.add_argument("--quick", action="store_true", help="train small networks first")
    parser.add_argument("--chance", action="store_true", help="the kept networks alone")
    options = parser.parse_args()
    if options.quick:
        with tempfile.TemporaryDirectory() as scratch:
            study(quick_runs(Path(scratch)), options.output, 3)
        return
    if options.chance:
        write_chance(options.output)
        return
    if not options.runs:
        parser.error("runs must be at least one folder, got none")
    study(options.runs, options.output, WINDOWS)


if __name__ == "__main__":
    main()
