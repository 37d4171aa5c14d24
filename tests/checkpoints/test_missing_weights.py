"""What weights may lack, and what to type where they lack more: every hint works."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from tiny_checkpoints import SIZES

from fourierkernels.checkpoints.formats.transformers_weights import recomputed
from fourierkernels.checkpoints.load import load_checkpoint

Tiny = Callable[[str], Path]

T5 = {"d_model": 16, "d_kv": 4, "num_heads": 4, "num_layers": 2, "d_ff": 16, "vocab_size": 14}
TEXT = {**SIZES, "num_attention_heads": 2, "max_position_embeddings": 16}
VISION = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "intermediate_size": 16,
    "num_attention_heads": 2,
    "image_size": 8,
    "patch_size": 4,
}


def hinted(error: Exception) -> list[str]:
    """Return the classes that a message names to be typed."""
    return re.findall(r"--model-class (\w+)", str(error))


def drop(folder: Path, *names: str) -> None:
    """Take tensors out of the weights of a folder."""
    tensors = load_file(folder / "model.safetensors")
    kept = {name: tensor for name, tensor in tensors.items() if name not in names}
    assert len(kept) == len(tensors) - len(names)
    save_file(kept, folder / "model.safetensors", {"format": "pt"})


@pytest.fixture
def marian(own: Tiny) -> Path:
    """As published: without sinusoids, which MarianMTModel does not save."""
    folder = own("marian")
    model = transformers.MarianMTModel(transformers.MarianConfig.from_pretrained(folder))
    model.save_pretrained(folder)
    assert not any("positions" in name for name in load_file(folder / "model.safetensors"))
    return folder


@pytest.mark.parametrize("part", ["encoder", "decoder", "cross"])
def test_marian_is_read_without_its_sinusoids(part: str, marian: Path) -> None:
    checkpoint = load_checkpoint(marian, part=part)
    module = next(m for n, m in checkpoint.model.named_modules() if n.endswith("embed_positions"))
    torch.testing.assert_close(module.weight[3, 1], torch.sin(torch.tensor(3 / 10000 ** (2 / 16))))
    checkpoint.run([[1, 2, 3]] if part == "encoder" else [([1, 2], [13, 3])])


def test_marian_without_learnt_weights_is_refused(marian: Path) -> None:
    drop(marian, "model.encoder.layers.0.self_attn_layer_norm.weight")
    with pytest.raises(ValueError, match=r"got 1 parameters missing .*first encoder\.layers\.0"):
        load_checkpoint(marian)


def test_constants_that_are_learnt_and_draws_are_not_recomputed(own: Tiny) -> None:
    """LayerNorm is initialised with the same ones from every seed."""
    model = transformers.BertModel.from_pretrained(own("bert"))
    names = [
        "embeddings.LayerNorm.weight",
        "embeddings.word_embeddings.weight",
        "encoder.layer.0.attention.self.query.bias",
    ]
    assert recomputed(model, names) == set()
    model.requires_grad_(False)  # a frozen table of random numbers is no formula
    assert recomputed(model, names[1:2]) == set()


@pytest.mark.parametrize("kind", ["T5", "MT5", "UMT5"])
def test_encoder_alone_is_refused_with_a_class_that_reads_it(kind: str, tmp_path: Path) -> None:
    config = getattr(transformers, f"{kind}Config")(**T5, decoder_start_token_id=0)
    model = getattr(transformers, f"{kind}EncoderModel")(config)
    model.save_pretrained(tmp_path / "encoder")
    with pytest.raises(ValueError, match="parameters missing") as refused:
        load_checkpoint(tmp_path / "encoder")
    assert hinted(refused.value) == [f"{kind}EncoderModel"]
    loaded = load_checkpoint(tmp_path / "encoder", model_class=hinted(refused.value)[0])
    assert torch.equal(loaded.model.get_input_embeddings().weight, model.shared.weight)
    loaded.run([[1, 2, 3], [4]])
    with pytest.raises(ValueError, match=r"part must be (encoder for|left out for)"):
        load_checkpoint(tmp_path / "encoder", model_class=f"{kind}EncoderModel", part="cross")


def test_no_class_is_named_that_would_not_read_the_weights(own: Tiny) -> None:
    folder = own("bert")
    transformers.BertForMaskedLM.from_pretrained(folder).save_pretrained(folder)
    drop(folder, "bert.encoder.layer.0.output.dense.weight")
    with pytest.raises(ValueError, match=r"first encoder\.layer\.0\.output\.dense\.weight$"):
        load_checkpoint(folder)


TWO_SIDED = ["CLIP", "Siglip", "Siglip2", "ChineseCLIP", "AltCLIP", "MetaClip2"]


@pytest.mark.parametrize("kind", TWO_SIDED)
def test_both_sides_of_images_and_texts_are_read_by_the_classes_named(
    kind: str, tmp_path: Path
) -> None:
    text = {"max_position_embeddings": 16, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    vision = {**VISION, "num_patches": 4} if kind == "Siglip2" else VISION
    config = getattr(transformers, f"{kind}Config")(
        text_config={**TEXT, **text, "projection_dim": 8},
        vision_config={**vision, "projection_dim": 8},
        projection_dim=8,
    )
    getattr(transformers, f"{kind}Model")(config).save_pretrained(tmp_path / "both")
    with pytest.raises(ValueError, match=f"got both in {kind}Model: name one side") as refused:
        load_checkpoint(tmp_path / "both")
    names = hinted(refused.value)
    assert names == [f"{kind}{side}Model" for side in ("Vision", "Text")][kind == "Siglip2" :]
    for name in names:
        loaded = load_checkpoint(tmp_path / "both", model_class=name)
        assert loaded.reads == ("images" if "Vision" in name else "tokens")
        if loaded.reads == "tokens":
            loaded.run([[1, 2, 3]])
