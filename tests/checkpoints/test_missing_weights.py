"""What weights may lack, where their parts lie, and what to type where they lack more."""

import json
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
INDEX = "model.safetensors.index.json"


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


def extended(folder: Path, **tensors: torch.Tensor) -> None:
    """Add tensors to the weights of a folder."""
    whole = {**load_file(folder / "model.safetensors"), **tensors}
    save_file(whole, folder / "model.safetensors", {"format": "pt"})


def test_layers_that_the_config_leaves_out_are_named(own: Tiny) -> None:
    folder = own("bert")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 2}))
    (note,) = load_checkpoint(folder).notes
    assert "does not have: 16, first encoder.layer.2.attention" in note
    assert load_checkpoint(folder, random_weights=True).notes == ()


def test_biases_of_queries_that_the_config_leaves_out_are_named(own: Tiny) -> None:
    folder = own("llama")
    assert load_checkpoint(folder).notes == ()
    extended(folder, **{"layers.1.self_attn.q_proj.bias": torch.ones(16)})
    (note,) = load_checkpoint(folder).notes
    assert note.endswith(
        "LlamaModel of its config.json does not have: 1, first layers.1.self_attn.q_proj.bias"
    )


def test_heads_for_tasks_and_buffers_are_left_out_without_a_note(own: Tiny) -> None:
    folder = own("bert")
    transformers.BertForPreTraining.from_pretrained(folder).save_pretrained(folder)
    extended(folder, **{"bert.embeddings.position_ids": torch.arange(32)[None]})
    assert load_checkpoint(folder).notes == ()
    assert load_checkpoint(folder, task_head=True).notes == ()


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


@pytest.fixture
def parts(own: Tiny) -> Path:
    """A network in several files."""
    folder = own("bert")
    model = transformers.BertModel.from_pretrained(folder)
    (folder / "model.safetensors").unlink()
    model.save_pretrained(folder, max_shard_size="4KB")
    assert len(list(folder.glob("*.safetensors"))) > 2
    return folder


def name_part(folder: Path, part: str) -> str:
    """Let the index name another file for the first tensor; return the one it named."""
    content = json.loads((folder / INDEX).read_text())
    first = next(iter(content["weight_map"]))
    old = content["weight_map"][first]
    found = {n: part if p == old else p for n, p in content["weight_map"].items()}
    (folder / INDEX).write_text(json.dumps({**content, "weight_map": found}))
    return str(old)


def test_parts_are_read(parts: Path) -> None:
    assert load_checkpoint(parts).vocabulary == 14


@pytest.mark.parametrize("how", ["up", "absolute", "link", "linked folder"])
def test_part_outside_the_folder_is_refused(how: str, parts: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    old = name_part(parts, "x")
    (parts / old).rename(outside / old)
    place = {
        "up": f"../outside/{old}",
        "absolute": str(outside / old),
        "link": old,
        "linked folder": f"inner/{old}",
    }[how]
    if how == "link":
        (parts / old).symlink_to(outside / old)
    if how == "linked folder":
        (parts / "inner").symlink_to(outside)
    name_part(parts, place)
    with pytest.raises(ValueError, match=rf"{INDEX} must list files inside its folder, got '.*'$"):
        load_checkpoint(parts)
    assert load_checkpoint(parts, random_weights=True).vocabulary == 14  # which reads no part


def test_pickled_parts_are_held_to_the_same(own: Tiny, tmp_path: Path) -> None:
    folder = own("bert")
    names = list(load_checkpoint(folder).model.state_dict())
    (folder / "model.safetensors").rename(tmp_path / "part.bin")
    content = {"metadata": {}, "weight_map": dict.fromkeys(names, "../part.bin")}
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"pytorch_model\.bin\.index\.json must list files inside"):
        load_checkpoint(folder)


def test_links_of_the_cache_of_hugging_face_are_followed(parts: Path, tmp_path: Path) -> None:
    """There a snapshot is a folder of links to the blobs of its repository, and to no others."""
    home = tmp_path / "models--a--b"
    (home / "blobs").mkdir(parents=True)
    snapshot = home / "snapshots" / "0123"
    snapshot.mkdir(parents=True)
    for number, file in enumerate(parts.iterdir()):
        file.rename(home / "blobs" / str(number))
        (snapshot / file.name).symlink_to(f"../../blobs/{number}")
    assert load_checkpoint(snapshot).vocabulary == 14
    assert torch.is_tensor(load_checkpoint(snapshot).model.embeddings.word_embeddings.weight)
    (home / "blobs").rename(tmp_path / "blobs")
    (home / "blobs").symlink_to(tmp_path / "blobs")
    with pytest.raises(ValueError, match="must list files inside its folder"):
        load_checkpoint(snapshot)


@pytest.mark.parametrize("content", ["[]", "{", '{"weight_map": 3}', '{"weight_map": {"a": 1}}'])
def test_damaged_index_is_refused_in_one_line(content: str, parts: Path) -> None:
    (parts / INDEX).write_text(content)
    with pytest.raises(ValueError, match=rf"^[^\n]*{INDEX} must [^\n]*$"):
        load_checkpoint(parts)
