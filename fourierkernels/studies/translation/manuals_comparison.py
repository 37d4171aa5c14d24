"""Encoders of English manuals that are translated into Italian, with controls.

[chen_attention]_ sets a DFT in the encoder beside a published number of attention: 27.2 and 28.1 of
BLEU, the mean over classes of length. Here both are trained alike in the preset "little", 2 + 2
layers, on the manuals that ``experiments/data_bitext.py`` fetches, beside an encoder that mixes
nothing, one that mixes by trained matrices, and copies of the source. What a mixer has fewer
parameters than attention, all feed-forward layers have more. All get the same trials, three rates
at 750 updates; the best by validation is trained from four seeds, 5,000 updates each.
Levels are corrected for two measures, the accuracy that decides and the mean over classes; others
are shown beside.

A difference has an interval over seeds, and another one over seeds and test items: tokens of an
accuracy, sentences of the scores, which are drawn anew. Both networks are counted as if each had
items of its own, which is too much where they err alike. The smallest gain of a score is that over
seeds alone.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from fourierkernels.studies.engine.comparison_table import Cell, Row, Table, by_seed
from fourierkernels.studies.engine.contenders import Choices
from fourierkernels.studies.engine.controls import Baseline
from fourierkernels.studies.engine.power import binomial_error, paired, variance_of, widest_reach
from fourierkernels.studies.engine.run_setup import read_data
from fourierkernels.studies.engine.trained import Trained
from fourierkernels.studies.translation.presets import BREVITY
from fourierkernels.studies.translation.translation_measures import deviations, read_translations
from fourierkernels.studies.translation.tuned_encoders import (
    ACCURACY,
    MEAN_BLEU,
    TunedEncoders,
    copied_scores,
    copied_words,
)

if TYPE_CHECKING:
    from fourierkernels.studies.translation.pair_files import PairFiles

ENCODERS = {  # name -> its placement, and the hidden layer that matches parameters
    "attention": ("attention", 256),
    "DFT": ("dft_encoder", 353),
    "none": ("none_encoder", 353),
    "linear": ("linear_encoder", 318),
}
LOSS = "cross-entropy"
MEASURES = (ACCURACY, MEAN_BLEU, "BLEU", LOSS, BREVITY)
_ERROR = ", error over items"  # of a network, ends the name of a column
_RESAMPLES = 1_000
_WORDS = ("the", "small", "kernel", "sums", "all", "points", "near", "a", "given", "place")
_PAIRS = 200


@dataclass(frozen=True)
class ManualTranslation(TunedEncoders):
    """Budget of encoders of manuals; the same for all."""

    data: str | None = "bitext"
    seeds: tuple[int, ...] = (3, 4, 5, 6)
    encoders: tuple[str, ...] = tuple(ENCODERS)
    rates: tuple[float, ...] = (1.5e-3, 3e-3, 6e-3)
    steps: int = 5_000
    trial_steps: int = 750
    widen: int = 1
    preset: str = "little"

    known = ENCODERS
    places: ClassVar = {"data": "data_bitext.py"}
    table = Table(index=("encoder",), contender="encoder", measures=2)
    validations = 2
    names = ("translation_manuals_networks", "translation_manuals")

    def baselines(self) -> dict[str, Sequence[Baseline]]:
        """Return what copies of the source get."""
        return {"": [copied_words(read_data(self.first_setup()))]}

    def numbers(self, result: Trained) -> Row:
        """Return accuracy, scores and loss, with their errors over test items."""
        found = {row.metric: row.value for row in result.measured if row.split == "test"}
        numbers = {**found, LOSS: math.log(found["perplexity"])}
        rng = np.random.default_rng(0)  # the same sentences for all networks
        sentences = read_translations(result.folder, "test")
        errors = deviations(sentences, resamples=_RESAMPLES, rng=rng)
        errors[ACCURACY] = binomial_error(found[ACCURACY], 0.0, result.number(ACCURACY).positions)
        return {
            **{name: numbers[name] for name in MEASURES},
            **{f"{name}{_ERROR}": errors[name] for name in MEASURES if name in errors},
        }

    def summary(self, cell: Cell) -> Iterator[Row]:
        """Yield a row for each measure."""
        for measure in MEASURES:
            yield {**cell.line(measure), **_over_items(cell, measure)}

    def measure_of(self, line: Row) -> str:
        """Return the measure of a line."""
        return str(line["measure"])

    def facts(self, chosen: Choices) -> Mapping[str, object]:
        """Return the rates that trials chose, and the scores of copies of the source."""
        run = self.first_setup()
        data: PairFiles = read_data(run)
        found = copied_scores(run)
        scores = {name: value for name, (value, _) in found.items() if name in MEASURES}
        return {**super().facts(chosen), "pairs": data.pairs, "copies of the source": scores}

    def quick(self, folder: Path) -> Self:
        """Return a comparison of a few updates on made-up pairs."""
        small = replace(self, data=str(write_pairs(folder)), rates=(3e-3,), seeds=(1, 2), widen=0)
        return replace(small, steps=4, trial_steps=2)


def _over_items(cell: Cell, measure: str) -> Row:
    """Return the ends of the interval over seeds and test items, where these are counted."""
    ends = ("low_items", "high_items")
    own, other = (by_seed(rows, measure) for rows in (cell.rows, cell.reference))
    errors = [by_seed(rows, f"{measure}{_ERROR}") for rows in (cell.rows, cell.reference)]
    if cell.index["encoder"] == cell.reference_name or not all(errors):
        return dict.fromkeys(ends, "")
    gaps = paired(own, other)
    of_seeds = math.sqrt(variance_of(own, other) / len(gaps)) if len(gaps) else math.nan
    of_items = math.hypot(*(float(np.mean(list(each.values()))) for each in errors))
    reach = widest_reach(of_seeds, of_items, len(gaps), cell.comparisons)
    return dict(zip(ends, (gaps.mean() - reach, gaps.mean() + reach), strict=True))


def write_pairs(folder: Path) -> Path:
    """Write pairs of short sentences, whose translations are the same words backwards."""
    place = folder / "toy-en-it"
    place.mkdir()
    lines = [[_WORDS[(n * k) % len(_WORDS)] for k in range(1, n % 7 + 3)] for n in range(_PAIRS)]
    for ending, step in (("en", 1), ("it", -1)):
        texts = (f"{number} {' '.join(line[::step])}" for number, line in enumerate(lines))
        (place / f"text.{ending}").write_text("\n".join(texts) + "\n", encoding="utf-8")
    return place
