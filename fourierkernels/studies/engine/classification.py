"""Studies whose models put sequences, series or images into classes."""

import math
import warnings
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from fourierkernels.models.losses import are_right
from fourierkernels.studies.engine.controls import Baseline
from fourierkernels.studies.engine.epochs import Batch, Epochs, shuffled
from fourierkernels.studies.engine.recipe import Recipe, check_shuffled
from fourierkernels.studies.engine.study import DataT, ModelT, Objective, PresetT, Study

_STRENGTHS = (1e-3, 1e-2, 0.1, 1.0, 10.0)  # C of the logistic regressions that are tried


class Classification(Study[PresetT, DataT, ModelT]):
    """A study of classes: cross-entropy, and how many classes are right beside it.

    Attributes
    ----------
    labels : str
        What a batch has the classes under.
    called : str
        What a message calls the examples.
    at_a_time : int
        Examples of a batch without gradients; no number depends on it but by rounding.
    further : tuple of str
        Names of what :meth:`validate` sums up beside losses.
    """

    labels: str = "classes"
    called: str = "examples of classes"
    at_a_time: int = 64
    further: tuple[str, ...] = ("accuracy",)

    @abstractmethod
    def logits(self, model: ModelT, batch: Batch) -> Tensor:
        """Return the logits of a batch, ``(B, K)``, none of which depends on the others."""

    @abstractmethod
    def examples(self, preset: PresetT, data: DataT, split: str, members: Sequence[int]) -> Batch:
        """Return examples of a split as a batch."""

    def batches(self, preset: PresetT, data: DataT, recipe: Recipe) -> Epochs:
        """Return the training examples, shuffled, in the order of the run."""
        check_shuffled(recipe, self.called)
        count = data.counts["train"]
        return Epochs(
            partial(self.examples, preset, data, "train"),
            examples=count,
            steps=recipe.steps,
            batch=recipe.batch,
            order=shuffled(count, recipe.seed),
        )

    def loss(self, model: ModelT, batch: Batch, smoothing: float) -> Tensor:
        """Return the mean cross-entropy of a training batch."""
        logits = self.logits(model, batch)
        classes = batch[self.labels].to(logits.device)
        return functional.cross_entropy(logits, classes, label_smoothing=smoothing)

    @torch.no_grad()
    def sums(
        self, model: ModelT, preset: PresetT, data: DataT, split: str, members: Sequence[int]
    ) -> tuple[float, ...]:
        """Return the sum of -log p of the classes of some examples, and how many are right."""
        total, correct = 0.0, 0
        for first in range(0, len(members), self.at_a_time):
            batch = self.examples(preset, data, split, members[first : first + self.at_a_time])
            logits = self.logits(model, batch)
            classes = batch[self.labels].to(logits.device)
            total += float(functional.cross_entropy(logits.double(), classes, reduction="sum"))
            correct += int(are_right(logits, classes).sum())
        return total, correct

    def validate(
        self, preset: PresetT, data: DataT, model: ModelT, process: int, processes: int
    ) -> tuple[float, ...]:
        """Return what a process contributes to a validation: loss, examples, and `further`."""
        members = range(process, data.counts["valid"], processes)
        total, *correct = self.sums(model, preset, data, "valid", members)
        return total, len(members), *correct[: len(self.further)]

    def even_loss(self, data: DataT) -> float:
        """Return the loss of an even guess."""
        return math.log(len(data.vocabulary))

    def objective(self, preset: PresetT, data: DataT, recipe: Recipe) -> Objective:
        """Return the mean loss of a batch, and its validation beside the accuracy."""
        return Objective(
            loss=partial(self.loss, smoothing=recipe.label_smoothing),
            validate=partial(self.validate, preset, data),
            even=self.even_loss(data),
            further=self.further,
        )


class Examples(NamedTuple):
    """Features ``(n, p)`` and classes ``(n,)`` of a split."""

    features: NDArray[np.float64]
    classes: NDArray[np.int64]


def logistic_regression(name: str, splits: Mapping[str, Examples]) -> Baseline:
    """Return the test accuracy of scikit-learn's logistic regression, in percent.

    Features are standardised by the training split; the penalty is chosen by the validation split.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    train, valid, test = (splits[part] for part in ("train", "valid", "test"))
    models = [
        make_pipeline(StandardScaler(), LogisticRegression(C=strength, max_iter=300))
        for strength in _STRENGTHS
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # after 300 steps it is good enough
        fitted = [model.fit(*train) for model in models]
    best = max(fitted, key=lambda model: float(model.score(*valid)))
    return Baseline(name, 100 * float(best.score(*test)), len(test.classes))
