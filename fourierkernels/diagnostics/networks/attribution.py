"""How much of an output token's log probability is due to each head and each token it reads.

Integrated gradients over one gate for all heads: F(α) is the log probability with what every head
puts out multiplied by α, and F(1) - F(0) is the sum of ∫ ∂F/∂g dα over the gates g of the heads.
[hao2021selfattention]_ scale the maps of one layer; here the heads of all layers are scaled
together, so that the parts of all of them add up.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fourierkernels.checkpoints import recording
from fourierkernels.checkpoints.checkpoint import layer_calls
from fourierkernels.checkpoints.recorders.gates import edited_heads
from fourierkernels.diagnostics.networks.importance import Probe, Selects, every_call, make_probe
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import check_integer

Score = Callable[[nn.Module, Any], Tensor]  # from the model and a batch of one text


@dataclass(frozen=True, eq=False)
class HeadAttribution:
    """Parts of F(1) - F(0), by layer, head and token that the head reads.

    Attributes
    ----------
    values : ndarray, shape (L, H, m)
        What the weight of the head on the token, times its value, adds to the log probability, in
        nats.
    whole, without : float
        F(1), of the network as it is, and F(0), without all its heads.
    layers : tuple of str
        Names of the modules.
    tokens : tuple of str
        Names of the m tokens, where they are known.
    target : str
        The token whose log probability it is.
    """

    values: FloatArray
    whole: float
    without: float
    layers: tuple[str, ...]
    tokens: tuple[str, ...] = ()
    target: str = ""

    @property
    def heads(self) -> FloatArray:
        """Parts of the heads, ``(L, H)``."""
        heads: FloatArray = self.values.sum(axis=-1)
        return heads

    @property
    def gap(self) -> float:
        """F(1) - F(0) less the sum of the parts: the error of the integral, 0 if it is exact."""
        return self.whole - self.without - float(self.values.sum())

    def __str__(self) -> str:
        change = self.whole - self.without
        named = f" of {self.target}" if self.target else ""
        return (
            f"log p{named}: {self.without:.4g} without heads, {self.whole:.4g} with them; parts of "
            f"heads and tokens add up to {change - self.gap:.4g} of {change:.4g}, gap "
            f"{self.gap:.1g} nats"
        )

    __repr__ = __str__


def attribute_heads(
    model: nn.Module,
    batch: Any,
    score: Score,
    *,
    steps: int = 32,
    selects: Selects = every_call,
) -> HeadAttribution:
    """Attribute a score of one text to heads and to the tokens that they read.

    Parameters
    ----------
    model : nn.Module
        Left as it was.
    batch : object
        One text.
    score : callable
        From the model and the batch to a number. It must run the model once.
    steps : int
        Points of the Gauss–Legendre rule in α, a forward and a backward pass each; if the gap is
        large, more are needed.
    selects : callable
        Which calls of attention belong to the part; others are not scaled.

    Raises
    ------
    ValueError
        If there is no attention, heads do not go into a linear layer, or layers have other numbers
        of heads or keys than the first.

    Examples
    --------
    >>> layer = nn.MultiheadAttention(4, 2, batch_first=True).requires_grad_(False)
    >>> run = lambda model, x: model(x, x, x)[0].square().sum()
    >>> found = attribute_heads(layer, torch.rand(1, 3, 4), run)
    >>> found.values.shape, abs(found.gap) < 1e-5
    ((1, 2, 3), True)
    """
    check_integer("steps", steps)
    probe = make_probe(model, batch, score, selects, about_mean=False)
    shapes = {(len(call.maps), call.maps.shape[1], call.maps.shape[3]) for call in probe.calls}
    if len(shapes) > 1 or shapes.pop()[0] != 1:
        raise ValueError(
            "layers must have one row of the text, and as many heads and keys as the first, to "
            "attribute to them"
        )
    points, weights = np.polynomial.legendre.leggauss(steps)
    total = 0.0
    for point, weight in zip((points + 1) / 2, weights / 2, strict=True):
        total = total + weight * _parts(probe, batch, score, selects, float(point))
    with torch.no_grad():
        whole, without = (float(probe.loss_with(probe.gates(end), batch)) for end in (1.0, 0.0))
    return HeadAttribution(
        np.asarray(total), whole, without, tuple(call.name for call in probe.calls)
    )


@torch.enable_grad()
def _parts(probe: Probe, batch: Any, score: Score, selects: Selects, alpha: float) -> FloatArray:
    """Return ∂F/∂g at gates of α by layer, head and key, ``(L, H, m)``."""
    scaled: list[Tensor] = []

    def edit(_: int, outputs: Tensor) -> Tensor:
        point = alpha * outputs
        scaled.append(point if point.requires_grad else point.requires_grad_())
        return scaled[-1]

    edits = edited_heads(probe.model, probe.calls, edit, recorded=probe.recorded)
    with edits, recording(probe.model) as recorded:
        value = score(probe.model, batch)
    slopes = torch.autograd.grad(value, scaled)
    chosen = layer_calls(recorded, selects)
    # The output of a head at query i is the sum of p_ij v_j over keys j; its slope is of (i, d).
    parts = [
        torch.einsum(
            "bhij,bihd,bhjd->hj",
            *(tensor.detach().double() for tensor in (call.maps, slope, call.values)),
        )
        for call, slope in zip(chosen, slopes, strict=True)
    ]
    products: FloatArray = torch.stack(parts).cpu().numpy()
    return products
