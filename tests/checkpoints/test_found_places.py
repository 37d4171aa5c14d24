"""Weights as other programs leave them: Lightning, training scripts, sentence-transformers."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from payload import Payload
from tiny_models_of_ours import language, stirred

from fourierkernels.checkpoints.find import find_checkpoint
from fourierkernels.checkpoints.load import load_checkpoint, load_tokenizer

Tiny = Callable[[str], Path]
Run = Callable[..., tuple[int, str, str]]


def as_lightning(file: Path, model: torch.nn.Module, prefix: str, **others: Any) -> None:
    """Write what a Trainer of Lightning does, with plain hyperparameters."""
    content = {
        "epoch": 1,
        "global_step": 10,
        "pytorch-lightning_version": "2.5.0",
        "state_dict": {f"{prefix}{name}": t for name, t in model.state_dict().items()},
        "loops": {"fit_loop": {"state_dict": {}}},
        "callbacks": {},
        "optimizer_states": [],
        "lr_schedulers": [],
        "hparams_name": "kwargs",
        "hyper_parameters": {"lr": 0.1, "dims": [1, 2]},
        **others,
    }
    torch.save(content, file)


@pytest.mark.parametrize("prefix", ["", "model.", "net._orig_mod.", "module."])
def test_lightning_checkpoint_of_our_model_is_measured(
    prefix: str, run: Run, tmp_path: Path
) -> None:
    model, file = stirred(language()), tmp_path / "last.ckpt"
    as_lightning(file, model, prefix)
    (tmp_path / "c.json").write_text(json.dumps(vars(model.config)))
    options = {"model_class": "LanguageModel", "config": tmp_path / "c.json"}
    loaded = load_checkpoint(file, **options)
    assert all(map(torch.equal, loaded.model.parameters(), model.parameters()))
    (tmp_path / "ids.txt").write_text("1 2 3 4 5\n6 7 8\n")
    named = ("--model-class", "LanguageModel", "--config", tmp_path / "c.json")
    status, out, err = run(file, "--ids", tmp_path / "ids.txt", *named)
    assert (status, err) == (0, "")
    assert "random weights" in out


@pytest.mark.parametrize("prefix", ["model.", "module.model.", "model.bert."])
def test_lightning_checkpoint_of_a_class_of_transformers_is_read(
    prefix: str, tiny: Tiny, tmp_path: Path
) -> None:
    model = transformers.BertModel.from_pretrained(tiny("bert"))
    as_lightning(tmp_path / "last.ckpt", model, prefix)
    loaded = load_checkpoint(
        tmp_path / "last.ckpt", model_class="BertModel", config=tiny("bert") / "config.json"
    )
    assert all(map(torch.equal, loaded.model.parameters(), model.parameters()))


def test_prefix_that_a_class_of_transformers_has_itself_stays(tmp_path: Path) -> None:
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "intermediate_size": 16, "vocab_size": 14}
    config = transformers.LlamaConfig(**sizes, num_attention_heads=2)
    model = transformers.LlamaForCausalLM(config)
    (tmp_path / "c.json").write_text(json.dumps(config.to_dict()))
    for prefix in ("", "model."):
        as_lightning(tmp_path / "last.ckpt", model, prefix)
        loaded = load_checkpoint(
            tmp_path / "last.ckpt", model_class="LlamaForCausalLM", config=tmp_path / "c.json"
        )
        assert all(map(torch.equal, loaded.model.parameters(), model.parameters()))


def test_other_tensors_of_a_training_module_are_refused_by_name(tmp_path: Path) -> None:
    model = language()
    others = {f"model.{n}": t for n, t in model.state_dict().items()} | {"loss.w": torch.ones(2)}
    torch.save({"state_dict": others}, tmp_path / "last.ckpt")
    with pytest.raises(ValueError, match=r"tensors of LanguageModel, got unexpected: loss\.w$"):
        load_checkpoint(
            tmp_path / "last.ckpt", model_class="LanguageModel", config=vars(model.config)
        )


def test_code_in_a_lightning_checkpoint_does_not_run(tmp_path: Path, run: Run) -> None:
    model, target = language(), tmp_path / "ran"
    as_lightning(tmp_path / "last.ckpt", model, "model.", callbacks={"x": Payload(target)})
    (tmp_path / "c.json").write_text(json.dumps(vars(model.config)))
    (tmp_path / "ids.txt").write_text("1 2\n")
    named = ("--model-class", "LanguageModel", "--config", tmp_path / "c.json")
    status, _, err = run(tmp_path / "last.ckpt", "--ids", tmp_path / "ids.txt", *named)
    assert (status, err.count("\n")) == (2, 1)
    assert "last.ckpt must hold tensors only, got a file that would have to run code" in err
    assert not target.exists()
    torch.load(tmp_path / "last.ckpt", weights_only=False)  # the payload would have worked
    assert target.exists()


@pytest.mark.parametrize("inside", ["0_Transformer", "", "part"])
def test_network_of_sentence_transformers_is_found(
    inside: str, own: Tiny, tmp_path: Path, run: Run, texts: Path
) -> None:
    network, folder = own("bert"), tmp_path / "sentences"
    modules = [
        {"idx": 0, "name": "0", "path": inside, "type": "sentence_transformers.models.Transformer"},
        {
            "idx": 1,
            "name": "1",
            "path": "1_Pooling",
            "type": "sentence_transformers.models.Pooling",
        },
    ]
    folder.mkdir()
    network.rename(folder / inside) if inside else (folder.rmdir(), network.rename(folder))
    (folder / "modules.json").write_text(json.dumps(modules))
    assert find_checkpoint(folder).path == folder / inside
    assert load_tokenizer(load_checkpoint(folder), tokens="whitespace").encode("a") == [4]
    assert run(folder, "--text", texts, "--no-baseline")[0] == 0
    (folder / "modules.json").unlink()
    if inside != "part":  # older versions have this name only
        assert find_checkpoint(folder).path == folder / inside


@pytest.mark.parametrize("place", ["../bert", "{}", "/"])
def test_parts_of_sentence_transformers_lie_in_their_folder(
    place: str, own: Tiny, tmp_path: Path
) -> None:
    network = own("bert")
    (tmp_path / "sentences").mkdir()
    content = [{"path": place.format(network)}]
    (tmp_path / "sentences" / "modules.json").write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"modules\.json must name folders inside its own, got "):
        find_checkpoint(tmp_path / "sentences")


@pytest.mark.parametrize("content", ["[]", "{}", "3", "[{}]", '[{"path": 3}]', "["])
def test_damaged_list_of_parts_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "modules.json").write_text(content)
    with pytest.raises(ValueError, match=r"^modules\.json must list parts [^\n]*$"):
        find_checkpoint(tmp_path)


def test_graph_of_onnx_is_refused_with_what_to_name(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"\x08\x07")
    with pytest.raises(ValueError, match="got an ONNX graph, whose attention is not recorded here"):
        find_checkpoint(tmp_path / "model.onnx")


@pytest.mark.parametrize(("kind", "limit"), [("ibert", 30), ("mpt", 8)])
def test_longest_text_is_that_of_the_tables_of_the_architecture(
    kind: str, limit: int, tmp_path: Path
) -> None:
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 14}
    configs = {
        "ibert": lambda: transformers.IBertConfig(
            **sizes, intermediate_size=16, max_position_embeddings=32
        ),
        "mpt": lambda: transformers.MptConfig(
            d_model=16, n_heads=2, n_layers=1, max_seq_len=8, vocab_size=14
        ),
    }
    transformers.AutoModel.from_config(configs[kind]()).save_pretrained(tmp_path / kind)
    checkpoint = load_checkpoint(tmp_path / kind)
    assert checkpoint.limit == limit
    checkpoint.run([[3] * limit])
    with pytest.raises(
        ValueError, match=rf"fails on texts of up to {limit + 1} tokens: \w+Error: "
    ):
        checkpoint.run([[3] * (limit + 1)])
