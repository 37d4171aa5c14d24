"""The encoders of the FNet paper in very small: masked pre-training, and one task after it.

[leethorp2021fnet]_ tables 2 and 4 compare encoders of a million updates. Here encoders of two
layers and 64 features (preset "tiny", length 64) have 250 updates of 16 sequences on the manual and
the docstrings of Python, cut into 150 subwords, which are hardly more than characters. What the
paper found after 256 million sequences can be neither confirmed nor refuted after 4,000.

Every encoder gets the same three trials, learning rates. The one with the least validation loss is
trained from three seeds, which decide first weights, order, masks and dropout. These networks are
measured on the same masked test sequences, and then fine-tuned for 60 updates, with one rate and no
further tuning, to tell the section of a package from its title.

Differences are from BERT, but for the encoder whose DFT takes the real part twice, which is
compared with FNet; three seeds make the intervals wide.

"stability" is the range of the validation loss over the three rates, of one seed. "unigram" (in the
JSON) is what guesses by the frequencies of the training text alone would get. "sizes" are BERT and
FNet of one layer and 32 features (preset "mini") beside those above, at the rates chosen there,
with the processor time of a training step (forward and back, median of passes, one thread).
"""

import math
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Self

import numpy as np

from fourierkernels.studies.engine.comparison import Comparison
from fourierkernels.studies.engine.comparison_table import Cell, Row, Table, grouped_rows
from fourierkernels.studies.engine.contenders import (
    COMPARED,
    Choices,
    Contender,
    Network,
    Part,
    Stage,
    grid,
    trials,
)
from fourierkernels.studies.engine.paper_table import PaperTable, Problem
from fourierkernels.studies.engine.run_setup import Setup, read_data, setup
from fourierkernels.studies.engine.trained import FINISHED, Trained, trained
from fourierkernels.studies.masked.drawn_comparison import DrawnDocuments
from fourierkernels.studies.masked.measurement import unigram
from fourierkernels.studies.masked.presets import (
    HOURS,
    METRICS,
    PAIR_ACCURACY,
    TABLE_2,
    WORD_ACCURACY,
    WORD_LOSS,
)

ENCODERS = (
    Contender("BERT", "softmax"),
    Contender("FNet", "fnet"),
    Contender("FNet hybrid", "fnet_hybrid", {"attention_layers": 1}),
    Contender("Linear", "linear"),
    Contender("FNet, two real parts", "fnet", {"real_part": "each"}, reference="FNet"),
)
SIZES, SIZED = "sizes", ("BERT", "FNet")
TITLES, TITLES_ACCURACY = "titles (%)", "accuracy (%)"
NUMBERS = (WORD_LOSS, WORD_ACCURACY, PAIR_ACCURACY)


@dataclass(frozen=True)
class MaskedComparison(Comparison):
    """Budget; the same for all encoders."""

    data: str | None = "python-documents"
    titles: str = "classification/titles"
    encoders: tuple[str, ...] = tuple(encoder.name for encoder in ENCODERS)
    rates: tuple[float, ...] = (2e-3, 4e-3, 8e-3)
    seeds: tuple[int, ...] = (1, 2, 3)
    trial_seed: int = 2022
    steps: int = 250
    tuned_steps: int = 60
    preset: str = "tiny"
    smaller: str = "mini"
    passes: int = 15

    study = "masked"
    packages = ("sentencepiece",)
    places: ClassVar = {"titles": "data_classification.py"}
    columns = "part encoder preset rate steps seed"
    table = Table(index=("encoder",), contender="encoder")
    decided_by = WORD_ACCURACY
    divergence = True

    def stages(self) -> tuple[Stage, ...]:
        """Return trials of rates, the best of them from several seeds, and smaller networks."""
        encoders = tuple(encoder for encoder in ENCODERS if encoder.name in self.encoders)
        sized = tuple(encoder for encoder in encoders if encoder.name in SIZED)
        parts = (Part(encoders, self.preset, self.steps),)
        smaller = Part(sized, self.smaller, self.steps, name=SIZES)
        first = trials(parts, grid(self.rates), self.trial_seed)
        return first, Stage(parts, self.seeds), Stage((smaller,), self.seeds)

    def measured(self, network: Network, result: Trained) -> Row:
        """Return losses and accuracies, also after fine-tuning, and the time of a step."""
        ended = result.end == FINISHED
        tunes = ended and network.part.name == COMPARED
        return {
            "end": result.end.partition(";")[0],
            "valid_loss": result.least_loss,
            **{name: result.number(name).value if ended else math.nan for name in NUMBERS},
            TITLES: self.fine_tuned(network, result.folder) if tunes else math.nan,
            "largest_gradient": result.largest_gradient,
            "step_ms": step_ms(result.run, self.passes),
            "seconds": result.seconds,
        }

    def fine_tuned(self, network: Network, start: Path) -> float:
        """Return the accuracy on titles after fine-tuning a network, in percent."""
        titles, seed = self.titles, network.seed
        run = setup("glue", preset="sentences", start=start, data=titles, seed=seed)
        recipe = self.shortened(run.recipe, self.tuned_steps)
        with trained(replace(run, recipe=recipe)) as result:
            return result.number(TITLES_ACCURACY).value

    def summary(self, cell: Cell) -> Iterator[Row]:
        """Yield means, differences, and the range over the rates."""
        losses = [float(row["valid_loss"]) for row in cell.trials]
        line = {
            "rate": cell.first("rate"),
            "seeds": len(cell.rows),
            "masked_loss": cell.values(WORD_LOSS).mean(),
            "next_accuracy": cell.values(PAIR_ACCURACY).mean(),
            "step_ms": statistics.median(cell.values("step_ms").tolist()),
            "rates_ended": sum(math.isfinite(loss) for loss in losses),
            "stability": max(losses) - min(losses),
            "beside": cell.reference_name,
            "comparisons": cell.comparisons,
        }
        for short, name in (("masked", WORD_ACCURACY), ("titles", TITLES)):
            mean, bert = float(cell.values(name).mean()), float(cell.baseline_values(name).mean())
            middle, low, high = cell.difference(name)
            line |= {
                f"{short}_accuracy": mean,
                f"{short}_share": 100 * mean / bert,
                f"{short}_difference": middle,
                f"{short}_low": low,
                f"{short}_high": high,
            }
        yield line

    def further_tables(self, rows: Sequence[Row]) -> Mapping[str, Sequence[Row]]:
        """Return the table of sizes."""
        sized = [
            row for row in rows if row["part"] in (COMPARED, SIZES) and row["encoder"] in SIZED
        ]
        groups = grouped_rows(sized, ("encoder", "preset"))
        cells = [Cell({"encoder": key[0], "preset": key[1]}, own) for key, own in groups.items()]
        return {"masked_sizes": [{**cell.index, **_of_size(cell)} for cell in cells]}

    def facts(self, chosen: Choices) -> Mapping[str, object]:
        """Return what guesses by the frequencies of the training text alone would get."""
        run = setup(self.study, preset=self.preset, data=self.data)
        return {"unigram": unigram(read_data(run))}

    def quick(self, folder: Path) -> Self:
        """Return a comparison of two updates on texts of a few words."""
        write_example(folder)
        return replace(
            self,
            data=str(folder / "documents"),
            titles=str(folder / "titles"),
            encoders=("BERT", "FNet", "FNet, two real parts"),
            rates=(4e-3,),
            seeds=(1, 2),
            steps=2,
            tuned_steps=2,
            passes=2,
        )


def _of_size(cell: Cell) -> Row:
    accuracies = cell.values(WORD_ACCURACY)
    return {
        "seeds": len(cell.rows),
        "masked_accuracy": accuracies.mean(),
        "lowest": accuracies.min(),
        "highest": accuracies.max(),
        "step_ms": statistics.median(cell.values("step_ms").tolist()),
    }


def step_ms(run: Setup, passes: int) -> float:
    """Return the processor time of a pass there and back of one batch, in milliseconds."""
    study, preset = run.study, run.chosen_preset
    documents = read_data(run)
    model = study.build(preset, documents, run.mixer).train()
    goal = study.objective(preset, documents, run.recipe)
    batch, times = study.batches(preset, documents, run.recipe).probe(run.recipe.batch)
    measured = []
    for _ in range(passes + 1):
        begun = time.process_time()
        goal.loss(model, batch).backward()  # type: ignore[no-untyped-call]
        measured.append(1e3 * times * (time.process_time() - begun))
    return statistics.median(measured[1:])  # the first pass allocates


def write_example(folder: Path) -> None:
    """Write a few documents and titles into folders of these names."""
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


NAMES = {  # of the paper's tables
    "softmax": "BERT",
    "linear": "Linear",
    "fnet": "FNet",
    "random": "Random",
    "none": "FF-only",
    "fnet_hybrid": "FNet hybrid",
}


def of_c4(size: str) -> Problem:
    """Return an encoder of a size of the paper, which learns C4."""
    return Problem(size, "masked", size, "c4", hours=HOURS[size])


def of_documents(problem: Problem, folder: Path) -> Problem:
    """Return a small encoder of a few words in the place of one of C4."""
    if not (folder / "documents").is_dir():
        write_example(folder)
    return replace(problem, preset="tiny", data="", place=str(folder / "documents"))


@dataclass(frozen=True)
class MaskedTable(PaperTable):
    """Table 2, whose large encoders have fewer mixers."""

    def parts(self) -> tuple[Part, ...]:
        """Return the contenders that the paper has of each size."""
        return tuple(
            replace(part, contenders=tuple(c for c in part.contenders if self.has(part, c)))
            for part in super().parts()
        )

    def has(self, part: Part, contender: Contender) -> bool:
        """Whether the paper has a mixer in this size; of others, all of them."""
        return contender.mixer in TABLE_2.get(part.problem, NAMES)


TABLE_OF_LOSSES = MaskedTable(
    file="fnet_2",
    shows="Masked pre-training on C4, base and large: losses and accuracies",
    source="leethorp2021fnet, table 2",
    problems=tuple(map(of_c4, ("base", "large"))),
    contenders=tuple(Contender(name, mixer) for mixer, name in NAMES.items()),
    metrics=tuple(f"valid {metric}" for metric in METRICS),
    stand_in=of_documents,
)
FIGURE_2 = PaperTable(
    file="fnet_figure_2",
    shows="Masked accuracy of eight sizes at the better of two rates (figures 2 and 3)",
    source="leethorp2021fnet, figures 2 and 3, which print no numbers",
    problems=tuple(map(of_c4, HOURS)),
    contenders=tuple(Contender(NAMES[mixer], mixer) for mixer in ("softmax", "linear", "fnet")),
    metrics=(f"valid {WORD_ACCURACY}",),
    rates=(1e-4, 1e-3),
    stand_in=of_documents,
)
COMPARISONS: dict[str, Comparison] = {
    "fnet-2": TABLE_OF_LOSSES,
    "fnet-figure-2": FIGURE_2,
    "masked-small": MaskedComparison(time="6 min"),
    "masked-recall": DrawnDocuments(time="70 min"),
}
