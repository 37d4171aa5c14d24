"""Encoders of drawn sentences, in which a word is translated by what another one says.

On drawn sentences (:mod:`fourierkernels.studies.translation.drawn`) mixers stand in the one layer
of an encoder, in a model with one layer of a decoder. What a mixer has fewer parameters than
attention, its feed-forward layers have more. All get the same trials, three rates at 500
updates; the best by validation is trained from five seeds. The table decides by the accuracy of
the next token, ends included: one token in five is an end, which all get right.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np

from fourierkernels.studies.engine.classification import Examples, logistic_regression
from fourierkernels.studies.engine.comparison_table import Cell, Row, Table, interval
from fourierkernels.studies.engine.contenders import Contender, Network
from fourierkernels.studies.engine.controls import CONTROL_MIXERS, Baseline
from fourierkernels.studies.engine.run_setup import read_data
from fourierkernels.studies.engine.trained import FINISHED, Trained
from fourierkernels.studies.engine.tuned_rates import TunedRates
from fourierkernels.studies.translation.bpe import STOP
from fourierkernels.studies.translation.presets import BREVITY

if TYPE_CHECKING:
    from fourierkernels.studies.translation.pair_files import PairFiles

_ENCODERS = {  # placement -> its name in the table, and the hidden layer that matches parameters
    "attention": ("attention", 128),
    "fourier_encoder": ("Fourier", 128),
    "fourier": ("Fourier everywhere", 128),
    "dft_encoder": ("DFT", 193),
    "parametrised_encoder": ("parametrised DFT", 193),
    "random_encoder": ("random", 193),
    "hard_gaussian_encoder": ("fixed Gaussians", 160),
    "hard_gaussian_reader": ("fixed Gaussians to read", 160),
    "linear_encoder": ("linear", 176),
    "none_encoder": ("none", 193),
}
ACCURACY, MEASURES = "token accuracy", ("token accuracy", "BLEU", "BLEU-1", "BLEU-4", BREVITY)
MOST_READ = 2_000  # training pairs that a baseline reads


@dataclass(frozen=True)
class DrawnTranslation(TunedRates):
    """Budget of encoders of drawn sentences; the same for all."""

    data: str | None = "drawn"
    seeds: tuple[int, ...] = (11, 12, 13, 14, 15)
    encoders: tuple[str, ...] = tuple(name for name, _ in _ENCODERS.values())
    widen: int = 2
    preset: str = "drawn"

    study = "translation"
    packages = ("tokenizers", "sacrebleu")
    columns = "part encoder mixer rate steps seed options"
    table = Table(index=("encoder",), contender="encoder", measures=1)
    decided_by = ACCURACY
    unit = "points"
    divergence = True
    validations = 4
    names = ("translation_drawn_networks", "translation_drawn")

    def contenders(self) -> tuple[Contender, ...]:
        """Return the encoders with as many parameters."""
        return tuple(
            Contender(name, placement, {"hidden": hidden})
            for placement, (name, hidden) in _ENCODERS.items()
        )

    def controls(self) -> tuple[str, ...]:
        """Return the encoders that mix nothing, or regardless of the tokens."""
        return tuple(name for name in CONTROL_MIXERS if name in self.encoders)

    def baselines(self) -> dict[str, Sequence[Baseline]]:
        """Return what two rules get: copies of the source, and counts of words."""
        run = self.first_setup()
        data: PairFiles = read_data(run)
        return {"": [copied_words(data), counted_words(data)]}

    def measured(self, network: Network, result: Trained) -> Row:
        """Return accuracy, scores and size."""
        found = {row.metric: row.value for row in result.measured if row.split == "test"}
        ended = result.end == FINISHED
        return {
            "end": result.end.partition(";")[0],
            "valid_loss": result.least_loss,
            **({name: found[name] for name in MEASURES} if ended else {}),
            "perplexity": found.get("perplexity", ""),
            "parameters": result.facts["parameters"] if ended else "",
            "seconds": result.seconds,
        }

    def summary(self, cell: Cell) -> Iterator[Row]:
        """Yield means with their intervals over seeds, and the difference in accuracy."""
        line = {"rate": cell.first("rate"), "seeds": len(cell.rows)}
        line |= {"parameters": cell.first("parameters"), **cell.compared(ACCURACY)}
        for name in (*MEASURES, "perplexity"):
            middle, reach = interval(cell.values(name), 1)
            line |= {name: middle, f"{name} low": middle - reach, f"{name} high": middle + reach}
        yield line

    def quick(self, folder: Path) -> Self:
        """Return a comparison of a few updates of a few encoders."""
        few = ("attention", "Fourier", "none")
        small = replace(self, encoders=few, rates=(4e-3,), seeds=(1, 2), widen=0)
        return replace(small, steps=4, trial_steps=4)


def _targets(
    data: "PairFiles", split: str, most: int | None = None
) -> Iterator[tuple[list[int], list[int]]]:
    """Yield the subwords of sources and of targets with their ends."""
    tokens = data.tokens(split)
    for start, n, m in data.index(split)[:most].tolist():
        yield tokens[start : start + n].tolist(), [*tokens[start + n : start + n + m], STOP]


def copied_words(data: "PairFiles") -> Baseline:
    """Return how often a token of a test target is that of the source at the same place."""
    right = [
        word == (source[place] if place < len(source) else STOP)
        for source, target in _targets(data, "test")
        for place, word in enumerate(target)
    ]
    return Baseline("copy of the source", 100 * float(np.mean(right)), len(right))


def counted_words(data: "PairFiles") -> Baseline:
    """Return what a logistic regression gets from place, counts of source, and words before."""
    size, places = (
        len(data.vocabulary),
        1
        + max(
            len(target)
            for split in ("train", "valid", "test")
            for _, target in _targets(data, split)
        ),
    )

    def examples(split: str) -> Examples:
        rows, words = [], []
        most = MOST_READ if split == "train" else None
        for source, target in _targets(data, split, most):
            bag = np.bincount(source, minlength=size)
            for place, word in enumerate(target):
                said = np.bincount(target[:place], minlength=size)
                rows.append(np.concatenate([bag, said, np.eye(places)[place]]))
                words.append(word)
        return Examples(np.array(rows, dtype=np.float64), np.array(words))

    return logistic_regression("bag of words", {s: examples(s) for s in ("train", "valid", "test")})
