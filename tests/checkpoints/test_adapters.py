"""Adapters of peft: the merged network is the one with products of matrices beside its layers."""

import json
import math
import pickle  # noqa: TID251 (to write what must be refused)
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from payload import Payload
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

import fourierkernels as fk
from fourierkernels.checkpoints.find import find_checkpoint
from fourierkernels.checkpoints.load import load_checkpoint, load_tokenizer
from fourierkernels.diagnostics.distances import DEFAULT_METRIC

Tiny = Callable[[str], Path]
ALPHA, RANK = 6, 2
TARGETS = {
    "gpt2": ["h.0.attn.c_attn", "h.2.attn.c_attn", "h.1.mlp.c_proj"],
    "bert": ["encoder.layer.0.attention.self.query", "encoder.layer.2.attention.self.value"],
    "llama": ["layers.1.self_attn.q_proj", "layers.0.self_attn.k_proj", "layers.2.mlp.up_proj"],
}
IDS = [[3, 1, 4, 1, 5, 9, 2, 6]]


def sizes(module: Any) -> tuple[int, int]:
    """The numbers of outputs and of inputs of a layer."""
    if isinstance(module, nn.Linear):
        return module.out_features, module.in_features
    return module.weight.shape[1], module.weight.shape[0]


def save_adapter(
    folder: Path,
    base: Path,
    *,
    prefix: str = "",
    more: dict[str, Tensor] | None = None,
    **entries: Any,
) -> dict[str, tuple[Tensor, Tensor]]:
    """Save random matrices for modules of a base as peft would; return them by module."""
    model = transformers.AutoModel.from_pretrained(base)
    draw = torch.Generator().manual_seed(1)
    found, tensors = {}, dict(more or {})
    for name in TARGETS[base.name]:
        outputs, inputs = sizes(model.get_submodule(name))
        a, b = (
            0.3 * torch.randn(*shape, generator=draw) for shape in ((RANK, inputs), (outputs, RANK))
        )
        found[name] = (a, b)
        for letter, tensor in zip("AB", (a, b), strict=True):
            tensors[f"base_model.model.{prefix}{name}.lora_{letter}.weight"] = tensor
    folder.mkdir(exist_ok=True)
    save_file(tensors, folder / "adapter_model.safetensors")
    config = {
        "peft_type": "LORA",
        "base_model_name_or_path": str(base),
        "r": RANK,
        "lora_alpha": ALPHA,
        "lora_dropout": 0.1,
        "bias": "none",
        "target_modules": [name.rpartition(".")[2] for name in found],
        "init_lora_weights": True,
        "megatron_core": "megatron.core",
        "use_dora": False,
    }
    (folder / "adapter_config.json").write_text(json.dumps(config | entries))
    return found


@torch.no_grad()
def beside(base: Path, matrices: dict[str, tuple[Tensor, Tensor]], scale: float) -> list[Tensor]:
    """The maps of the base with scale · B A x added to the outputs of its layers: never merged."""
    model = transformers.AutoModel.from_pretrained(base, attn_implementation="eager").eval()
    for name, (a, b) in matrices.items():

        def add(_: Any, given: Any, output: Tensor, a: Tensor = a, b: Tensor = b) -> Tensor:
            return output + scale * (given[0] @ a.T @ b.T)

        model.get_submodule(name).register_forward_hook(add)
    return list(model(input_ids=torch.tensor(IDS), output_attentions=True).attentions)


def maps(folder: Path) -> list[Any]:
    lens = fk.report.HeadLens(folder, tokens="ids")
    text = " ".join(map(str, IDS[0]))
    return [lens.maps(layer, text) for layer in range(3)]


@pytest.mark.parametrize(
    ("kind", "prefix", "entries", "scale"),
    [
        ("gpt2", "", {"fan_in_fan_out": True}, ALPHA / RANK),
        ("gpt2", "transformer.", {"use_rslora": True}, ALPHA / math.sqrt(RANK)),
        ("bert", "bert.", {}, ALPHA / RANK),
        ("llama", "model.", {"rank_pattern": {"q_proj": RANK}, "r": 5}, ALPHA / RANK),
        ("llama", "", {"alpha_pattern": {"self_attn.q_proj": 2, "k_proj": 2, "up_proj": 2}}, 1),
    ],
)
def test_maps_are_those_of_the_base_with_products_beside_its_layers(
    kind: str, prefix: str, entries: dict[str, Any], scale: float, tiny: Tiny, tmp_path: Path
) -> None:
    matrices = save_adapter(tmp_path / "lora", tiny(kind), prefix=prefix, **entries)
    theirs = beside(tiny(kind), matrices, scale)
    plain = beside(tiny(kind), {}, scale)
    for own, expected in zip(maps(tmp_path / "lora"), theirs, strict=True):
        torch.testing.assert_close(torch.tensor(own).float(), expected[0], atol=2e-5, rtol=0)
    assert (theirs[-1] - plain[-1]).abs().max() > 1e-2


def test_report_says_what_was_merged_and_is_that_of_the_merged_network(
    tiny: Tiny, tmp_path: Path
) -> None:
    matrices = save_adapter(tmp_path / "lora", tiny("bert"))
    model = transformers.AutoModel.from_pretrained(tiny("bert"))
    for name, (a, b) in matrices.items():
        model.get_submodule(name).weight.data += 3 * b @ a
    text = ["a b c d e", "f g h", "i j a b"]
    tokenizer = load_tokenizer(load_checkpoint(tiny("bert")))
    found, theirs, base = (
        fk.head_report(one, text, tokenizer=words, baseline=False, examples=0, statistics="none")
        for one, words in ((tmp_path / "lora", None), (model, tokenizer), (tiny("bert"), None))
    )
    ours, merged, before = (
        one.first.distances[DEFAULT_METRIC].distances for one in (found, theirs, base)
    )
    np.testing.assert_allclose(ours, merged, atol=1e-6)
    assert np.abs(ours - before).max() > 1e-3
    assert found.first.notes == ("adapter: lora, merged into the weights of bert",)
    one, two = (find_checkpoint(place).digest() for place in (tmp_path / "lora", tiny("bert")))
    assert one != two


def test_whole_modules_biases_and_embeddings_are_those_of_the_adapter(
    tiny: Tiny, tmp_path: Path
) -> None:
    draw = torch.Generator().manual_seed(2)
    a, b = torch.randn(RANK, 14, generator=draw), torch.randn(16, RANK, generator=draw)
    norm, bias = torch.randn(16, generator=draw), torch.randn(16, generator=draw)
    name = "base_model.model.bert.encoder.layer.1."
    more = {
        "base_model.model.bert.embeddings.word_embeddings.lora_embedding_A": a,
        "base_model.model.bert.embeddings.word_embeddings.lora_embedding_B": b,
        f"{name}output.LayerNorm.weight": norm,
        f"{name}attention.self.key.base_layer.bias": bias,
        "base_model.model.classifier.weight": torch.ones(2, 16),
    }
    settings = {"bias": "all", "modules_to_save": ["LayerNorm", "classifier"]}
    save_adapter(tmp_path / "lora", tiny("bert"), prefix="bert.", more=more, **settings)
    before, after = (
        load_checkpoint(one).model.state_dict() for one in (tiny("bert"), tmp_path / "lora")
    )
    words = "embeddings.word_embeddings.weight"
    torch.testing.assert_close(after[words], before[words] + 3 * (b @ a).T)
    assert torch.equal(after["encoder.layer.1.output.LayerNorm.weight"], norm)
    assert torch.equal(after["encoder.layer.1.attention.self.key.bias"], bias)
    changed = [key for key in before if not torch.equal(before[key], after[key])]
    assert len(changed) == 3 + len(TARGETS["bert"])


def test_head_that_the_adapter_brings_is_trained(tiny: Tiny, tmp_path: Path) -> None:
    more = {
        "base_model.model.classifier.weight": torch.ones(2, 16),
        "base_model.model.classifier.bias": torch.ones(2),
    }
    save_adapter(tmp_path / "lora", tiny("bert"), prefix="bert.", more=more)
    name = "BertForSequenceClassification"
    loaded = load_checkpoint(tmp_path / "lora", model_class=name)
    assert torch.equal(loaded.model.classifier.weight, torch.ones(2, 16))
    assert "classifier.bias" in load_checkpoint(tiny("bert"), model_class=name).untrained
    assert not [one for one in loaded.untrained if one.startswith("classifier")]


def test_base_lies_beside_the_adapter_too_and_random_weights_are_those_of_the_base(
    own: Tiny, tmp_path: Path
) -> None:
    save_adapter(tmp_path / "lora", own("llama"), base_model_name_or_path="../llama")
    assert find_checkpoint(tmp_path / "lora").path == (tmp_path / "llama").resolve()
    one, two = (
        load_checkpoint(tmp_path / name, random_weights=True).model.state_dict()
        for name in ("lora", "llama")
    )
    assert all(torch.equal(one[key], two[key]) for key in two)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"base_model_name_or_path": "meta/llama"}, "must name the folder of the network that"),
        ({"base_model_name_or_path": None}, "must name the folder of the network that"),
        ({"base_model_name_or_path": "a\0b"}, "must name the folder of the network that"),
        ({"base_model_name_or_path": "os:system"}, "must name the folder of the network that"),
        ({"peft_type": "IA3"}, "peft_type in adapter_config.json must be LORA"),
        ({"peft_type": ["LORA"]}, "peft_type in adapter_config.json must be LORA"),
        ({"use_dora": True}, "must ask for plain LoRA, got use_dora"),
        ({"layer_replication": [[0, 2]], "x": 1}, "plain LoRA, got layer_replication, x"),
        ({"init_lora_weights": "pissa"}, "init_lora_weights in adapter_config.json must be one"),
        ({"bias": "some"}, "bias in adapter_config.json must be one of"),
        ({"r": 3}, "must have r = 3 rows, got 2"),
        ({"r": 0}, "r in adapter_config.json must be a positive integer, got 0"),
        ({"lora_alpha": math.inf}, "lora_alpha in adapter_config.json must be a finite number"),
        ({"lora_alpha": "6"}, "lora_alpha in adapter_config.json must be a finite number"),
        ({"alpha_pattern": {"(a+)+$": 1}}, "alpha_pattern in adapter_config.json must have names"),
        ({"rank_pattern": [1]}, "rank_pattern in adapter_config.json must have names"),
        ({"modules_to_save": ["classifier"]}, "must hold the module to save 'classifier'"),
        ({"modules_to_save": "classifier"}, "modules_to_save in adapter_config.json must be names"),
    ],
)
def test_settings_that_cannot_be_merged_are_refused_in_one_line(
    entries: dict[str, Any], message: str, tiny: Tiny, tmp_path: Path
) -> None:
    save_adapter(tmp_path / "lora", tiny("bert"), **entries)
    with pytest.raises(ValueError) as caught:
        load_checkpoint(tmp_path / "lora")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


KEY = "base_model.model.encoder.layer.1.attention.self.key."


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({f"{KEY}lora_A.weight": torch.ones(2, 16)}, "must hold A and B of"),
        (
            {f"{KEY}lora_A.weight": torch.ones(2, 9), f"{KEY}lora_B.weight": torch.ones(16, 2)},
            "must have a product of shape (16, 16), got (2, 9) and (16, 2)",
        ),
        (
            {
                f"{KEY}lora_A.weight": torch.ones(2, 16),
                f"{KEY}lora_B.weight": torch.full((16, 2), math.nan),
            },
            "merged weights must be finite",
        ),
        ({f"{KEY}lora_magnitude_vector": torch.ones(16)}, "must hold parameters of BertModel"),
        ({"base_model.model.encoder.layer.7.x.weight": torch.ones(1)}, "must change modules of"),
        ({"encoder.layer.0.x.lora_A.weight": torch.ones(1)}, "must begin with base_model.model."),
        (
            {"base_model.model.embeddings.word_embeddings.weight": torch.ones(15, 16)},
            "of shape (14, 16), got (15, 16)",
        ),
    ],
)
def test_tensors_that_do_not_fit_are_refused_in_one_line(
    more: dict[str, Tensor], message: str, tiny: Tiny, tmp_path: Path
) -> None:
    save_adapter(tmp_path / "lora", tiny("bert"), more=more)
    with pytest.raises(ValueError) as caught:
        load_checkpoint(tmp_path / "lora")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_adapter_of_another_network_is_refused(tiny: Tiny, tmp_path: Path) -> None:
    save_adapter(tmp_path / "lora", tiny("llama"), base_model_name_or_path=str(tiny("bert")))
    with pytest.raises(ValueError, match="adapter must change modules of BertModel, got none"):
        load_checkpoint(tmp_path / "lora")


def test_files_that_are_no_adapter_are_refused_and_pickles_do_not_run(
    own: Tiny, tmp_path: Path
) -> None:
    base, lora, target = own("bert"), tmp_path / "lora", tmp_path / "ran"
    save_adapter(base, base)
    with pytest.raises(ValueError, match=r"whole network or an adapter, got model\.safetensors"):
        load_checkpoint(base)
    (base / "adapter_model.safetensors").unlink()
    save_adapter(lora, base)
    tensors = lora / "adapter_model.safetensors"
    tensors.write_bytes(tensors.read_bytes()[:50])
    with pytest.raises(ValueError, match=r"^adapter_model\.safetensors [^\n]*$"):
        load_checkpoint(lora)
    tensors.unlink()
    (lora / "adapter_model.bin").write_bytes(pickle.dumps({"x": Payload(target)}))
    with pytest.raises(ValueError, match=r"^adapter_model\.bin [^\n]*$"):
        load_checkpoint(lora)
    assert not target.exists()
    for text in ("", "[1]", '{"r": ', "[" * 100_000):
        (lora / "adapter_config.json").write_text(text)
        with pytest.raises(ValueError, match=r"^config of adapter_config\.json must be [^\n]*$"):
            load_checkpoint(lora)


def test_tensors_saved_by_torch_are_read(tiny: Tiny, tmp_path: Path) -> None:
    matrices = save_adapter(tmp_path / "lora", tiny("bert"))
    file = tmp_path / "lora" / "adapter_model.safetensors"
    torch.save(load_file(file), file.with_suffix(".bin"))
    file.unlink()
    for own, theirs in zip(maps(file.parent), beside(tiny("bert"), matrices, 3), strict=True):
        torch.testing.assert_close(torch.tensor(own).float(), theirs[0], atol=2e-5, rtol=0)
