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
        self.cell = nn.GRUCell(E, E)

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


def multiplicative(layer: Any, x: Tensor, state: Tensor) -> Tensor:
    return ((layer.ask(state)[:, None] @ layer.read(x).mT).softmax(-1) @ x).squeeze(1)


READS: dict[str, Callable[[Any, Tensor, Tensor], Tensor]] = {
    "additive": additive,
    "additive by sums": additive_by_sums,
    "additive by a convolution": additive_by_convolution,
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
        self.norm = nn.LayerNorm(E)

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


USES: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "features chosen": chosen,
    "pooled behind layers": pooled_later,
    "pooled behind a norm": pooled_behind_a_norm,
}


@pytest.mark.parametrize("use", USES)
@torch.inference_mode()
def test_tokens_that_a_vector_has_moved_raise_no_alarm(use: str) -> None:
    torch.manual_seed(0)
    model = Shifted(use).eval()
    with recording(model) as calls:
        model(torch.randn(B, N, E))
    assert (list(calls), calls.unread) == ([], {})
