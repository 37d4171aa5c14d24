"""The translation tables: IWSLT'14 of the FourierFormer paper, and those of the report on the DFT.

[nguyen2022fourierformer]_, table 5, and [chen_attention]_, tables 2 and 3. Its figure 4 draws table
2, and its figure 3 has the curves of the same network, ``curve.csv`` in the folder of the run.
``experiments/translation_report.py`` compares small models of real sentences.

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
from fourierkernels.studies.engine.comparison import Comparison
from fourierkernels.studies.engine.comparison_table import Cell, Row, Table, interval
from fourierkernels.studies.engine.contenders import (
    Contender,
    Network,
    Part,
)
from fourierkernels.studies.engine.controls import CONTROL_MIXERS, Baseline
from fourierkernels.studies.engine.paper_table import PaperTable, Problem
from fourierkernels.studies.engine.run_setup import read_data
from fourierkernels.studies.engine.trained import FINISHED, Trained
from fourierkernels.studies.engine.tuned_rates import TunedRates
from fourierkernels.studies.translation.bpe import STOP
from fourierkernels.studies.translation.presets import BREVITY, PRESETS

if TYPE_CHECKING:
    from fourierkernels.studies.translation.pair_files import PairFiles

MEAN = "test BLEU, mean of classes"
_WORDS = ("the", "small", "kernel", "sums", "all", "points", "near", "a", "given", "place")
_PAIRS = 200
HOURS = {"base": 2_700, "big": 9_100}  # of one core, attention


def write_pairs(folder: Path) -> Path:
    """Write pairs of short sentences, whose translations are the same words backwards."""
    place = folder / "toy-en-it"
    place.mkdir()
    lines = [[_WORDS[(n * k) % len(_WORDS)] for k in range(1, n % 7 + 3)] for n in range(_PAIRS)]
    for ending, step in (("en", 1), ("it", -1)):
        texts = (f"{number} {' '.join(line[::step])}" for number, line in enumerate(lines))
        (place / f"text.{ending}").write_text("\n".join(texts) + "\n", encoding="utf-8")
    return place


def _pairs(problem: Problem, folder: Path) -> Problem:
    """Return a small model of pairs that are made up in the place of a corpus."""
    known = folder / "toy-en-it"
    place = known if known.is_dir() else write_pairs(folder)
    return replace(problem, preset="tiny", data="", place=str(place))


def _of_size(size: str) -> Problem:
    return Problem(size, "translation", size, "wmt", hours=HOURS[size])


class SizesTable(PaperTable):
    """Table 3 of the report, in which the DFT has one size alone."""

    def parts(self) -> tuple[Part, ...]:
        """Return the placements that the table has of each size."""
        first, *others = super().parts()
        return first, *(replace(part, contenders=part.contenders[:1]) for part in others)


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

    @property
    def title(self) -> str:
        """What it compares, in a line."""
        return "Encoders of drawn sentences, in which a word is translated by what another one says"

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


_ATTENTION, _DFT = Contender("attention", "attention"), Contender("dft_encoder", "dft_encoder")
COMPARISONS: dict[str, Comparison] = {
    "fourierformer-5": PaperTable(
        file="fourierformer_5",
        shows="Translation of IWSLT'14 German-English: BLEU",
        source="nguyen2022fourierformer, table 5",
        problems=(Problem("iwslt", "translation", "iwslt", "iwslt14"),),
        contenders=(_ATTENTION, Contender("fourier", "fourier")),
        metrics=("test tokenised BLEU", "test BLEU"),
        stand_in=_pairs,
    ),
    "need-attention-2": PaperTable(
        file="need_attention_2",
        shows="Translation with the DFT in the encoder: BLEU by length (figures 3 and 4, too)",
        source="chen_attention, table 2",
        problems=(_of_size("base"),),
        contenders=(_DFT,),
        metrics=tuple(f"test {metric}" for metric in PRESETS["base"].published["dft_encoder"]),
        stand_in=_pairs,
    ),
    "need-attention-3": SizesTable(
        file="need_attention_3",
        shows="Translation with attention, base and big, and with the DFT in the encoder: BLEU",
        source="chen_attention, table 3",
        problems=tuple(map(_of_size, HOURS)),
        contenders=(_ATTENTION, _DFT),
        metrics=(MEAN,),
        stand_in=_pairs,
    ),
    "translation-drawn": DrawnTranslation(time="42 min"),
}
