"""Attention of recurrent decoders, whose state is the one query of each step."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from fourierkernels.checkpoints.recorders.recording import recording

B, N, E, STEPS = 2, 6, 8, 3


class Recurrent(nn.Module):
    """A decoder that reads a sequence at each of a few steps."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way
        self.read, self.ask = nn.Linear(E, E), nn.Linear(E, E)
        self.near, self.score = nn.Conv1d(E, E, 1), nn.Linear(E, 1, bias=False)
        self.cell, self.both, self.norm = nn.GRUCell(E, E), nn.Linear(2 * E, E), nn.LayerNorm(E)

    def forward(self, x: Tensor) -> Tensor:
        state, found = self.cell(x[:, 0]), []
        for _ in range(STEPS):
            state = self.cell(READS[self.way](self, x, state), state)
            found.append(state)
        return torch.stack(found, dim=1)


def additive(layer: Any, x: Tensor, state: Tensor) -> Tensor:
    """Weights of Bahdanau et al.: a score of the sum of a key and the query."""
    scores = layer.score(torch.tanh(layer.read(x) + layer.ask(state)[:, None]))
    return (scores.softmax(1).mT @ x).squeeze(1)


def additive_by_sums(layer: Any, x: Tensor, state: Tensor) -> Tensor:
    scores = layer.score(torch.tanh(torch.add(layer.ask(state).unsqueeze(1), layer.read(x))))
    return (scores.softmax(1) * x).sum(1)


def additive_by_convolution(layer: Any, x: Tensor, state: Tensor) -> Tensor:
    keys = layer.near(x.mT)  # (B, E, N)
    scores = layer.score(torch.tanh(keys + layer.ask(state)[..., None]).mT)
    return torch.einsum("bno,bne->be", scores.softmax(1), x)


def read_by(layer: Any, x: Tensor, hidden: Tensor) -> Tensor:
    return (layer.score(hidden).softmax(1).mT @ x).squeeze(1)


def additive_by_copies(layer: Any, x: Tensor, state: Tensor) -> Tensor:
    query = layer.ask(state)[:, None].expand(-1, N, -1)
    return read_by(layer, x, torch.tanh(layer.read(x) + query))


def joined(layer: Any, x: Tensor, state: Tensor) -> Tensor:
    """Score a layer of a key beside the query."""
    both = torch.cat([state[:, None].expand(-1, N, -1), x], dim=-1)
    return read_by(layer, x, torch.tanh(layer.both(both)))


def joined_by_repeats(layer: Any, x: Tensor, state: Tensor) -> Tensor:
    """Score as the tutorials do: copies of the query, and a vector in place of a layer."""
    energy = torch.tanh(layer.both(torch.cat([state[:, None].repeat(1, N, 1), x], dim=2)))
    weights = torch.sum(layer.score.weight * energy, dim=2).softmax(1)
    return (weights[:, None] @ x).squeeze(1)


def behind_a_norm(layer: Any, x: Tensor, state: Tensor) -> Tensor:
    hidden = torch.tanh(layer.norm(layer.read(x) + layer.ask(state)[:, None]))
    return read_by(layer, x, hidden)


def before_a_norm(layer: Any, x: Tensor, state: Tensor) -> Tensor:
    hidden = torch.tanh(layer.read(x) + layer.ask(state)[:, None])
    return read_by(layer, x, layer.norm(hidden))


def multiplicative(layer: Any, x: Tensor, state: Tensor) -> Tensor:
    return ((layer.ask(state)[:, None] @ layer.read(x).mT).softmax(-1) @ x).squeeze(1)


READS: dict[str, Callable[[Any, Tensor, Tensor], Tensor]] = {
    "additive": additive,
    "additive by sums": additive_by_sums,
    "additive by a convolution": additive_by_convolution,
    "additive by copies": additive_by_copies,
    "joined": joined,
    "joined by repeats": joined_by_repeats,
    "behind a norm": behind_a_norm,
    "before a norm": before_a_norm,
    "multiplicative": multiplicative,
}


@pytest.mark.parametrize("way", READS)
@torch.inference_mode()
def test_no_step_of_a_recurrent_decoder_is_silent(way: str) -> None:
    torch.manual_seed(0)
    model = Recurrent(way).eval()
    with recording(model) as calls:
        model(torch.randn(B, N, E))
    assert calls.unread or len(calls) == STEPS, "silent"
    assert {*calls.unread} <= {""}


class Shifted(nn.Module):
    """Tokens that a vector of the text has moved, and what is then done with them."""

    def __init__(self, use: str) -> None:
        super().__init__()
        self.use, self.shift = use, nn.Linear(E, E)
        self.inner, self.outer, self.choose = nn.Linear(E, E), nn.Linear(E, E), nn.Linear(E, 1)
        self.norm, self.both = nn.LayerNorm(E), nn.Linear(3 * E, E)

    def forward(self, x: Tensor) -> Tensor:
        return USES[self.use](self, x + self.shift(x[:, 0])[:, None])


def chosen(layer: Any, x: Tensor) -> Tensor:
    weights = layer.inner(x).softmax(-1)
    return weights * layer.outer(x)


def pooled_later(layer: Any, x: Tensor) -> Tensor:
    x = layer.outer(functional.gelu(layer.inner(x)))
    return (layer.choose(x).softmax(1) * x).sum(1)


def pooled_behind_a_norm(layer: Any, x: Tensor) -> Tensor:
    x = layer.norm(x)
    return (layer.choose(x).softmax(1) * x).sum(1)


def pooled_with_statistics(layer: Any, x: Tensor) -> Tensor:
    """Weights of ECAPA-TDNN: of each token beside mean and deviation of all."""
    mean = x.mean(1, keepdim=True)
    deviation = (x - mean).square().mean(1, keepdim=True).sqrt()
    parts = [x, mean.expand(-1, N, -1), deviation.repeat(1, N, 1)]
    hidden = torch.tanh(layer.both(torch.cat(parts, dim=-1)))
    return (layer.inner(hidden).softmax(1) * x).sum(1)


def pooled_behind_a_block(layer: Any, x: Tensor) -> Tensor:
    """A residual block of a diffusion network, to which its time was added, and pooling."""
    x = x + layer.outer(functional.silu(layer.norm(x)))
    return (layer.choose(x).softmax(1) * x).sum(1)


USES: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "features chosen": chosen,
    "pooled behind layers": pooled_later,
    "pooled behind a norm": pooled_behind_a_norm,
    "pooled with statistics": pooled_with_statistics,
    "pooled behind a block": pooled_behind_a_block,
}


@pytest.mark.parametrize("use", USES)
@torch.inference_mode()
def test_tokens_that_a_vector_has_moved_raise_no_alarm(use: str) -> None:
    torch.manual_seed(0)
    model = Shifted(use).eval()
    with recording(model) as calls:
        model(torch.randn(B, N, E))
    assert (list(calls), calls.unread) == ([], {})
