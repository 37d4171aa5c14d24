"""What a study is: models in several sizes, data, recipes, a metric and published numbers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from torch import nn

from fourierkernels.studies.engine.data_sets import DataSet
from fourierkernels.studies.engine.objective import Objective, Scored
from fourierkernels.studies.engine.recipe import Recipe
from fourierkernels.studies.engine.segments import Batch
from fourierkernels.studies.images.augmentation import Augmentation


@dataclass(frozen=True)
class Preset:
    """One size of a study.

    Attributes
    ----------
    summary : str
        What it is for, in a line.
    model : mapping
        Hyperparameters of the model, but for the mixer and what the data decide.
    recipe : Recipe
        How it is trained.
    mixer_options : mapping of str to mapping
        Options of mixers, by their names.
    data : str or None
        A corpus that is read where none is named; None where one has to be named.
    most_words : int or None
        Largest vocabulary; the corpus's own if None.
    positions : int or None
        Windows of a sliding evaluation, sentences of each split that are translated, or images
        that are classified; all if None.
    budget : int or None
        Tokens of a batch, where its size follows the length of its sequences.
    augmentation : Augmentation or None
        What is done to training images; nothing if None.
    published : mapping of str to mapping
        The paper's numbers by mixer and by what the study names them.
    """

    summary: str
    model: Mapping[str, Any]
    recipe: Recipe
    mixer_options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    data: str | None = None
    most_words: int | None = None
    positions: int | None = None
    budget: int | None = None
    augmentation: Augmentation | None = None
    published: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


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
    """What a study calls that of which its models predict one, and that of which its data are.

    Attributes
    ----------
    outputs_of, outputs : str
        "vocabulary" and "words", for instance.
    data, items : str
        "training text" and "tokens".
    """

    outputs_of: str = "vocabulary"
    outputs: str = "words"
    data: str = "training text"
    items: str = "tokens"


class Updates(Protocol):
    """The training batches of a run, in their order: a data set of torch."""

    @property
    def updates_per_epoch(self) -> float:
        """Updates in which the data are read once."""

    def __len__(self) -> int: ...

    def __getitems__(self, indices: Sequence[int]) -> Batch:
        """Return one batch of the items of some places."""

    def probe(self, most: int) -> tuple[Batch, float]:
        """Return a batch of at most `most` sequences, and how many such batches an update has."""


@dataclass(frozen=True)
class Study:
    """One row of :data:`~fourierkernels.studies.registry.STUDIES`.

    Attributes
    ----------
    title : str
        What is studied, in a line.
    presets : mapping
        Its sizes.
    mixers : callable
        Returns the names of the mixers that its models can have.
    read : callable
        From a preset and what was given as data (or None) to the data.
    build : callable
        From a preset, the data, a mixer and its options to a model with random weights.
    batches : callable
        From a preset, the data and a recipe to the training batches.
    objective : callable
        From a preset, the data and a recipe to what is minimised and validated.
    measure : callable
        From a preset, the data, a mixer and a trained model to the numbers of the paper's table.
        Its options are `splits`, `positions` and `folder`, that of the run, or None: there it
        leaves what other commands read.
    check_options : callable
        From a mixer and its options, raises ValueError or TypeError if it has no such options.
    prepare : callable
        Writes into the folder of a run, before it starts, how its data are read: the vocabulary.
    check : callable
        From the folder of a run and other data, raises ValueError if its model cannot read them.
    facts : callable
        From a preset and the data to what ``results.json`` says besides.
    packages : tuple of str
        Distributions whose versions it names besides.
    scores : callable or None
        From a model and a batch to the scores of all words, which a teacher's are compared with;
        None if no model of the study learns from a teacher.
    default : str
        The preset that is taken where none is named.
    terms : Terms
        What its data are called in plans and results.
    data : callable
        Returns the table of the data it can be trained on.
    experiment : str
        The script in ``experiments/`` that compares its models in small, and whose results have
        its name.
    starts : bool
        Whether its models begin with those of another run, which `read` takes as `start`.
    """

    title: str
    presets: Mapping[str, Preset]
    mixers: Callable[[], list[str]]
    read: Callable[..., Any]
    build: Callable[[Preset, Any, str, Mapping[str, Any]], nn.Module]
    batches: Callable[[Preset, Any, Recipe], Updates]
    objective: Callable[[Preset, Any, Recipe], Objective]
    measure: Callable[..., list[Measured]]
    check_options: Callable[[str, Mapping[str, Any]], object]
    prepare: Callable[[Path, Any], None]
    check: Callable[[Path, Any], None]
    facts: Callable[[Preset, Any], Mapping[str, Any]] = lambda preset, data: {}
    packages: tuple[str, ...] = ()
    scores: Callable[[nn.Module, Batch], Scored] | None = None
    default: str = "tiny"
    terms: Terms = Terms()
    data: Callable[[], Mapping[str, DataSet[Any]]] = dict
    experiment: str = ""
    starts: bool = False
