"""Batch normalisation of sequences of unequal length."""

import torch
from torch import Tensor, nn
from torch.nn import functional

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
        normed = self._normed(x[~padding])
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
