"""Heads of any torch model: the recorded parts must make up what the model computes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import profiles
import pytest
import torch
import transformers
from batches import PARTS
from claims import INVARIANCE, claim
from timm_like import TimmLike
from tolerances import TOLERANCE
from torch import Tensor, nn

from fourierkernels.attention import FourierAttention
from fourierkernels.checkpoints import attention_calls, load_checkpoint
from fourierkernels.checkpoints.recorders.recording import recording
from fourierkernels.diagnostics import METRICS, head_distances, head_samples
from fourierkernels.mixing import FourierMixer, SoftmaxMixer

Tiny = Callable[[str], Path]
ROUNDING = TOLERANCE["float32"]["fast"]
IDS = torch.tensor([[3, 4, 5, 6, 7], [8, 9, 2, 0, 0]])
MASK = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
TINY = {"vocab_size": 14, "hidden_size": 16, "intermediate_size": 16}


def hugging_face(name: str) -> tuple[nn.Module, dict[str, Any]]:
    small = {"num_hidden_layers": 2, "num_attention_heads": 4}
    bart = {
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "d_model": 16,
        "encoder_ffn_dim": 8,
        "decoder_ffn_dim": 8,
        "vocab_size": 14,
        "max_position_embeddings": 16,
    }
    text = {"input_ids": IDS, "attention_mask": MASK}
    both = {**text, "decoder_input_ids": IDS[:, :3]}
    pixels = {"pixel_values": torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))}
    t = transformers
    rows: dict[str, tuple[Any, dict[str, Any]]] = {
        "bert": (t.BertConfig(**TINY, **small), text),
        "gpt2": (t.GPT2Config(n_embd=16, n_head=4, n_layer=2, n_positions=16, vocab_size=14), text),
        "llama": (t.LlamaConfig(**TINY, **small, num_key_value_heads=2), text),
        "vit": (
            t.ViTConfig(hidden_size=16, intermediate_size=16, image_size=8, patch_size=4, **small),
            pixels,
        ),
        "bart": (t.BartConfig(**bart), both),
        "t5": (
            t.T5Config(d_model=16, d_kv=4, num_heads=4, num_layers=2, d_ff=8, vocab_size=14),
            both,
        ),
    }
    torch.manual_seed(1)
    model = t.AutoModel.from_config(rows[name][0]).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    return model, rows[name][1]


def plain(name: str) -> tuple[nn.Module, tuple[Any, ...], dict[str, Any]]:
    torch.manual_seed(2)
    x, memory = torch.randn(2, 5, 8), torch.randn(2, 3, 8)
    alone = x[0]
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    layer = nn.TransformerEncoderLayer(8, 2, 8, batch_first=True)
    decoder = nn.TransformerDecoderLayer(8, 2, 8)
    multi = nn.MultiheadAttention
    rows: dict[str, tuple[nn.Module, tuple[Any, ...], dict[str, Any]]] = {
        "multihead": (multi(8, 2), (x, x, x), {"need_weights": False}),
        "multihead without batch": (multi(8, 2), (alone, alone, alone), {}),
        "multihead with extras": (
            multi(8, 2, add_bias_kv=True, add_zero_attn=True, batch_first=True),
            (x, x, x),
            {},
        ),
        "multihead of other widths": (
            multi(8, 2, kdim=3, vdim=5, bias=False, batch_first=True),
            (x, memory[..., :3], memory[..., :5]),
            {},
        ),
        "encoder": (nn.TransformerEncoder(layer, 2), (x,), {"src_key_padding_mask": padding}),
        "decoder": (
            nn.TransformerDecoder(decoder, 2),
            (x.transpose(0, 1), memory.transpose(0, 1)),
            {},
        ),
        "timm": (TimmLike(), (x,), {}),
        "fourier layer": (FourierAttention(8, 2, radius=1.0), (x,), {}),
        "softmax mixer": (SoftmaxMixer(8, heads=2), (x,), {"padding": padding}),
        "fourier mixer": (FourierMixer(8, heads=2), (x,), {}),
    }
    return rows[name][0].eval(), *rows[name][1:]


PLAIN = [
    "multihead",
    "multihead without batch",
    "multihead with extras",
    "multihead of other widths",
    "encoder",
    "decoder",
    "timm",
    "fourier layer",
    "softmax mixer",
    "fourier mixer",
]
HUGGING_FACE = {
    "bert": (2, 0),
    "gpt2": (2, 0),
    "llama": (2, 0),
    "vit": (2, 0),
    "bart": (6, 2),
    "t5": (6, 2),
}


def tensors(output: Any) -> list[Tensor]:
    if isinstance(output, Tensor):
        return [output]
    parts = output.values() if hasattr(output, "values") else output
    return [part for part in parts if isinstance(part, Tensor)]


def check_run(model: nn.Module, *inputs: Any, **options: Any) -> list[Any]:
    """Run with and without listening, holding each layer's output against the recorded parts."""
    made: dict[int, list[Tensor]] = {}

    def keep(module: nn.Module, _: Any, output: Any) -> None:
        made.setdefault(id(module), []).append(tensors(output)[0])

    with torch.inference_mode():
        expected = model(*inputs, **options)
        with recording(model) as calls:
            hooks = [m.register_forward_hook(keep) for m in model.modules()]
            found = model(*inputs, **options)
            for hook in hooks:
                hook.remove()
    both = [tensors(output)[0] for output in (found, expected)]
    if "src_key_padding_mask" in options:  # the fast path puts zeros where padding is
        both = [one[~options["src_key_padding_mask"]] for one in both]
    torch.testing.assert_close(*both, rtol=1e-4, atol=1e-5)
    for call in calls:
        torch.testing.assert_close(call.maps @ call.values, call.outputs, rtol=1e-4, atol=1e-5)
        total = call.projected.sum(dim=1)
        bias = getattr(call.projection, "bias", None)
        total = total if bias is None else total + bias
        owner = model.get_submodule(call.name)
        candidates = [*made.get(id(call.projection), []), *made.get(id(owner), [])]
        shapes = [c if c.ndim == 3 else c[None] for c in candidates]
        shapes += [c.transpose(0, 1) for c in shapes]
        assert any(
            c.shape == total.shape and torch.allclose(c, total, rtol=1e-4, atol=1e-5)
            for c in shapes
        )
    return calls


@pytest.mark.parametrize("name", HUGGING_FACE)
def test_recorded_heads_add_up_to_what_hugging_face_layers_put_out(name: str) -> None:
    model, options = hugging_face(name)
    before = model.config._attn_implementation
    calls = check_run(model, **options)
    assert (len(calls), sum(call.cross for call in calls)) == HUGGING_FACE[name]
    assert before == model.config._attn_implementation == "sdpa"
    assert all(call.maps.shape[1] == call.keys.shape[1] == 4 for call in calls)


@pytest.mark.parametrize("name", PLAIN)
def test_recorded_heads_add_up_to_what_layers_of_torch_put_out(name: str) -> None:
    model, inputs, options = plain(name)
    calls = check_run(model, *inputs, **options)
    assert len(calls) == {"encoder": 2, "decoder": 4}.get(name, 1)
    assert [call.cross for call in calls] == {
        "decoder": [False, True] * 2,
        "multihead of other widths": [True],
    }.get(name, [False] * len(calls))


class NormalisedThrice(nn.Module):
    """A sequence that reads itself, in three tensors, at a place named after another."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.cross_reader = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: Tensor, other: Tensor) -> Tensor:
        own = self.cross_reader(self.norm(x), self.norm(x), self.norm(x))[0]
        return self.cross_reader(own, other, other)[0]


@pytest.mark.parametrize("hole", [0.0, torch.nan])
def test_a_sequence_that_reads_itself_is_told_by_its_numbers(hole: float) -> None:
    x, other = torch.randn(2, 2, 5, 8)
    x[0, 0, 0] = hole
    calls = attention_calls(NormalisedThrice().eval(), x, other)
    assert [call.cross for call in calls] == [False, True]


@pytest.mark.parametrize("name", ["bert", "llama", "vit"])
def test_softmax_of_recorded_queries_and_keys_is_the_recorded_map(name: str) -> None:
    model, options = hugging_face(name)
    for call in attention_calls(model, **options):
        scores = call.scale * call.queries @ call.keys.transpose(-2, -1)
        visible = scores.masked_fill(call.maps == 0, -torch.inf)
        torch.testing.assert_close(visible.softmax(dim=-1), call.maps, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["bert", "gpt2", "vit"])
def test_output_projection_is_found_where_weights_are_not_numbers(name: str) -> None:
    model, options = hugging_face(name)
    places = [call.projection for call in attention_calls(model, **options)]
    with torch.no_grad():
        next(model.parameters()).fill_(torch.nan)
        calls = attention_calls(model, **options)
    assert calls[0].outputs.isnan().any()
    assert [call.projection for call in calls] == places
    assert None not in places


def test_queries_that_share_keys_get_them_repeated_in_order() -> None:
    model, options = hugging_face("llama")
    keys = attention_calls(model, **options)[0].keys
    assert torch.equal(keys[:, 0], keys[:, 1])
    assert not torch.equal(keys[:, 1], keys[:, 2])


@pytest.mark.parametrize("part", PARTS)
def test_part_leaves_out_padded_keys_and_queries(part: str) -> None:
    model, options = hugging_face("bert")
    padded = attention_calls(model, **options)[1].part(part, 1, 3, 3)
    alone = attention_calls(model, input_ids=IDS[1:, :3])[1].part(part, 0, 3, 3)
    assert padded.shape[:2] == (4, 3)
    torch.testing.assert_close(padded, alone, rtol=1e-4, atol=1e-5)


def test_parts_of_cross_attention_are_cut_on_their_own_side() -> None:
    model, inputs, options = plain("multihead of other widths")
    call = attention_calls(model, *inputs, **options)[0]
    shapes = {name: tuple(call.part(name, 1, 4, 2).shape) for name in PARTS}
    assert shapes == {
        "maps": (2, 4, 2),
        "queries": (2, 4, 4),
        "keys": (2, 2, 4),
        "values": (2, 2, 4),
        "outputs": (2, 4, 4),
        "projected": (2, 4, 8),
    }


def test_parts_that_are_not_there_are_refused() -> None:
    model, inputs, options = plain("timm")
    call = attention_calls(model, *inputs, **options)[0]
    with pytest.raises(ValueError, match=r"name must be one of .*, got 'scale'"):
        call.part("scale", 0, 1, 1)
    call.slices = None
    with pytest.raises(ValueError, match="linear layer after the heads, got none after"):
        call.part("projected", 0, 1, 1)


def test_fast_path_of_the_encoder_is_restored_and_hooks_are_gone() -> None:
    model, inputs, options = plain("encoder")
    attention_calls(model, *inputs, **options)
    assert torch.backends.mha.get_fastpath_enabled()
    for kind in ("timm", "softmax mixer", "fourier layer", "encoder"):
        module, inputs, options = plain(kind)
        before = [dict(vars(part)) for part in module.modules()]
        attention_calls(module, *inputs, **options)
        assert [dict(vars(part)).keys() for part in module.modules()] == [p.keys() for p in before]
        assert not any(p._forward_hooks or p._forward_pre_hooks for p in module.modules())
    assert plain("timm")[0].fused_attn


def test_interface_of_transformers_is_restored_even_after_an_error() -> None:
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    model, _ = hugging_face("bert")
    with pytest.raises(IndexError):
        attention_calls(model, input_ids=torch.tensor([[99]]))
    assert "get_interface" not in vars(ALL_ATTENTION_FUNCTIONS)
    assert model.config._attn_implementation == "sdpa"


def test_model_without_attention_is_refused() -> None:
    with pytest.raises(
        ValueError, match="model must have attention that is recognised, got none in Linear"
    ):
        attention_calls(nn.Linear(2, 2), torch.ones(1, 2))


def test_recorded_tensors_want_no_gradients() -> None:
    model, options = hugging_face("bert")
    for call in attention_calls(model, **options):
        assert not call.maps.requires_grad
        assert not call.projected.requires_grad


# Checkpoints

WINDOWS = [[1, 2, 3, 4, 5, 6], [3, 4], [9, 8, 7], [5]]


@pytest.mark.parametrize("kind", ["bert", "gpt2", "albert", "t5", "roberta"])
def test_vectors_of_padded_batches_equal_one_by_one_and_maps_those_of_the_model(
    kind: str, tiny: Tiny
) -> None:
    checkpoint = load_checkpoint(tiny(kind))
    together = {w.index: w for w in head_samples(checkpoint, WINDOWS, batch_size=4)}
    alone = {w.index: w for w in head_samples(checkpoint, WINDOWS, batch_size=1)}
    maps = {w.index: w.maps for w in head_samples(checkpoint, WINDOWS)}
    for index, window in together.items():
        assert window.projected.dtype == np.float64
        np.testing.assert_allclose(window.maps, maps[index], atol=ROUNDING)
        for name in ("queries", "keys", "values", "outputs", "projected"):
            expected = getattr(alone[index], name)
            scale = np.abs(expected).max()
            np.testing.assert_allclose(getattr(window, name), expected, atol=4 * ROUNDING * scale)


@pytest.mark.parametrize("metric", [n for n, row in METRICS.items() if row.of != "maps"])
def test_metrics_of_outputs_are_averaged_over_texts(metric: str, tiny: Tiny) -> None:
    texts = ["a b c d e", "f g", "h i j a b c"]
    summary = profiles.distances(tiny("bert"), texts, metric=metric, tokens="whitespace")
    ids = [[2, *(ord(word) - 93 for word in text.split()), 3] for text in texts]
    windows = head_samples(load_checkpoint(tiny("bert")), ids, batch_size=1)
    expected = [head_distances(getattr(w, METRICS[metric].of), metric=metric) for w in windows]
    np.testing.assert_allclose(summary.distances, np.mean(expected, axis=0), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("metric", ["frobenius", "projected_distance"])
def test_weights_that_are_not_numbers_are_refused_as_such(metric: str, tiny: Tiny) -> None:
    checkpoint = load_checkpoint(tiny("bert"))
    with torch.no_grad():
        checkpoint.model.encoder.layer[1].attention.self.value.weight.fill_(torch.nan)
    sample = next(head_samples(checkpoint, WINDOWS[:1]))
    with pytest.raises(ValueError, match="must be finite, got nan"):
        head_distances(getattr(sample, METRICS[metric].of), metric=metric)


@pytest.mark.parametrize("metric", METRICS)
def test_rotated_values_move_only_metrics_that_are_no_property_of_the_network(
    metric: str, tiny: Tiny
) -> None:
    checkpoint = load_checkpoint(tiny("bert"))
    before_output = checkpoint.model(input_ids=IDS)[0]
    row = METRICS[metric]
    before = getattr(next(head_samples(checkpoint, WINDOWS[:1])), row.of)
    rng = np.random.default_rng(0)
    with torch.no_grad():
        for layer in checkpoint.model.encoder.layer:
            value, out = layer.attention.self.value, layer.attention.output.dense
            for head in range(4):
                part = slice(4 * head, 4 * head + 4)
                q = torch.tensor(np.linalg.qr(rng.normal(size=(4, 4)))[0], dtype=torch.float32)
                value.weight[part], value.bias[part] = q @ value.weight[part], q @ value.bias[part]
                out.weight[:, part] = out.weight[:, part] @ q.T
    after_output = checkpoint.model(input_ids=IDS)[0]
    torch.testing.assert_close(after_output, before_output, rtol=1e-3, atol=1e-4)
    after = getattr(next(head_samples(checkpoint, WINDOWS[:1])), row.of)
    distances = [head_distances(one, metric=metric) for one in (before, after)]
    above = (slice(None), *np.triu_indices(4, 1))
    change = np.abs(distances[1][above] / distances[0][above] - 1).max()
    assert (change < 1e-2) == (claim(INVARIANCE, metric) != "none")
    assert change < 1e-2 or change > 0.05
