"""Are the heads of a Fourier language model farther apart? Twins trained on one text, in small.

    python experiments/twin_heads.py [--output FOLDER] [--quick]

[nguyen2022fourierformer]_ (its table of distances between heads) says that a FourierFormer's heads
are less redundant than softmax's. Here small causal transformers are trained on the help texts that
Python ships (pydoc_data.topics) and the data-set descriptions of scikit-learn: two kinds of
attention, each with a blunt and a sharp start. The scale of softmax is that of its queries and
keys, so a gain of 4 on their first weights does for it what R = 2 instead of 0.5 does for Fourier
attention. Twins of one seed share first weights, batches and dropout.

Every kind gets the same trials (learning rates, one seed); the rate with the least validation loss
is then trained on fresh seeds. Heads are measured before and after training, on fixed windows of
the training and of the test text, from weights rounded to half precision, as they are stored.

Writes, each CSV with its provenance as JSON:
twin_heads_runs      one row per network: rate, seed, nats per word, learned radii, seconds;
twin_heads_measures  one row per network, stage, split, measure and layer;
twin_heads           differences between kinds, paired by seed, with t intervals over seeds;
and for the best start of softmax and of Fourier attention, first seed,
twin_heads_KIND.safetensors, with the test windows as token ids in twin_heads_test.txt.

An interrupted run resumes where it stopped: finished networks are kept in a partial file.
The whole takes about twenty minutes of one core.
"""

import argparse
import json
import math
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numba
import numpy as np
import torch
from scipy.stats import t as student
from torch import Tensor
from twin_text import Text, digest, read_text

from fourierkernels.checkpoints import attention_calls
from fourierkernels.diagnostics import METRICS, head_statistics
from fourierkernels.diagnostics.summary import HeadAccumulator
from fourierkernels.mixing import FourierMixer, SoftmaxMixer
from fourierkernels.models import LanguageModel, language_config, save_model
from fourierkernels.models.parameters import initialise
from fourierkernels.study import write_study

ROOT = Path(__file__).parents[1]
MEASURED = (
    "frobenius",
    "frobenius_per_sqrt_n",
    "jensen_shannon",
    "cosine",
    "projected_distance",
    "projected_cosine",
    "projected_cka",
)
LEVEL = 0.95
SPLITS = ("train", "valid", "test")
STATISTICS = ("entropy", "effective_keys", "own_token", "previous_token")


@dataclass(frozen=True)
class Kind:
    """A kind of attention and its start; `gain` multiplies the first weights of q and k."""

    mixer: str
    gain: float = 1.0
    options: Mapping[str, float] = field(default_factory=dict)


KINDS = {
    "softmax": Kind("softmax"),
    "softmax_sharp": Kind("softmax", gain=4.0),
    "fourier_half": Kind("fourier", options={"radius": 0.5}),
    "fourier": Kind("fourier", options={"radius": 2.0}),  # as in the paper
}


@dataclass(frozen=True)
class Settings:
    """Sizes and budget; the same for all networks."""

    dim: int = 64
    layers: int = 2
    heads: int = 4
    hidden: int = 256
    length: int = 64
    batch: int = 16
    steps: int = 600
    warm_up: int = 60
    weight_decay: float = 0.01
    clip: float = 1.0
    dropout: float = 0.1
    first_std: float = 0.05  # of the first weights; 0.02 learns slowly in so few features
    min_count: int = 3
    windows: int = 32
    rates_tried: tuple[float, ...] = (1e-3, 2e-3, 4e-3, 8e-3)
    trial_seed: int = 2022
    seeds: tuple[int, ...] = (1, 2, 3, 4, 5)


QUICK = Settings(
    dim=32,
    layers=1,
    heads=2,
    hidden=32,
    length=16,
    steps=3,
    warm_up=1,
    windows=3,
    rates_tried=(1e-3, 4e-3),
    seeds=(1, 2),
    min_count=20,
)


# --- training --------------------------------------------------------------------------------


def build(kind: Kind, settings: Settings, vocabulary: int) -> LanguageModel:
    """Return an untrained network; what is drawn does not depend on the kind."""
    config = language_config(
        "gpt2",
        vocabulary=vocabulary,
        dim=settings.dim,
        layers=settings.layers,
        heads=settings.heads,
        hidden=settings.hidden,
        length=settings.length,
        dropout=settings.dropout,
        attention_bias=False,
        mixer=kind.mixer,
        mixer_options=kind.options,
    )
    model = LanguageModel(config)
    initialise(model, std=settings.first_std)
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, SoftmaxMixer):
                module.query_projection.weight *= kind.gain
                module.key_projection.weight *= kind.gain
    return model


def train(model: LanguageModel, ids: Tensor, settings: Settings, *, rate: float, seed: int) -> None:
    """Train with AdamW, linear warm-up and a cosine to zero; batches depend on the seed only."""
    starts = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=settings.weight_decay)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _share(step, settings))
    model.train()
    for _ in range(settings.steps):
        first = torch.randint(len(ids) - settings.length, (settings.batch, 1), generator=starts)
        batch = ids[first + torch.arange(settings.length + 1)]
        optimizer.zero_grad()
        model(batch[:, :-1], batch[:, 1:]).mean().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), settings.clip)
        optimizer.step()
        schedule.step()
    model.eval()


def _share(step: int, settings: Settings) -> float:
    if step < settings.warm_up:
        return (step + 1) / settings.warm_up
    done = (step - settings.warm_up) / max(1, settings.steps - settings.warm_up)
    return (1 + math.cos(math.pi * done)) / 2


# --- measures --------------------------------------------------------------------------------


@torch.inference_mode()
def mean_loss(model: LanguageModel, windows: Tensor) -> float:
    """Return the mean of -log p over all words of the windows."""
    parts = [model(w[:, :-1], w[:, 1:]).double().flatten() for w in windows.split(32)]
    return torch.cat(parts).mean().item()


def distances_and_statistics(model: LanguageModel, windows: Tensor) -> list[dict[str, Any]]:
    """Return distances between heads and statistics of their maps, one row per measure and layer.

    The standard deviation is over pairs of heads and windows, or over heads and windows.
    """
    distances = {name: HeadAccumulator(metric=name) for name in MEASURED}
    found = []
    for window in windows:
        calls = attention_calls(model, window[None, :-1], window[None, 1:])
        n = windows.shape[1] - 1
        layers = {
            of: torch.stack([call.part(of, 0, n, n) for call in calls]).double().numpy()
            for of in ("maps", "projected")
        }
        for name, accumulator in distances.items():
            accumulator.add(layers[METRICS[name].of])
        statistics = head_statistics(layers["maps"], names=STATISTICS)
        found.append([statistics[name] for name in STATISTICS])
    moments = {
        name: (summary.mean, summary.std_pairs_texts)
        for name, accumulator in distances.items()
        if (summary := accumulator.summary())
    }
    values = np.array(found)  # (windows, S, L, H)
    spread = values.transpose(1, 2, 0, 3).reshape(*values.shape[1:3], -1)  # (S, L, windows H)
    moments |= dict(
        zip(STATISTICS, zip(spread.mean(-1), spread.std(-1, ddof=1), strict=True), strict=True)
    )
    return [
        {"measure": name, "layer": layer + 1, "mean": float(mean[layer]), "std": float(std[layer])}
        for name, (mean, std) in moments.items()
        for layer in range(len(mean))
    ]


def measure(
    model: LanguageModel, text: Text, settings: Settings, stage: str
) -> list[dict[str, Any]]:
    """Return the measures on windows of the training and of the test text."""
    return [
        {"stage": stage, "split": split, **row}
        for split in ("train", "test")
        for row in distances_and_statistics(
            model, evenly(text.windows(split, settings.length), settings.windows)
        )
    ]


def evenly(windows: Tensor, count: int) -> Tensor:
    """Return windows at even places."""
    return windows[torch.linspace(0, len(windows) - 1, count).long()]


def run(
    name: str, rate: float, seed: int, text: Text, settings: Settings, *, trial: bool
) -> tuple[dict[str, Any], LanguageModel]:
    """Train one network; return its record and itself. A trial has its losses measured only."""
    start = time.process_time()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = build(KINDS[name], settings, len(text.words)).eval()
        before = [] if trial else measure(model, text, settings, "untrained")
        torch.manual_seed(seed)  # of dropout
        train(model, text.splits["train"], settings, rate=rate, seed=seed)
    model.half().float()  # as stored
    after = [] if trial else measure(model, text, settings, "trained")
    losses = {split: mean_loss(model, text.windows(split, settings.length)) for split in SPLITS}
    facts = {
        "kind": name,
        "rate": rate,
        "seed": seed,
        "trial": trial,
        **{f"loss_{split}": loss for split, loss in losses.items()},
        "radii": " ".join(
            f"{m.radius.item():.4f}" for m in model.modules() if isinstance(m, FourierMixer)
        ),
        "seconds": round(time.process_time() - start, 1),
    }
    own = {"kind": name, "seed": seed}
    return {"facts": facts, "measures": [{**own, **row} for row in [*before, *after]]}, model


class Finished:
    """One JSON line per finished run, so that an interrupted run can resume."""

    def __init__(self, path: Path, settings: Settings, text: Text) -> None:
        sizes = replace(settings, rates_tried=(), seeds=())  # the keys name rate and seed
        self.path, self.stamp = path, digest(repr((sizes, KINDS, text.facts)))
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        entries = [json.loads(line) for line in lines]
        self.records = {e["key"]: e["record"] for e in entries if e["stamp"] == self.stamp}

    def add(self, key: str, record: dict[str, Any]) -> None:
        """Keep a record at once."""
        self.records[key] = record
        line = json.dumps({"stamp": self.stamp, "key": key, "record": record})
        with self.path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")


def train_all(
    settings: Settings, text: Text, folder: Path
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Run the trials, then the seeds at the best rates; return records and what was chosen."""
    finished = Finished(folder / "twin_heads.partial.jsonl", settings, text)

    def record(name: str, rate: float, seed: int, *, trial: bool) -> dict[str, Any]:
        key = f"{name} {rate} {seed} {trial}"
        if key not in finished.records:
            found, model = run(name, rate, seed, text, settings, trial=trial)
            if not trial and seed == settings.seeds[0]:
                save_model(model.half(), folder / f"twin_heads_{name}.safetensors")
            finished.add(key, found)
            print(found["facts"], flush=True)
        return finished.records[key]

    trials = [
        record(name, rate, settings.trial_seed, trial=True)
        for name, rate in product(KINDS, settings.rates_tried)
    ]
    rates, losses = {}, {}
    for name in KINDS:
        own = [t["facts"] for t in trials if t["facts"]["kind"] == name]
        best = min(own, key=lambda facts: facts["loss_valid"])
        rates[name], losses[name] = best["rate"], best["loss_valid"]
    twins = [
        min((name for name in KINDS if KINDS[name].mixer == mixer), key=losses.__getitem__)
        for mixer in ("softmax", "fourier")
    ]
    runs = [
        record(name, rates[name], seed, trial=False)
        for seed, name in product(settings.seeds, KINDS)
    ]
    return [*trials, *runs], {"rates": rates, "twins": twins}


# --- differences -----------------------------------------------------------------------------


def network_values(
    records: list[dict[str, Any]],
) -> dict[tuple[str, str, str], dict[str, dict[int, float]]]:
    """Return values by (stage, split, measure), kind and seed: layers averaged."""
    found: dict[tuple[str, str, str], dict[str, dict[int, float]]] = {}
    for record in records:
        facts, rows = record["facts"], record["measures"]
        if facts["trial"]:
            continue
        sums: dict[tuple[str, str, str], list[float]] = {}
        for row in rows:
            sums.setdefault((row["stage"], row["split"], row["measure"]), []).append(row["mean"])
        values = {key: float(np.mean(means)) for key, means in sums.items()}
        for _, split, measure in [key for key in values if key[0] == "trained"]:
            change = values["trained", split, measure] - values["untrained", split, measure]
            values["change", split, measure] = change
        for split in SPLITS:
            values["trained", split, "loss"] = facts[f"loss_{split}"]
        for key, value in values.items():
            found.setdefault(key, {}).setdefault(facts["kind"], {})[facts["seed"]] = value
    return found


def differences(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return mean differences between kinds, paired by seed, with t intervals over seeds."""
    rows = []
    for (stage, split, measure), kinds in network_values(records).items():
        for second, first in combinations(KINDS, 2):
            a, b = (
                np.array([kinds[name][seed] for seed in sorted(kinds[name])])
                for name in (first, second)
            )
            reach = student.ppf((1 + LEVEL) / 2, len(a) - 1) * np.std(a - b, ddof=1) / len(a) ** 0.5
            rows.append(
                {
                    "first": first,
                    "second": second,
                    "stage": stage,
                    "split": split,
                    "measure": measure,
                    "mean_first": a.mean(),
                    "mean_second": b.mean(),
                    "difference": (a - b).mean(),
                    "low": (a - b).mean() - reach,
                    "high": (a - b).mean() + reach,
                    "seeds": len(a),
                }
            )
    return rows


def use_one_thread() -> None:
    """Compute in this thread alone. In this order: numba's first call sets torch's threads, too."""
    numba.set_num_threads(1)
    torch.set_num_threads(1)


def main() -> None:
    """Train all networks, or those that are not yet trained, and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "experiments/results")
    parser.add_argument("--quick", action="store_true", help="tiny networks, three steps")
    options = parser.parse_args()
    use_one_thread()
    settings = QUICK if options.quick else Settings()
    options.output.mkdir(parents=True, exist_ok=True)
    text = read_text(settings.min_count)
    records, chosen = train_all(settings, text, options.output)
    config = {
        **asdict(settings),
        **chosen,
        "threads": 1,
        "level": LEVEL,
        "text": text.facts,
        "kinds": {name: asdict(kind) for name, kind in KINDS.items()},
    }
    tables = {
        "twin_heads_runs": [record["facts"] for record in records],
        "twin_heads_measures": [row for record in records for row in record["measures"]],
        "twin_heads": differences(records),
    }
    for name, rows in tables.items():
        write_study(
            options.output,
            name,
            rows,
            config,
            source=Path(__file__),
            packages=("torch", "safetensors"),
        )
    tested = evenly(text.windows("test", settings.length), settings.windows)[:, :-1]
    lines = [" ".join(map(str, window)) + "\n" for window in tested.tolist()]
    (options.output / "twin_heads_test.txt").write_text("".join(lines), encoding="utf-8")
    for name in set(KINDS) - set(chosen["twins"]):
        (options.output / f"twin_heads_{name}.safetensors").unlink()
    (options.output / "twin_heads.partial.jsonl").unlink()
    for row in tables["twin_heads"]:
        if (row["split"], row["measure"]) == ("test", "frobenius"):
            print(row)


if __name__ == "__main__":
    main()
