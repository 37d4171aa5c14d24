"""Attention by hand in its less usual forms: all of it is recorded, or named with a reason."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from fourierkernels.checkpoints import attention_calls
from fourierkernels.checkpoints.recorders.recording import recording

B, N, H, D = 3, 5, 2, 4
Heads = tuple[Tensor, Tensor, Tensor]


def _stable(scores: Tensor) -> Tensor:
    powers = torch.exp(scores - scores.amax(-1, keepdim=True))
    return powers / powers.sum(-1, keepdim=True)


def _texts_first(part: Tensor) -> Tensor:
    return part.reshape(B * H, N, D)


def _heads_first(part: Tensor) -> Tensor:
    return part.transpose(0, 1).reshape(H * B, N, D)


def _three(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.bmm(torch.bmm(q, k.transpose(1, 2)).div(2.0).softmax(-1), v)


#: From queries, keys and values (B, H, N, D) to outputs in the same layout; the scale is 1/2.
FORMS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "exponentials over their sum": lambda q, k, v: _stable(q @ k.mT / 2) @ v,
    "logarithm of the softmax": lambda q, k, v: functional.log_softmax(q @ k.mT / 2, -1).exp() @ v,
    "half precision in between": lambda q, k, v: (
        (q @ k.mT / 2).double().softmax(-1).to(q.dtype) @ v
    ),
    "copied weights": lambda q, k, v: (q @ k.mT / 2).softmax(-1).clone().contiguous() @ v,
    "values times turned weights": lambda q, k, v: (v.mT @ (q @ k.mT / 2).softmax(-1).mT).mT,
    "texts and heads in one": lambda q, k, v: _three(*map(_texts_first, (q, k, v))).reshape(
        B, H, N, D
    ),
    "heads and texts in one": lambda q, k, v: (
        _three(*map(_heads_first, (q, k, v))).reshape(H, B, N, D).transpose(0, 1)
    ),
    "fused, texts and heads in one": lambda q, k, v: functional.scaled_dot_product_attention(
        *map(_texts_first, (q, k, v))
    ).reshape(B, H, N, D),
    "one head after another": lambda q, k, v: torch.stack(
        [_three(q[:, h], k[:, h], v[:, h]) for h in range(H)], dim=1
    ),
    "one head after another, fused": lambda q, k, v: torch.stack(
        [functional.scaled_dot_product_attention(q[:, h], k[:, h], v[:, h]) for h in range(H)],
        dim=1,
    ),
}


class Layer(nn.Module):
    """Attention in one of the forms, between the usual projections."""

    def __init__(self, form: str) -> None:
        super().__init__()
        self.form = form
        self.qkv, self.out = nn.Linear(8, 3 * H * D), nn.Linear(H * D, 8)

    def vectors(self, x: Tensor) -> Heads:
        q, k, v = (part.unflatten(-1, (H, D)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        return q, k, v

    def forward(self, x: Tensor) -> Tensor:
        mixed = FORMS[self.form](*self.vectors(x))
        return self.out(mixed.transpose(1, 2).reshape(B, N, H * D))


def inputs() -> Tensor:
    return torch.randn(B, N, 8, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_recorded_as_what_it_computes(form: str) -> None:
    torch.manual_seed(1)
    layer, x = Layer(form).eval(), inputs()
    (call,) = attention_calls(layer, x)
    with torch.inference_mode():
        q, k, v = layer.vectors(x)
        maps = (q @ k.mT / 2).softmax(-1)
        output = layer(x)
    for name, expected in zip(
        ("maps", "queries", "keys", "values", "outputs"), (maps, q, k, v, maps @ v), strict=True
    ):
        torch.testing.assert_close(getattr(call, name), expected, rtol=1e-4, atol=1e-6)
    assert call.scale == pytest.approx(0.5, rel=1e-3)
    torch.testing.assert_close(call.projected.sum(1) + layer.out.bias, output)


#: From parts (B, W, N, H, D) to outputs in the same layout, by maps of five dimensions.
WINDOWS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "heads before windows": lambda *parts: _attend(
        *(part.permute(0, 3, 1, 2, 4) for part in parts)
    ).permute(0, 2, 3, 1, 4),
    "heads after windows": lambda *parts: _attend(
        *(part.transpose(2, 3) for part in parts)
    ).transpose(2, 3),
    "fused": lambda *parts: functional.scaled_dot_product_attention(
        *(part.transpose(2, 3) for part in parts)
    ).transpose(2, 3),
    "windows stacked": lambda *parts: _attend(
        *(torch.stack([one.transpose(1, 2) * 1 for one in part.unbind(1)], 2) for part in parts)
    ).permute(0, 2, 3, 1, 4),
}


def _attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.mT / 2).softmax(-1) @ v


class InWindows(nn.Module):
    """Attention within as many windows as there are heads, whose tokens may be spread."""

    def __init__(self, form: str, *, spread: bool = False, num_heads: int = H) -> None:
        super().__init__()
        self.form, self.spread, self.num_heads = form, spread, num_heads
        self.qkv, self.out = nn.Linear(8, 3 * H * D), nn.Linear(H * D, 8)

    def cut(self, x: Tensor) -> Tensor:
        """Return windows of tokens, ``(B, W, N, E)``."""
        return x.unflatten(1, (N, H)).transpose(1, 2) if self.spread else x.unflatten(1, (H, N))

    def forward(self, x: Tensor) -> Tensor:
        parts = self.cut(self.qkv(x)).unflatten(-1, (3, H, D)).unbind(3)
        found = WINDOWS[self.form](*parts).flatten(3)
        return self.out((found.transpose(1, 2) if self.spread else found).flatten(1, 2))


def tokens_of_windows() -> Tensor:
    return torch.randn(B, H * N, 8, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("spread", [False, True])
@pytest.mark.parametrize("form", WINDOWS)
def test_windows_of_each_text_are_items_in_turn(form: str, spread: bool) -> None:
    torch.manual_seed(1)
    layer, x = InWindows(form, spread=spread).eval(), tokens_of_windows()
    (call,) = attention_calls(layer, x)
    with torch.inference_mode():
        windows, output = layer.cut(x).flatten(0, 1), layer.cut(layer(x)).flatten(0, 1)
        weight, bias = (part.unflatten(0, (3, H, D)) for part in layer.qkv.parameters())
        for head in range(H):
            q, k, v = (windows @ weight[i, head].T + bias[i, head] for i in range(3))
            expected = ((q @ k.mT / 2).softmax(-1), q, k, v, _attend(q, k, v))
            names = ("maps", "queries", "keys", "values", "outputs")
            for name, part in zip(names, expected, strict=True):
                torch.testing.assert_close(getattr(call, name)[:, head], part)
    assert call.scale == pytest.approx(0.5, rel=1e-3)
    assert (call.cross, call.projection) == (False, layer.out)
    torch.testing.assert_close(call.projected.sum(1) + layer.out.bias, output)


class OneHead(InWindows):
    """Its heads are a dimension of one, as that of a single window; some tokens are queries."""

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.cut(self.qkv(x))[:, None].chunk(3, -1)
        return self.out(_attend(q[..., :2, :], k, v).flatten(1, 3))


def test_a_single_head_of_windows_is_stated_by_the_module() -> None:
    x = tokens_of_windows()
    (call,) = attention_calls(OneHead("", num_heads=1).eval(), x)
    assert (call.maps.shape, call.cross) == ((B * H, 1, 2, N), False)
    assert call.projection is not None
    with torch.inference_mode(), recording(model := OneHead("", num_heads=0).eval()) as recorded:
        model(x)
    assert (list(recorded), list(recorded.unread)) == ([], [""])


class OwnHeads(InWindows):
    """Each head has a matrix of its own, by a sum or one after another."""

    def forward(self, x: Tensor) -> Tensor:
        weight, windows = self.qkv.weight.unflatten(0, (3, H, D)), self.cut(x)
        if self.form == "sum":
            q, k, v = torch.einsum("bwne,chde->cbwhnd", windows, weight)
        else:
            q, k, v = (torch.stack([windows @ own.T for own in part], dim=2) for part in weight)
        return self.out(_attend(q, k, v).transpose(2, 3).flatten(3))


def test_heads_of_windows_are_known_by_the_matrices_that_a_sum_has_for_them() -> None:
    layer, x = OwnHeads("sum").eval(), tokens_of_windows()
    (call,) = attention_calls(layer, x)
    weight, windows = layer.qkv.weight.unflatten(0, (3, H, D)), layer.cut(x).flatten(0, 1)
    q, k, v = (torch.stack([windows @ own.T for own in part], dim=1) for part in weight)
    for part, expected in ((call.queries, q), (call.keys, k), (call.values, v)):
        torch.testing.assert_close(part, expected.detach())
    torch.testing.assert_close(call.maps, (q @ k.mT / 2).softmax(-1).detach())


@pytest.mark.parametrize(
    "model",
    [OwnHeads("stack"), InWindows("heads after windows", num_heads=H + 1)],
    ids=["own", "other"],
)
def test_windows_whose_heads_are_not_known_are_named(model: nn.Module) -> None:
    with torch.inference_mode(), recording(model.eval()) as recorded:
        model(tokens_of_windows())
    reason = f"its weights of shape {(B, H, H, N, N)} are not one map per head"
    assert (list(recorded), recorded.unread) == ([], {"": reason})


class LearntKeys(InWindows):
    """Its windows read as many keys of its own, in windows whose parts have to be copied."""

    def __init__(self) -> None:
        super().__init__("heads before tokens", spread=True)
        self.read = nn.Parameter(torch.randn(1, H * N, 8))

    def forward(self, x: Tensor) -> Tensor:
        read, kept = (
            self.cut(self.qkv(part)).unflatten(-1, (3, H, D)).transpose(2, 4).unbind(3)
            for part in (x, self.read.expand_as(x))
        )
        return self.out(_attend(read[0], *kept[1:]).transpose(2, 3).flatten(3))


def test_keys_of_another_sequence_are_known_in_windows_that_are_copied() -> None:
    (call,) = attention_calls(LearntKeys().eval(), tokens_of_windows())
    assert (call.maps.shape, call.cross) == ((B * H, H, N, N), True)


class FoldedHeads(InWindows):
    """Windows lie where heads do, since the heads are folded into the batch."""

    def forward(self, x: Tensor) -> Tensor:
        parts = self.cut(self.qkv(x)).unflatten(-1, (3, H, D)).permute(3, 0, 4, 1, 2, 5)
        found = FOLDED[self.form](*parts.flatten(1, 2))
        return self.out(found.unflatten(0, (len(x), H)).permute(0, 2, 3, 1, 4).flatten(3))


FOLDED = {"by hand": _attend, "fused": functional.scaled_dot_product_attention}


@pytest.mark.parametrize("texts", [1, B])
@pytest.mark.parametrize("form", FOLDED)
def test_windows_are_not_taken_for_heads_that_are_folded_into_the_batch(
    form: str, texts: int
) -> None:
    model = FoldedHeads(form).eval()
    with torch.inference_mode(), recording(model) as recorded:
        model(tokens_of_windows()[:texts])
    reason = f"its weights of shape {(texts * H, H, N, N)} are not one map per head"
    assert (list(recorded), recorded.unread) == ([], {"": reason})


class OfEarlierLayers(nn.Module):
    """Each token weighs two states of its own, by a query and keys of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.query = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        states = torch.stack([x, self.first(x)], dim=2)  # (B, N, 2, 8)
        scores = self.query(x)[:, :, None] @ states.mT
        return (scores.softmax(-1) @ states)[:, :, 0]


def test_tokens_that_weigh_their_own_states_are_not_taken_for_heads() -> None:
    model = OfEarlierLayers().eval()
    with torch.inference_mode(), recording(model) as recorded:
        model(inputs())
    assert list(recorded) == []


class Stacked(Layer):
    """Heads that were made one by one are stacked, and attend together."""

    def vectors(self, x: Tensor) -> Heads:
        parts = super().vectors(x)
        q, k, v = (torch.stack([part[:, h] * 1.0 for h in range(H)], dim=1) for part in parts)
        return q, k, v


@pytest.mark.parametrize("form", ["half precision in between", "copied weights"])
def test_stacked_heads_are_heads(form: str) -> None:
    torch.manual_seed(0)
    layer = Stacked(form).eval()
    (call,) = attention_calls(layer, inputs())
    with torch.inference_mode():
        q, k, _ = Layer.vectors(layer, inputs())
    torch.testing.assert_close(call.maps, (q @ k.mT / 2).softmax(-1))


def test_one_module_per_head_is_one_layer() -> None:
    class Head(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.key, self.query, self.value = (nn.Linear(8, D, bias=False) for _ in range(3))

        def forward(self, x: Tensor) -> Tensor:
            return (self.query(x) @ self.key(x).transpose(-2, -1) / 2).softmax(-1) @ self.value(x)

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.heads, self.proj = nn.ModuleList(Head() for _ in range(3)), nn.Linear(3 * D, 8)

        def forward(self, x: Tensor) -> Tensor:
            return x + self.proj(torch.cat([head(x) for head in self.heads], dim=-1))

    torch.manual_seed(2)
    blocks = nn.Sequential(Block(), Block()).eval()
    calls = attention_calls(blocks, inputs())
    assert [call.name for call in calls] == ["0.heads", "1.heads"]
    assert all(call.maps.shape == (B, 3, N, N) for call in calls)
    head: Head = blocks[0].heads[1]
    with torch.inference_mode():
        expected = (head.query(inputs()) @ head.key(inputs()).mT / 2).softmax(-1)
    torch.testing.assert_close(calls[0].maps[:, 1], expected)
    assert calls[0].projection is blocks[0].proj


class OneKeyForAll(nn.Module):
    """Queries of several heads read the same keys and values, by sums over named dimensions."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.kv, self.out = nn.Linear(8, H * D), nn.Linear(8, 2 * D), nn.Linear(H * D, 8)

    def forward(self, x: Tensor) -> Tensor:
        q = self.q(x).unflatten(-1, (H, D)).transpose(1, 2)
        k, v = self.kv(x).chunk(2, -1)
        weights = (torch.einsum("bhid,bjd->bhij", q, k) / 2).softmax(-1)
        return self.out(torch.einsum("bhij,bjd->bhid", weights, v).transpose(1, 2).flatten(-2))


def test_keys_that_all_heads_share_are_repeated_for_each() -> None:
    torch.manual_seed(3)
    model = OneKeyForAll().eval()
    (call,) = attention_calls(model, inputs())
    assert call.keys.shape == (B, H, N, D)
    torch.testing.assert_close((call.queries @ call.keys.mT / 2).softmax(-1), call.maps)
    with torch.inference_mode():
        torch.testing.assert_close(call.projected.sum(1) + model.out.bias, model(inputs()))


class BesideModule(nn.Module):
    """A recognised module, and attention by hand after it."""

    def __init__(self) -> None:
        super().__init__()
        self.known = nn.MultiheadAttention(8, H, batch_first=True)
        self.own = Layer("copied weights")

    def forward(self, x: Tensor) -> Tensor:
        return self.own(x + self.known(x, x, x)[0])


def test_a_recognised_module_does_not_hide_attention_by_hand() -> None:
    calls = attention_calls(BesideModule().eval(), inputs())
    assert [call.name for call in calls] == ["known", "own"]


class Unread(nn.Module):
    """Attention that cannot be recorded as one map per head."""

    def __init__(self, form: str) -> None:
        super().__init__()
        self.form, self.inner = form, Layer("copied weights")

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.inner.vectors(x)
        weights = (q @ k.mT / 2).softmax(-1)
        if self.form == "mixed heads":
            mixed = torch.einsum("bhij,hg->bgij", weights, torch.tensor([[1.0, 0.5], [2.0, 1.0]]))
            return mixed @ v
        if self.form == "no product":
            return (weights[..., None] * v[:, :, None]).sum(-2)
        return (weights / 2) @ v


class Unprojected(Layer):
    """Heads and texts in one dimension, and nothing after them."""

    def forward(self, x: Tensor) -> Tensor:
        return _three(*map(_heads_first, self.vectors(x)))


def test_texts_and_heads_that_cannot_be_told_apart_are_not_guessed() -> None:
    model = Unprojected("copied weights").eval()
    with pytest.raises(ValueError, match="texts and heads share a dimension"):
        attention_calls(model, inputs())


@pytest.mark.parametrize(
    ("form", "reason"),
    [
        ("mixed heads", "its weights are changed before they meet the values"),
        ("no product", "its weights meet no values in a product of matrices"),
        ("halved", "its weights are changed before they meet the values"),
    ],
)
def test_what_is_not_understood_is_named_with_its_reason(form: str, reason: str) -> None:
    model = nn.ModuleDict({"attention": Unread(form)}).eval()
    with torch.inference_mode(), recording(model) as recorded:
        model["attention"](inputs())
    assert list(recorded) == []
    assert recorded.unread == {"attention": reason}
    with pytest.raises(ValueError, match=f"got none in Unread: attention seen .* because {reason}"):
        attention_calls(Unread(form).eval(), inputs())


def test_what_is_not_understood_is_not_forgotten_when_the_next_layer_is() -> None:
    class Beside(Unread):
        def forward(self, x: Tensor) -> Tensor:
            return x + 0.0 * super().forward(x).sum()

    both = nn.Sequential(Beside("mixed heads"), Layer("copied weights")).eval()
    with torch.inference_mode(), recording(both) as recorded:
        both(inputs())
    assert [call.name for call in recorded] == ["1"]
    assert recorded.unread == {"0": "its weights are changed before they meet the values"}
