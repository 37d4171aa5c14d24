"""The residual connection around a sublayer: its norm, dropout, stochastic depth.

pre:  x + f(norm(x))            post:  norm(x + f(x))

The norm is LayerNorm, or batch normalisation of sequences of unequal length.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from fourierkernels.foundation.validation import check_choice, check_number

MOMENTUM = 0.1


class StepNorm(nn.Module):
    """Batch normalisation of each feature over the sequences of a batch and their steps.

    [zerveas2021transformer]_ section 3.1 has it in place of LayerNorm. Steps of padding do not
    count and become zero, so that how far a batch is padded changes nothing; in the published code
    (github.com/gzerveas/mvts_transformer, src/models/ts_transformer.py) they count. Processes that
    train together have statistics of their own, each of its share of the batch.

    Parameters
    ----------
    dim : int
        Features E of a step.
    eps : float
        Added to the variance.

    Examples
    --------
    >>> norm = StepNorm(1, eps=1e-5)
    >>> norm(torch.tensor([[[1.0], [3.0]]])).flatten().round().tolist()
    [-1.0, 1.0]
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, dim: int, *, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))
        self.bias = nn.Parameter(torch.zeros(dim))
        self.register_buffer("running_mean", torch.zeros(dim))
        self.register_buffer("running_var", torch.ones(dim))

    def forward(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        """Return steps ``(B, N, E)`` normalised, in training by the batch's own mean and variance.

        Parameters
        ----------
        padding : Tensor or None
            Boolean ``(B, N)``, True for steps that are none.

        Raises
        ------
        ValueError
            If there is only one step in training, which has no variance.
        """
        if padding is None:
            return self._normed(x.flatten(0, 1)).view_as(x)
        normed = self._normed(x[~padding])  # (steps, E)
        return normed.new_zeros(x.shape).masked_scatter(~padding[..., None], normed)

    def _normed(self, steps: Tensor) -> Tensor:
        if self.training and len(steps) < 2:
            raise ValueError(f"steps must be at least two to train by, got {len(steps)}")
        return functional.batch_norm(
            steps,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            training=self.training,
            momentum=MOMENTUM,
            eps=self.eps,
        )


NORMS = ("pre", "post")
NORM_KINDS: dict[str, Callable[..., nn.Module]] = {"layer": nn.LayerNorm, "batch": StepNorm}


class Residual(nn.Module):
    """The norm, dropout and sum around a sublayer, before (`enter`) and after it (`leave`).

    Parameters
    ----------
    dim : int
        Features E of a token.
    norm : {"pre", "post"}
        Place of the norm.
    eps : float
        Its epsilon.
    dropout : float
        Probability of dropping a number of the change.
    drop_path : float
        Probability of leaving the change out for a whole sequence of the batch, in training only
        (stochastic depth); those that stay are scaled up.
    kind : {"layer", "batch"}
        LayerNorm, or batch normalisation over the steps that are no padding.
    """

    def __init__(
        self,
        dim: int,
        *,
        norm: str,
        eps: float,
        dropout: float,
        drop_path: float,
        kind: str = "layer",
    ) -> None:
        super().__init__()
        self.before = check_choice("norm", norm, list(NORMS)) == "pre"
        self.norm = NORM_KINDS[check_choice("norm_kind", kind, list(NORM_KINDS))](dim, eps=eps)
        self.dropout = nn.Dropout(dropout)
        self.drop_path = check_rate("drop_path", drop_path)

    def enter(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        """Return what the sublayer gets; the padding ``(B, N)`` of the tokens counts in no mean."""
        return self._normed(x, padding) if self.before else x

    def leave(self, x: Tensor, change: Tensor, padding: Tensor | None = None) -> Tensor:
        """Return the tokens with the change that the sublayer proposes."""
        total: Tensor = x + self._thin(self.dropout(change))
        return total if self.before else self._normed(total, padding)

    def _normed(self, x: Tensor, padding: Tensor | None) -> Tensor:
        over_steps = isinstance(self.norm, StepNorm)
        normed: Tensor = self.norm(x, padding) if over_steps else self.norm(x)
        return normed

    def _thin(self, change: Tensor) -> Tensor:
        if not (self.training and self.drop_path):
            return change
        stays = 1.0 - self.drop_path
        drawn = torch.rand(len(change), 1, 1, dtype=change.dtype, device=change.device) < stays
        return change * drawn / stays


def check_rate(name: str, value: float) -> float:
    """Return a probability in [0, 1).

    Raises
    ------
    ValueError, TypeError
        If it is another number or none.
    """
    if not 0.0 <= check_number(name, value) < 1.0:
        raise ValueError(f"{name} must be in [0, 1), got {value}")
    return float(value)


def rate_or(rate: float | None, general: float) -> float:
    """Return the rate of dropout of one place, or that of all where it has none of its own."""
    return general if rate is None else rate
