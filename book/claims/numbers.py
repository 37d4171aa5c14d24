"""Numbers that a claim quotes, and where each comes from.

A claim names words of its own that begin with or hold one number (``−0.800``, or ``−0.800 for
$l = 3$`` where the number stands twice), and a source for it.

A source is one line of parts between bars:

``theorems.csv | theorem=1; kernel=fourier4 | slope | .3f``
    The cell of a committed table: file, conditions on its columns, column, format. The column may
    be ``abs(...)``, ``min(...)``, ``max(...)``, ``mean(...)`` of a column; without them the
    conditions must leave one row. A fifth part names the row to divide by; a format may end in
    ``*100``, for percent.
``exact | overshoot_at_a_jump | .4f``
    A row of ``EXACT``, computed from a formula or from several rows of a table.
``chapter | 09_dft_mixing | 59 million parameters by its own definition``
    Words of a chapter that hold the number. The chapter's own cells are where it is checked.
"""

import csv
import math
import re
from collections.abc import Callable, Iterator
from functools import partial
from operator import truediv
from pathlib import Path

import numpy as np
from scipy.special import sici
from scipy.stats import t as student_t

from book.claims.registry import ROOT, Claim

RESULTS = ROOT / "experiments" / "results"

_MATHEMATICS = re.compile(r"\$[^$]*\$|`[^`]*`")
# What has to have a source: decimal fractions, percentages, and numbers of three digits and more.
_QUOTED = re.compile(r"[+−]?\d+\.\d+|[+−]?\d+(?= ?%)|[+−]?\d{1,3}(?:,\d{3})+|[+−]?\d{3,}")
_NUMBER = re.compile(r"[+−]?\d+(?:,\d{3})*(?:\.\d+)?")
_REDUCTION = re.compile(r"(abs|min|max|mean)\((.+)\)")
_REDUCTIONS: dict[str, Callable[[list[float]], float]] = {
    "abs": lambda values: abs(_only(values)),
    "min": min,
    "max": max,
    "mean": lambda values: math.fsum(values) / len(values),
}


def decoder_minus_encoder() -> tuple[float, float, float]:
    """Nats per token that a DFT costs more in the decoder than in the encoder, with 95 % limits."""
    runs = read_table(RESULTS / "translation_report_runs.csv")
    losses = {(run["model"], run["seed"]): math.log(float(run["test perplexity"])) for run in runs}
    pairs = [(seed, model) for model, seed in losses if model == "dft_encoder"]
    more = np.array([losses["dft_decoder", seed] - losses[model, seed] for seed, model in pairs])
    half = student_t.ppf(0.975, len(more) - 1) * more.std(ddof=1) / math.sqrt(len(more))
    mean = float(more.mean())
    return mean, mean - half, mean + half


LONG = 256  # tokens from which times are those of pairs rather than of rows


def forward_ratios(method: str, least: int = 0) -> list[float]:
    """Return times of our forward pass on a CPU over those of a method, from N tokens on."""
    table = [row for row in read_table(RESULTS / "attention_cpu.csv") if row["task"] == "forward"]
    times = {(row["shape"], row["method"]): float(row["milliseconds"]) for row in table}
    shapes = {row["shape"] for row in table if int(row["n"]) >= least}
    return [times[shape, "ours"] / times[shape, method] for shape in shapes]


def bleu_reach(model: str) -> float:
    """Half of the interval of the BLEU that a translation model loses, over seeds."""
    table = read_table(RESULTS / "translation_report_differences.csv")
    low, high = (cell(table, f"model={model}", f"BLEU {end}, seeds") for end in ("low", "high"))
    return (high - low) / 2


def training_times() -> tuple[list[float], list[float]]:
    """Return, seed by seed, the training times with a DFT in the encoder, and with attention."""
    runs = read_table(RESULTS / "translation_report_runs.csv")
    spent = {(run["model"], run["seed"]): float(run["training_seconds"]) for run in runs}
    seeds = sorted({run["seed"] for run in runs})
    dft, attention = ([spent[model, k] for k in seeds] for model in ("dft_encoder", "attention"))
    return dft, attention


def training_time_ratios() -> list[float]:
    """Training time with a DFT in the encoder over that of attention, seed by seed."""
    return [a / b for a, b in zip(*training_times(), strict=True)]


def lower_layers_reach() -> float:
    """Half of the interval of what mean maps in three layers cost a network with softmax."""
    table = read_table(RESULTS / "language_content_layers.csv")
    row = "network=language_softmax; layer=3; replaced=and below"
    return (cell(table, row, "high") - cell(table, row, "low")) / 2


def learned_minus_fixed_reach() -> float:
    """Half of the interval, in nats, of learning the radius from 0.1; of eleven comparisons."""
    runs = read_table(RESULTS / "language_networks.csv")
    losses = {
        (run["row"], run["seed"]): float(run["test plain perplexity"])
        for run in runs
        if run["part"] == "radii"
    }
    seeds = [seed for row, seed in losses if row == "R = 0.1"]
    more = np.array([losses["R = 0.1 fixed", seed] - losses["R = 0.1", seed] for seed in seeds])
    compared = len({row for row, _ in losses})
    quantile = student_t.ppf(1 - 0.05 / 2 / compared, len(more) - 1)
    return float(quantile * more.std(ddof=1) / math.sqrt(len(more)))


PRUNED = {"albert": "ALBERT", "bert": "BERT, pretrained", "gpt": "GPT-2"}


def pruning(name: str, what: str) -> float:
    """Mean loss over a curve of removal: the most redundant heads first, or of random orders."""
    curves: dict[str, list[float]] = {}
    for row in read_table(RESULTS / "real_heads_pruning.csv"):
        if row["network"] == PRUNED[name]:
            curves.setdefault(row["order"], []).append(float(row["loss"]))
    means = {order: math.fsum(curve) / len(curve) for order, curve in curves.items()}
    drawn = [mean for order, mean in means.items() if order.startswith("random")]
    return {"nearest": means["nearest"], "least": min(drawn), "most": max(drawn)}[what]


EXACT: dict[str, Callable[[], float]] = {
    "encoder_training_time": lambda: truediv(*map(sum, training_times())),
    "encoder_training_time_least": lambda: min(training_time_ratios()),
    "encoder_training_time_most": lambda: max(training_time_ratios()),
    "lower_layers_reach": lower_layers_reach,
    "learned_minus_fixed_reach": learned_minus_fixed_reach,
    "bleu_reach_dft_encoder": lambda: bleu_reach("dft_encoder"),
    **{
        f"pruning_{name}_{what}": partial(pruning, name, what)
        for name in PRUNED
        for what in ("nearest", "least", "most")
    },
    "overshoot_at_a_jump": lambda: 0.5 + float(sici(math.pi)[0]) / math.pi,
    "decoder_minus_encoder": lambda: decoder_minus_encoder()[0],
    "decoder_minus_encoder_low": lambda: decoder_minus_encoder()[1],
    "decoder_minus_encoder_high": lambda: decoder_minus_encoder()[2],
    "theorem_1_order_4": lambda: -4 / 5,  # -(m + 1)/(D + m + 1), m = 3
    "theorem_1_order_6": lambda: -6 / 7,
    "forward_to_softmax_least": lambda: min(forward_ratios("softmax")),
    "forward_to_softmax_most": lambda: max(forward_ratios("softmax")),
    "forward_to_cdist_least": lambda: min(forward_ratios("cdist, direct", LONG)),
    "forward_to_cdist_most": lambda: max(forward_ratios("cdist, direct", LONG)),
    "forward_to_cdist_most_of_all": lambda: max(forward_ratios("cdist, direct")),
    "forward_to_products_most": lambda: max(forward_ratios("cdist, by products")),
    "forward_long": lambda: LONG,
    "paper_gain_nats": lambda: math.log(34.29 / 32.85),
}


def quoted_numbers(text: str) -> list[str]:
    """Numbers of a text that need a source; those in formulas and in code do not."""
    return _QUOTED.findall(_MATHEMATICS.sub(" ", text))


def number_problems(claim: Claim, root: Path = ROOT) -> Iterator[str]:
    """Numbers of a claim without a source, and sources that say something else."""
    text = f"{claim.found} {claim.smallest}"
    for quoted in quoted_numbers(text):
        if not any(quoted in said for said in claim.numbers):
            yield f"{claim.id}: {quoted} has no source"
    for said, source in claim.numbers.items():
        if said not in text:
            yield f"{claim.id}: {said} has a source and is not quoted"
        elif (value := sourced(said, source, root)) != number_in(said):
            yield f"{claim.id}: {said} is quoted, {value} is found ({source})"


def number_in(said: str) -> str:
    """First number of the words that are quoted."""
    found = _NUMBER.search(said)
    return found[0] if found else ""


def sourced(said: str, source: str, root: Path = ROOT) -> str:
    """Return what the source says, written as in the text."""
    kind, *parts = (part.strip() for part in source.split("|"))
    if kind == "chapter":
        chapter, words = parts
        said_there = number_in(said) in words and _in_chapter(chapter, words, root)
        return number_in(said) if said_there else "no such sentence"
    if kind == "exact":
        name, form = parts
        return written(EXACT[name](), form)
    conditions, column, form, *beside = parts
    table = read_table(root / "experiments" / "results" / kind)
    value = cell(table, conditions, column)
    return written(value / cell(table, beside[0], column) if beside else value, form)


def _in_chapter(chapter: str, words: str, root: Path) -> bool:
    text = (root / "notebooks" / f"{chapter}.md").read_text("utf-8")
    return words in " ".join(text.split())


def written(value: float, form: str) -> str:
    """Write a number as the text does, with a true minus sign."""
    form, _, factor = form.partition("*")
    return format(value * float(factor or 1), form).replace("-", "−")


def read_table(path: Path) -> list[dict[str, str]]:
    """Rows of a CSV file."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def cell(table: list[dict[str, str]], conditions: str, column: str) -> float:
    """One number of a table: of one row, or of several that are reduced to one number."""
    wanted = [condition.strip().split("=", 1) for condition in conditions.split(";") if condition]
    rows = [row for row in table if all(_agrees(row[name], value) for name, value in wanted)]
    if reduction := _REDUCTION.fullmatch(column):
        return _REDUCTIONS[reduction[1]]([float(row[reduction[2]]) for row in rows])
    return _only([float(row[column]) for row in rows])


def _agrees(entry: str, value: str) -> bool:
    try:
        return float(entry) == float(value)
    except ValueError:
        return entry == value


def _only(values: list[float]) -> float:
    if len(values) != 1:
        raise ValueError(f"conditions must leave one row of the table, got {len(values)}")
    return values[0]
