"""What a run minimises, and what it looks at: all that the engine knows of a study."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn

from fourierkernels.studies.engine.segments import Batch


@dataclass(frozen=True)
class Scored:
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
    """A loss, and a validation.

    Attributes
    ----------
    loss : callable
        From a model and a batch to the mean loss, a scalar.
    validate : callable
        From a model, the number of this process and the number of all processes to the sum of the
        losses of its share of what is held out, to how many there are, and to a sum for each of
        `further`.
    even : float
        Loss of an even guess.
    further : tuple of str
        Names of what else the validation sums up, such as "accuracy"; the curve has their means.
    """

    loss: Callable[[nn.Module, Batch], Tensor]
    validate: Callable[[nn.Module, int, int], tuple[float, ...]]
    even: float
    further: tuple[str, ...] = ()


class WithLoss(nn.Module):
    """A model whose forward pass returns the loss of a batch, as the Trainer asks for."""

    accepts_loss_kwargs = False  # read by the Trainer: a mean per batch, not a sum to be scaled

    def __init__(self, model: nn.Module, objective: Objective) -> None:
        super().__init__()
        self.model, self._objective = model, objective

    def forward(self, **batch: Tensor) -> dict[str, Tensor]:
        """Return the loss of a batch."""
        return {"loss": self._objective.loss(self.model, batch)}

    def validate(self, process: int, processes: int) -> tuple[float, ...]:
        """Return sums over the share of a process, of the losses and of ones first."""
        return self._objective.validate(self.model, process, processes)
