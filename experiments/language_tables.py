"""The language tables of the FourierFormer paper in small: kernels, radii and sizes compared.

    python experiments/language_tables.py [--data FOLDER] [--output FOLDER] [--workers N] [--quick]

[nguyen2022fourierformer]_ compares softmax with Fourier attention on WikiText-103 (its table 1),
powers l (table 4) and initial radii R (table 5), one network each. Here small models (preset
"tiny": 2 layers of 4 heads of 16 features, context 32) are trained on English manuals, which
data_manuals.py fetches into --data (./manuals by default).

Every kernel gets the same trials, three rates times three starts of equal sharpness (see
_language_networks.py), at half the steps; the best by validation is trained from five seeds, which
decide first weights, order of the text and dropout. Radii start at 0.1 to 4, trained and fixed; the
gain over softmax is measured for three sizes, the rate tuned for each. Differences are paired by
seed, in nats per word, with t intervals whose level is corrected (Bonferroni) for the number of
comparisons of their table.

Writes, each CSV with its provenance as JSON:
language_networks    one row per network: settings, losses, largest gradient, radii, heads;
language_tables      one row per row of a table and text, with the paper's number beside it;

An interrupted study resumes where it stopped. The whole takes about an hour of one core.
"""

import argparse
import multiprocessing
from collections.abc import Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from _language_networks import (
    KERNELS,
    Finished,
    Network,
    kernel_options,
    train_network,
    use_one_thread,
)
from scipy.stats import t as student

from fourierkernels.foundation.provenance import write_study

ROOT = Path(__file__).parents[1]
LEVEL = 0.95
METRIC = "plain perplexity"
PACKAGES = ("torch", "transformers", "accelerate", "safetensors")
SOFTMAX, FOURIER = "softmax", "l = 4"  # as in the paper
LEARNED = "R = 2"

# Perplexities of the paper on WikiText-103, validation and test: tables 4 and 5 of its appendix.
PAPER = {
    ("kernels", "softmax"): (33.15, 34.29),
    ("kernels", "l = 4"): (31.86, 32.85),
    ("kernels", "l = 6"): (31.84, 32.81),
    ("radii", "R = 0.1"): (32.04, 33.01),
    ("radii", "R = 1"): (31.89, 32.87),
    ("radii", "R = 2"): (31.86, 32.85),
    ("radii", "R = 4"): (32.58, 33.65),
    ("radii", "R = 2 per feature"): (31.82, 32.80),
}


@dataclass(frozen=True)
class Settings:
    """Budget; the same for all kernels."""

    steps: int = 400
    trial_steps: int = 200
    rates: tuple[float, ...] = (1.5e-3, 4e-3, 1e-2)
    sharpness: tuple[float, ...] = (0.2, 1.0, 5.0)
    seeds: tuple[int, ...] = (1, 2, 3, 4, 5)
    trial_seed: int = 2022
    kernels: tuple[str, ...] = KERNELS
    radii: tuple[float, ...] = (0.1, 0.5, 1.0, 2.0, 4.0)
    shapes: tuple[str, ...] = ("head", "feature")
    preset: str = "tiny"
    sizes: tuple[str, ...] = ("mini", "little")


QUICK = Settings(
    steps=4,
    trial_steps=2,
    rates=(1e-3,),
    sharpness=(1.0,),
    seeds=(1, 2),
    kernels=("softmax", "l = 1", "l = 4"),
    radii=(2.0,),
    shapes=("feature",),
    preset="mini",
    sizes=("mini",),
)

Choice = tuple[float, float]  # rate, sharpness


def network(part: str, row: str, kernel: str, choice: Choice, **given: Any) -> Network:
    """Return a network with a kernel at a rate and a sharpness."""
    mixer, options = kernel_options(kernel, choice[1])
    return Network(part, row, mixer=mixer, rate=choice[0], options=options, **given)


def trials(settings: Settings) -> list[Network]:
    """Return the networks that choose a rate and a start for each kernel."""
    given = {
        "preset": settings.preset,
        "steps": settings.trial_steps,
        "seed": settings.trial_seed,
    }
    return [
        network("trials", kernel, kernel, choice, **given)
        for kernel in settings.kernels
        for choice in product(settings.rates, settings.sharpness)
    ]


def size_trials(settings: Settings, chosen: Mapping[str, Choice]) -> list[Network]:
    """Return the networks that choose a rate for the other sizes."""
    given = {"steps": settings.trial_steps, "seed": settings.trial_seed}
    return [
        network(
            "size trials",
            f"{kernel}, {size}",
            kernel,
            (rate, chosen[kernel][1]),
            preset=size,
            **given,
        )
        for size, kernel, rate in product(settings.sizes, (SOFTMAX, FOURIER), settings.rates)
    ]


def compared(
    settings: Settings, chosen: Mapping[str, Choice], sized: Mapping[str, Choice]
) -> list[Network]:
    """Return the networks of the three tables, seed by seed."""
    found = []
    for seed in settings.seeds:
        given = {"steps": settings.steps, "seed": seed}
        own = given | {"preset": settings.preset}
        found += [network("kernels", k, k, chosen[k], **own) for k in settings.kernels]
        found += [
            Network("radii", row, mixer="fourier", rate=chosen[FOURIER][0], options=options, **own)
            for row, options in radius_rows(settings)
        ]
        found += [
            network("sizes", row, row.split(",")[0], choice, preset=row.split(", ")[1], **given)
            for row, choice in sized.items()
        ]
    return found


def radius_rows(settings: Settings) -> list[tuple[str, dict[str, Any]]]:
    """Return the rows of the table of radii and the options of their mixers, l = 4."""
    rows: list[tuple[str, dict[str, Any]]] = []
    for radius in settings.radii:
        options = {"power": 4, "radius": radius}
        rows.append((f"R = {radius:g}", options))
        rows.append((f"R = {radius:g} fixed", options | {"learn_radius": False}))
    paper = {"power": 4, "radius": 2.0}
    return rows + [(f"R = 2 per {s}", paper | {"radius_shape": s}) for s in settings.shapes]


def train_all(networks: list[Network], finished: Finished, data: str, workers: int) -> None:
    """Train what is not yet trained and keep each network's row as soon as it is there."""
    missing = [n for n in networks if n not in finished]
    if workers == 1:
        for n in missing:
            finished.add(n, train_network(n, data, heads=has_heads(n)))
            print(n.part, n.row, n.seed, flush=True)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context, initializer=use_one_thread) as pool:
        jobs = {pool.submit(train_network, n, data, heads=has_heads(n)): n for n in missing}
        try:
            for job in as_completed(jobs):
                finished.add(jobs[job], job.result())
                print(jobs[job].part, jobs[job].row, jobs[job].seed, flush=True)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def has_heads(own: Network) -> bool:
    """Return whether the heads of a network are measured: signed weights have no entropy."""
    return own.part == "kernels" and not own.options.get("allow_signed", False)


def best(rows: Iterable[Mapping[str, Any]], networks: list[Network]) -> dict[str, Choice]:
    """Return rate and sharpness with the least validation loss for each row of trials."""
    found: dict[str, tuple[float, Choice]] = {}
    for row, own in zip(rows, networks, strict=True):
        loss = row.get(f"valid {METRIC}", float("inf"))  # one that diverged has none
        if own.row not in found or loss < found[own.row][0]:
            found[own.row] = loss, (own.rate, sharpness_of(own))
    return {name: choice for name, (_, choice) in found.items()}


def sharpness_of(own: Network) -> float:
    """Return the sharpness that a trial was given; the inverse of kernel_options."""
    options = own.options
    if "scale" in options:
        return float(options["scale"] * 4)
    if "sigma" in options:
        return float(4 / options["sigma"] ** 2)
    return float(options["power"] * 4 * options["radius"] ** 2 / 3)


def tables(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the tables: mean losses, and differences from the row that each table names."""
    found = []
    for part in ("kernels", "radii", "sizes"):
        own = [row for row in rows if row["part"] == part]
        names = list(dict.fromkeys(row["row"] for row in own))
        references = {name: reference(part, name) for name in names}
        comparisons = sum(reference != name for name, reference in references.items())
        for name, split in product(names, ("valid", "test")):
            found.append(summary(own, name, references[name], split, comparisons))
    return found


def reference(part: str, row: str) -> str:
    """Return the row that a row is compared with: itself for that row."""
    if part == "sizes":
        return f"{SOFTMAX},{row.split(',')[1]}"
    return SOFTMAX if part == "kernels" else LEARNED


def summary(
    rows: list[dict[str, Any]], name: str, against: str, split: str, comparisons: int
) -> dict[str, Any]:
    """Return one row of a table, with an interval over the seeds at which both finished."""
    column = f"{split} {METRIC}"
    losses = {
        row: {r["seed"]: r[column] for r in rows if r["row"] == row and column in r}
        for row in (name, against)
    }
    seeds = sorted(losses[name].keys() & losses[against].keys())
    gaps = np.array([losses[name][s] - losses[against][s] for s in seeds])
    middle, reach = interval(gaps, comparisons)
    part = rows[0]["part"]
    paper = PAPER.get((part, name))
    return {
        "part": part,
        "row": name,
        "split": split,
        "seeds": len(losses[name]),
        "diverged": sum(r["row"] == name and r["end"] != "finished" for r in rows),
        "perplexity": np.exp(np.mean(list(losses[name].values()))) if losses[name] else np.nan,
        "reference": against,
        "difference": middle,
        "low": middle - reach,
        "high": middle + reach,
        "comparisons": comparisons,
        "paper": "" if paper is None else paper[split == "test"],
    }


def interval(gaps: np.ndarray, comparisons: int) -> tuple[float, float]:
    """Return the mean and the half width of its t interval, corrected for many comparisons."""
    if len(gaps) < 2:
        return float(np.mean(gaps)) if len(gaps) else np.nan, np.nan
    quantile = student.ppf(1 - (1 - LEVEL) / (2 * max(comparisons, 1)), len(gaps) - 1)
    return float(np.mean(gaps)), float(quantile * np.std(gaps, ddof=1) / len(gaps) ** 0.5)


def study(
    settings: Settings, finished: Finished, data: str, workers: int
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Train all networks; return their rows and what the trials chose."""
    first = trials(settings)
    train_all(first, finished, data, workers)
    chosen = best(finished.rows(first), first)
    second = size_trials(settings, chosen)
    train_all(second, finished, data, workers)
    sized = best(finished.rows(second), second)
    third = compared(settings, chosen, sized)
    train_all(third, finished, data, workers)
    return list(finished.rows([*first, *second, *third])), {"chosen": chosen, "sizes": sized}


def same_columns(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows with every column that any of them has, empty where it has none."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    return [{name: row.get(name, "") for name in names} for row in rows]


def main() -> None:
    """Train all networks, or those that are not yet trained, and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="manuals", help="folder that data_manuals.py wrote")
    parser.add_argument("--output", type=Path, default=ROOT / "experiments/results")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="a few steps on Python's own text")
    options = parser.parse_args()
    use_one_thread()
    settings, data = (QUICK, "python") if options.quick else (Settings(), options.data)
    options.output.mkdir(parents=True, exist_ok=True)
    partial = options.output / "language_tables.partial.jsonl"
    rows, chosen = study(settings, Finished(partial), data, options.workers)
    config = {**asdict(settings), **chosen, "level": LEVEL, "threads": 1}
    written = {
        "language_networks": same_columns(rows),
        "language_tables": tables(rows),
    }
    for name, lines in written.items():
        write_study(options.output, name, lines, config, source=Path(__file__), packages=PACKAGES)
    partial.unlink()
    for line in written["language_tables"]:
        print(line)


if __name__ == "__main__":
    main()
