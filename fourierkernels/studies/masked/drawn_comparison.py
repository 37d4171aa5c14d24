"""Masked pre-training on drawn documents: which mixers find the word that tells a masked one.

On text, what encoders learn in a few thousand updates is little more than which words stand beside
each other, which any mixing sees. The documents of :mod:`fourierkernels.studies.masked.drawn` have
nothing of that kind. Encoders of the FNet paper, and Fourier attention (l = 4), have two layers of
64 features and the same trials, three rates; the best by validation is trained from five seeds.
Documents, batch and updates were chosen by trials of softmax and of the linear mixer, of a seed
that is in no table. The paper's differences from BERT are those of a million updates on C4.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from fourierkernels.studies.engine.comparison_table import Cell, Row, Table
from fourierkernels.studies.engine.contenders import Contender, Network
from fourierkernels.studies.engine.controls import Baseline
from fourierkernels.studies.engine.run_setup import read_data
from fourierkernels.studies.engine.trained import FINISHED, Trained
from fourierkernels.studies.engine.tuned_rates import TunedRates
from fourierkernels.studies.masked.measurement import Measurement, unigram
from fourierkernels.studies.masked.presets import (
    METRICS,
    PAIR_ACCURACY,
    TABLE_2,
    WORD_ACCURACY,
    WORD_LOSS,
)

if TYPE_CHECKING:
    from fourierkernels.studies.masked.document_files import DocumentFiles

ENCODERS = (
    Contender("BERT", "softmax"),
    Contender("Fourier", "fourier"),
    Contender("FNet", "fnet"),
    Contender("FNet hybrid", "fnet_hybrid", {"attention_layers": 1}),
    Contender("Random", "random"),
    Contender("Linear", "linear"),
    Contender("FF-only", "none"),
)
_MEASURED = (WORD_ACCURACY, WORD_LOSS, PAIR_ACCURACY)


@dataclass(frozen=True)
class DrawnDocuments(TunedRates):
    """Budget; the same for all encoders."""

    encoders: tuple[str, ...] = tuple(encoder.name for encoder in ENCODERS)
    steps: int = 1_500
    trial_steps: int = 1_000
    widen: int = 1
    preset: str = "recall"

    study = "masked"
    packages = ("sentencepiece",)
    columns = "part encoder mixer rate steps seed"
    table = Table(index=("encoder",), contender="encoder")
    decided_by = WORD_ACCURACY
    divergence = True
    names = ("masked_recall_networks", "masked_recall")

    def contenders(self) -> tuple[Contender, ...]:
        """Return the encoders of the paper's Table 2, and Fourier attention."""
        return ENCODERS

    def baselines(self) -> dict[str, Sequence[Baseline]]:
        """Return what guesses of the most frequent word get."""
        run = self.first_setup()
        documents: DocumentFiles = read_data(run)
        wrong, most = run.chosen_preset.wrong, run.chosen_preset.positions
        words = Measurement(documents, "test", wrong=wrong, most=most).guessed
        return {"": [Baseline("most frequent word", unigram(documents)["accuracy"], words)]}

    def measured(self, network: Network, result: Trained) -> Row:
        """Return losses and accuracies on the test documents."""
        ended = result.end == FINISHED
        return {
            "end": result.end.partition(";")[0],
            "valid_loss": result.least_loss,
            **({name: result.number(name).value for name in _MEASURED} if ended else {}),
            "seconds": result.seconds,
        }

    def summary(self, cell: Cell) -> Iterator[Row]:
        """Yield means and the difference from BERT in masked accuracy."""
        yield {
            "rate": cell.first("rate"),
            "seeds": len(cell.rows),
            "masked_accuracy": cell.values(WORD_ACCURACY).mean(),
            "least": cell.values(WORD_ACCURACY).min(),
            "largest": cell.values(WORD_ACCURACY).max(),
            "masked_loss": cell.values(WORD_LOSS).mean(),
            "next_accuracy": cell.values(PAIR_ACCURACY).mean(),
            **cell.compared(WORD_ACCURACY),
        }

    def paper_gain(self, cell: Cell, column: str) -> float | None:
        """Return how many points of masked accuracy the paper's base model is ahead of BERT."""
        mixers = {encoder.name: encoder.mixer for encoder in ENCODERS}
        row = TABLE_2["base"].get(mixers[str(cell.index["encoder"])])
        place = METRICS.index(column)
        bert = TABLE_2["base"]["softmax"]
        return None if row in (None, bert) else 100 * (row[place] - bert[place])

    def quick(self, folder: Path) -> Self:
        """Return a comparison of a few updates of a few encoders."""
        few = replace(self, encoders=("BERT", "Fourier", "Linear", "FF-only"), widen=0)
        return replace(few, rates=(4e-3,), seeds=(1, 2), steps=4, trial_steps=2)
