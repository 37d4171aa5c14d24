"""Keys that scores choose and a plain mean joins are named; graphs of neighbours are not."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from fourierkernels.checkpoints.recorders.call import RecordedCalls
from fourierkernels.checkpoints.recorders.recording import recording

B, N, H, D, E, K = 3, 6, 4, 4, 16, 3
TEXTS, HEADS = torch.arange(B)[:, None, None], torch.arange(H)[:, None, None]
FIRST = N * torch.arange(B * H).reshape(B, H, 1, 1)  # of each text and head in flat values
EDGES = torch.arange(N * K).reshape(N, K) % N


class Layer(nn.Module):
    """What a kind of mixing uses; it mixes tokens at points."""

    def __init__(self, mix: "Mix") -> None:
        super().__init__()
        self.mix, self.parts, self.out = mix, nn.Linear(E, 3 * E), nn.Linear(E, E)
        self.edge, self.choose = nn.Linear(2 * E, E), nn.Linear(E, 1)
        self.codes = nn.Parameter(torch.randn(5, E))

    def heads(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = self.parts(x).unflatten(-1, (3, H, D)).permute(2, 0, 3, 1, 4)
        return q, k, v

    def forward(self, x: Tensor, points: Tensor) -> Tensor:
        return x + self.mix(self, x, points)


Mix = Callable[[Layer, Tensor, Tensor], Tensor]
Attend = Callable[[Tensor, Tensor, Tensor], Tensor]


def by_heads(attend: Attend) -> Mix:
    return lambda m, x, points: m.out(attend(*m.heads(x)).transpose(1, 2).flatten(2))


class Network(nn.Module):
    """Softmax attention, a mixing, and softmax attention, over points."""

    def __init__(self, mix: Mix) -> None:
        super().__init__()
        own = by_heads(lambda q, k, v: (q @ k.mT / 2).softmax(-1) @ v)
        self.embed = nn.Linear(3, E)
        self.first, self.middle, self.last = Layer(own), Layer(mix), Layer(own)

    def forward(self, points: Tensor) -> Tensor:
        x = self.embed(points)
        for part in (self.first, self.middle, self.last):
            x = part(x, points)
        return x


def recorded(mix: Mix) -> RecordedCalls:
    torch.manual_seed(0)
    model = Network(mix).eval().requires_grad_(False)
    with torch.inference_mode(), recording(model) as calls:
        model(torch.randn(B, N, 3))
    return calls


def best(q: Tensor, k: Tensor) -> Tensor:
    return (q @ k.mT).topk(K).indices


def in_rows(places: Tensor) -> Tensor:
    return places[..., None].expand(*places.shape, D)


def in_turn(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    places = best(q, k)
    return sum((v.gather(2, in_rows(places[..., j])) for j in range(K)), torch.zeros(())) / K


CHOSEN: dict[str, Attend] = {
    "indexed": lambda q, k, v: v[TEXTS[..., None], HEADS, best(q, k)].mean(-2),
    "gathered": lambda q, k, v: (
        v[:, :, None].expand(-1, -1, N, -1, -1).gather(3, in_rows(best(q, k))).mean(3)
    ),
    "gathered at once": lambda q, k, v: (
        v.gather(2, in_rows(best(q, k).flatten(2))).unflatten(2, (N, K)).sum(3) / K
    ),
    "along a dimension": lambda q, k, v: torch.take_along_dim(
        v[:, :, None], in_rows(best(q, k)), 3
    ).mean(3),
    "in flat values": lambda q, k, v: v.flatten(0, 2)[best(q, k) + FIRST].mean(-2),
    "in turn": in_turn,
    "sorted": lambda q, k, v: v[
        TEXTS[..., None], HEADS, (q @ k.mT).softmax(-1).argsort(-1)[..., -K:]
    ].mean(-2),
    "nearest": lambda q, k, v: v[
        TEXTS[..., None], HEADS, torch.cdist(q, k).topk(K, largest=False).indices
    ].mean(-2),
    "in bags": lambda q, k, v: functional.embedding_bag(
        (best(q, k) + FIRST).reshape(-1, K), v.flatten(0, 2), mode="mean"
    ).reshape(B, H, N, D),
}


@pytest.mark.parametrize("kind", CHOSEN)
def test_a_plain_mean_of_the_best_keys_is_named(kind: str) -> None:
    calls = recorded(by_heads(CHOSEN[kind]))
    assert [call.name for call in calls] == ["first", "last"]
    assert list(calls.unread) == ["middle"]


def nearest(x: Tensor) -> Tensor:
    """Return the K nearest of points (B, N, D), as graph networks do."""
    norms = x.square().sum(-1)
    return (norms[:, :, None] - 2 * x @ x.mT + norms[:, None]).topk(K, largest=False).indices


def edges(m: Layer, x: Tensor, at: Tensor) -> Tensor:
    near = x[TEXTS, at]
    return m.edge(torch.cat([near - x[:, :, None], near], dim=-1)).relu().amax(2)


def centred(m: Layer, x: Tensor, points: Tensor) -> Tensor:
    near = x[TEXTS, nearest(points)]
    near = near - near.mean(2, keepdim=True)
    return m.edge(torch.cat([near, near / near.std()], dim=-1)).amax(2)


def kept(m: Layer, x: Tensor, points: Tensor) -> Tensor:
    """Tokens that the first one gives most weight to, normed by hand; their mean is pooled."""
    q, k, _ = m.parts(x).chunk(3, dim=-1)
    at = (q[:, :1] @ k.mT).softmax(-1)[:, 0].topk(K).indices
    found = x.gather(1, at[..., None].expand(-1, -1, E))
    return (found * found.square().mean(-1, keepdim=True).rsqrt()).mean(1, keepdim=True)


def routed(m: Layer, x: Tensor, points: Tensor) -> Tensor:
    chosen = (x @ m.codes.T).topk(2).indices[..., None].expand(-1, -1, -1, E)
    return torch.stack([m.out(x) * code for code in m.codes], dim=2).gather(2, chosen).mean(2)


def dispatched(m: Layer, x: Tensor, points: Tensor) -> Tensor:
    """Experts by one-hot rows: which one, times which of its places."""
    share, expert = (x @ m.codes.T).softmax(-1).max(-1)
    own = functional.one_hot(expert, len(m.codes))
    place = functional.one_hot((own.cumsum(1) * own).sum(-1) - 1, N)
    to = share[..., None, None] * own[..., None] * place[:, :, None]
    read = torch.einsum("btkc,btd->bkcd", to.bool().float(), x)
    return torch.einsum("btkc,bkcd->btd", to, m.out(read))


def suppressed(m: Layer, x: Tensor, points: Tensor) -> Tensor:
    """Intervals of which none that overlaps is preferred."""
    score, start = m.out(x)[..., :2].sigmoid().unbind(-1)
    overlap = (start[:, :, None] - start[:, None]).abs() < 0.5
    beaten = (overlap & (score[:, None] > score[:, :, None])).any(-1)
    return m.out(x) * ~beaten[..., None]


QUIET: dict[str, Mix] = {
    "places of experts": dispatched,
    "intervals that overlap no better one": suppressed,
    "counts of larger scores": lambda m, x, points: (
        x * (m.choose(x) > m.choose(x).mT).sum(-1).log1p()[..., None]
    ),
    "a graph that is given": lambda m, x, points: m.out(x)[:, EDGES].mean(2),
    "nearest points": lambda m, x, points: m.out(x)[TEXTS, nearest(points)].mean(2),
    "nearest points, centred": centred,
    "edges of near points": lambda m, x, points: edges(m, x, nearest(points)),
    "edges of near features": lambda m, x, points: edges(m, x, nearest(x)),
    "tokens that are kept": kept,
    "tokens that a layer ranks": lambda m, x, points: x[
        TEXTS[..., 0], m.choose(x)[..., 0].topk(K).indices
    ].mean(1, keepdim=True),
    "experts": routed,
    "nearest codes": lambda m, x, points: m.codes[torch.cdist(x, m.codes).topk(K).indices].mean(2),
}


@pytest.mark.parametrize("kind", QUIET)
def test_graphs_of_neighbours_routing_and_selection_raise_no_alarm(kind: str) -> None:
    calls = recorded(QUIET[kind])
    assert [call.name for call in calls] == ["first", "last"]
    assert calls.unread == {}
