"""Nothing in a folder is run, whatever stands in it, and no network is used."""

import json
import pickle  # noqa: TID251 (to write what must be refused)
import socket
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from payload import Payload

from fourierkernels.checkpoints.find import find_checkpoint
from fourierkernels.checkpoints.load import load_checkpoint, load_tokenizer
from fourierkernels.models.tensor_files import write_tensors

Tiny = Callable[[str], Path]


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **options: object) -> None:
        raise AssertionError(f"network used: {args}")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket.socket, "connect_ex", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def change(file: Path, **entries: Any) -> None:
    """Change entries of a JSON file, which is made if need be."""
    content = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    file.write_text(json.dumps(content | entries), encoding="utf-8")


def test_pickled_code_in_weights_does_not_run(own: Tiny, tmp_path: Path) -> None:
    folder, target = own("bert"), tmp_path / "ran"
    (folder / "model.safetensors").unlink()
    torch.save({"embeddings.word_embeddings.weight": Payload(target)}, folder / "pytorch_model.bin")
    with pytest.raises(
        ValueError, match=r"weights of bert cannot be read: .*run code.*safetensors$"
    ):
        load_checkpoint(folder)
    assert not target.exists()
    torch.load(folder / "pytorch_model.bin", weights_only=False)  # the payload would have worked
    assert target.exists()


def test_safetensors_are_preferred_to_pickled_weights(own: Tiny, tmp_path: Path) -> None:
    folder, target = own("bert"), tmp_path / "ran"
    torch.save({"x": Payload(target)}, folder / "pytorch_model.bin")
    assert load_checkpoint(folder).vocabulary == 14
    assert not target.exists()


def test_plain_pickled_tensors_are_read(own: Tiny) -> None:
    folder = own("bert")
    expected = load_checkpoint(folder).model.state_dict()
    torch.save(expected, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    loaded = load_checkpoint(folder).model.state_dict()
    assert all(torch.equal(loaded[name], value) for name, value in expected.items())


@pytest.mark.parametrize("known", [True, False])
def test_custom_code_of_a_checkpoint_does_not_run(known: bool, own: Tiny, tmp_path: Path) -> None:
    folder, target = own("bert"), tmp_path / "ran"
    config = json.loads((folder / "config.json").read_text())
    config["auto_map"] = {"AutoConfig": "custom.C", "AutoModel": "custom.M"}
    config["model_type"] = "bert" if known else "custom"
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "custom.py").write_text(f"open({str(target)!r}, 'w').write('ran')")
    if known:  # the class of transformers is used, the code is ignored
        assert load_checkpoint(folder).vocabulary == 14
    else:
        with pytest.raises(ValueError, match=r"config.json of bert cannot be used: .*custom code"):
            load_checkpoint(folder)
    assert not target.exists()


def test_truncated_safetensors_are_refused(own: Tiny) -> None:
    file = own("bert") / "model.safetensors"
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    with pytest.raises(ValueError, match=r"weights of bert cannot be read: .*incomplete metadata"):
        load_checkpoint(file.parent)


@pytest.mark.parametrize("random_weights", [True, False])
@pytest.mark.parametrize("key", ["_attn_implementation", "attn_implementation"])
def test_kernel_that_a_config_names_is_not_downloaded(
    key: str, random_weights: bool, own: Tiny
) -> None:
    folder = own("bert")
    change(folder / "config.json", **{key: "kernels-community/flash-attn3"})
    checkpoint = load_checkpoint(folder, random_weights=random_weights)
    assert checkpoint.model.config._attn_implementation == "eager"
    checkpoint.run([[1, 2, 3]])


def test_code_of_a_tokenizer_does_not_run(own: Tiny, tmp_path: Path) -> None:
    folder, target = own("bert"), tmp_path / "ran"
    (folder / "custom.py").write_text(f"open({str(target)!r}, 'w').write('ran')")
    change(
        folder / "tokenizer_config.json",
        tokenizer_class="Custom",
        auto_map={"AutoTokenizer": ["custom.Custom", "custom.Custom"]},
    )
    checkpoint = load_checkpoint(folder)
    with pytest.raises(ValueError, match="tokenizer of bert cannot be read"):
        load_tokenizer(checkpoint)
    assert not target.exists()
    assert "custom" not in sys.modules
    assert not [name for name in sys.modules if name.startswith("transformers_modules")]


def test_code_beside_the_rules_for_images_does_not_run(own: Tiny, tmp_path: Path) -> None:
    folder, target = own("vit"), tmp_path / "ran"
    (folder / "custom.py").write_text(f"open({str(target)!r}, 'w').write('ran')")
    change(
        folder / "preprocessor_config.json",
        image_processor_type="Custom",
        auto_map={"AutoImageProcessor": "custom.Custom"},
    )
    assert load_checkpoint(folder).reads == "images"
    assert not target.exists()


@pytest.mark.parametrize(
    ("file", "entries"),
    [
        ("adapter_config.json", {"peft_type": "LORA", "base_model_name_or_path": "some/model"}),
        ("generation_config.json", {"custom_generate": "some/code", "trust_remote_code": True}),
        ("config.json", {"quantization_config": {"quant_method": "some/code"}}),
        ("config.json", {"trust_remote_code": True, "_name_or_path": "some/model"}),
        ("tokenizer_config.json", {"trust_remote_code": True, "name_or_path": "some/model"}),
    ],
)
def test_other_places_that_a_folder_names_are_not_asked(
    file: str, entries: dict[str, Any], own: Tiny
) -> None:
    folder = own("bert")
    change(folder / file, **entries)
    checkpoint = load_checkpoint(folder)
    assert checkpoint.vocabulary == 14
    assert load_tokenizer(checkpoint).encode("a") == [4]


@pytest.mark.parametrize(
    "entries",
    [
        {"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True}},
        {"model_type": "no_such_type"},
        {"hidden_size": "wide"},
        {"dtype": "os.system"},
    ],
)
def test_configs_that_ask_for_what_is_not_there_are_refused_in_one_line(
    entries: dict[str, Any], own: Tiny
) -> None:
    folder = own("bert")
    change(folder / "config.json", **entries)
    with pytest.raises(ValueError, match=r"^[^\n]* of bert [^\n]*$"):
        load_checkpoint(folder)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("kind", ["archive", "legacy", "bare"])
def test_no_variant_of_pickle_runs_in_a_folder(
    kind: str, protocol: int, own: Tiny, tmp_path: Path
) -> None:
    folder, target = own("bert"), tmp_path / "ran"
    (folder / "model.safetensors").unlink()
    file = folder / "pytorch_model.bin"
    if kind == "bare":
        file.write_bytes(pickle.dumps({"x": Payload(target)}, protocol=protocol))
    else:
        torch.save(
            {"x": torch.zeros(2), "y": Payload(target)},
            file,
            pickle_protocol=protocol,
            _use_new_zipfile_serialization=kind == "archive",
        )
    with pytest.raises(ValueError, match="weights of bert cannot be read: "):
        load_checkpoint(folder)
    assert not target.exists()


def test_compressed_weights_of_a_folder_are_refused(own: Tiny) -> None:
    folder = own("bert")
    torch.save({"x": torch.zeros(1000, 1000)}, folder / "plain")
    with (
        zipfile.ZipFile(folder / "plain") as plain,
        zipfile.ZipFile(folder / "pytorch_model.bin", "w", zipfile.ZIP_DEFLATED) as bomb,
    ):
        for part in plain.namelist():
            bomb.writestr(part, plain.read(part))
    assert load_checkpoint(folder).vocabulary == 14  # the safetensors are read
    (folder / "model.safetensors").unlink()
    with pytest.raises(ValueError, match=r"pytorch_model\.bin must be an uncompressed archive"):
        load_checkpoint(folder)


def test_damaged_archive_in_a_folder_is_refused_in_one_line(own: Tiny) -> None:
    folder = own("bert")
    torch.save(load_checkpoint(folder).model.state_dict(), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    content = (folder / "pytorch_model.bin").read_bytes()
    damaged = content.replace(b"PK\x01\x02", b"XXXX", 1)
    (folder / "pytorch_model.bin").write_bytes(damaged)
    with pytest.raises(ValueError, match=r"^pytorch_model\.bin must be a whole file of [^\n]*$"):
        load_checkpoint(folder)


def test_list_of_parts_cannot_make_a_pickle_run(own: Tiny, tmp_path: Path) -> None:
    folder, target = own("bert"), tmp_path / "ran"
    names = list(load_checkpoint(folder).model.state_dict())
    (folder / "model.safetensors").unlink()
    torch.save({names[0]: Payload(target)}, tmp_path / "evil.bin")
    for part in ("../evil.bin", str(tmp_path / "evil.bin")):
        change(
            folder / "model.safetensors.index.json",
            metadata={},
            weight_map=dict.fromkeys(names, part),
        )
        with pytest.raises(ValueError, match="weights of bert cannot be read: "):
            load_checkpoint(folder)
    assert not target.exists()


def test_package_cannot_lead_outside_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny: Tiny
) -> None:
    package = tmp_path / "packaged"
    package.mkdir()
    (package / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    (package / "out").symlink_to(tiny("bert"))
    (package / "in").mkdir()
    (package / "in" / "config.json").write_text("{}")
    (package / "inner").symlink_to(package / "in")
    assert find_checkpoint("packaged:in/../in").path == package / "in"
    assert find_checkpoint("packaged:inner").path == package / "in"
    for outside in ("out", str(tiny("bert")), "in/../../packaged/../elsewhere", "../elsewhere"):
        with pytest.raises(ValueError, match="a folder inside package packaged, got "):
            find_checkpoint(f"packaged:{outside}")


@pytest.mark.parametrize("name", ["torch.nn:Linear", "timm:vit_tiny", "BertModel", "os:system"])
def test_class_that_a_file_names_is_only_taken_from_this_package(name: str, tmp_path: Path) -> None:
    file, head = tmp_path / "w.safetensors", {"config": '{"in_features": 1, "out_features": 1}'}
    tensors = torch.nn.Linear(1, 1).state_dict()
    write_tensors(file, tensors, head | {"fourierkernels_class": name})
    with pytest.raises(ValueError, match=f"model_class must be one of .* got '{name}'"):
        load_checkpoint(file)


def test_settings_of_others_are_left_as_they_were(tiny: Tiny) -> None:
    import huggingface_hub.constants as hub

    before = hub.HF_HUB_OFFLINE, transformers.logging.get_verbosity()
    load_tokenizer(load_checkpoint(tiny("bert")))
    load_checkpoint(tiny("bert"), random_weights=True)
    assert (hub.HF_HUB_OFFLINE, transformers.logging.get_verbosity()) == before
