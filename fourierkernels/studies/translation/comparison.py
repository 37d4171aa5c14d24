"""The translation tables: IWSLT'14 of the FourierFormer paper, and those of the report on the DFT.

[nguyen2022fourierformer]_, table 5, and [chen_attention]_, tables 2 and 3. Its figure 4 draws table
2, and its figure 3 has the curves of the same network, ``curve.csv`` in the folder of the run.
Small models with controls: :mod:`fourierkernels.studies.translation.drawn_comparison` and
:mod:`fourierkernels.studies.translation.manuals_comparison`.
"""

from dataclasses import replace
from pathlib import Path

from fourierkernels.studies.engine.comparison import Comparison
from fourierkernels.studies.engine.contenders import Contender, Part
from fourierkernels.studies.engine.paper_table import PaperTable, Problem
from fourierkernels.studies.translation.drawn_comparison import DrawnScores, DrawnTranslation
from fourierkernels.studies.translation.manuals_comparison import ManualTranslation, write_pairs
from fourierkernels.studies.translation.presets import PRESETS

MEAN = "test BLEU, mean of classes"
HOURS = {"base": 2_700, "big": 9_100}  # of one core, attention


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
    "translation-scores": DrawnScores(time="84 min"),
    "translation-manuals": ManualTranslation(time="2 h"),
}
