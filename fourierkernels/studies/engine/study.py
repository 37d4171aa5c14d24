"""What a study is: models in several sizes, data, recipes, a metric and published numbers.

A new study is a folder whose module ``study`` has an instance of a subclass of :class:`Study`,
named ``STUDY``, and a row of :data:`~fourierkernels.studies.registry.STUDIES`.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sized
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from torch import Tensor, nn

from fourierkernels.foundation.files import write_text
from fourierkernels.mixing.registry import check_options, mixer_names
from fourierkernels.studies.engine.controls import Baseline
from fourierkernels.studies.engine.data_sets import DataSet
from fourierkernels.studies.engine.epochs import Batch, Epochs
from fourierkernels.studies.engine.mixers import ChosenMixer
from fourierkernels.studies.engine.recipe import Preset, Recipe


class StudyData(Protocol):
    """What the engine reads of the data of any study."""

    @property
    def corpus(self) -> str:
        """Name of the data set."""

    @property
    def source(self) -> str:
        """What was read, for messages and results."""

    @property
    def digest(self) -> str:
        """SHA-256 of the data and of how they are read."""

    @property
    def vocabulary(self) -> Sized:
        """What models predict one of."""

    @property
    def counts(self) -> Mapping[str, int]:
        """Items of each split."""


@dataclass(frozen=True)
class Measured:
    """One number of a trained model.

    Attributes
    ----------
    split : str
        Text it was measured on.
    metric : str
        What was measured.
    value : float
        The number.
    positions : int
        How many predictions or sentences it is of.
    published : float or None
        The number in the paper, where there is one for this preset, mixer and corpus.
    """

    split: str
    metric: str
    value: float
    positions: int
    published: float | None = None


@dataclass(frozen=True)
class Terms:
    """Nouns for what models predict and what data consist of, in plans, results and messages.

    Attributes
    ----------
    outputs_of, outputs : str
        "vocabulary" and "words", for instance.
    data, items : str
        "training text" and "tokens".
    place : str
        What ``--data`` has to name.
    """

    outputs_of: str = "vocabulary"
    outputs: str = "words"
    data: str = "training text"
    items: str = "tokens"
    place: str = "a folder"


@dataclass(frozen=True)
class Predictions:
    """What a model predicts for the words of a batch.

    Attributes
    ----------
    scores : Tensor
        Logits or log-probabilities of all words, ``(n, V)``, without rows of padding.
    words : Tensor
        The words that come, ``(n,)``.
    count : Tensor
        By which a sum over the n words is divided for the mean that is minimised.
    """

    scores: Tensor
    words: Tensor
    count: Tensor


@dataclass(frozen=True)
class Objective:
    """What a run minimises and validates: all that the Trainer knows of a study.

    Attributes
    ----------
    loss : callable
        From a model and a batch to the mean loss, a scalar.
    validate : callable
        From a model, the number of this process and the number of all processes to the sum of the
        losses of its share of the validation split, to how many there are, and to a sum for each
        of `further`.
    even : float
        Loss of an even guess.
    further : tuple of str
        Names of what else the validation sums up, such as "accuracy"; the curve has their means.
    """

    loss: Callable[[Any, Batch], Tensor]
    validate: Callable[[Any, int, int], tuple[float, ...]]
    even: float
    further: tuple[str, ...] = ()


PresetT = TypeVar("PresetT", bound=Preset)
DataT = TypeVar("DataT", bound=StudyData)
ModelT = TypeVar("ModelT", bound=nn.Module)


class Study(ABC, Generic[PresetT, DataT, ModelT]):
    """A study: its models, its data, and what of them is measured.

    Attributes
    ----------
    name : str
        Under which the table of studies has it, which sets it.
    presets : mapping
        Its sizes.
    default : str
        The preset that is taken where none is named.
    causal : bool
        Whether its models predict what comes next, which not all mixers can.
    terms : Terms
        What its data are called.
    packages : tuple of str
        Distributions whose versions ``results.json`` names besides those of the engine.
    experiment : str
        Name of the committed results in which its models are compared on a small scale.
    description : str
        File in the folder of a run that says how its data are read (:meth:`reading`).
    normalises : bool
        Whether that depends on statistics of the training data.
    uncounted : str
        What :meth:`measure` does besides, whose time is not known before a model is trained.
    baseline_metric : str
        In the name of the column that its baselines are of; empty if it has none.
    """

    name: str = ""
    presets: Mapping[str, PresetT]
    default: str = "tiny"
    causal: bool = False
    terms: Terms = Terms()
    packages: tuple[str, ...] = ()
    experiment: str = ""
    description: str = "reading.json"
    normalises: bool = False
    uncounted: str = ""
    baseline_metric: str = ""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def mixers(self) -> list[str]:
        """Return the names of the mixers that its models can have."""
        return mixer_names(causal=self.causal)

    def check_mixer(self, mixer: ChosenMixer) -> None:
        """Refuse options that a mixer does not have, and one that lets it see what it predicts.

        Raises
        ------
        ValueError, TypeError
            Naming the option, and those that there are.
        """
        check_options(mixer.name, mixer.options)
        if self.causal and mixer.options.get("mask") == "after":
            # It is the report's, for decoders, which translate without later words. Here all
            # places of a pass are scored, each with later ones in the sum that divides it.
            raise ValueError(
                "mask must be before where a study scores each prediction beside what comes later, "
                "which the sum that divides weights would see, got 'after'"
            )

    @abstractmethod
    def data_sets(self) -> Mapping[str, DataSet[Any]]:
        """Return the table of the data that it can be trained on."""

    @abstractmethod
    def read(self, preset: PresetT, data: str | Path | None, *, cache: Path | None = None) -> DataT:
        """Return the data of a run; those of the preset for None.

        Raises
        ------
        ValueError
            If none are named for a preset that needs some, or they cannot be read.
        ImportError
            If a package is missing that reading, or measuring later, needs.
        """

    @abstractmethod
    def build(self, preset: PresetT, data: DataT, mixer: ChosenMixer) -> ModelT:
        """Return a model with random weights for what the data have."""

    @abstractmethod
    def batches(self, preset: PresetT, data: DataT, recipe: Recipe) -> Epochs:
        """Return the training batches, in the order of the run.

        Raises
        ------
        ValueError
            If the recipe asks for an order that the data do not have.
        """

    @abstractmethod
    def objective(self, preset: PresetT, data: DataT, recipe: Recipe) -> Objective:
        """Return what is minimised and validated."""

    @abstractmethod
    def measure(
        self,
        preset: PresetT,
        data: DataT,
        mixer: str,
        model: ModelT,
        *,
        splits: tuple[str, ...] = ("valid", "test"),
        positions: int | None = None,
        folder: Path | None = None,
    ) -> list[Measured]:
        """Return the numbers of the paper's table for a trained model.

        Parameters
        ----------
        positions : int, optional
            How many items of each split, evenly spread over it, are measured; all by default.
        folder : Path, optional
            That of the run, where what other commands read is left.
        """

    def measuring(self, preset: PresetT, data: DataT) -> float:
        """Return how many times as long as a validation :meth:`measure` takes, by its items."""
        counts, most = data.counts, preset.positions
        held = [count for name, count in counts.items() if not name.startswith("train")]
        return sum(min(count, most or count) for count in held) / counts["valid"]

    def facts(self, preset: PresetT, data: DataT) -> Mapping[str, Any]:
        """Return what the numbers of a run also depend on, for its ``results.json``."""
        return {}

    def baselines(self, preset: PresetT, data: DataT) -> list[Baseline]:
        """Return what rules on the raw input get, which mix no tokens: controls of a comparison."""
        return []

    def reading(self, data: DataT) -> Mapping[str, Any]:
        """Return how data are read, as far as a trained model depends on it."""
        return {}

    def prepare(self, folder: Path, data: DataT) -> None:
        """Write into the folder of a run, before it starts, how its data are read."""
        write_text(folder / self.description, json.dumps(self.reading(data), indent=2) + "\n")

    def check(self, folder: Path, data: DataT) -> None:
        """Refuse data that the model of the run in a folder cannot read.

        Raises
        ------
        ValueError
            What differs is named.
        """
        file, ours = folder / self.description, self.reading(data)
        same = f", by the same {self.terms.data}" if self.normalises else ""
        try:
            known = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            items = self.terms.data.removeprefix("training ")
            raise ValueError(f"{file} must say how {items} are read, got {error!r}") from error
        theirs = known if isinstance(known, dict) else {}
        wrong = [name for name in ours if theirs.get(name) != ours[name]]
        if wrong:
            raise ValueError(
                f"data must be read as those of the run in {folder}{same}, "
                f"got others: {', '.join(wrong)}"
            )

    def named(self, preset: PresetT, data: str | Path | None) -> str | Path:
        """Return the data that are named, or those of the preset.

        Raises
        ------
        ValueError
            If neither names any.
        """
        chosen = preset.data if data is None else data
        if chosen is None:
            raise ValueError(
                f"data must be {self.terms.place} for this preset: --data FOLDER (--list after the "
                "study's name says where to get it), got none"
            )
        return chosen


class TaughtStudy(Study[PresetT, DataT, ModelT]):
    """A study whose models can learn from a teacher, too, word by word."""

    @abstractmethod
    def scores(self, model: ModelT, batch: Batch) -> Predictions:
        """Return the scores of all words, which are compared with those of the teacher."""


class PairedStudy(Study[PresetT, DataT, ModelT]):
    """A study of two languages, which data of several have to be told."""

    @abstractmethod
    def read(
        self,
        preset: PresetT,
        data: str | Path | None,
        *,
        cache: Path | None = None,
        pair: str | None = None,
    ) -> DataT:
        """Return the data of a run, from the first language of a pair to the second."""


class StartedStudy(Study[PresetT, DataT, ModelT]):
    """A study whose models begin with those of another run."""

    @abstractmethod
    def read(
        self,
        preset: PresetT,
        data: str | Path | None,
        *,
        cache: Path | None = None,
        start: Path | None = None,
    ) -> DataT:
        """Return the data of a run, as the model in `start` reads them."""
