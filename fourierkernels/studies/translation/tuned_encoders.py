"""Encoders of one size, trained alike and told apart by the accuracy of the next token."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fourierkernels.studies.engine.comparison_table import Cell, Row
from fourierkernels.studies.engine.contenders import Contender, Network
from fourierkernels.studies.engine.controls import CONTROL_MIXERS, Baseline
from fourierkernels.studies.engine.run_setup import Setup, read_data
from fourierkernels.studies.engine.trained import Trained
from fourierkernels.studies.engine.tuned_rates import TunedRates
from fourierkernels.studies.translation.bpe import STOP
from fourierkernels.studies.translation.presets import PRESETS
from fourierkernels.studies.translation.translation_measures import bleu_rows, copied_split

if TYPE_CHECKING:
    from fourierkernels.studies.translation.pair_files import PairFiles

ACCURACY, MEAN_BLEU = "token accuracy", "BLEU, mean of classes"


@dataclass(frozen=True)
class TunedEncoders(TunedRates):
    """Budget of encoders; `known` has the placement and the hidden layer of each name."""

    known: ClassVar[Mapping[str, tuple[str, int]]]
    study = "translation"
    packages = ("tokenizers", "sacrebleu")
    columns = "part encoder mixer rate steps seed options"
    decided_by = ACCURACY
    unit = "points"
    divergence = True

    @abstractmethod
    def numbers(self, result: Trained) -> Row:
        """Return the measures of a finished network."""

    def contenders(self) -> tuple[Contender, ...]:
        """Return the encoders with as many parameters."""
        return tuple(
            Contender(name, placement, {"hidden": hidden})
            for name, (placement, hidden) in self.known.items()
        )

    def controls(self) -> tuple[str, ...]:
        """Return the encoders that mix nothing, or regardless of the tokens."""
        return tuple(name for name in CONTROL_MIXERS if name in self.encoders)

    def paper_gain(self, cell: Cell, column: str) -> float | None:
        """Return by how much the report's network is better than the published one."""
        name, other = cell.index["encoder"], cell.reference_name
        known = (PRESETS["base"].published.get(self.known[each][0], {}) for each in (name, other))
        ours, theirs = (numbers.get(column) for numbers in known)
        return None if name == other or ours is None or theirs is None else ours - theirs

    def measured(self, network: Network, result: Trained) -> Row:
        """Return the measures and the size."""
        return result.row(self.numbers)


def targets(
    data: "PairFiles", split: str, most: int | None = None
) -> Iterator[tuple[list[int], list[int]]]:
    """Yield the subwords of sources and of targets with their ends."""
    tokens = data.tokens(split)
    for start, n, m in data.index(split)[:most].tolist():
        yield tokens[start : start + n].tolist(), [*tokens[start + n : start + n + m], STOP]


def copied_scores(run: Setup) -> dict[str, tuple[float, int]]:
    """Return the scores of copies of the sources of a run's test set, and their sentences."""
    copies = copied_split(read_data(run), "test", positions=run.chosen_preset.positions)
    return {name: (value, count) for name, value, count in bleu_rows(copies)}


def copied_words(data: "PairFiles") -> Baseline:
    """Return how often a token of a test target is that of the source at the same place."""
    right = [
        word == (source[place] if place < len(source) else STOP)
        for source, target in targets(data, "test")
        for place, word in enumerate(target)
    ]
    return Baseline("copy of the source", 100 * float(np.mean(right)), len(right))
