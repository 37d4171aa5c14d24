"""Attention spelled out in a model: the recorded parts are those that the model uses."""

from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn
from torch.nn import functional

from fourierkernels.checkpoints import attention_calls
from fourierkernels.checkpoints.recorders.einsum import as_product
from fourierkernels.checkpoints.recorders.recording import recording

IDS = torch.tensor([[3, 4, 5, 6, 7], [8, 9, 2, 5, 6]])
TINY = {
    "vocab_size": 14,
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}
GPT = {"vocab_size": 14, "n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 16}
OLD = {
    "deberta-v2": {**TINY, "relative_attention": True, "pos_att_type": ["c2p", "p2c"]},
    "mpnet": TINY,
    "megatron-bert": TINY,
    "roformer": {**TINY, "embedding_size": 16, "max_position_embeddings": 16},
    "gptj": {**GPT, "rotary_dim": 4},
    "openai-gpt": GPT,
    "bloom": {"vocab_size": 14, "hidden_size": 16, "n_layer": 2, "n_head": 4},
    "xglm": {"vocab_size": 14, "d_model": 16, "ffn_dim": 16, "num_layers": 2, "attention_heads": 4},
}


def old(kind: str, **changes: Any) -> nn.Module:
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(kind, **{**OLD[kind], **changes})
    model = transformers.AutoModel.from_config(config, attn_implementation="eager").eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    return model


class Written(nn.Module):
    """Attention by hand, in one of its usual forms."""

    def __init__(self, form: str, *, causal: bool = False) -> None:
        super().__init__()
        self.form, self.causal, self.heads = form, causal, 2
        self.qkv, self.out = nn.Linear(8, 24, bias=False), nn.Linear(8, 8)
        self.dropout, self.normalise = nn.Dropout(0.5), nn.Softmax(dim=-1)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part.unflatten(-1, (2, 4)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        n = x.shape[1]
        mask = torch.ones(n, n, dtype=torch.bool).tril() if self.causal else None
        if self.form == "fused":
            mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        elif self.form == "fused, masked":
            mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=0.7)
        else:
            scores = q @ k.mT / 2 if self.form == "operators" else torch.matmul(q / 2, k.mT)
            scores = scores if mask is None else scores.masked_fill(~mask, -torch.inf)
            if self.form == "operators":
                mixed = self.dropout(scores.softmax(-1)) @ v
            else:
                mixed = torch.matmul(self.dropout(self.normalise(scores)), v)
        return self.out(mixed.transpose(1, 2).reshape(x.shape))


def check_parts(model: nn.Module, *inputs: Any, **options: Any) -> list[Any]:
    """The heads must add up to what the projections after them put out."""
    made: dict[int, list[Tensor]] = {}
    with torch.inference_mode():
        expected = model(*inputs, **options)
        hooks = [
            module.register_forward_hook(
                lambda module, _, output: made.setdefault(id(module), []).append(output)
            )
            for module in model.modules()
        ]
        with recording(model) as calls:
            found = model(*inputs, **options)
        for hook in hooks:
            hook.remove()
    first = [x if isinstance(x, Tensor) else x[0] for x in (found, expected)]
    assert torch.equal(*first)
    assert calls.unread == {}
    for call in calls:
        torch.testing.assert_close(call.maps @ call.values, call.outputs, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(call.maps.sum(-1), torch.ones(call.maps.shape[:-1]))
        total = call.projected.sum(dim=1)
        total = total if call.projection.bias is None else total + call.projection.bias
        outputs = made[id(call.projection)]
        assert any(torch.allclose(one, total, rtol=1e-4, atol=1e-4) for one in outputs)
    return calls


@pytest.mark.parametrize("kind", OLD)
def test_maps_of_older_models_are_those_they_return_and_their_heads_add_up(kind: str) -> None:
    model = old(kind)
    calls = check_parts(model, input_ids=IDS)
    returned = model(input_ids=IDS, output_attentions=True).attentions
    assert len(calls) == len(returned) == 2
    for call, maps in zip(calls, returned, strict=True):
        torch.testing.assert_close(call.maps, maps.view_as(call.maps), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["megatron-bert", "roformer", "gptj", "openai-gpt", "xglm"])
def test_softmax_of_recorded_queries_and_keys_is_the_recorded_map(kind: str) -> None:
    for call in attention_calls(old(kind), input_ids=IDS):
        scores = call.scale * call.queries @ call.keys.mT
        visible = scores.masked_fill(call.maps == 0, -torch.inf)
        torch.testing.assert_close(visible.softmax(dim=-1), call.maps, rtol=1e-3, atol=1e-4)


def test_products_with_relative_positions_are_not_taken_for_queries_and_keys() -> None:
    ids = torch.arange(3, 9).expand(2, -1)  # as many tokens as there are relative positions
    model, projected = old("deberta-v2", max_relative_positions=3), []
    for layer in model.encoder.layer:
        layer.attention.self.query_proj.register_forward_hook(
            lambda module, inputs, output: projected.append(output) if len(output) == 2 else None
        )
    calls = attention_calls(model, input_ids=ids)
    for call, queries in zip(calls, projected, strict=True):
        expected = queries.unflatten(-1, (4, 4)).transpose(1, 2)
        torch.testing.assert_close(call.queries, expected)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("form", ["fused", "fused, masked", "operators", "functions"])
def test_attention_by_hand_is_recorded_in_every_form(form: str, causal: bool) -> None:
    torch.manual_seed(1)
    model = nn.Sequential(Written(form, causal=causal), Written(form, causal=causal)).eval()
    calls = check_parts(model, torch.randn(3, 5, 8))
    assert [call.name for call in calls] == ["0", "1"]
    for call in calls:
        scores = call.scale * call.queries @ call.keys.mT
        if causal:
            assert not call.maps.triu(1).any()
            scores = scores.masked_fill(call.maps == 0, -torch.inf)
        torch.testing.assert_close(scores.softmax(-1), call.maps, rtol=1e-4, atol=1e-5)


EINSUMS = {  # of scores and of outputs, with the layouts of q, k, v and of the outputs in letters
    "heads first": ("bhid,bhjd->bhij", "bhij,bhjd->bhid"),
    "heads last": ("bihd,bjhd->bhij", "bhij,bjhd->bihd"),
    "any batch": ("...id, ...jd -> ...ij", "...ij, ...jd -> ...id"),
    "keys before queries": ("bhjd,bhid->bhij", "bhjd,bhij->bhid"),
    "sequence first": ("ibhd,jbhd->ijbh", "ijbh,jbhd->ibhd"),
    "scores in another order": ("bihd,bjhd->bijh", "bijh,bjhd->bihd"),
    "outputs in another order": ("bhid,bhjd->bhij", "bhij,bhjd->bhdi"),
}


class Summed(Written):
    """The same attention with torch.einsum, or with @ for one of the two products."""

    def forward(self, x: Tensor) -> Tensor:
        name, _, mixed_with = self.form.partition(" + ")
        scoring, mixing = EINSUMS[name]
        given = [
            part.replace("...", "bh").strip()
            for part in f"{scoring},{mixing}".replace("->", ",").split(",")
        ]
        q_term, k_term, s_term, w_term, v_term, out_term = given
        if "j" in q_term:
            q_term, k_term, w_term, v_term = k_term, q_term, v_term, w_term
        q, k, v = (part.unflatten(-1, (2, 4)) for part in self.qkv(x).chunk(3, -1))
        q, k, v = (
            torch.einsum(f"bthd->{term.replace('i', 't').replace('j', 't')}", part)
            for term, part in ((q_term, q), (k_term, k), (v_term, v))
        )
        if mixed_with == "operators":
            scores = q @ k.mT
        else:
            scores = torch.einsum(scoring, *((k, q) if scoring[:4] == "bhjd" else (q, k)))
        if self.causal:
            visible = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
            shape = [x.shape[1] if letter in "ij" else 1 for letter in s_term]
            scores = scores.masked_fill(~visible.reshape(shape), -torch.inf)
        weights = (scores / 2).softmax(s_term.index("j"))
        both = (v, weights) if mixing[:4] == "bhjd" else (weights, v)
        mixed = torch.einsum(mixing, *both)
        return self.out(torch.einsum(f"{out_term}->bihd", mixed).flatten(-2))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("form", [*EINSUMS, "heads first + operators"])
def test_attention_with_einsum_is_recorded_as_with_products(form: str, causal: bool) -> None:
    torch.manual_seed(1)
    model = Summed(form, causal=causal).eval()
    plain = Written("operators", causal=causal).eval()
    plain.load_state_dict(model.state_dict())
    x = torch.randn(3, 5, 8)
    (call,), (expected,) = check_parts(model, x), check_parts(plain, x)
    for name in ("maps", "queries", "keys", "values", "outputs", "projected"):
        torch.testing.assert_close(getattr(call, name), getattr(expected, name))
    assert call.scale == pytest.approx(0.5, rel=1e-4)


@pytest.mark.parametrize(
    "equation",
    [
        "bhid,bhjd",
        "bhid,bjd->bhij",
        "bhid,bhjd->bij",
        "bhii,bhjd->bhij",
        "bhid,bhde,bhje->bhij",
        "bhid,bhid->bhi",
        "bhid->bhdi",
    ],
)
def test_einsum_that_is_no_product_of_matrices_by_head_is_none(equation: str) -> None:
    sides = equation.replace("->", ",").split(",")
    assert as_product(equation, [len(side) for side in sides]) is None


def test_hooks_are_gone_and_functions_are_their_own_afterwards() -> None:
    model = Written("operators").eval()
    calls = attention_calls(model, torch.zeros(1, 2, 8))
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in model.modules())
    model(torch.zeros(1, 2, 8))
    assert len(calls) == 1
    with pytest.raises(RuntimeError):
        attention_calls(model, torch.zeros(1, 2, 7))
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in model.modules())


class Gate(nn.Module):
    """A softmax over experts and a product, which is no attention."""

    def __init__(self) -> None:
        super().__init__()
        self.choose, self.experts = nn.Linear(8, 4), nn.Parameter(torch.ones(1, 2, 4, 3))

    def forward(self, x: Tensor) -> Tensor:
        weights = self.choose(x).softmax(-1)[:, None].expand(-1, 2, -1, -1).contiguous()
        return weights.softmax(-1) @ self.experts


def test_other_uses_of_softmax_are_no_attention() -> None:
    with pytest.raises(
        ValueError, match="model must have attention that is recognised, got none in Gate"
    ):
        attention_calls(Gate(), torch.zeros(1, 5, 8))


def test_gradients_flow_through_attention_by_hand() -> None:
    model = Written("operators").eval()
    x = torch.randn(1, 3, 8, requires_grad=True)
    with recording(model) as calls:
        model(x)
    assert calls[0].maps.requires_grad


class Remembered(Written):
    """Keys that the network has learnt for each head, and that all texts share."""

    def __init__(self) -> None:
        super().__init__("operators")
        self.keys = nn.Parameter(torch.randn(2, 6, 4))

    def maps(self, x: Tensor) -> tuple[Tensor, Tensor]:
        q, _, v = (part.unflatten(-1, (2, 4)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        return (q @ self.keys.mT).softmax(-1), v

    def forward(self, x: Tensor) -> Tensor:
        weights, v = self.maps(x)
        return self.out((weights @ v).transpose(1, 2).flatten(2))


@torch.inference_mode()
def test_keys_of_each_head_that_texts_share_are_recorded_for_each_text() -> None:
    torch.manual_seed(0)
    layer, x = Remembered(), torch.randn(3, 6, 8)
    (call,) = attention_calls(layer, x)
    torch.testing.assert_close(call.maps, layer.maps(x)[0])
    torch.testing.assert_close(call.keys, layer.keys.expand(3, -1, -1, -1))
