"""The Performer's attention as a token mixer: softmax attention by positive random features."""

from typing import Any

import torch
from torch import Tensor

from fourierkernels.attention.positive_features import (
    EPS,
    PositiveState,
    gaussian_features,
    performer_attention,
    performer_state,
    performer_step,
)
from fourierkernels.attention.validation import check_eps
from fourierkernels.foundation.validation import check_integer
from fourierkernels.mixing.features import FeatureMixer
from fourierkernels.mixing.mixer import State


class PerformerMixer(FeatureMixer):
    """FAVOR+ of [choromanski2021rethinking]_: softmax attention in linear time, estimated.

    Parameters
    ----------
    features : int
        m; one set of draws for all heads, saved with the model.
    kind : {"orthogonal", "iid"}
        How the draws depend on each other.
    redraw : int
        Forward passes in training after which new features are drawn, by torch's global
        generator; 0 keeps the first. The published code draws at every pass. A pass that is
        recomputed for its gradient (`torch.utils.checkpoint`) is refused unless it is 0.
    eps : float
        Added to each feature.
    **options
        Options of :class:`AttentionMixer` except `dropout`: there are no weights to drop.

    Examples
    --------
    >>> PerformerMixer(8, heads=2, features=32)(torch.zeros(1, 3, 8)).shape
    torch.Size([1, 3, 8])
    """

    passes: Tensor

    def __init__(
        self,
        dim: int,
        *,
        heads: int,
        features: int = 256,
        kind: str = "orthogonal",
        redraw: int = 0,
        eps: float = EPS,
        **options: Any,
    ) -> None:
        super().__init__(dim, heads=heads, **options)
        self.kind, self.redraw = kind, check_integer("redraw", redraw, least=0)
        self.eps = check_eps(eps)
        draws = gaussian_features(self.head_dim, features, kind=kind)
        self.register_buffer("frequencies", draws.to(torch.get_default_dtype()))
        if self.redraw:  # saved, so that a resumed run draws when the other would have
            self.register_buffer("passes", torch.zeros((), dtype=torch.int64))

    def estimate(
        self, query: Tensor, key: Tensor, value: Tensor, padding: Tensor | None, is_causal: bool
    ) -> Tensor:
        """Return the estimate, all of whose weights are positive."""
        return performer_attention(
            query,
            key,
            value,
            frequencies=self._draws(),
            key_padding_mask=padding,
            is_causal=is_causal,
            eps=self.eps,
        )

    def estimate_step(
        self, query: Tensor, key: Tensor, value: Tensor, sums: State | None
    ) -> tuple[Tensor, State]:
        """Return the output of one more token, and the two sums after it."""
        state = None if sums is None else PositiveState(*sums)
        return performer_step(query, key, value, state, frequencies=self.frequencies, eps=self.eps)

    def sums(self, key: Tensor, value: Tensor) -> State:
        """Return the two sums over keys and values."""
        return performer_state(key, value, frequencies=self.frequencies, eps=self.eps)

    def _draws(self) -> Tensor:
        """Return the frequencies of a pass, new ones where it is time for them."""
        if not self.redraw or not self.training:
            return self.frequencies
        if torch._C._current_graph_task_id() != -1:  # inside of a backward pass
            raise RuntimeError(
                "redraw must be 0 where activations are computed again in the backward pass "
                f"(checkpointing), which would see other features, got {self.redraw}"
            )
        if int(self.passes) and int(self.passes) % self.redraw == 0:
            drawn = gaussian_features(self.head_dim, len(self.frequencies), kind=self.kind)
            self.frequencies.copy_(drawn)
        self.passes += 1
        return self.frequencies.clone()  # a graph keeps them when the next pass draws others
