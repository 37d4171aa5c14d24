"""Adaptive input and softmax: frequent words get more of the model, rare ones less.

Source: [baevski2019adaptive]_. Both share the vectors of the words.
"""

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, log_softmax


class AdaptiveEmbedding(nn.Module):
    """Word vectors in bands of decreasing frequency and, if asked for, decreasing size.

    Source: [baevski2019adaptive]_.

    Parameters
    ----------
    ends : tuple of int
        Ends of the bands; the last is the vocabulary.
    """

    def __init__(self, ends: tuple[int, ...], dim: int, *, divisor: int = 1) -> None:
        super().__init__()
        self.bounds = list(pairwise((0, *ends)))
        if any(low >= high for low, high in self.bounds):
            raise ValueError(f"cutoffs must increase from 1 to the vocabulary, got {ends}")
        sizes = [dim // divisor**band for band in range(len(ends))]
        if min(sizes) < 1:
            raise ValueError(f"divisor must leave every band at least one feature, got {divisor}")
        self.bands = nn.ModuleList(
            nn.Embedding(high - low, size)
            for (low, high), size in zip(self.bounds, sizes, strict=True)
        )
        self.projections = nn.ModuleList(
            nn.Identity() if size == dim else nn.Linear(size, dim, bias=False) for size in sizes
        )

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the vectors ``(B, N, E)`` of token ids ``(B, N)``."""
        parts = []
        for (low, high), band, projection in zip(
            self.bounds, self.bands, self.projections, strict=True
        ):
            inside = ((tokens >= low) & (tokens < high))[..., None]  # (B, N, 1)
            vectors = projection(band((tokens - low).clamp(0, high - low - 1)))  # (B, N, E)
            parts.append(torch.where(inside, vectors, 0.0))
        return torch.stack(parts).sum(dim=0)

    def logits(self, hidden: Tensor, band: int) -> Tensor:
        """Return the products of hidden states ``(..., E)`` with the vectors of one band."""
        projection = self.projections[band]
        if isinstance(projection, nn.Linear):
            hidden = linear(hidden, projection.weight.mT)
        return linear(hidden, self.bands[band].weight)  # type: ignore[arg-type]


class AdaptiveSoftmax(nn.Module):
    """Probabilities of words: of the band, times of the word in its band; tied to the embedding.

    Band 0 is in the head together with one logit for each other band.
    """

    bias: nn.ParameterList | None

    def __init__(self, bounds: list[tuple[int, int]], dim: int, *, bias: bool) -> None:
        super().__init__()
        self.bounds = bounds
        self.clusters = nn.Linear(dim, len(bounds) - 1, bias=bias) if len(bounds) > 1 else None
        self.bias = (
            nn.ParameterList(torch.zeros(high - low) for low, high in bounds) if bias else None
        )

    def forward(self, hidden: Tensor, embedding: AdaptiveEmbedding) -> Tensor:
        """Return log-probabilities of all words, ``(..., V)``."""
        head = self._head(hidden, embedding)
        first = self.bounds[0][1]
        bands = [head[..., :first]]
        for band in range(1, len(self.bounds)):
            inside = log_softmax(self._band(hidden, embedding, band), dim=-1)
            bands.append(head[..., first + band - 1, None] + inside)
        return torch.cat(bands, dim=-1)

    def nll(self, hidden: Tensor, targets: Tensor, embedding: AdaptiveEmbedding) -> Tensor:
        """Return -log p of targets ``(n,)`` from states ``(n, E)``; rare bands only where used.

        That of a target outside the vocabulary is NaN.
        """
        head = self._head(hidden, embedding)
        first = self.bounds[0][1]
        log_p = head.gather(-1, targets.clamp(0, first - 1)[:, None])[:, 0]
        for band, (low, high) in enumerate(self.bounds[1:], start=1):
            rows = ((targets >= low) & (targets < high)).nonzero()[:, 0]  # (rows,)
            scores = log_softmax(self._band(hidden[rows], embedding, band), dim=-1)
            word = scores.gather(-1, (targets[rows] - low)[:, None])[:, 0]
            log_p = log_p.index_copy(0, rows, head[rows, first + band - 1] + word)
        inside = (targets >= 0) & (targets < self.bounds[-1][1])
        return torch.where(inside, -log_p, torch.nan)

    def _head(self, hidden: Tensor, embedding: AdaptiveEmbedding) -> Tensor:
        logits = self._band(hidden, embedding, 0)
        if self.clusters is not None:
            logits = torch.cat([logits, self.clusters(hidden)], dim=-1)
        return log_softmax(logits, dim=-1)

    def _band(self, hidden: Tensor, embedding: AdaptiveEmbedding, band: int) -> Tensor:
        logits = embedding.logits(hidden, band)
        return logits if self.bias is None else logits + self.bias[band]
