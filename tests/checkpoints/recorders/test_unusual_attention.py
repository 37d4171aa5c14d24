"""Attention without products of matrices is not silent; what is none raises no alarm."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from fourierkernels.checkpoints.recorders.recording import recording

B, N, H, D, E = 3, 6, 4, 4, 16
Attend = Callable[[Tensor, Tensor, Tensor], Tensor]


class Layer(nn.Module):
    def __init__(self, attend: Attend) -> None:
        super().__init__()
        self.attend = attend
        self.parts, self.out = nn.Linear(E, 3 * E), nn.Linear(E, E)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.parts(x).unflatten(-1, (3, H, D)).permute(2, 0, 3, 1, 4)
        return x + self.out(self.attend(q, k, v).transpose(1, 2).flatten(2))


def plain(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.mT / 2).softmax(-1) @ v


def sigmoid(q: Tensor, k: Tensor) -> Tensor:
    return torch.sigmoid(q @ k.mT / 2)


def normalised_after(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    weights = torch.exp(-(torch.cdist(q, k) ** 2))
    return weights @ v / weights.sum(-1, keepdim=True)


def apart(q: Tensor, k: Tensor) -> Tensor:
    return q[:, :, :, None] - k[:, :, None]


def number_by_number(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (torch.exp(-apart(q, k).square().sum(-1))[..., None] * v[:, :, None]).sum(-2)


def filters(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Maps are the filters of a grouped convolution."""
    weights = (q @ k.mT / 2).softmax(-1).reshape(B * H * N, N, 1)
    return functional.conv1d(v.reshape(1, B * H * N, D), weights, groups=B * H).reshape(q.shape)


def sparse(normal: Callable[[Tensor], Tensor]) -> Attend:
    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        weights = normal(q @ k.mT / 2).flatten(0, 1)
        pairs = zip(weights, v.flatten(0, 1), strict=True)
        return torch.stack([torch.sparse.mm(a.to_sparse(), b) for a, b in pairs]).reshape(q.shape)

    return attend


def key_by_key(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    weights, found = sigmoid(q, k), torch.zeros_like(q)
    for j in range(N):
        found = found + weights[..., j, None] * v[:, :, j, None]
    return found


def key_by_key_fused(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    weights, found = sigmoid(q, k), torch.zeros_like(q)
    for j in range(N):
        found = torch.addcmul(found, weights[..., j, None], v[:, :, j, None])
    return found


def autocorrelation(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Autoformer: values are rolled by the delays at which queries and keys agree most."""
    spectra = torch.fft.rfft(q, dim=2) * torch.fft.rfft(k, dim=2).conj()
    agree = torch.fft.irfft(spectra, n=N, dim=2).mean((1, 3))  # (B, N)
    delays = agree.mean(0).topk(2).indices
    weights = agree[:, delays].softmax(-1)[..., None, None, None]
    return weights[:, 0] * v.roll(1, 2) + weights[:, 1] * v.roll(2, 2)


def convolved(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    spectra = torch.fft.rfft(k, 2 * N, dim=2) * torch.fft.rfft(v, 2 * N, dim=2)
    return q * torch.fft.irfft(spectra, 2 * N, dim=2)[:, :, :N]


@torch.library.custom_op("recorded_tests::attend", mutates_args=())
def opaque(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return plain(q, k, v)


def through_lists(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.tensor(sigmoid(q, k).tolist()) @ v


def through_numbers(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    flat = sigmoid(q, k).flatten()
    weights = torch.tensor([flat[i].item() for i in range(len(flat))])
    return weights.reshape(B, H, N, N) @ v


LATER, EARLIER = torch.arange(N) > 0, torch.arange(N) < N - 1
ROWS, COLUMNS = torch.ones(N, N).tril().nonzero().T  # the edges of a graph


def over_edges(add: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Attend:
    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        powers = torch.exp((q[:, :, ROWS] * k[:, :, COLUMNS]).sum(-1) / 2)  # (B, H, edges)
        total = add(torch.zeros(q.shape[:3]), ROWS.expand_as(powers), powers)
        weights = (powers / total[:, :, ROWS])[..., None]
        places = ROWS[:, None].expand(*powers.shape, D)
        return add(torch.zeros_like(q), places, weights * v[:, :, COLUMNS])

    return attend


def over_added_scores(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Graph attention: a sum of two numbers for each edge, normalised over those of a query."""
    away = torch.linspace(-1, 1, D)
    powers = functional.leaky_relu((q @ away)[:, :, ROWS] + (k @ away)[:, :, COLUMNS]).exp()
    total = torch.zeros(q.shape[:3]).index_add(2, ROWS, powers)
    weights = (powers / total[:, :, ROWS])[..., None]
    return torch.zeros_like(q).index_add(2, ROWS, weights * v[:, :, COLUMNS])


def rolled(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    near = [(k.roll(away, 2), v.roll(away, 2)) for away in range(3)]
    return sum(((q * a).sum(-1, keepdim=True).sigmoid() * b for a, b in near), torch.zeros(()))


def near(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Each query meets the keys before it, one slice after another."""
    found = torch.zeros_like(q)
    for away in (1, 2):
        scores = (q[:, :, away:] * k[:, :, :-away]).sum(-1, keepdim=True)
        found[:, :, away:] += scores.sigmoid() * v[:, :, :-away]
    return found


def windows(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Each query meets three keys, in views that overlap."""
    keys, values = (functional.pad(part, (0, 0, 1, 1)).unfold(2, 3, 1) for part in (k, v))
    weights = (q[..., None] * keys).sum(-2, keepdim=True).sigmoid()
    return (weights * values).sum(-1)


def spread(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Pairs of views of all queries and all keys."""
    queries, keys = (part.expand(B, H, N, N, D) for part in (q[:, :, :, None], k[:, :, None]))
    return ((queries * keys).sum(-1).sigmoid()[..., None] * v[:, :, None]).sum(-2)


def fast_weights(
    read: Callable[[Tensor, Tensor], Tensor], forget: Callable[[Tensor], Any]
) -> Attend:
    """Recurrent: keys times values are added to a state that queries read."""

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        state, found = torch.zeros(*q.shape[:2], D, D), []
        for now, key, value in zip(*(part.unbind(2) for part in (q, k, v)), strict=True):
            state = forget(key) * state + key[..., None] * value[..., None, :]
            found.append(read(now, state))
        return torch.stack(found, dim=2)

    return attend


def by_matrix(q: Tensor, state: Tensor) -> Tensor:
    return (q[..., None, :] @ state)[..., 0, :]


def sampled(place: Callable[[Tensor], Tensor]) -> Attend:
    """Values are read at places that are made by scores."""

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        at = place(q @ k.mT).flatten(0, 1)  # (B H, N, places)
        grid = torch.stack([torch.zeros_like(at), at], dim=-1)
        read = functional.grid_sample(v.flatten(0, 1).mT[..., None], grid, align_corners=True)
        return read.mean(-1).mT.reshape(q.shape)

    return attend


def codes(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Whole numbers that follow from values are read at the place of the best key."""
    best = (q @ k.mT).max(-1).indices
    return (9 * v).long().gather(2, best[..., None].expand_as(v)) / 9


def deformable(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Values are read at two places of each query, which a layer has made as it has the weights."""
    places, weights = q[..., :2].tanh().flatten(0, 1), q[..., 2:].softmax(-1).flatten(0, 1)
    grid = torch.stack([torch.zeros_like(places), places], dim=-1)
    read = functional.grid_sample(v.flatten(0, 1).mT[..., None], grid, align_corners=True)
    return (read * weights[:, None]).sum(-1).mT.reshape(q.shape)


def deformable_rounded(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The same at the next token of each place."""
    places = (N * q[..., :2].sigmoid() - 0.5).long().clamp(0, N - 1).flatten(0, 1)
    read = v.flatten(0, 1)[torch.arange(B * H)[:, None, None], places]  # (B H, N, places, D)
    return (read * q[..., 2:].softmax(-1).flatten(0, 1)[..., None]).sum(2).reshape(q.shape)


def nested(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    parts = (torch.nested.nested_tensor([*one.mT.flatten(1, 2).mT], **JAGGED) for one in (q, k, v))
    turned = (part.unflatten(-1, (H, D)).transpose(1, 2) for part in parts)
    found = functional.scaled_dot_product_attention(*turned).transpose(1, 2)
    return torch.stack([*found.unbind()]).transpose(1, 2)


def outer(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Keys times values, all places at once."""
    return k[..., None] * v[..., None, :]


def token_by_token(pairs: Callable[[Tensor, Tensor, Tensor], Sequence[Tensor]]) -> Attend:
    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        state, found = torch.zeros(*q.shape[:2], D, D), []
        for now, added in zip(q.unbind(2), pairs(q, k, v), strict=True):
            state = state + added
            found.append((now[..., None] * state).sum(-2))
        return torch.stack(found, dim=2)

    return attend


def copied(q: Tensor, k: Tensor, v: Tensor) -> list[Tensor]:
    """Keys times values of each place, whose copies know of no other place."""
    parts = ([part.clone() for part in whole.unbind(2)] for whole in (q, k, v))
    return [outer(*here) for here in zip(*parts, strict=True)]


def by_middle(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The value at which half of the weight is reached."""
    reached = (q @ k.mT).softmax(-1).cumsum(-1)
    place = (reached < 0.5).sum(-1).clamp(max=N - 1)
    return v.gather(2, place[..., None].expand_as(q))


JAGGED: Any = {"layout": torch.jagged}
SILENT: dict[str, Attend] = {
    "distances": lambda q, k, v: torch.exp(-torch.cdist(q, k)) @ v,
    "distances, normalised after": normalised_after,
    "differences": lambda q, k, v: torch.exp(-apart(q, k).abs().sum(-1)) @ v,
    "norms of differences": lambda q, k, v: torch.exp(-apart(q, k).norm(dim=-1)) @ v,
    "squared differences, number by number": number_by_number,
    "maps as filters": filters,
    "sparse": sparse(lambda scores: scores.softmax(-1)),
    "sparse, without softmax": sparse(torch.sigmoid),
    "key by key": key_by_key,
    "key by key, fused": key_by_key_fused,
    "autocorrelation": autocorrelation,
    "convolution of keys and values": convolved,
    "operator of another library": lambda q, k, v: opaque(q, k, v),
    "inner products": lambda q, k, v: (
        torch.sigmoid(torch.linalg.vecdot(q[:, :, :, None], k[:, :, None])) @ v
    ),
    "edges": over_edges(lambda to, places, what: to.scatter_add(2, places, what)),
    "edges, added in place": over_edges(lambda to, places, what: to.scatter_add_(2, places, what)),
    "edges, reduced": over_edges(lambda to, at, what: to.scatter_reduce(2, at, what, "sum")),
    "edges with sums as scores": over_added_scores,
    "rolled": rolled,
    "slices": near,
    "windows": windows,
    "pairs that are spread": spread,
    "fast weights": fast_weights(by_matrix, lambda key: 1.0),
    "fast weights, by sums": fast_weights(lambda q, s: (q[..., None] * s).sum(-2), lambda key: 0.9),
    "a selective state space": fast_weights(by_matrix, lambda key: key[..., None].sigmoid()),
    "read at the mean place": sampled(
        lambda scores: (scores.softmax(-1) * torch.linspace(-1, 1, N)).sum(-1, keepdim=True)
    ),
    "read at many places": sampled(torch.tanh),
    "read at places that a layer has made": deformable,
    "read at the tokens next to such places": deformable_rounded,
    "mean of all heads": lambda q, k, v: sigmoid(q, k).mean(1, keepdim=True) @ v,
    "largest of all heads": lambda q, k, v: (q @ k.mT).softmax(-1).amax(1, keepdim=True) @ v,
    "the place of the largest": lambda q, k, v: v.gather(
        2, (q @ k.mT).max(-1).indices[..., None].expand_as(q)
    ),
    "where scores are positive": lambda q, k, v: torch.where(
        (q @ k.mT)[..., None] > 0, v[:, :, None], torch.zeros(())
    ).sum(-2),
    "largest weighed value": lambda q, k, v: (sigmoid(q, k)[..., None] * v[:, :, None]).amax(-2),
    "solved": lambda q, k, v: torch.linalg.solve(9 * torch.eye(N) + q @ k.mT, v),
    "smallest of both": lambda q, k, v: (
        torch.minimum(q.relu()[:, :, :, None], k.relu()[:, :, None]).sum(-1) @ v
    ),
    "layer of pairs": lambda q, k, v: (
        torch.sigmoid((q[:, :, :, None] + k[:, :, None]).tanh() @ torch.ones(D)) @ v
    ),
    "outer products, added up": lambda q, k, v: (
        q[..., None] * outer(q, k, v).sum(2, keepdim=True)
    ).sum(-2),
    "outer products, added up to each place": lambda q, k, v: (
        q[..., None] * outer(q, k, v).cumsum(2)
    ).sum(-2),
    "outer products, token by token": token_by_token(lambda q, k, v: outer(q, k, v).unbind(2)),
    "outer products of copies": token_by_token(copied),
    "whole numbers at the place of the largest": codes,
    "whole numbers": lambda q, k, v: ((q @ k.mT > 0).long() @ (9 * v).long()) / 9,
    "where half of the weight is reached": by_middle,
    "pairs chosen by masks": lambda q, k, v: (
        (
            (q[:, :, LATER] * k[:, :, EARLIER]).sum(-1, keepdim=True).sigmoid() * v[:, :, EARLIER]
        ).mean(2, keepdim=True)
        + torch.zeros_like(q)
    ),
    "nested": nested,
    "lists": through_lists,
    "single numbers": through_numbers,
}


def run(middle: nn.Module, mode: Any) -> Any:
    model = nn.Sequential(Layer(plain), middle, Layer(plain)).eval().requires_grad_(False)
    with mode(), recording(model) as calls:
        model(torch.randn(B, N, E))
    return calls


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("kind", SILENT)
def test_attention_that_no_product_of_matrices_shows_is_named(kind: str, mode: Any) -> None:
    torch.manual_seed(0)
    calls = run(Layer(SILENT[kind]), mode)
    assert [call.name for call in calls] == ["0", "2"]
    assert list(calls.unread) == ["1"]


class Other(nn.Module):
    """What is not attention, but uses the same operations."""

    def __init__(self, mix: str) -> None:
        super().__init__()
        self.mix, self.codes = mix, nn.Parameter(torch.randn(5, E))
        self.filter, self.taps = nn.Parameter(torch.randn(1, N, E)), nn.Linear(E, E * 3)
        self.near = nn.Parameter(torch.randn(N, N).relu())
        self.gates, self.mixing = nn.Linear(S * E, 2 * S), nn.Linear(S * E, S * S)
        self.routes, self.middle = nn.Linear(E, S * S), nn.Linear(E, E)
        self.bins = nn.Conv1d(E, 3 * S * E, 1)

    def forward(self, x: Tensor) -> Tensor:
        return OTHERS[self.mix](self, x)


def nearest_code(m: Any, x: Tensor) -> Tensor:
    return x + m.codes[torch.cdist(x, m.codes).argmin(-1)]


def nearest_code_by_differences(m: Any, x: Tensor) -> Tensor:
    return x + m.codes[(x[:, :, None] - m.codes).square().sum(-1).argmin(-1)]


def long_filter(m: Any, x: Tensor) -> Tensor:
    spectra = torch.fft.rfft(x, 2 * N, dim=1) * torch.fft.rfft(m.filter, 2 * N, dim=1)
    return x + torch.fft.irfft(spectra, 2 * N, dim=1)[:, :N]


def own_filters(m: Any, x: Tensor) -> Tensor:
    """Filters that are computed from a text's mean, one group for each text."""
    weight = m.taps(x.mean(1)).reshape(B * E, 1, 3)
    turned = x.mT.reshape(1, B * E, N)
    return x + functional.conv1d(turned, weight, padding=1, groups=B * E).reshape(B, E, N).mT


def given_graph(m: Any, x: Tensor) -> Tensor:
    return x + torch.stack([torch.sparse.mm(m.near.to_sparse(), one) for one in x])


def sparse_experts(m: Any, x: Tensor) -> Tensor:
    """Tokens are sent to experts, weighed, and added up at their places."""
    weights, chosen = (x @ m.codes.T).softmax(-1).topk(2)
    found = torch.zeros(B * N, E)
    for number, code in enumerate(m.codes):
        at, which = (chosen.flatten(0, 1) == number).nonzero().T
        sent = functional.silu(x.flatten(0, 1)[at] * code) * weights.flatten(0, 1)[at, which, None]
        found.index_add_(0, at, sent)
    return x + found.reshape(x.shape)


def gated_norm(m: Any, x: Tensor) -> Tensor:
    """A shift of tokens, a gate, and a norm by hand."""
    shifted = functional.pad(x, (0, 0, 1, -1)) - x
    gated = m.taps(x + 0.5 * shifted)[..., :E] * functional.silu(x)
    return gated * torch.rsqrt(gated.square().mean(-1, keepdim=True) + 1e-6)


def transformed(m: Any, x: Tensor) -> Tensor:
    """Features are turned by a matrix that is made of all tokens."""
    return x @ m.taps(x.amax(1))[..., :16].unflatten(-1, (4, 4)).repeat(1, 4, 4)


def streams(m: Any, x: Tensor, *, mixed: bool = False) -> Tensor:
    """Hyper-connections: a layer reads a sum of streams, and each adds what it puts out."""
    found = x[:, :, None].expand(-1, -1, S, -1).contiguous()
    for _ in range(3):
        before, after = m.gates(found.flatten(2)).sigmoid().chunk(2, dim=-1)
        read = (before[..., None] * found).sum(2)
        if mixed:
            weights = m.mixing(found.flatten(2)).unflatten(-1, (S, S)).softmax(-1)
            found = weights.mT @ found
        found = found + after[..., None] * m.middle(read)[:, :, None]
    return found.mean(2)


def predicted_streams(m: Any, x: Tensor) -> Tensor:
    """Alternating updates: one of the stacked streams makes the weights of all."""
    found = torch.stack([x] * S)
    for _ in range(3):
        weights = m.routes(found[0]).tanh().unflatten(-1, (S, S))
        found = found + (found.permute(1, 2, 3, 0) @ weights).permute(3, 0, 1, 2)
    return found.mean(0)


def spline(m: Any, x: Tensor) -> Tensor:
    """Each number goes through a spline, whose pieces a layer has made for it."""
    for _ in range(2):
        pieces = m.bins(x.mT).unflatten(1, (E, 3 * S)).permute(0, 3, 1, 2)  # (B, N, E, 3 S)
        inside = (x > -2) & (x < 2)
        widths, heights, slopes = pieces[inside].chunk(3, dim=-1)
        ends = [functional.pad(one.softmax(-1).cumsum(-1), (1, 0)) for one in (widths, heights)]
        at = (x[inside][:, None] >= 4 * ends[0][:, :-1] - 2).sum(-1, keepdim=True) - 1
        left, low, slope = (part.gather(-1, at)[:, 0] for part in (*ends, slopes))
        bent = low + slope * (x[inside] - left) * left
        x = x.clone()
        x[inside] = bent
    return x


def taps(m: Any, x: Tensor) -> Tensor:
    """Dynamic convolution: weights of a token's own for it and its neighbours."""
    near = functional.pad(x, (0, 0, 1, 1)).unfold(1, S, 1)  # (B, N, E, S)
    return x + (m.routes(x)[..., None, :S] * near).sum(-1)


def halves(m: Any, x: Tensor) -> Tensor:
    """Gates by halves of the features, of all channels and of several joined."""
    joined = torch.cat([m.bins(x.mT), m.bins(x.mT)], dim=1).relu()
    one, other = joined.chunk(2, dim=1)
    gated = (one * other.sigmoid()).mean(-1, keepdim=True)
    return x + (m.middle.weight[:, :1] * gated[:, :E]).mT


def warped(m: Any, x: Tensor) -> Tensor:
    """Each token is read at one place that a layer has made, and gated."""
    places = m.routes(x)[..., :1].tanh()
    grid = torch.stack([torch.zeros_like(places), places], dim=-1)
    read = functional.grid_sample(x.mT[..., None], grid, align_corners=True)[..., 0].mT
    return x + m.middle(read * m.middle(x).sigmoid())


def last(m: Any, x: Tensor) -> Tensor:
    """The token at a place that is computed is gated and added to all."""
    place = (N * m.middle(x).mean((1, 2)).sigmoid()).long().clamp(max=N - 1)
    read = x[torch.arange(B), place]
    return x + m.middle(read * m.middle(read).sigmoid())[:, None]


S = 3  # streams of a token, pieces of a spline
OTHERS: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "nearest code": nearest_code,
    "nearest code by differences": nearest_code_by_differences,
    "long filter": long_filter,
    "filters of each text": own_filters,
    "a graph that was learnt": given_graph,
    "experts of some tokens": sparse_experts,
    "gates and norms of shifted tokens": gated_norm,
    "features turned": transformed,
    "streams": streams,
    "streams mixed by matrices": partial(streams, mixed=True),
    "streams predicted": predicted_streams,
    "splines": spline,
    "dynamic convolution": taps,
    "gates by halves": halves,
    "warped": warped,
    "the last token": last,
    "centred": lambda m, x: x - x.mean(1, keepdim=True),
    "a factor read as a number": lambda m, x: x * float(x.abs().amax()),
}


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("mix", OTHERS)
def test_distances_filters_and_graphs_that_are_no_attention_raise_no_alarm(
    mix: str, mode: Any
) -> None:
    torch.manual_seed(0)
    calls = run(Other(mix), mode)
    assert [call.name for call in calls] == ["0", "2"]
    assert calls.unread == {}
