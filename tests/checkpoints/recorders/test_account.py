"""No attention is silent: each kind is recorded as what it computes, or its layer is named."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention.flex_attention import flex_attention

from fourierkernels.checkpoints.recorders.call import RecordedCalls
from fourierkernels.checkpoints.recorders.recording import recording
from fourierkernels.report import head_report

pytestmark = pytest.mark.filterwarnings("ignore:flex_attention called without:UserWarning")

B, N, H, D, E = 3, 6, 4, 4, 16
SEEN = torch.ones(N, N, dtype=torch.bool).tril()
AWAY = torch.arange(N)[:, None] - torch.arange(N)[None, :]


class Kind(nn.Module):
    """Attention of one kind between the usual projections."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.q, self.k, self.v, self.out = (nn.Linear(E, H * D) for _ in range(4))
        self.one_k, self.one_v = nn.Linear(E, D), nn.Linear(E, D)
        self.few_k, self.few_v = nn.Linear(E, 2 * D), nn.Linear(E, 2 * D)
        self.dense = nn.Linear(E, H * N)
        self.near = nn.Parameter(torch.randn(2 * N - 1, D))
        self.bias, self.sink = nn.Parameter(torch.randn(H, N, N)), nn.Parameter(torch.randn(H))
        self.mix = nn.Parameter(torch.eye(H) + 0.3 * torch.randn(H, H))
        self.v_add, self.k_add = (nn.Linear(D, D, bias=False) for _ in range(2))
        self.additive = nn.Linear(D, 1)
        self.fresh = nn.Parameter(torch.randn(3 * E, E) / 4)

    def vectors(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        parts = (self.q(x), self.k(x), self.v(x))
        q, k, v = (part.unflatten(-1, (H, D)).transpose(1, 2) for part in parts)
        return q, k, v

    def joined(self, heads: Tensor) -> Tensor:
        return self.out(heads.transpose(1, 2).flatten(2))

    def forward(self, x: Tensor) -> Tensor:
        return x + KINDS[self.kind][0](self, x)

    def maps(self, x: Tensor) -> list[Tensor]:
        """Return the maps computed otherwise; none if there are none of all heads."""
        found = KINDS[self.kind][1]
        maps = [] if found is None else found(self, x)
        return [maps] if isinstance(maps, Tensor) else maps


def by_vectors(attend: Callable[..., Tensor]) -> Callable[[Kind, Tensor], Tensor]:
    return lambda layer, x: layer.joined(attend(*layer.vectors(x)))


def softmax_map(layer: Kind, x: Tensor) -> Tensor:
    q, k, _ = layer.vectors(x)
    return (q @ k.mT / 2).softmax(-1)


def by_scores(
    change: Callable[[Kind, Tensor], Tensor], normal: Any = torch.softmax
) -> tuple[Any, Any]:
    def attend(layer: Kind, x: Tensor) -> Tensor:
        q, k, v = layer.vectors(x)
        return layer.joined(normal(change(layer, q @ k.mT / 2), -1) @ v)

    def maps(layer: Kind, x: Tensor) -> Tensor:
        q, k, _ = layer.vectors(x)
        return normal(change(layer, q @ k.mT / 2), -1)

    return attend, maps


def multi_head(layer: Kind, x: Tensor) -> Tensor:
    weight = torch.cat([layer.q.weight, layer.k.weight, layer.v.weight])
    bias = torch.cat([layer.q.bias, layer.k.bias, layer.v.bias])
    given = (weight, bias, None, None, False, 0.0, layer.out.weight, layer.out.bias)
    turned = x.transpose(0, 1)
    found = functional.multi_head_attention_forward(turned, turned, turned, E, H, *given)
    return found[0].transpose(0, 1)


@torch.jit.script
def scripted(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.matmul(torch.softmax(torch.matmul(q, k.transpose(-2, -1)) / 2.0, -1), v)


def by_hand(scores: Tensor, dim: int) -> Tensor:
    powers = torch.exp(scores - scores.amax(dim, keepdim=True))
    return powers / powers.sum(dim, keepdim=True)


def with_one(scores: Tensor, dim: int) -> Tensor:
    powers = torch.exp(scores)
    return powers / (1.0 + powers.sum(dim, keepdim=True))


def sinks(layer: Kind, x: Tensor) -> Tensor:
    q, k, v = layer.vectors(x)
    sink = layer.sink[None, :, None, None].expand(len(x), -1, x.shape[1], 1)
    weights = torch.cat([q @ k.mT / 2, sink], dim=-1).softmax(-1)[..., :-1]
    return layer.joined(weights @ v)


def second_branch(layer: Kind, x: Tensor) -> Tensor:
    q, k, v = layer.vectors(x)
    first = (q @ k.mT / 2).softmax(-1) @ v
    return layer.joined(first) + layer.joined((-q @ k.mT).softmax(-1) @ layer.v_add(v))


def second_maps(layer: Kind, x: Tensor) -> list[Tensor]:
    q, k, _ = layer.vectors(x)
    return [(q @ k.mT / 2).softmax(-1), (-q @ k.mT).softmax(-1)]


def overwritten(layer: Kind, x: Tensor) -> Tensor:
    q, k, v = layer.vectors(x)
    weights = (q @ k.mT / 2).softmax(-1)
    found = layer.joined(weights @ v)
    weights.zero_()
    return found


def squared(layer: Kind, x: Tensor) -> Tensor:
    q, k, v = layer.vectors(x)
    weights = (q @ k.mT / 2).softmax(-1)
    return layer.joined((weights @ weights) @ v)


def efficient(layer: Kind, x: Tensor) -> Tensor:
    q, k, v = layer.vectors(x[:, :D])  # as many tokens as a head has features
    found = layer.joined(q.softmax(-1) @ (k.softmax(-2).mT @ v))
    return torch.cat([found, x[:, D:]], dim=1)


def relative_keys(layer: Kind, x: Tensor) -> Tensor:
    q, k, v = layer.vectors(x)
    relative = torch.einsum("bhid,ijd->bhij", q, layer.near[AWAY + N - 1])
    return layer.joined(((relative + q @ k.mT) / 2).softmax(-1) @ v)


def relative_keys_map(layer: Kind, x: Tensor) -> Tensor:
    q, k, _ = layer.vectors(x)
    both = k[:, :, None] + layer.near[AWAY + N - 1]  # (B, H, N, N, D)
    return ((q[:, :, :, None] * both).sum(-1) / 2).softmax(-1)


def positions_first(layer: Kind, x: Tensor) -> Tensor:
    q, k, v = layer.vectors(x)
    places = q @ layer.k_add(layer.near[:N]).mT
    return layer.joined(((places + q @ k.mT) / 2).softmax(-1) @ v)


def positions_first_map(layer: Kind, x: Tensor) -> Tensor:
    q, k, _ = layer.vectors(x)
    return (q @ (k + layer.k_add(layer.near[:N])).mT / 2).softmax(-1)


def relative_values(layer: Kind, x: Tensor) -> Tensor:
    q, k, v = layer.vectors(x)
    weights = (q @ k.mT / 2).softmax(-1)
    relative = torch.einsum("bhij,ijd->bhid", weights, layer.near[AWAY + N - 1])
    return layer.joined(weights @ v + relative)


def windows(layer: Kind, x: Tensor) -> Tensor:
    q, k, v = (part.unflatten(2, (2, 3)) for part in layer.vectors(x))  # (B, H, 2, 3, D)
    return layer.joined(((q @ k.mT / 2).softmax(-1) @ v).flatten(2, 3))


def window_maps(layer: Kind, x: Tensor) -> Tensor:
    q, k, _ = layer.vectors(x)
    near = [(q[:, :, i : i + 3] @ k[:, :, i : i + 3].mT / 2).softmax(-1) for i in (0, 3)]
    return torch.stack(near, dim=1).flatten(0, 1)


def grouped(layer: Kind, x: Tensor) -> Tensor:
    q = layer.vectors(x)[0]
    k, v = (one(x).unflatten(-1, (2, D)).transpose(1, 2) for one in (layer.few_k, layer.few_v))
    return layer.joined(functional.scaled_dot_product_attention(q, k, v, enable_gqa=True))


def grouped_map(layer: Kind, x: Tensor) -> Tensor:
    k = layer.few_k(x).unflatten(-1, (2, D)).transpose(1, 2).repeat_interleave(2, dim=1)
    return (layer.vectors(x)[0] @ k.mT / 2).softmax(-1)


def one_key(layer: Kind, x: Tensor) -> Tensor:
    q, k, v = layer.vectors(x)[0], layer.one_k(x)[:, None], layer.one_v(x)[:, None]
    return layer.joined((q @ k.mT / 2).softmax(-1) @ v)


def one_key_map(layer: Kind, x: Tensor) -> Tensor:
    return (layer.vectors(x)[0] @ layer.one_k(x)[:, None].mT / 2).softmax(-1)


def talking(layer: Kind, x: Tensor) -> Tensor:
    q, k, v = layer.vectors(x)
    weights = torch.einsum("bhij,hg->bgij", (q @ k.mT / 2).softmax(-1), layer.mix)
    return layer.joined(weights @ v)


def linear(layer: Kind, x: Tensor) -> Tensor:
    q, k, v = layer.vectors(x)
    q, k = functional.elu(q) + 1, functional.elu(k) + 1
    total = q @ k.sum(2, keepdim=True).mT
    return layer.joined(q @ (k.mT @ v) / total)


def in_states(
    outer: Callable[[Tensor, Tensor], Tensor], read: Callable[[Tensor, Tensor], Tensor]
) -> Callable[[Kind, Tensor], Tensor]:
    """Return causal linear attention: sums of keys times values up to each place."""

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k = functional.elu(q) + 1, functional.elu(k) + 1
        total = (q * k.cumsum(2)).sum(-1, keepdim=True)
        return read(q, torch.cumsum(outer(k, v), dim=2)) / total

    return by_vectors(attend)


def in_turn(causal: bool, fused: bool = False) -> Callable[[Kind, Tensor], Tensor]:
    """Return attention with two queries at a time."""

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        found = torch.empty_like(q)
        for first in range(0, N, 2):
            rows, m = slice(first, first + 2), first + 2 if causal else N
            keys, values = k[:, :, :m], v[:, :, :m]
            if fused:
                parts = q[:, :, rows] * 1.0, keys, values
                found[:, :, rows] = functional.scaled_dot_product_attention(*parts)
                continue
            scores = q[:, :, rows] @ keys.mT / 2
            scores = scores.masked_fill(~SEEN[rows, :m], -torch.inf) if causal else scores
            found[:, :, rows] = scores.softmax(-1) @ values
        return found

    return by_vectors(attend)


def with_own_keys(layer: Kind, x: Tensor) -> Tensor:
    q, k, v = layer.vectors(x)
    parts = [part.split(2, dim=2) for part in (q, k, v)]
    return layer.joined(
        torch.cat([(a @ b.mT / 2).softmax(-1) @ c for a, b, c in zip(*parts, strict=True)], dim=2)
    )


def bahdanau(layer: Kind, x: Tensor) -> Tensor:
    q, k, v = layer.vectors(x)
    scores = layer.additive(torch.tanh(q[:, :, :, None] + k[:, :, None])).squeeze(-1)
    return layer.joined(scores.softmax(-1) @ v)


def synthesised(layer: Kind, x: Tensor) -> Tensor:
    weights = layer.dense(x).unflatten(-1, (H, N)).transpose(1, 2).softmax(-1)
    return layer.joined(weights @ layer.vectors(x)[2])


def no_product(layer: Kind, x: Tensor) -> Tensor:
    q, k, v = layer.vectors(x)
    weights = ((q[:, :, :, None] * k[:, :, None]).sum(-1) / 2).softmax(-1)
    return layer.joined((weights[..., None] * v[:, :, None]).sum(-2))


def without_batch(layer: Kind, x: Tensor) -> Tensor:
    q, k, v = (one(x) for one in (layer.q, layer.k, layer.v))
    texts = zip(q, k, v, strict=True)
    return layer.out(torch.stack([(a @ b.T / 4).softmax(-1) @ c for a, b, c in texts]))


def without_batch_map(layer: Kind, x: Tensor) -> Tensor:
    return (layer.q(x) @ layer.k(x).mT / 4).softmax(-1)[:, None]


def longer(layer: Kind, x: Tensor) -> Tensor:
    """Pegasus-X: a few global tokens read all, and themselves."""
    q, k, v = layer.vectors(x)
    few = q[:, :, :2] * 0.5
    keys, values = (torch.cat([part[:, :, :2], part], dim=2) for part in (k, v))
    top = (few @ keys.mT / 2).softmax(-1) @ values
    return layer.joined(torch.cat([top, (q @ k.mT / 2).softmax(-1)[:, :, 2:] @ v], dim=2))


def summed(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    weights = torch.sigmoid((q[:, :, :, None] * k[:, :, None]).sum(-1))
    return (weights[..., None] * v[:, :, None]).sum(-2)


def hardest(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return v.gather(2, (q @ k.mT).argmax(-1)[..., None].expand(-1, -1, -1, D))


def outside(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    weights = np.tanh(q.numpy() @ k.mT.numpy())
    return torch.from_numpy(weights @ np.asarray(v))


def causal(layer: Kind, scores: Tensor) -> Tensor:
    return scores.masked_fill(~SEEN, -torch.inf)


plain_scores = by_scores(lambda layer, scores: scores)
#: From a layer and its input to its output, and to its maps where they can be recorded as such.
KINDS: dict[str, tuple[Any, Any]] = {
    "plain": plain_scores,
    "multi_head_attention_forward": (multi_head, softmax_map),
    "fused": (by_vectors(functional.scaled_dot_product_attention), softmax_map),
    "aten": (by_vectors(torch.ops.aten.scaled_dot_product_attention), softmax_map),
    "script": (by_vectors(scripted), softmax_map),
    "vmap": (by_vectors(torch.vmap(lambda q, k, v: (q @ k.mT / 2).softmax(-1) @ v)), softmax_map),
    "flex": (by_vectors(flex_attention), softmax_map),
    "exponentials and their sum": by_scores(lambda layer, scores: scores, by_hand),
    "softmax with one added": by_scores(lambda layer, scores: scores, with_one),
    "sinks": (sinks, None),
    "sigmoid": by_scores(lambda layer, s: s, lambda scores, dim: torch.sigmoid(scores)),
    "second branch": (second_branch, second_maps),
    "weights overwritten": (overwritten, softmax_map),
    "scores without a softmax": by_scores(lambda layer, s: s, lambda s, dim: s.relu()),
    "one sum of three": (by_vectors(partial(torch.einsum, "bhid,bhjd,bhje->bhie")), None),
    "sums of products": (by_vectors(summed), None),
    "the best key alone": (by_vectors(hardest), None),
    "outside of torch": (by_vectors(outside), None),
    "squared": (squared, None),
    "efficient": (efficient, None),
    "learned bias": by_scores(lambda layer, scores: scores + layer.bias),
    "causal": by_scores(causal),
    "relative keys": (relative_keys, relative_keys_map),
    "products with positions first": (positions_first, positions_first_map),
    "relative values": (relative_values, None),
    "windows": (windows, window_maps),
    "grouped queries": (grouped, grouped_map),
    "one key for all heads": (one_key, one_key_map),
    "talking heads": (talking, None),
    "linear": (linear, None),
    "causal linear": (
        in_states(
            lambda k, v: k[..., None] * v[..., None, :],
            lambda q, s: (q[..., None, :] @ s)[..., 0, :],
        ),
        None,
    ),
    "causal linear by einsum": (
        in_states(
            partial(torch.einsum, "bhnd,bhne->bhnde"), partial(torch.einsum, "bhnd,bhnde->bhne")
        ),
        None,
    ),
    "causal linear by sums": (
        in_states(
            lambda k, v: k[..., None] * v[..., None, :], lambda q, s: (q[..., None] * s).sum(-2)
        ),
        None,
    ),
    "queries in turn": (in_turn(causal=False), softmax_map),
    "queries in turn, causal": (in_turn(causal=True), by_scores(causal)[1]),
    "queries in turn, fused": (in_turn(causal=False, fused=True), softmax_map),
    "queries in turn, with own keys": (with_own_keys, None),
    "additive": (bahdanau, None),
    "synthesised": (synthesised, None),
    "no product": (no_product, None),
    "one text after another": (without_batch, without_batch_map),
    "global tokens": (longer, None),
}


def network(kind: str, first: nn.Module | None = None) -> tuple[nn.Sequential, Tensor]:
    torch.manual_seed(0)
    layers = nn.Sequential(first or Kind("plain"), Kind(kind), Kind("plain"))
    return layers.eval().requires_grad_(False), torch.randn(B, N, E)


def recorded(model: nn.Module, *inputs: Tensor) -> RecordedCalls:
    with recording(model) as calls:
        model(*inputs)
    return calls


def check_kind(model: nn.Sequential, x: Tensor, calls: RecordedCalls) -> None:
    for name, layer in model.named_children():
        own = [call for call in calls if call.name == name]
        maps = layer.maps(x) if isinstance(layer, Kind) else []
        if name == "1" and not (maps and own):
            assert name in calls.unread, "silent"
        else:
            assert [call.cross for call in own] == [False] * len(maps)
            for call, expected in zip(own, maps, strict=True):
                torch.testing.assert_close(call.maps, expected, rtol=1e-4, atol=1e-6)
        x = layer(x)
    assert set(calls.unread) <= {"1"}


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_recorded_as_it_is_or_named(kind: str, mode: Any) -> None:
    model, x = network(kind)
    with mode():
        check_kind(model, x, recorded(model, x))


class Computed(nn.Module):
    """A layer whose weights are computed."""

    def __init__(self, layer: str) -> None:
        super().__init__()
        self.layer, self.near = layer, nn.Linear(E, E)
        self.all, self.taps, self.norm = nn.Linear(E, E * E), nn.Linear(E, 3), nn.LayerNorm(E)
        self.own = nn.Parameter(torch.randn(E, E) / 4)

    def weight(self, x: Tensor) -> Tensor:
        return self.all(x.mean(1)).unflatten(-1, (E, E)) / E

    def forward(self, x: Tensor) -> Tensor:
        return COMPUTED[self.layer](self, x)


def dynamic(layer: Any, x: Tensor) -> Tensor:
    near = functional.pad(x, (0, 0, 1, 1)).unfold(1, 3, 1)
    return x + torch.einsum("bnek,bnk->bne", near, layer.taps(x).softmax(-1))


def rotated(layer: Any, x: Tensor) -> Tensor:
    weight = layer.weight(x)
    return x @ torch.linalg.matrix_exp(weight - weight.mT)


COMPUTED: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "weights made by another layer": lambda layer, x: x + x @ layer.weight(x),
    "a norm and a layer behind it": lambda m, x: m.near(m.norm(x @ m.weight(x))),
    "weights normalised": lambda layer, x: x + x @ functional.normalize(layer.own, dim=0),
    "weights and an update": lambda m, x: x + x @ (m.own + m.own[:, :2] @ m.own[:2]),
    "weights times a scale": lambda m, x: x + x @ (m.own * m.own.abs().amax(0)),
    "dynamic convolution": dynamic,
    "rotation": rotated,
}


@pytest.mark.parametrize("layer", COMPUTED)
@torch.no_grad()
def test_attention_behind_layers_of_computed_weights_is_recorded(layer: str) -> None:
    model, x = network("plain", Computed(layer))
    calls = recorded(model, x)
    check_kind(model, x, calls)
    assert calls.unread == {}


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_every_kind_is_known_behind_a_layer_of_computed_weights(kind: str) -> None:
    model, x = network(kind, Computed("weights made by another layer"))
    check_kind(model, x, recorded(model, x))


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("kind", ["multi_head_attention_forward", "aten", "script", "vmap"])
def test_what_no_function_shows_is_recorded_and_projected(kind: str, mode: Any) -> None:
    model, x = network(kind)
    with mode():
        calls = recorded(model, x)
        before = model[0](x)
        expected = model[1](before) - before
    assert [call.name for call in calls] == ["0", "1", "2"]
    assert calls.unread == {}
    torch.testing.assert_close(calls[1].projected.sum(1) + model[1].out.bias, expected)


class OfOwn(nn.MultiheadAttention):
    """Torch's attention with a forward pass of its own."""

    def forward(self, x: Tensor) -> Tensor:
        weight, bias = self.in_proj_weight, self.in_proj_bias
        q, k, v = functional.linear(x, weight, bias).unflatten(-1, (3, H, D)).permute(2, 0, 3, 1, 4)
        return self.out_proj(((q @ k.mT).softmax(-1) @ v).transpose(1, 2).flatten(2))


class Unbatched(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = OfOwn(E, H)

    def forward(self, x: Tensor) -> Tensor:
        return torch.vmap(lambda text: self.inner(text[None])[0])(x)


class Plain(nn.Module):
    """A layer that torch.jit can read."""

    def __init__(self) -> None:
        super().__init__()
        self.parts, self.out = nn.Linear(16, 48), nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        parts = self.parts(x).reshape(x.shape[0], x.shape[1], 3, 4, 4).permute(2, 0, 3, 1, 4)
        weights = torch.softmax(torch.matmul(parts[0], parts[1].transpose(-1, -2)), -1)
        found = torch.matmul(weights, parts[2]).transpose(1, 2)
        return x + self.out(found.reshape(x.shape[0], x.shape[1], 16))


@pytest.mark.parametrize("texts", [1, B])
@pytest.mark.parametrize(
    ("build", "name"),
    [
        (lambda: OfOwn(E, H), "0"),
        (Unbatched, "0.inner"),
        (lambda: torch.jit.script(Plain()), ""),
    ],
)
@torch.no_grad()
def test_subclasses_vectorised_and_scripted_modules_are_recorded(
    build: Any, name: str, texts: int
) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(build(), Kind("plain")).eval()
    calls = recorded(model, torch.randn(texts, N, E))
    assert ([call.name for call in calls], calls.unread) == ([name, "1"], {})
    assert all(call.slices is not None for call in calls)


@pytest.mark.parametrize("by", [recorded, head_report])
def test_a_script_is_refused_as_such(by: Any) -> None:
    script = torch.jit.script(Plain())
    with pytest.raises(TypeError, match="model must be one that hooks can watch, got a script"):
        by(script, [torch.randn(B, N, E)])


@torch.inference_mode()
def test_keys_are_of_the_product_with_tokens_and_not_with_positions() -> None:
    model, x = network("products with positions first")
    _, call, _ = recorded(model, x)
    q, k, v = model[1].vectors(model[0](x))
    for found, expected in zip((call.queries, call.keys, call.values), (q, k, v), strict=True):
        torch.testing.assert_close(found, expected)


class Turned(nn.Module):
    """Attention as timm writes it, whose weights are turned round before they meet the values."""

    def __init__(self, turned: bool) -> None:
        super().__init__()
        self.turned, self.num_heads, self.scale = turned, H, D**-0.5
        self.qkv, self.proj, self.attn_drop = nn.Linear(E, 3 * E), nn.Linear(E, E), nn.Dropout(0.0)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, H, D)).permute(2, 0, 3, 1, 4)
        weights = self.attn_drop((self.scale * q @ k.mT).softmax(-1))
        found = (weights.flip(-1) if self.turned else weights) @ v
        return self.proj(found.transpose(1, 2).flatten(2))


@pytest.mark.parametrize("slab", [0, 4])
@pytest.mark.parametrize("turned", [True, False])
@torch.inference_mode()
def test_maps_that_do_not_replay_the_outputs_are_withdrawn(turned: bool, slab: int) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(Kind("plain"), Turned(turned)).eval()
    with recording(model, slab=slab) as calls:
        model(torch.randn(B, N, E))
    assert [call.name for call in calls] == ["0"] + ["1"] * (not turned)
    assert list(calls.unread) == ["1"] * turned


def by_torch(read: Callable[[nn.Module, Tensor, Tensor], tuple[Tensor, ...]]) -> type[nn.Module]:
    """Return a network of torch's attention, at a place that is named after another."""

    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.LayerNorm(E), nn.LayerNorm(E, elementwise_affine=False)
            self.place = nn.Parameter(torch.randn(N, E))
            self.cross_encoder = nn.MultiheadAttention(E, H, batch_first=True)

        def forward(self, x: Tensor, other: Tensor) -> Tensor:
            found: Tensor = self.cross_encoder(*read(self, x, other))[0]
            return found

    return Named


#: What reads what, and whether that are two sequences.
READ: dict[str, tuple[Any, bool]] = {
    "places added to queries": (lambda m, x, y: (x + m.place, x, x), False),
    "places added to keys too": (lambda m, x, y: (x + m.place, x + m.place, x), False),
    "normalised twice": (lambda m, x, y: (m.one(x), m.two(x), x), False),
    "parts of one": (lambda m, x, y: (x[:, :2], x, x), False),
    "one after the other": (lambda m, x, y: (x, *(2 * [torch.cat([y, x], dim=1)])), False),
    "another": (lambda m, x, y: (x, y, y), True),
    "another, with places": (lambda m, x, y: (x + m.place, y + m.place, y), True),
    "learnt queries": (lambda m, x, y: (m.place.expand(len(x), -1, -1), x, x), True),
    "learnt queries among themselves": (
        lambda m, x, y: 3 * (m.place.expand(len(x), -1, -1) + 0.0,),
        False,
    ),
}


@pytest.mark.parametrize("kind", READ)
@torch.inference_mode()
def test_cross_attention_is_told_by_what_is_read_and_not_by_a_name(kind: str) -> None:
    read, cross = READ[kind]
    torch.manual_seed(0)
    (call,) = recorded(by_torch(read)().eval(), torch.randn(B, N, E), torch.randn(B, N, E))
    assert call.cross == cross


@pytest.mark.parametrize("name", ["reader", "cross_blocks", "encoder_attn", "EncDecAttention"])
@torch.inference_mode()
def test_attention_by_hand_of_any_name_reads_its_own_sequence(name: str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential()
    model.add_module(name, Kind("plain"))
    (call,) = recorded(model.eval(), torch.randn(B, N, E))
    assert (call.name, call.cross) == (name, False)


class Beside(nn.Module):
    """A softmax that is no attention between tokens, behind a layer that is."""

    def __init__(self, mix: str) -> None:
        super().__init__()
        self.mix, self.attention = mix, Kind("plain")
        self.gate_attn, self.experts = nn.Linear(E, 5), nn.Parameter(torch.randn(5, E, E))
        self.taps, self.choose = nn.Conv1d(E, 2 * E, 1), nn.Linear(E, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.attention(OTHERS[self.mix](self, self.attention(x)))


def experts(model: Any, x: Tensor) -> Tensor:
    weights = model.gate_attn(x).softmax(-1)
    found = torch.stack([x @ one for one in model.experts], dim=-1)  # (B, N, E, 5)
    return (found @ weights[..., None]).squeeze(-1)


def experts_by_number(model: Any, x: Tensor) -> Tensor:
    best, which = model.gate_attn(x).softmax(-1).topk(2, dim=-1)
    found = torch.stack([x @ one for one in model.experts], dim=2)
    chosen = found.gather(2, which[..., None].expand(-1, -1, -1, E))
    return (best[..., None] * chosen).sum(2)


def selective(model: Any, x: Tensor) -> Tensor:
    """Two convolutions weighed by channel."""
    both = model.taps(x.mT).unflatten(1, (2, E))  # (B, 2, E, N)
    weights = model.taps(x.mT.mean(-1, keepdim=True)).unflatten(1, (2, E)).softmax(1)
    return (weights * both).sum(1).mT


def pooled(model: Any, x: Tensor) -> Tensor:
    weights = model.choose(x).softmax(1)  # (B, N, 1)
    return x + (weights * x).sum(1, keepdim=True)


def pooled_by_product(model: Any, x: Tensor) -> Tensor:
    return x + model.choose(x).softmax(1).mT @ x


def pooled_with_guidance(model: Any, x: Tensor) -> Tensor:
    """Each channel is pooled by weights of its own, with and without a condition."""
    both = torch.cat([x, torch.zeros_like(x)]).mT  # (2B, E, N)
    weights = model.taps(both)[:, :E].softmax(-1)
    return x + (weights * both).sum(-1)[:B, None]


def remembered(model: Any, x: Tensor) -> Tensor:
    """A mask over tokens of a grid is read by a convolution, as by those that track objects."""
    scores = model.attention.q(x[:, :1]) @ model.attention.k(x).mT
    masks = functional.interpolate(scores.unflatten(-1, (2, 3)), scale_factor=2.0).sigmoid()
    filters = model.experts[0, :, :4].reshape(E, 1, 2, 2)
    return x + functional.conv2d(masks, filters, stride=2).flatten(2).mT


def contrasted(model: Any, x: Tensor) -> Tensor:
    """Similarities of as many images and texts, and their loss, as in CLIP; put out."""
    images, texts = (functional.normalize(one.mean(1), dim=-1) for one in (x, model.attention.q(x)))
    logits = 3 * images @ texts.mT
    loss = functional.cross_entropy(logits, torch.arange(B)) + logits.mT.softmax(-1).amax()
    model.shown = (loss, logits.softmax(-1))
    return x


def by_class(model: Any, x: Tensor) -> Tensor:
    """Keep the tokens that the first gives most weight to."""
    scores = model.attention.q(x[:, :1]) @ model.attention.k(x).mT
    best = scores.softmax(-1)[:, 0].topk(4).indices
    return x.gather(1, best[..., None].expand(-1, -1, E))


def merged(model: Any, x: Tensor) -> Tensor:
    """Token merging: the token most like another of the other half is added to it."""
    found = functional.normalize(model.attention.k(x), dim=-1)
    assert torch.div(N, 2, rounding_mode="trunc") == 3  # of no tensors
    most, which = (found[:, ::2] @ found[:, 1::2].mT).max(-1)
    order = most.argsort(-1, descending=True)[..., None]
    rest, moved = order.split((2, 1), dim=1)
    places = which[..., None].gather(1, moved).expand(-1, -1, E)
    rest, moved = (part.expand(-1, -1, E) for part in (rest, moved))
    others = x[:, 1::2].scatter_reduce(1, places, x[:, ::2].gather(1, moved), "mean")
    return torch.cat([x[:, ::2].gather(1, rest), others], dim=1)


OTHERS: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "experts": experts,
    "chosen experts": experts_by_number,
    "contrastive logits": contrasted,
    "tokens chosen by weights": by_class,
    "merged tokens": merged,
    "convolutions": selective,
    "pooling": pooled,
    "pooling by a product": pooled_by_product,
    "pooling with guidance": pooled_with_guidance,
    "masks that a convolution reads": remembered,
}


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("mix", OTHERS)
def test_gates_convolutions_and_pooling_raise_no_alarm(mix: str, mode: Any) -> None:
    torch.manual_seed(0)
    model = Beside(mix).eval().requires_grad_(False)
    with mode():
        calls = recorded(model, torch.randn(B, N, E))
    assert [call.name for call in calls] == ["attention"] * 2
    assert calls.unread == {}


class Pooled(Kind):
    """Attention of one query, that of the first token or one for all texts."""

    def __init__(self, shared: bool) -> None:
        super().__init__("plain")
        self.shared = shared

    def query(self, x: Tensor) -> Tensor:
        return self.q(self.near[None, :1].repeat(1, 1, E // D) if self.shared else x[:, :1])

    def forward(self, x: Tensor) -> Tensor:
        return (self.query(x) @ self.k(x).mT).softmax(-1) @ x


@pytest.mark.parametrize("shared", [True, False])
@torch.no_grad()
def test_a_query_that_pools_is_recorded_also_if_all_texts_share_it(shared: bool) -> None:
    torch.manual_seed(0)
    model, x = Pooled(shared).eval(), torch.randn(B, N, E)
    (call,) = recorded(model, x)
    assert (call.pools, call.cross, call.maps.shape) == (True, shared, (B, 1, 1, N))
    torch.testing.assert_close(call.queries[:, 0], model.query(x).expand(B, -1, -1))


class Slots(Kind):
    """Queries that the network has learnt, which no layer changes; a layer reads the output."""

    def __init__(self) -> None:
        super().__init__("plain")
        self.slots = nn.Parameter(torch.randn(4, E))

    def maps(self, x: Tensor) -> list[Tensor]:
        return [(self.slots.expand(len(x), -1, -1) @ self.k(x).mT / 4).softmax(-1)]

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.maps(x)[0] @ self.v(x))


@torch.no_grad()
def test_queries_that_are_parameters_are_recorded_as_those_behind_a_layer_are() -> None:
    torch.manual_seed(0)
    model, x = Slots().eval(), torch.randn(B, N, E)
    calls = recorded(model, x)
    assert (len(calls), calls.unread) == (1, {})
    torch.testing.assert_close(calls[0].maps[:, 0], model.maps(x)[0])


OVERWRITING: dict[str, Callable[[Tensor], Any]] = {
    "in place": lambda x: x.zero_(),
    "by name": lambda x: torch.mul(x, 0.0, out=x),
    "in a list": lambda x: torch._foreach_mul_([x], 0.0),
    "as a view": lambda x: x[..., 0].fill_(7.0),
    "by numbers": lambda x: x.data.copy_(torch.ones(x.shape)),
}


@pytest.mark.parametrize("way", OVERWRITING)
@pytest.mark.parametrize("part", range(3))
def test_vectors_are_those_that_were_read_however_they_are_overwritten(part: int, way: str) -> None:
    layer = Kind("plain").eval()
    x = torch.randn(B, N, E)
    vectors = layer.vectors(x)

    def attend(layer: Kind, x: Tensor) -> Tensor:
        q, k, v = layer.vectors(x)
        found = torch.softmax(q @ k.mT / 2, -1) @ v
        OVERWRITING[way]((q, k, v)[part])
        return layer.joined(found)

    layer.forward = partial(attend, layer)  # type: ignore[method-assign]
    with torch.inference_mode(), recording(layer) as calls:
        layer(x)
    (call,) = calls
    for found, expected in zip((call.queries, call.keys, call.values), vectors, strict=True):
        torch.testing.assert_close(found, expected)
