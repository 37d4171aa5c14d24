"""The encoders of the FNet paper in very small: masked pre-training, and one task after it.

    python experiments/masked_small.py --titles FOLDER [--output FOLDER] [--quick]

[leethorp2021fnet]_ tables 2 and 4 compare encoders of a million updates. Here encoders of two
layers and 64 features (preset "tiny", length 64) have 250 updates of 16 sequences on the manual and
the docstrings of Python, cut into 150 subwords, which are hardly more than characters. What the
paper found after 256 million sequences can be neither confirmed nor refuted after 4,000.

Every encoder gets the same three trials, learning rates of RATES. The one with the least validation
loss is trained from three seeds, which decide first weights, order, masks and dropout. These
networks are measured on the same masked test sequences, and then fine-tuned for 60 updates, with
one rate and no further tuning, to tell the section of a package from its title
(data_classification.py writes --titles, ./classification/titles by default).

Differences are from BERT, but for the encoder whose DFT takes the real part twice, which is
compared with FNet. They are paired by seed, with t intervals whose level is corrected (Bonferroni)
for the number of comparisons; three seeds make them wide.

"stability" is the range of the validation loss over the three rates, of one seed. "unigram" (in the
JSON) is what guesses by the frequencies of the training text alone would get. "sizes" are BERT and
FNet of one layer and 32 features (preset "mini") beside those above, at the rates chosen there,
with the processor time of a training step (forward and back, median of passes, one thread).

Writes, each CSV with its provenance as JSON:
masked_networks    one row per network: settings, losses, accuracies;
masked_small       one row per encoder;
masked_sizes       one row per encoder and size.

An interrupted study resumes where it stopped.
"""

import argparse
import contextlib
import csv
import io
import json
import math
import statistics
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _language_networks import Finished, use_one_thread
from language_tables import LEVEL, interval

from fourierkernels.foundation.provenance import write_study
from fourierkernels.studies import Setup, setup, train
from fourierkernels.studies.engine.optimisers import DivergenceError
from fourierkernels.studies.engine.run_setup import read_data
from fourierkernels.studies.masked.presets import PAIR_ACCURACY, WORD_ACCURACY, WORD_LOSS
from fourierkernels.studies.registry import choose_preset, choose_study

ROOT = Path(__file__).parents[1]
PACKAGES = ("torch", "transformers", "accelerate", "safetensors", "sentencepiece")
ENCODERS: dict[str, tuple[str, dict[str, Any]]] = {
    "BERT": ("softmax", {}),
    "FNet": ("fnet", {}),
    "FNet hybrid": ("fnet_hybrid", {"attention_layers": 1}),
    "Linear": ("linear", {}),
    "FNet, two real parts": ("fnet", {"real_part": "each"}),
}
BESIDE = {"FNet, two real parts": "FNet"}  # what it is compared with, if not with BERT
SIZED = ("BERT", "FNet")
TITLES = "titles (%)"
NUMBERS = (WORD_LOSS, WORD_ACCURACY, PAIR_ACCURACY)


@dataclass(frozen=True)
class Settings:
    """Budget; the same for all encoders."""

    encoders: tuple[str, ...] = tuple(ENCODERS)
    rates: tuple[float, ...] = (2e-3, 4e-3, 8e-3)
    seeds: tuple[int, ...] = (1, 2, 3)
    trial_seed: int = 2022
    steps: int = 250
    tuned_steps: int = 60
    preset: str = "tiny"
    smaller: str = "mini"
    passes: int = 15


QUICK = Settings(
    encoders=("BERT", "FNet", "FNet, two real parts"),
    rates=(4e-3,),
    seeds=(1, 2),
    steps=2,
    tuned_steps=2,
    passes=2,
)


@dataclass(frozen=True)
class Network:
    """One network: what it is for, what it is and how it is trained."""

    part: str
    encoder: str
    preset: str
    rate: float
    steps: int
    seed: int

    @property
    def key(self) -> str:
        """A text that no other network has."""
        return json.dumps(asdict(self), sort_keys=True)

    def setup(self, data: str | Path) -> Setup:
        """Return the run, validated at its end."""
        mixer, options = ENCODERS[self.encoder]
        return setup(
            "masked",
            preset=self.preset,
            mixer=mixer,
            mixer_options=options,
            data=data,
            learning_rate=self.rate,
            seed=self.seed,
            **rhythm(self.steps),
        )


@dataclass(frozen=True)
class Data:
    """What networks are pre-trained on and fine-tuned on."""

    documents: str | Path
    titles: Path


def rhythm(steps: int) -> dict[str, int]:
    """Return settings of a recipe for a number of updates, validated and saved at the end."""
    log = max(steps // 10, 1)
    return {"steps": steps, "warmup": steps // 10, "log_every": log} | dict.fromkeys(
        ("evaluate_every", "save_every"), steps
    )


def trials(settings: Settings) -> list[Network]:
    """Return the networks that choose a rate for each encoder."""
    own = settings.preset, settings.steps, settings.trial_seed
    return [
        Network("trials", encoder, own[0], rate, *own[1:])
        for encoder, rate in product(settings.encoders, settings.rates)
    ]


def compared(settings: Settings, chosen: Mapping[str, float]) -> list[Network]:
    """Return the networks of the table, seed by seed, and the smaller ones."""
    return [
        Network("compared", encoder, settings.preset, chosen[encoder], settings.steps, seed)
        for seed, encoder in product(settings.seeds, settings.encoders)
    ] + [
        Network("sizes", encoder, settings.smaller, chosen[encoder], settings.steps, seed)
        for seed, encoder in product(settings.seeds, SIZED)
    ]


def best(rows: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Return the rate with the least validation loss for each encoder.

    Raises
    ------
    ValueError
        If all trials of an encoder diverged.
    """
    found: dict[str, tuple[float, float]] = {}
    for row in rows:
        own = float(row["valid_loss"]), float(row["rate"])
        if math.isfinite(own[0]):
            found[row["encoder"]] = min(found.get(row["encoder"], own), own)
        else:
            found.setdefault(row["encoder"], (math.inf, own[1]))
    lost = [encoder for encoder, (loss, _) in found.items() if not math.isfinite(loss)]
    if lost:
        raise ValueError(f"one trial of each encoder must end, got none of {', '.join(lost)}")
    return {encoder: rate for encoder, (_, rate) in found.items()}


def train_network(network: Network, data: Data, settings: Settings) -> dict[str, Any]:
    """Train a network by the engine and return what there is to know of it, one row."""
    begun, numbers, end = time.process_time(), dict.fromkeys(NUMBERS, math.nan), "finished"
    norms, valid, titles = [math.nan], math.nan, math.nan
    with tempfile.TemporaryDirectory() as scratch:
        output = Path(scratch) / "run"
        try:
            numbers |= of_split(silently(network.setup(data.documents), output), "test", NUMBERS)
        except DivergenceError as error:
            end = str(error).partition(";")[0]
        else:
            curve = list(csv.DictReader((output / "curve.csv").open(encoding="utf-8")))
            norms = [float(row["grad_norm"]) for row in curve if row["grad_norm"]]
            valid = min(float(row["valid_loss"]) for row in curve if row["valid_loss"])
            if network.part == "compared":
                titles = fine_tuned(network, output, data.titles, settings.tuned_steps)
    return {
        **asdict(network),
        "end": end,
        "valid_loss": valid,
        **numbers,
        TITLES: titles,
        "largest_gradient": max(norms),
        "step_ms": step_ms(network, data, settings.passes),
        "seconds": round(time.process_time() - begun, 1),
    }


def silently(run: Setup, output: Path) -> list[Any]:
    """Train without a word."""
    silence = io.StringIO()
    with contextlib.redirect_stdout(silence), contextlib.redirect_stderr(silence):
        return train(run, output)


def of_split(measured: Iterable[Any], split: str, names: Iterable[str]) -> dict[str, float]:
    """Return some numbers of a split."""
    found = {row.metric: row.value for row in measured if row.split == split}
    return {name: found[name] for name in names}


def fine_tuned(network: Network, output: Path, titles: Path, steps: int) -> float:
    """Return the accuracy on titles after fine-tuning a network, in percent."""
    run = setup(
        "glue",
        preset="sentences",
        start=output,
        data=titles,
        seed=network.seed,
        **rhythm(steps),
    )
    with tempfile.TemporaryDirectory() as scratch:
        name = "accuracy (%)"
        return of_split(silently(run, Path(scratch) / "run"), "test", [name])[name]


def step_ms(network: Network, data: Data, passes: int) -> float:
    """Return the processor time of a pass there and back of one batch, in milliseconds."""
    run = network.setup(data.documents)
    study, preset = choose_study("masked"), choose_preset(choose_study("masked"), run.preset)
    documents = read_data(run)
    model = study.build(preset, documents, run.mixer, run.mixer_options).train()
    goal = study.objective(preset, documents, run.recipe)
    batch, times = study.batches(preset, documents, run.recipe).probe(run.recipe.batch)
    found = []
    for _ in range(passes + 1):
        begun = time.process_time()
        goal.loss(model, batch).backward()
        found.append(1e3 * times * (time.process_time() - begun))
    return statistics.median(found[1:])


def train_all(
    networks: Iterable[Network], finished: Finished, data: Data, settings: Settings
) -> None:
    """Train what is not yet trained and keep each network's row as soon as it is there."""
    for own in networks:
        if own not in finished:  # type: ignore[comparison-overlap]
            finished.add(own, train_network(own, data, settings))  # type: ignore[arg-type]
            print(own.part, own.encoder, own.preset, own.rate, own.seed, flush=True)


def unigram(documents: str | Path, settings: Settings) -> dict[str, float]:
    """Return loss and accuracy of guesses by the frequencies of the training text alone."""
    run = Network("", "FNet", settings.preset, 1.0, 1, 0).setup(documents)
    files = read_data(run)
    counts = np.bincount(files.tokens("train"), minlength=len(files.pieces)) + 1.0
    shares = counts / counts.sum()
    held = np.bincount(files.tokens("test"), minlength=len(files.pieces))
    frequencies = held / held.sum()
    return {
        "loss": float(-frequencies @ np.log(shares)),
        "accuracy": float(100 * frequencies[counts.argmax()]),
    }


def table(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return one row per encoder: means, differences, and the range over the rates."""
    kept = list(rows)
    encoders = list(dict.fromkeys(row["encoder"] for row in kept if row["part"] == "compared"))
    return [summary(kept, encoder, len(encoders) - 1) for encoder in encoders]


def summary(rows: Iterable[Mapping[str, Any]], encoder: str, comparisons: int) -> dict[str, Any]:
    """Return one row of the table, with intervals over the seeds."""
    kept = list(rows)
    beside = BESIDE.get(encoder, "BERT")
    ours, theirs, bert = (column_rows(kept, name) for name in (encoder, beside, "BERT"))
    losses = [
        float(row["valid_loss"])
        for row in kept
        if (row["part"], row["encoder"]) == ("trials", encoder)
    ]
    found: dict[str, Any] = {
        "encoder": encoder,
        "rate": ours[0]["rate"],
        "seeds": len(ours),
        "masked_loss": mean(ours, WORD_LOSS),
        "next_accuracy": mean(ours, PAIR_ACCURACY),
        "step_ms": statistics.median(float(row["step_ms"]) for row in ours),
        "rates_ended": sum(math.isfinite(loss) for loss in losses),
        "stability": max(losses) - min(losses),
        "beside": beside,
        "comparisons": comparisons,
    }
    for short, name in (("masked", WORD_ACCURACY), ("titles", TITLES)):
        gaps = values(ours, name) - values(theirs, name)
        middle, reach = interval(gaps, comparisons)
        found |= {
            f"{short}_accuracy": mean(ours, name),
            f"{short}_share": 100 * mean(ours, name) / mean(bert, name),
            f"{short}_difference": middle,
            f"{short}_low": middle - reach,
            f"{short}_high": middle + reach,
        }
    return found


def sizes(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return one row per encoder and size: accuracy, and the time of a step."""
    kept = [row for row in rows if row["part"] != "trials" and row["encoder"] in SIZED]
    keys = dict.fromkeys((row["encoder"], row["preset"]) for row in kept)
    found = []
    for encoder, preset in keys:
        own = [row for row in kept if (row["encoder"], row["preset"]) == (encoder, preset)]
        accuracies = values(own, WORD_ACCURACY)
        found.append(
            {
                "encoder": encoder,
                "preset": preset,
                "seeds": len(own),
                "masked_accuracy": accuracies.mean(),
                "lowest": accuracies.min(),
                "highest": accuracies.max(),
                "step_ms": statistics.median(float(row["step_ms"]) for row in own),
            }
        )
    return found


def column_rows(rows: Iterable[Mapping[str, Any]], encoder: str) -> list[Mapping[str, Any]]:
    """Return the compared rows of an encoder, by seed."""
    own = [row for row in rows if (row["part"], row["encoder"]) == ("compared", encoder)]
    return sorted(own, key=lambda row: int(row["seed"]))


def values(rows: Iterable[Mapping[str, Any]], name: str) -> np.ndarray:
    """Return a column."""
    return np.array([float(row[name]) for row in rows])


def mean(rows: Iterable[Mapping[str, Any]], name: str) -> float:
    """Return the mean of a column."""
    return float(values(rows, name).mean())


def write_example(folder: Path) -> Data:
    """Write a few documents and titles of the script's own."""
    documents, titles = folder / "documents", folder / "titles"
    documents.mkdir()
    titles.mkdir()
    text = "the small kernel sums all points near a given place and keeps their mean value"
    words = text.split()
    rng = np.random.default_rng(0)

    def line() -> str:
        return " ".join(rng.choice(words, 8))

    for name, count in (("train", 40), ("valid", 6), ("test", 6)):
        texts = ("\n".join(line() for _ in range(6)) for _ in range(count))
        (documents / f"{name}.txt").write_text("\n\n".join(texts) + "\n", encoding="utf-8")
    for name, count in (("train", 60), ("dev", 20)):
        rows = (f"{line()}\t{label}" for _ in range(count // 2) for label in ("maths", "prose"))
        text = "\n".join(("sentence\tlabel", *rows)) + "\n"
        (titles / f"{name}.tsv").write_text(text, encoding="utf-8")
    return Data(documents, titles)


def study(settings: Settings, finished: Finished, data: Data) -> list[dict[str, Any]]:
    """Train all networks and return their rows."""
    first = trials(settings)
    train_all(first, finished, data, settings)
    second = compared(settings, best(finished.rows(first)))  # type: ignore[arg-type]
    train_all(second, finished, data, settings)
    return list(finished.rows([*first, *second]))  # type: ignore[list-item]


def main() -> None:
    """Train all networks, or those that are not yet trained, and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--titles", type=Path, default=Path("classification/titles"))
    parser.add_argument("--output", type=Path, default=ROOT / "experiments/results")
    parser.add_argument("--quick", action="store_true", help="two updates on texts of its own")
    options = parser.parse_args()
    use_one_thread()
    torch.set_num_interop_threads(1)
    options.output.mkdir(parents=True, exist_ok=True)
    partial = options.output / "masked_small.partial.jsonl"
    with tempfile.TemporaryDirectory() as scratch:
        own = Data("python-documents", options.titles)
        data = write_example(Path(scratch)) if options.quick else own
        settings = QUICK if options.quick else Settings()
        rows = study(settings, Finished(partial), data)
        by_frequency = unigram(data.documents, settings)
    config = {**asdict(settings), "level": LEVEL, "threads": 1, "unigram": by_frequency}
    written = {"masked_networks": rows, "masked_small": table(rows), "masked_sizes": sizes(rows)}
    for name, lines in written.items():
        write_study(options.output, name, lines, config, source=Path(__file__), packages=PACKAGES)
    partial.unlink()
    for line in written["masked_small"]:
        print(line)


if __name__ == "__main__":
    main()
