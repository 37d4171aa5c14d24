"""The tables of "Do You Really Need Attention?" on a small scale: BLEU by length and model.

    python experiments/translation_report.py [--data FOLDER] [--runs FOLDER] [--output FOLDER]
        [--preset little] [--models NAME ...] [--seeds N ...] [--sentences N] [--workers N]
        [--quick]

[chen_attention]_ trains one model, a DFT in the encoder of a transformer of 6 + 6 layers, on 1.4
million sentences and sets its mean BLEU over ten classes of length, 27.2, beside a published 28.1
of attention. Here models of the preset "little" are trained alike from three seeds each on 43,000
sentences of manuals, English to Italian, which data_bitext.py fetches if no --data is named:
attention, a DFT in the encoder, in the decoder and in both, and, for the claim that reading the
encoder by attention matters most, a decoder that reads it at fixed places. Others are named with
--models: a DFT in all layers but the last, one with learned gains and phases, fixed Gaussians,
Fourier attention, and a DFT that learns from the model with attention. All translate the same test
sentences with a beam of four.

Writes, each CSV with its provenance as JSON:
translation_report              one row per model and length class, with the report's number;
translation_report_differences  each model less attention, a taught one less the same untaught;
translation_report_runs         one row per run: parameters, processor time, perplexity, scores;
translation_report_attention/   for `translate` and `heads`: the first model of attention in half
                                precision, its subwords, some test pairs.

Runs are kept in --runs; those that are finished are not repeated, and one that was interrupted
resumes. The tables are of all finished runs there: --seeds without a number trains none and writes
the tables. A run takes about five minutes of one core.
"""

import argparse
import json
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import data_bitext
import numpy as np
from _translation_runs import MODELS, REPORT, SPLIT, Run, Settings, finish, keep

from fourierkernels.foundation.provenance import kept_or_scratch, write_study
from fourierkernels.foundation.workers import Work, one_thread, spread
from fourierkernels.studies.engine.comparison_table import LEVEL, interval
from fourierkernels.studies.translation.bleu import signature
from fourierkernels.studies.translation.presets import PRESETS
from fourierkernels.studies.translation.translation_measures import compare_translations

ROOT = Path(__file__).parents[1]
REFERENCE = "attention"
MAIN = (REFERENCE, "dft_encoder", "dft_decoder", "dft_both", "hard_gaussian_reader")
SEEDS = (0, 1, 2)
KEPT = "translation_report_attention"
SCORES = ("BLEU", "BLEU-1", "BLEU-4")
MEAN = ", mean of classes"
RESAMPLES = 10_000
PACKAGES = ("torch", "transformers", "accelerate", "safetensors", "tokenizers", "sacrebleu")
PAIR = "en-it"
QUICK = Settings(
    "tiny",
    sentences=4,
    recipe={"steps": 2, "warmup": 1, "evaluate_every": 2, "save_every": 2, "log_every": 1},
)
Rows = list[dict[str, Any]]


def train_all(runs: Sequence[Run], workers: int) -> None:
    """Finish runs, those that learn from others after them, and say so in a line each."""
    taught = [run for run in runs if MODELS[run.model].teacher is not None]
    for part in ([run for run in runs if run not in taught], taught):
        _train(part, workers)


def _train(runs: Sequence[Run], workers: int) -> None:
    work = Work(finish, "run", "report")
    with spread(work, runs, workers=workers, scheduler=None) as results:
        for _, row in results:
            print(line(row), flush=True)


def line(row: dict[str, Any]) -> str:
    """Return what is said of a finished run."""
    return (
        f"{row['model']} {row['seed']}: perplexity {row['test perplexity']:.2f}, "
        f"BLEU {row['BLEU']:.2f}, {row['training_seconds'] or '?'} s of training"
    )


def finished(runs: Path, settings: Settings, data: Path) -> list[Run]:
    """Return the finished runs of a folder, by model and seed."""
    names = [path.parent.name.rpartition("-") for path in runs.glob(f"*/{REPORT}")]
    known = [(model, int(seed)) for model, _, seed in names if model in MODELS]
    order = list(MODELS)
    return [
        Run(model, seed, settings, data, runs)
        for model, seed in sorted(known, key=lambda one: (order.index(one[0]), one[1]))
    ]


def class_rows(rows: Rows, counts: dict[str, int], preset: str) -> Rows:
    """Return one row per model and class of lengths: means, least and most over the seeds."""
    endings = [name.removeprefix("BLEU") for name in counts if name.startswith("BLEU")]
    places = [ending for ending in endings if not ending.startswith("-")]
    return [
        {
            "model": model,
            "lengths": place.removeprefix(", ").strip() or "corpus",
            "sentences": counts[f"BLEU{place}"],
            "seeds": len(own),
            **{
                key: value
                for score in SCORES
                for key, value in over_seeds(own, score, place).items()
            },
            **{f"{score} of the report": report(preset, model, score + place) for score in SCORES},
        }
        for model, own in by_model(rows).items()
        for place in places
    ]


def over_seeds(rows: Rows, score: str, place: str) -> dict[str, float]:
    """Return the mean of a score over seeds, its least and its most."""
    values = [row[score + place] for row in rows]
    return {
        score: float(np.mean(values)),
        f"{score} least": min(values),
        f"{score} most": max(values),
    }


def report(preset: str, model: str, metric: str) -> float | str:
    """Return the report's number; that of its own size where a preset has none of its own."""
    published = PRESETS[preset].published or PRESETS["base"].published
    return published.get(model, {}).get(metric, "")


def by_model(rows: Rows) -> dict[str, Rows]:
    """Return the rows of each model, in the order of their seeds."""
    return {
        name: sorted((row for row in rows if row["model"] == name), key=lambda row: row["seed"])
        for name in dict.fromkeys(row["model"] for row in rows)
    }


def differences(rows: Rows, folders: dict[tuple[str, int], Path]) -> Rows:
    """Return each model less its reference, paired by seed.

    Levels are corrected for the number of models that share a reference.
    """
    models = by_model(rows)
    than = {name: MODELS[name].reference for name in models if MODELS[name].reference != name}
    shared = Counter(than.values())
    return [
        {"model": name, "reference": other}
        | difference(models[name], models[other], folders, shared[other])
        for name, other in than.items()
        if other in models
    ]


def difference(
    own: Rows, theirs: Rows, folders: dict[tuple[str, int], Path], comparisons: int
) -> dict[str, Any]:
    """Return the differences of two models from the seeds that both have."""
    shared = {row["seed"] for row in own} & {row["seed"] for row in theirs}
    own, theirs = ([row for row in side if row["seed"] in shared] for side in (own, theirs))
    pairs = list(zip(own, theirs, strict=True))
    level = 1 - (1 - LEVEL) / comparisons
    found: dict[str, Any] = {"seeds": len(pairs), "comparisons": comparisons}
    if pairs:
        sides = [
            [folders[row["model"], row["seed"]] for row in side]
            for side in zip(*pairs, strict=True)
        ]
        bleu = compare_translations(*sides, split=SPLIT, resamples=RESAMPLES, level=level)
        found |= {"BLEU": bleu.bleu, "BLEU low, sentences": bleu.low}
        found |= {"BLEU high, sentences": bleu.high}
    for metric, label, change in MEASURES:
        gaps = np.array([change(a[metric]) - change(b[metric]) for a, b in pairs])
        middle, reach = interval(gaps, comparisons)
        found |= {label: middle, f"{label} low, seeds": middle - reach}
        found |= {f"{label} high, seeds": middle + reach}
    return found


def same(value: float) -> float:
    """Return a number as it is."""
    return value


# A column of a run, its name among the differences, and what is subtracted.
MEASURES = (
    ("BLEU", "BLEU", same),
    (f"BLEU{MEAN}", f"BLEU{MEAN}", same),
    ("test perplexity", "nats per token", np.log),
    ("test token accuracy", "token accuracy", same),
)


def study(
    runs: Path,
    data: Path | None,
    settings: Settings,
    chosen: Iterable[tuple[str, int]],
    workers: int,
    kept: Path | None = None,
) -> tuple[dict[str, Rows], dict[str, Any]]:
    """Train what is chosen and not yet trained; return the tables of all finished runs.

    Parameters
    ----------
    kept : Path, optional
        Folder into which the first run of attention is written, small enough to be committed.
    """
    corpus = runs / "corpus" if data is None else data
    if not corpus.exists():
        _, origin = data_bitext.fetch(corpus, PAIR, quick=settings is QUICK)
        (corpus / "origin.json").write_text(json.dumps({"packages": origin}), encoding="utf-8")
    train_all([Run(*one, settings, corpus, runs) for one in chosen], workers)
    there = finished(runs, settings, corpus)
    if not there:
        raise SystemExit(f"error: no finished run in {runs}, and none was asked for")
    rows = [finish(run) for run in there]
    counts = json.loads((there[0].folder / REPORT).read_text(encoding="utf-8"))["counts"]
    folders = {(run.model, run.seed): run.folder for run in there}
    if kept is not None:
        keep(next((run for run in there if run.model == REFERENCE), there[0]), kept)
    tables = {
        "translation_report": class_rows(rows, counts, settings.preset),
        "translation_report_differences": differences(rows, folders),
        "translation_report_runs": rows,
    }
    return tables, facts_of(corpus, there[0])


def facts_of(corpus: Path, run: Run) -> dict[str, Any]:
    """Return what the tables depend on besides."""
    results = json.loads((run.folder / "results.json").read_text(encoding="utf-8"))
    shown = ("recipe", "words", "tokens", "pairs", "budget", "beam", "length_penalty")
    origin = corpus / "origin.json"
    known = json.loads(origin.read_text(encoding="utf-8")) if origin.is_file() else {}
    return {
        **{name: results["config"][name] for name in shown},
        "trained at commit": results["commit"],
        "packages of the corpus": known.get("packages", {}),
        "bleu": signature(),
    }


@one_thread()
def main() -> None:
    """Train what is not yet trained and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder of a corpus; fetched by default")
    parser.add_argument("--runs", type=Path, default=Path("translation-runs"))
    parser.add_argument("--output", type=Path, default=ROOT / "experiments/results")
    parser.add_argument("--preset", choices=list(PRESETS), default="little")
    parser.add_argument("--models", nargs="+", choices=list(MODELS), help="five by default")
    parser.add_argument("--seeds", type=int, nargs="*", help="0 1 2 by default")
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="two steps on an example")
    options = parser.parse_args()
    # Large blocks of memory are kept instead of given back to the system: a fifth of the time.
    os.environ.setdefault("MALLOC_MMAP_THRESHOLD_", "4000000000")
    os.environ.setdefault("MALLOC_TRIM_THRESHOLD_", "16000000000")
    settings = QUICK if options.quick else Settings(options.preset, options.sentences)
    with kept_or_scratch(None if options.quick else options.runs) as runs:
        seeds = SEEDS[: 1 if options.quick else None] if options.seeds is None else options.seeds
        models = options.models or MAIN[: 2 if options.quick else None]
        chosen = [(model, seed) for seed in seeds for model in models]
        kept = options.output / KEPT
        tables, facts = study(runs, options.data, settings, chosen, options.workers, kept)
    config = {**asdict(settings), **facts, "resamples": RESAMPLES, "level": LEVEL, "threads": 1}
    for name, rows in tables.items():
        if rows:
            write_study(
                options.output, name, rows, config, source=Path(__file__), packages=PACKAGES
            )
    for row in tables["translation_report"]:
        if row["lengths"] in ("corpus", "mean of classes"):
            print(f"{row['model']}, {row['lengths']}: BLEU {row['BLEU']:.2f}")


if __name__ == "__main__":
    main()
