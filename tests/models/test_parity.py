"""The same numbers as Hugging Face with the same weights, forward and backward, in float64."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_models import tokens, trajectory
from torch import Tensor, nn

from fourierkernels import models
from fourierkernels.models.huggingface import (
    ARCHITECTURES,
    from_huggingface,
    load_fnet,
    load_pretrained_fnet,
)
from fourierkernels.models.tensor_files import Rule, load_exactly

transformers = pytest.importorskip("transformers")
PARITY = {"rtol": 0.0, "atol": 1e-12}
V = 29


@pytest.fixture(autouse=True)
def _double() -> Any:
    torch.set_default_dtype(torch.float64)  # sinusoids too
    verbosity = transformers.utils.logging.get_verbosity()
    transformers.utils.logging.set_verbosity_error()
    yield
    transformers.utils.logging.set_verbosity(verbosity)
    torch.set_default_dtype(torch.float32)


def shaken(theirs: nn.Module) -> nn.Module:
    """All parameters away from their start, so that no bias or LayerNorm is trivial."""
    with torch.no_grad():
        for parameter in theirs.parameters():
            if parameter.requires_grad:
                parameter.add_(0.1 * torch.randn_like(parameter))
    return theirs.double().eval()


def compare(
    ours: nn.Module, theirs: nn.Module, architecture: str, pairs: list[tuple[Tensor, Tensor]]
) -> None:
    """Outputs and the gradients of all our parameters."""
    for mine, other in pairs:
        torch.testing.assert_close(mine, other, **PARITY)
    torch.manual_seed(0)
    weights = [torch.randn_like(mine) for mine, _ in pairs]
    for model, index in ((ours, 0), (theirs, 1)):
        model.zero_grad()
        total = sum((w * p[index]).sum() for w, p in zip(weights, pairs, strict=True))
        total.backward()  # type: ignore[union-attr]
    gradients = {
        name: torch.zeros_like(p) if p.grad is None else p.grad
        for name, p in theirs.named_parameters(remove_duplicate=False)
        if not name.endswith("embed_positions.weight")  # sinusoids, which are not trained
    }
    if "encoder.wpe.weight" in gradients:  # a second offset, with the same gradient as the first
        gradients["encoder.wpe.weight"].zero_()
    renamed = from_huggingface(architecture, gradients)
    checked = 0
    for name, parameter in ours.named_parameters():
        if parameter.grad is None:
            continue
        scale = max(1.0, renamed[name].abs().max().item())
        assert (parameter.grad - renamed[name]).abs().max() <= 1e-12 * scale, name
        checked += bool(parameter.grad.any())
    assert checked > 10


def _gpt2() -> tuple[nn.Module, nn.Module]:
    config = transformers.GPT2Config(
        vocab_size=V, n_embd=16, n_layer=2, n_head=2, n_positions=12, bos_token_id=1, eos_token_id=2
    )
    sizes: dict[str, Any] = {"vocabulary": V, "dim": 16, "layers": 2, "heads": 2, "hidden": 64}
    ours = models.LanguageModel(models.language_config("gpt2", length=12, **sizes))
    return ours, transformers.GPT2LMHeadModel(config)


def fnet_config(**changes: Any) -> Any:
    sizes = {"hidden_size": 12, "num_hidden_layers": 3, "intermediate_size": 24, "vocab_size": V}
    return transformers.FNetConfig(
        **sizes, max_position_embeddings=16, bos_token_id=1, eos_token_id=2, **changes
    )


@pytest.mark.parametrize("n", [1, 7, 16])
def test_fnet(n: int) -> None:
    theirs = shaken(transformers.FNetModel(fnet_config()))
    ours = models.Encoder(
        models.encoder_config(
            "fnet_base", dim=12, hidden=24, layers=3, heads=1, vocabulary=V, length=16
        )
    ).eval()
    load_exactly(ours, from_huggingface("fnet", theirs.state_dict()))
    text, segments = tokens(2, n, vocabulary=V, low=0), tokens(2, n, vocabulary=4, low=0, seed=1)
    states = ours(text, segments=segments)
    other = theirs(input_ids=text, token_type_ids=segments)
    pairs = [(states, other.last_hidden_state), (ours.pool(states), other.pooler_output)]
    compare(ours, theirs, "fnet", pairs)


@pytest.mark.parametrize("teacher", [False, True])
def test_deit(teacher: bool) -> None:
    config = transformers.DeiTConfig(
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        image_size=8,
        patch_size=4,
        num_labels=3,
    )
    theirs = shaken(
        transformers.DeiTForImageClassificationWithTeacher(config)
        if teacher
        else transformers.ViTForImageClassification(_vit(config))
    )
    ours = models.VisionTransformer(
        models.vision_config(
            "deit_tiny_distilled" if teacher else "deit_tiny",
            image=8,
            patch=4,
            classes=3,
            dim=16,
            layers=2,
            heads=2,
            hidden=32,
            norm_eps=1e-12,
        )
    ).eval()
    images = torch.randn(2, 3, 8, 8)
    if teacher:
        load_exactly(ours, from_huggingface("deit", theirs.state_dict()))
        compare(ours, theirs, "deit", [(ours(images), theirs(images).logits)])
        return
    state = {name.replace("vit.", "deit."): t for name, t in theirs.state_dict().items()}
    load_exactly(ours, from_huggingface("deit", state))
    torch.testing.assert_close(ours(images), theirs(images).logits, **PARITY)


def test_deit_tiny_in_single_precision() -> None:
    """As it is published, but for two layers and ten classes."""
    config = transformers.DeiTConfig(
        hidden_size=192,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=768,
        num_labels=10,
    )
    theirs = shaken(transformers.DeiTForImageClassificationWithTeacher(config)).float()
    sizes = {"layers": 2, "classes": 10, "norm_eps": 1e-12}
    ours = models.VisionTransformer(models.vision_config("deit_tiny_distilled", **sizes)).float()
    load_exactly(ours.eval(), from_huggingface("deit", theirs.state_dict()))
    images = torch.randn(2, 3, 224, 224, dtype=torch.float32)
    with torch.no_grad():
        mine, other = ours(images), theirs(images).logits
    assert mine.dtype == torch.float32
    torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-5)


def _vit(config: Any) -> Any:
    names = (
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "intermediate_size",
        "image_size",
        "patch_size",
        "layer_norm_eps",
    )
    return transformers.ViTConfig(**{n: getattr(config, n) for n in names}, num_labels=3)


def test_gpt2() -> None:
    ours, theirs = _gpt2()
    shaken(theirs)
    load_exactly(ours.eval(), from_huggingface("gpt2", theirs.state_dict()))
    text = tokens(2, 12, vocabulary=V, low=0)
    log_p = ours.log_probabilities(text)  # type: ignore[operator]
    compare(ours, theirs, "gpt2", [(log_p, theirs(text).logits.log_softmax(-1))])


def test_gpt2_writes_what_hugging_face_writes() -> None:
    ours, theirs = _gpt2()
    shaken(theirs)
    load_exactly(ours.eval(), from_huggingface("gpt2", theirs.state_dict()))
    text = tokens(3, 4, vocabulary=V, low=3)
    other = theirs.generate(  # type: ignore[operator]
        text,
        attention_mask=torch.ones_like(text),
        do_sample=False,
        max_new_tokens=8,
        eos_token_id=None,
        pad_token_id=0,
    )
    assert isinstance(ours, models.LanguageModel)
    found = models.generate(ours, text, new_tokens=8, temperature=0.0)
    assert torch.equal(found.tokens, other)


def test_decision_transformer() -> None:
    config = transformers.DecisionTransformerConfig(
        state_dim=5,
        act_dim=2,
        hidden_size=16,
        n_layer=2,
        n_head=2,
        max_ep_len=9,
        n_positions=64,
        vocab_size=1,
        bos_token_id=None,
        eos_token_id=None,
    )
    theirs = shaken(transformers.DecisionTransformerModel(config))
    ours = models.DecisionTransformer(
        models.decision_config(
            "hopper", states=5, actions=2, dim=16, layers=2, heads=2, context=4, episode=9
        )
    ).eval()
    load_exactly(ours, from_huggingface("decision_transformer", theirs.state_dict()))
    returns, states, actions, steps = trajectory()
    returns, states, actions = returns.double(), states.double(), actions.double()
    padding = torch.tensor([[False] * 4, [True, False, False, False], [False] * 4])
    mine = ours(returns, states, actions, steps, padding=padding)
    other = theirs(
        states=states,
        actions=actions,
        returns_to_go=returns,
        timesteps=steps,
        attention_mask=(~padding).long(),
    )
    valid = ~padding
    pairs = [
        (mine.actions[valid], other.action_preds[valid]),
        (mine.states[valid], other.state_preds[valid]),
        (mine.returns[valid], other.return_preds[valid]),
    ]
    compare(ours, theirs, "decision_transformer", pairs)


def _marian() -> tuple[models.TranslationModel, nn.Module]:
    config = transformers.MarianConfig(
        vocab_size=V,
        d_model=16,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        pad_token_id=0,
        max_position_embeddings=12,
        eos_token_id=2,
        decoder_start_token_id=1,
        bos_token_id=1,
        forced_eos_token_id=None,
        activation_function="relu",
        scale_embedding=True,
    )
    theirs = shaken(transformers.MarianMTModel(config))
    with torch.no_grad():
        theirs.final_logits_bias.normal_()
        for part in (theirs.model.encoder, theirs.model.decoder):
            part.embed_positions.weight.copy_(part.embed_positions.create_weight())
    ours = models.TranslationModel(
        models.translation_config(
            "attention",
            vocabulary=V,
            dim=16,
            hidden=32,
            layers=2,
            decoder_layers=2,
            heads=2,
            length=12,
        )
    ).eval()
    load_exactly(ours, from_huggingface("marian", theirs.state_dict()))
    return ours, theirs


def test_marian() -> None:
    ours, theirs = _marian()
    # Their sinusoids pass through float32.
    ours.positions.copy_(theirs.model.encoder.embed_positions.weight.detach())  # type: ignore[union-attr]
    torch.testing.assert_close(
        ours.positions, models.sequences.sinusoids(12, 16), rtol=0, atol=1e-7
    )
    source, target = tokens(3, 9, vocabulary=V), tokens(3, 7, vocabulary=V, seed=1)
    source[1, 6:] = 0
    other = theirs(
        input_ids=source, attention_mask=(source != 0).long(), decoder_input_ids=target
    ).logits
    compare(ours, theirs, "marian", [(ours(source, target), other)])


def test_marian_with_other_positions_is_refused() -> None:
    state = _marian()[1].state_dict()
    name = "model.decoder.embed_positions.weight"
    state[name] = state[name].roll(1, dims=0)
    with pytest.raises(ValueError, match=f"^{name} must be sinusoids, as they are computed here"):
        from_huggingface("marian", state)


def test_beam_search_writes_what_marian_writes() -> None:
    """Hugging Face divides by n^α; α = 0 makes the two scores one."""
    ours, theirs = _marian()
    ours.positions.copy_(theirs.model.encoder.embed_positions.weight.detach())  # type: ignore[union-attr]
    source = tokens(4, 9, vocabulary=V)
    other = theirs.generate(  # type: ignore[operator]
        source,
        attention_mask=torch.ones_like(source),
        num_beams=4,
        max_length=12,
        length_penalty=0.0,
        early_stopping="never",
        do_sample=False,
        suppress_tokens=[0, 1],  # padding and start, which ours never writes
    )
    found = models.beam_search(ours, source, beam=4, length_penalty=0.0)
    for row in range(4):
        n = other.shape[1]
        assert found.tokens[row, 0, :n].tolist() == other[row].tolist()


def test_words_that_are_not_tied_are_refused() -> None:
    sizes = {"n_embd": 8, "n_layer": 1, "n_head": 2, "vocab_size": V, "n_positions": 8}
    config = transformers.GPT2Config(**sizes, tie_word_embeddings=False)
    with pytest.raises(ValueError, match=r"lm_head\.weight must be transformer\.wte\.weight"):
        from_huggingface("gpt2", transformers.GPT2LMHeadModel(config).state_dict())


# --- checkpoint folders ----------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Callable[..., tuple[Path, Any]]:
    def save(kind: str = "FNetForPreTraining", **changes: Any) -> tuple[Path, Any]:
        theirs = getattr(transformers, kind)(fnet_config(**changes)).eval()
        theirs.save_pretrained(tmp_path)
        return tmp_path, theirs

    return save


@pytest.mark.parametrize(
    "changes", [{}, {"use_tpu_fourier_optimizations": True, "tpu_short_seq_length": 16}]
)
def test_a_folder_of_fnet_is_loaded(folder: Callable[..., Any], changes: dict[str, Any]) -> None:
    path, theirs = folder(**changes)
    text = tokens(2, 16, vocabulary=V, low=0)
    encoder, whole = load_fnet(path), load_pretrained_fnet(path)
    other = theirs(input_ids=text)
    if not changes:  # their matrices are in complex64
        torch.testing.assert_close(whole(text).words, other.prediction_logits, **PARITY)
        torch.testing.assert_close(
            whole(text).next_sentence, other.seq_relationship_logits, **PARITY
        )
    torch.testing.assert_close(encoder(text), whole.encoder(text), **PARITY)
    assert whole.output.weight is whole.encoder.words.weight


@pytest.mark.parametrize(
    "changes",
    [{"hidden_act": "relu"}, {"hidden_act": "gelu"}, {"tie_word_embeddings": False}],
    ids=str,
)
def test_words_of_any_fnet_are_guessed_alike(tmp_path: Path, changes: dict[str, Any]) -> None:
    """Its head has the activation of its layers, and a bias of its own if it has its own words."""
    theirs = shaken(transformers.FNetForPreTraining(fnet_config(**changes)))
    theirs.save_pretrained(tmp_path)
    text = tokens(2, 7, vocabulary=V, low=0)
    found, other = load_pretrained_fnet(tmp_path)(text), theirs(input_ids=text)
    torch.testing.assert_close(found.words, other.prediction_logits, **PARITY)


def test_published_fnet_gives_the_same_outputs_in_single_precision(
    folder: Callable[..., Any],
) -> None:
    """States, both heads and the pooled state, as they are distributed: float32."""
    torch.set_default_dtype(torch.float32)
    path, theirs = folder()
    ours, inner = load_pretrained_fnet(path), theirs.fnet
    text, segments = tokens(3, 16, vocabulary=V, low=0), tokens(3, 16, vocabulary=4, low=0, seed=2)
    with torch.no_grad():
        found = ours(text, segments=segments)
        other = theirs(input_ids=text, token_type_ids=segments)
        states = ours.encoder(text, segments=segments)
        plain = inner(input_ids=text, token_type_ids=segments)
    pairs = (
        (found.words, other.prediction_logits),
        (found.next_sentence, other.seq_relationship_logits),
        (states, plain.last_hidden_state),
        (ours.encoder.pool(states), plain.pooler_output),
    )
    for mine, published in pairs:
        assert mine.dtype == published.dtype == torch.float32
        torch.testing.assert_close(mine, published, rtol=0.0, atol=1e-5)


def test_a_headless_folder_and_pickled_tensors_are_loaded(folder: Callable[..., Any]) -> None:
    path, theirs = folder("FNetModel")
    (path / "model.safetensors").unlink()
    torch.save(theirs.state_dict(), path / "pytorch_model.bin")
    text = tokens(2, 9, vocabulary=V)
    torch.testing.assert_close(load_fnet(path)(text), theirs(text).last_hidden_state, **PARITY)
    with pytest.raises(ValueError, match=r"missing: .*next_sentence\.bias.*transform\.weight"):
        load_pretrained_fnet(path)


def test_a_folder_that_would_run_code_is_refused(folder: Callable[..., Any]) -> None:
    path, theirs = folder("FNetModel")
    (path / "model.safetensors").unlink()
    torch.save(theirs, path / "pytorch_model.bin")
    with pytest.raises(ValueError, match=r"must hold tensors only, .* run code"):
        load_fnet(path)


def test_all_wrong_tensors_are_named_and_none_is_loaded(folder: Callable[..., Any]) -> None:
    _, theirs = folder("FNetModel")
    tensors = dict(theirs.state_dict())
    ours = models.Encoder(
        models.encoder_config(
            "fnet_base", dim=12, hidden=24, layers=3, vocabulary=V, length=16, heads=1
        )
    )
    before = {name: tensor.clone() for name, tensor in ours.state_dict().items()}
    with pytest.raises(ValueError, match=r"known tensors only, got extra, more\.weight"):
        from_huggingface("fnet", tensors | {"extra": torch.ones(1), "more.weight": torch.ones(1)})
    renamed = from_huggingface("fnet", tensors)
    del renamed["norm.bias"], renamed["blocks.1.feed_forward.narrow.weight"]
    renamed |= {"other": torch.ones(1), "pooler.bias": torch.ones(3)}
    message = (
        r"missing: blocks\.1\.feed_forward\.narrow\.weight, norm\.bias; unexpected: other; "
        r"misshapen: pooler\.bias of shape \(3,\) for \(12,\)"
    )
    with pytest.raises(ValueError, match=message):
        load_exactly(ours, renamed)
    assert all(torch.equal(tensor, before[name]) for name, tensor in ours.state_dict().items())


def test_other_folders_are_refused(folder: Callable[..., Any], tmp_path: Path) -> None:
    path, _ = folder("FNetModel")
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(config | {"model_type": "bert"}))
    with pytest.raises(ValueError, match="model_type must be 'fnet', got 'bert'"):
        load_fnet(path)
    (path / "config.json").write_text(json.dumps(config | {"hidden_act": "swish"}))
    with pytest.raises(ValueError, match="hidden_act must be one of gelu_new"):
        load_fnet(path)
    (path / "config.json").unlink()
    with pytest.raises(ValueError, match=r"must hold config\.json"):
        load_fnet(path)
    with pytest.raises(ValueError, match=r"must hold model\.safetensors or"):
        load_fnet(tmp_path.parent)
    with pytest.raises(ValueError, match="path must be a file or folder"):
        load_fnet(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="architecture must be one of fnet"):
        from_huggingface("bert", {})


def test_names_of_an_architecture_from_outside_are_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ARCHITECTURES, "line", (Rule(r"fc\.(weight|bias)", (r"\1",)),))
    line = nn.Linear(2, 3)
    ours = from_huggingface("line", {f"fc.{k}": v for k, v in line.state_dict().items()})
    load_exactly(nn.Linear(2, 3), ours)
    assert torch.equal(ours["weight"], line.weight)
