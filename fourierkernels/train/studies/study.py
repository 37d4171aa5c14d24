"""What a study is: models in several sizes, data, recipes, a metric and published numbers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import nn
from torch.utils.data import Dataset

from fourierkernels.train.objective import Objective
from fourierkernels.train.recipe import Recipe
from fourierkernels.train.segments import Batch


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
        Windows of a sliding evaluation; all if None.
    published : mapping of str to mapping
        The paper's numbers by mixer and by split.
    """

    summary: str
    model: Mapping[str, Any]
    recipe: Recipe
    mixer_options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    data: str | None = None
    most_words: int | None = None
    positions: int | None = None
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
        How many predictions it is a mean of.
    published : float or None
        The number in the paper, where there is one for this preset, mixer and corpus.
    """

    split: str
    metric: str
    value: float
    positions: int
    published: float | None = None


@dataclass(frozen=True)
class Study:
    """One row of :data:`~fourierkernels.train.studies.registry.STUDIES`.

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
    """

    title: str
    presets: Mapping[str, Preset]
    mixers: Callable[[], list[str]]
    read: Callable[..., Any]
    build: Callable[[Preset, Any, str, Mapping[str, Any]], nn.Module]
    batches: Callable[[Preset, Any, Recipe], Dataset[Batch]]
    objective: Callable[[Preset, Any, Recipe], Objective]
    measure: Callable[..., list[Measured]]
