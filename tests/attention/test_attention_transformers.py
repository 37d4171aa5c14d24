"""Models of transformers with Fourier and Gaussian attention: tiny, random, built here."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from plain_attention import relative_error
from tolerances import TOLERANCE
from torch import Tensor, nn

pytest.importorskip("transformers")

from transformers import (
    AttentionInterface,
    AttentionMaskInterface,
    BertConfig,
    BertModel,
    FNetConfig,
    FNetModel,
    Gemma2Config,
    Gemma2Model,
    GPT2Config,
    GPT2LMHeadModel,
    GPTNeoXConfig,
    GPTNeoXModel,
    GptOssConfig,
    GptOssModel,
    LlamaConfig,
    LlamaForCausalLM,
    MarianConfig,
    MarianMTModel,
    PreTrainedModel,
    T5Config,
    T5Model,
    ViTConfig,
    ViTModel,
    Wav2Vec2ConformerConfig,
    Wav2Vec2ConformerModel,
)

from fourierkernels.attention import softmax_attention
from fourierkernels.attention import transformers as hf
from fourierkernels.attention.interface import (
    IMPLEMENTATIONS,
    Implementation,
    attention_forward,
    register,
)
from fourierkernels.checkpoints.recorders.recording import attention_calls

FAST, GRADIENT = TOLERANCE["float64"]["fast"], TOLERANCE["float64"]["gradient"]
WORDS, DIM, HEADS = 20, 16, 4
SIZES = {
    "vocab_size": WORDS,
    "hidden_size": DIM,
    "num_hidden_layers": 2,
    "intermediate_size": 8,
    "num_attention_heads": HEADS,
}
IDS = torch.tensor([[3, 4, 5, 6, 7, 8, 9], [9, 8, 2, 6, 5, 4, 3]])


@pytest.fixture(autouse=True)
def _seed() -> Iterator[None]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def bert() -> PreTrainedModel:
    return BertModel(BertConfig(**SIZES))


def gpt2() -> PreTrainedModel:
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=WORDS,
            n_positions=32,
            n_embd=DIM,
            n_layer=2,
            n_head=HEADS,
            bos_token_id=0,
            eos_token_id=None,
        )
    )


def vit() -> PreTrainedModel:
    sizes = {name: size for name, size in SIZES.items() if name != "vocab_size"}
    return ViTModel(ViTConfig(image_size=8, patch_size=4, **sizes))


def llama() -> PreTrainedModel:  # two heads of queries share one of keys
    return LlamaForCausalLM(
        LlamaConfig(**SIZES, num_key_value_heads=2, bos_token_id=0, eos_token_id=None)
    )


def marian() -> PreTrainedModel:
    sides = {
        f"{side}_{name}": size
        for side in ("encoder", "decoder")
        for name, size in {"layers": 1, "attention_heads": HEADS, "ffn_dim": 8}.items()
    }
    return MarianMTModel(
        MarianConfig(
            vocab_size=WORDS,
            d_model=DIM,
            max_position_embeddings=32,
            pad_token_id=0,
            eos_token_id=1,
            forced_eos_token_id=None,
            decoder_start_token_id=2,
            **sides,
        )
    )


def inputs(name: str) -> dict[str, Tensor]:
    if name == "vit":
        return {"pixel_values": torch.randn(2, 3, 8, 8, dtype=torch.float64)}
    if name == "marian":
        return {"input_ids": IDS, "decoder_input_ids": IDS[:, :5]}
    return {"input_ids": IDS}


MODELS = {"bert": bert, "gpt2": gpt2, "vit": vit, "llama": llama, "marian": marian}
LEARNT = {"bert": 2, "gpt2": 2, "vit": 2, "llama": 2, "marian": 3}  # attention modules


def build(name: str, **options: Any) -> PreTrainedModel:
    model = MODELS[name]().double().eval()
    hf.add_fourier_attention(model, **({"radius": 1.0} | options))
    return model


def spied(model: PreTrainedModel, monkeypatch: pytest.MonkeyPatch, name: str) -> list[Any]:
    """Record what each attention module hands to the function of this name, and gets back."""
    calls: list[Any] = []

    def spy(*arguments: Any, **options: Any) -> Any:
        result = attention_forward(name, *arguments, **options)
        calls.append((arguments, options, result))
        return result

    monkeypatch.setitem(AttentionInterface._global_mapping, name, spy)
    return calls


def by_hand(module: nn.Module, q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
    """Equation 15, a loop over heads, queries and keys; (B, N, H, D)."""
    radius, groups = module.log_radius.exp(), q.shape[1] // k.shape[1]
    output = torch.zeros(q.shape[0], q.shape[2], q.shape[1], v.shape[3], dtype=q.dtype)
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            r = radius if radius.ndim == 1 else radius[h]
            for i in range(q.shape[2]):
                seen = i + 1 if causal else k.shape[2]
                x = r * (q[b, h, i] - k[b, h // groups, :seen])
                weights = torch.where(x == 0, 1.0, x.sin() / x).prod(dim=-1) ** 4
                output[b, i, h] = weights @ v[b, h // groups, :seen] / weights.sum()
    return output


@pytest.mark.parametrize("shape", ["scalar", "head_feature"])
@pytest.mark.parametrize("name", MODELS)
def test_every_attention_of_a_model_is_equation_15(
    name: str, shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = build(name, radius_shape=shape)
    calls = spied(model, monkeypatch, hf.FOURIER)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim < 2 or parameter.shape == (HEADS, DIM // HEADS):
                parameter.add_(0.3 * torch.randn_like(parameter))
        model(**inputs(name))
        assert len(calls) == LEARNT[name]
        for (module, q, k, v, *_), _options, (output, _) in calls:
            causal = module.is_causal
            assert relative_error(output, by_hand(module, q, k, v, causal)) < FAST
    if name in {"gpt2", "llama"}:
        assert all(call[0][0].is_causal for call in calls)


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama"])
def test_padding_a_text_is_as_leaving_it_out(name: str) -> None:
    model, attend = build(name), torch.ones_like(IDS)
    attend[1, 4:] = 0
    with torch.no_grad():
        padded = model(IDS, attention_mask=attend)[0]
        alone = model(IDS[1:, :4])[0]
        whole = model(IDS)[0]
    assert relative_error(padded[1:, :4], alone) < FAST
    assert relative_error(padded[0], whole[0]) < FAST
    if name == "bert":
        assert relative_error(whole[1:, :4], alone) > 1e-6  # the mask mattered


def test_padding_the_source_of_a_translation_is_as_leaving_it_out() -> None:
    model, attend = build("marian"), torch.ones_like(IDS)
    attend[:, 4:] = 0
    with torch.no_grad():
        padded = model(IDS, attention_mask=attend, decoder_input_ids=IDS[:, :3])[0]
        alone = model(IDS[:, :4], decoder_input_ids=IDS[:, :3])[0]
        assert relative_error(padded, alone) < FAST
        assert relative_error(model(IDS, decoder_input_ids=IDS[:, :3])[0], alone) > 1e-6


@pytest.mark.parametrize("implementation", ["fourier", "gaussian"])
@pytest.mark.parametrize("name", ["gpt2", "llama", "marian"])
def test_cached_decoding_agrees_with_the_parallel_pass(name: str, implementation: str) -> None:
    model = build(name)
    if implementation == "gaussian":
        hf.add_gaussian_attention(model)
    made = model.generate(
        IDS,
        attention_mask=torch.ones_like(IDS),
        max_new_tokens=6,
        min_new_tokens=6,
        do_sample=False,
        num_beams=1,
        output_logits=True,
        return_dict_in_generate=True,
        pad_token_id=0,
    )
    with torch.no_grad():
        if name == "marian":
            parallel = model(IDS, decoder_input_ids=made.sequences).logits[:, :-1]
        else:
            parallel = model(made.sequences).logits[:, IDS.shape[1] - 1 : -1]
    steps = torch.stack(made.logits, dim=1)
    assert steps.shape[1] == 6
    finite = torch.isfinite(steps)  # Marian forbids its padding
    assert relative_error(steps[finite], parallel[finite].double()) < TOLERANCE["float32"]["exact"]


@pytest.mark.parametrize("name", MODELS)
def test_gradients_reach_every_radius(name: str) -> None:
    model = build(name, radius_shape="head")
    model(**inputs(name))[0].square().sum().backward()
    radii = {n: p for n, p in model.named_parameters() if n.endswith("log_radius")}
    assert len(radii) == LEARNT[name]
    assert all((p.grad != 0).all() and torch.isfinite(p.grad).all() for p in radii.values())


def test_radii_that_are_trained_directly_are_saved_and_replaced(tmp_path: Path) -> None:
    model = build("bert", radius_parameter="direct", radius=0.7)
    model.save_pretrained(tmp_path)
    before = model(IDS)[0]
    hf.add_fourier_attention(model, radius=0.7)
    assert relative_error(model(IDS)[0], before) < FAST
    other = hf.load_fourier_attention(type(model), tmp_path).eval()
    radii = [p for n, p in other.named_parameters() if n.endswith("signed_radius")]
    assert [radius.item() for radius in radii] == pytest.approx([0.7] * LEARNT["bert"])
    names = {name.rpartition(".")[2] for name, _ in model.named_parameters() if "radius" in name}
    assert names == {"log_radius"}


def test_training_lowers_the_loss_and_moves_the_radii() -> None:
    model = build("gpt2").train()
    model.config.attn_pdrop = 0.0
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(12):
        loss = model(IDS, labels=IDS).loss
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.7 * losses[0]
    radii = [p for n, p in model.named_parameters() if n.endswith("log_radius")]
    assert all(p.detach().abs() > 1e-3 for p in radii)  # it started at log 1 = 0


@pytest.mark.parametrize("learn", [True, False])
@pytest.mark.parametrize("name", ["bert", "marian"])
def test_a_saved_model_is_restored_with_its_radii(name: str, learn: bool, tmp_path: Path) -> None:
    options: dict[str, Any] = {"power": 6, "eps": 1e-6, "radius_shape": "feature"}
    model = build(name, learn_radius=learn, **options)
    with torch.no_grad():
        for key, tensor in model.state_dict().items():
            if key.endswith("log_radius"):
                tensor.add_(0.3 * torch.randn_like(tensor))
    model.save_pretrained(tmp_path)
    other = hf.load_fourier_attention(type(model), tmp_path).eval()
    assert type(other) is type(model)
    assert other.config.fourierkernels["power"] == 6
    assert len([n for n, _ in other.named_parameters() if "radius" in n]) == learn * LEARNT[name]
    given = inputs(name)
    assert torch.equal(other(**given)[0], model(**given)[0])


def test_radii_of_models_in_half_precision_stay_in_single(tmp_path: Path) -> None:
    model = bert().to(torch.bfloat16)
    hf.add_fourier_attention(model, radius=1.0)
    model.encoder.layer[0].attention.self.log_radius.data.fill_(0.1001)
    assert model(IDS)[0].dtype is torch.bfloat16
    model.save_pretrained(tmp_path)
    other = hf.load_fourier_attention(BertModel, tmp_path)
    radius = other.encoder.layer[0].attention.self.log_radius
    assert other.dtype is torch.bfloat16
    assert torch.equal(radius, torch.tensor([0.1001]))


@pytest.mark.parametrize("learn", [True, False])
def test_radii_of_earlier_versions_are_loaded_as_tensors_of_one_entry(
    learn: bool, tmp_path: Path
) -> None:
    """They had no dimension, which sharded training refuses."""
    model = build("bert", learn_radius=learn)
    for module in model.encoder.layer:
        module.attention.self.log_radius.data = torch.tensor(0.3, dtype=torch.float64)
    model.save_pretrained(tmp_path)
    other = hf.load_fourier_attention(type(model), tmp_path).eval()
    for module in other.encoder.layer:
        radius = module.attention.self.log_radius
        assert torch.equal(radius, torch.tensor([0.3], dtype=radius.dtype))
        assert isinstance(radius, nn.Parameter) is learn
        assert type(radius) in (nn.Parameter, Tensor)
    assert relative_error(other(IDS)[0], model(IDS)[0]) < FAST
    again = build("bert", learn_radius=learn)
    again.load_state_dict(model.state_dict())
    assert torch.equal(again(IDS)[0], model(IDS)[0])


def test_learned_radii_are_not_lost_silently(tmp_path: Path) -> None:
    build("bert").save_pretrained(tmp_path)
    plain = BertModel.from_pretrained(tmp_path, attn_implementation=hf.FOURIER)
    with pytest.raises(ValueError, match="load it by load_fourier_attention, got a BertSelfAtt"):
        plain(IDS)


def test_a_name_in_the_configuration_is_enough_for_a_fixed_radius() -> None:
    config = BertConfig(**SIZES, fourierkernels={"radius": 1.0}, attn_implementation=hf.FOURIER)
    named = BertModel(config).double().eval()
    added = build("bert", learn_radius=False)
    added.load_state_dict(named.state_dict(), strict=False)
    with torch.no_grad():
        assert relative_error(named(IDS)[0], added(IDS)[0]) < FAST
        named.config.fourierkernels = {"radius": 2.0}
        assert relative_error(named(IDS)[0], added(IDS)[0]) > 1e-6


@pytest.mark.parametrize("name", MODELS)
def test_attentions_are_the_weights_that_were_applied(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = build(name, eps=0.0)
    calls = spied(model, monkeypatch, hf.FOURIER)
    given = inputs(name)
    with torch.no_grad():
        found = model(**given, output_attentions=True)
        plain = model(**given)
    assert len(calls) == 2 * LEARNT[name]
    assert relative_error(found[0], plain[0]) < FAST
    recorded = [w for key, values in found.items() if key.endswith("attentions") for w in values]
    assert len(recorded) == LEARNT[name]
    for weights in recorded:
        torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
    for (_, _, _, v, *_), _, (output, weights) in calls[: LEARNT[name]]:
        v = v.repeat_interleave(weights.shape[1] // v.shape[1], dim=1)
        assert relative_error(output, (weights @ v).transpose(1, 2)) < FAST


def test_dropout_of_weights_acts_in_training_only() -> None:
    model = build("bert")
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    model.encoder.layer[0].attention.self.dropout.p = 0.5
    assert torch.equal(model(IDS)[0], model(IDS)[0])
    model.train()
    assert not torch.equal(model(IDS)[0], model(IDS)[0])


@pytest.mark.parametrize("name", MODELS)
def test_gaussian_attention_of_keys_of_one_norm_is_the_softmax(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = MODELS[name]().double().eval()
    hf.add_gaussian_attention(model)
    calls = spied(model, monkeypatch, hf.GAUSSIAN)
    with torch.no_grad():
        model(**inputs(name))
        for (module, q, k, v, mask, *_), options, _ in calls:
            k = k / k.norm(dim=-1, keepdim=True)
            for recorded in (False, True):
                ours = attention_forward(
                    hf.GAUSSIAN,
                    module,
                    q,
                    k,
                    v,
                    mask,
                    **(options | {"output_attentions": recorded}),
                )[0]
                softmax = AttentionInterface()["sdpa"](module, q, k, v, mask, **options)[0]
                assert relative_error(ours, softmax) < FAST


def test_a_bandwidth_of_its_own_changes_gaussian_attention() -> None:
    model = bert().double().eval()
    hf.add_gaussian_attention(model)
    before = model(IDS)[0]
    hf.add_gaussian_attention(model, sigma=1.0)  # it was D^(1/4) = sqrt(2)
    assert relative_error(model(IDS)[0], before) > 1e-6
    assert model.config.fourierkernels_gaussian == {"sigma": 1.0}


def test_adding_twice_starts_the_radius_over_and_gaussian_removes_it() -> None:
    model = build("bert", radius_shape="head")
    hf.add_fourier_attention(model, radius=3.0)
    radii = [p.exp() for n, p in model.named_parameters() if n.endswith("log_radius")]
    assert [float(r.detach().round(decimals=6)) for r in radii] == [3.0, 3.0]
    hf.add_gaussian_attention(model)
    assert not [name for name in model.state_dict() if "radius" in name]


def test_a_mask_of_the_users_own_with_the_smallest_number_removes_keys() -> None:
    model = build("bert").float()
    keep = torch.ones(7, 7, dtype=torch.bool).tril()
    smallest = torch.finfo(torch.float32).min
    mask = torch.zeros(7, 7).masked_fill(~keep, smallest).expand(2, 1, 7, 7)
    first = model(IDS, attention_mask=mask)[0]
    assert torch.equal(first, model(IDS, attention_mask=keep.expand(2, 1, 7, 7))[0])


@dataclass(frozen=True)
class _Sharpness:
    factor: float = 1.0


def _sharp_softmax(
    module: nn.Module,
    options: _Sharpness,
    scaling: float,
    *inputs: Tensor,
    return_weights: bool,
    **call: Any,
) -> tuple[Tensor, Tensor | None]:
    output, weights = softmax_attention(
        *inputs, scale=scaling * options.factor, return_weights=True, **call
    )
    return output, weights if return_weights else None


@pytest.mark.parametrize("name", MODELS)
def test_an_attention_from_outside_is_a_row_that_every_model_can_call(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sharp = "fourierkernels_sharp"
    for interface in (AttentionInterface, AttentionMaskInterface):
        monkeypatch.setattr(interface, "_global_mapping", dict(interface._global_mapping))
    monkeypatch.setitem(IMPLEMENTATIONS, sharp, Implementation(_Sharpness, _sharp_softmax))
    register(sharp)
    model, given = MODELS[name]().double().eval(), inputs(name)
    plain = model(**given)[0]
    hf.add_attention(model, sharp)
    assert relative_error(model(**given)[0], plain) < FAST
    hf.add_attention(model, sharp, factor=3.0)
    assert relative_error(model(**given)[0], plain) > 1e-6
    maps = [call.maps for call in attention_calls(model, **given)]
    assert len(maps) == LEARNT[name]
    model.save_pretrained(tmp_path)
    again = type(model).from_pretrained(tmp_path, attn_implementation=sharp)
    assert relative_error(again.eval()(**given)[0], model(**given)[0]) < FAST


def test_a_model_compiles_without_breaks() -> None:
    model = build("bert", radius_shape="head")
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    assert relative_error(compiled(IDS)[0], model(IDS)[0]) < FAST


def test_a_model_without_such_attention_is_refused() -> None:
    sizes = {name: size for name, size in SIZES.items() if name != "num_attention_heads"}
    with pytest.raises(ValueError, match="AttentionInterface, got FNetModel, which has no such"):
        hf.add_fourier_attention(FNetModel(FNetConfig(**sizes)))


def test_a_model_where_one_attention_bypasses_the_interface_is_refused_untouched() -> None:
    model = bert()
    model.extra = nn.MultiheadAttention(4, 2)
    with pytest.raises(ValueError, match="got BertModel whose MultiheadAttention does not"):
        hf.add_fourier_attention(model)
    assert not [name for name in model.state_dict() if "radius" in name]
    assert model.config._attn_implementation != hf.FOURIER


def t5() -> PreTrainedModel:
    return T5Model(
        T5Config(vocab_size=WORDS, d_model=DIM, d_kv=4, d_ff=8, num_layers=1, num_heads=HEADS)
    )


def gemma2(cap: float | None = 50.0) -> PreTrainedModel:
    sizes = {"head_dim": 4, "num_key_value_heads": 2, "attn_logit_softcapping": cap}
    return Gemma2Model(Gemma2Config(**SIZES, **sizes, bos_token_id=0, eos_token_id=1))


def gpt_oss() -> PreTrainedModel:
    sizes = {"head_dim": 4, "num_key_value_heads": 2, "num_local_experts": 2}
    return GptOssModel(GptOssConfig(**SIZES, **sizes, bos_token_id=0, eos_token_id=1))


def conformer(kind: str | None) -> PreTrainedModel:
    sizes = {name: size for name, size in SIZES.items() if name != "vocab_size"}
    return Wav2Vec2ConformerModel(
        Wav2Vec2ConformerConfig(
            **sizes,
            position_embeddings_type=kind,
            conv_dim=(8,),
            conv_stride=(2,),
            conv_kernel=(3,),
            num_conv_pos_embedding_groups=2,
            num_conv_pos_embeddings=4,
        )
    )


@pytest.mark.parametrize("add", [hf.add_fourier_attention, hf.add_gaussian_attention])
@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (t5, r"T5Model whose T5Attention adds a position bias to its scores \(position_bias\)"),
        (gemma2, r"Gemma2Model whose Gemma2Attention caps its scores \(softcap\)"),
        (gpt_oss, r"GptOssModel whose GptOssAttention has a sink beside its keys \(s_aux\)"),
        (lambda: conformer("relative"), r"Wav2Vec2ConformerSelfAttention adds a position bias"),
    ],
)
def test_models_with_more_in_their_scores_are_refused_at_once_and_untouched(
    add: Any, make: Any, reason: str
) -> None:
    """Once their forward pass raised, after they had been changed."""
    model = make()
    before, name = set(model.state_dict()), model.config._attn_implementation
    with pytest.raises(
        ValueError, match=f"model must weigh keys by query and key.* got .*{reason}"
    ):
        add(model)
    assert set(model.state_dict()) == before
    assert model.config._attn_implementation == name


def neox() -> PreTrainedModel:
    """Its attention gives the features of a head as `head_size`."""
    sizes = {"max_position_embeddings": 32, "bos_token_id": 0, "eos_token_id": 1}
    return GPTNeoXModel(GPTNeoXConfig(**SIZES, **sizes))


@pytest.mark.parametrize("make", [lambda: gemma2(None), lambda: conformer(None), neox])
def test_models_that_could_but_do_not_are_served(make: Any) -> None:
    model = make().eval()
    hf.add_fourier_attention(model, radius=0.5)
    given = {model.main_input_name: IDS}
    if model.main_input_name == "input_values":
        given = {"input_values": torch.randn(1, 40)}
    assert model(**given)[0].isfinite().all()


def test_a_pass_that_is_not_foreseen_is_refused_by_the_interface() -> None:
    module = bert().encoder.layer[0].attention.self
    heads = [torch.randn(1, HEADS, 3, 4) for _ in range(3)]
    with pytest.raises(ValueError, match=r"softcap must be None: .* got one from BertSelfAtt"):
        attention_forward(hf.FOURIER, module, *heads, None, softcap=50.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"radius": -1.0}, "radius must be .* greater than 0, got -1.0"),
        ({"power": 3}, "power must be even unless allow_signed=True"),
        ({"eps": -1.0}, "eps must be finite and at least 0, got -1.0"),
        ({"radius_shape": "row"}, "radius_shape must be one of .* got 'row'"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        hf.add_fourier_attention(bert(), **options)


def test_a_source_without_options_is_refused(tmp_path: Path) -> None:
    bert().save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="options under 'fourierkernels', got none"):
        hf.load_fourier_attention(BertModel, tmp_path)
