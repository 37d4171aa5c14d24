"""Single files of weights: the class is named, the tensors fit, and no code is run."""

import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from batches import IDS, check_batches, recorded_calls
from payload import Payload
from tiny_models_of_ours import encoder, language

from fourierkernels import models
from fourierkernels.checkpoints.find import find_checkpoint
from fourierkernels.checkpoints.load import Checkpoint, load_checkpoint, load_tokenizer
from fourierkernels.models import save_model

Tiny = Callable[[str], Path]


@pytest.mark.parametrize("suffix", [".safetensors", ".pt", ".pth", ".bin"])
def test_weights_without_a_head_need_class_and_config(suffix: str, tmp_path: Path) -> None:
    model, file, config = language(), tmp_path / f"w{suffix}", tmp_path / "sizes.json"
    if suffix == ".safetensors":
        models.saved.write_tensors(file, model.state_dict())
    else:
        torch.save(model.state_dict(), file)
    config.write_text(json.dumps(vars(model.config)))
    for given in (config, str(config), vars(model.config)):
        loaded = load_checkpoint(file, model_class="LanguageModel", config=given)
        assert torch.equal(loaded.model.positions, model.positions)
        assert all(map(torch.equal, loaded.model.parameters(), model.parameters()))
    with pytest.raises(ValueError, match=r"model_class must be named for a file of weights: w\."):
        load_checkpoint(file)
    with pytest.raises(ValueError, match="model_class must be named with a config"):
        load_checkpoint(file, config=config)
    with pytest.raises(ValueError, match=r"w\..* must name its class and config"):
        load_checkpoint(file, model_class="LanguageModel")
    with pytest.raises(ValueError, match="config must be a JSON file, got"):
        load_checkpoint(file, model_class="LanguageModel", config=tmp_path / "none.json")


def test_wrong_class_is_refused_by_what_is_missing(tmp_path: Path) -> None:
    file = tmp_path / "m.safetensors"
    save_model(language(), file)
    with pytest.raises(ValueError, match="model_class must be LanguageModel for this file, got En"):
        load_checkpoint(file, model_class="Encoder")
    config = vars(encoder().config)
    with pytest.raises(ValueError, match=r"of Encoder, got missing: .*words\.weight.*unexp"):
        load_checkpoint(file, model_class="Encoder", config=config)


def test_half_precision_files_are_computed_in_float32(tmp_path: Path) -> None:
    model = language().half()
    save_model(model, tmp_path / "m.safetensors")
    loaded = load_checkpoint(tmp_path / "m.safetensors").model
    assert {parameter.dtype for parameter in loaded.parameters()} == {torch.float32}
    assert torch.equal(
        loaded.blocks[0].feed_forward.widen.weight,
        model.blocks[0].feed_forward.widen.weight.float(),
    )


def test_random_weights_of_files_follow_the_seed_and_are_not_those_of_the_file(
    tmp_path: Path,
) -> None:
    save_model(language(), tmp_path / "m.safetensors")
    state = torch.get_rng_state()
    trained, one, same, other = (
        load_checkpoint(tmp_path / "m.safetensors", **options).model.blocks[0].feed_forward.widen
        for options in ({}, *({"random_weights": True, "seed": s} for s in (1, 1, 2)))
    )
    assert torch.equal(one.weight, same.weight)
    assert not torch.equal(one.weight, other.weight)
    assert not torch.equal(one.weight, trained.weight)
    assert torch.equal(state, torch.get_rng_state())


def test_tokens_of_a_file_are_ids(saved: Callable[..., Checkpoint]) -> None:
    checkpoint = saved(language())
    assert load_tokenizer(checkpoint, tokens="ids").encode("4 5") == [4, 5]
    with pytest.raises(ValueError, match=r"must lie in a folder with its tokenizer, got .*--ids"):
        load_tokenizer(checkpoint)


def test_digest_of_a_file_follows_its_content(tmp_path: Path) -> None:
    save_model(language(), tmp_path / "m.safetensors")
    before = find_checkpoint(tmp_path / "m.safetensors").digest()
    assert before == load_checkpoint(str(tmp_path / "m.safetensors")).files.digest()
    save_model(language(), tmp_path / "m.safetensors")
    assert before != find_checkpoint(tmp_path / "m.safetensors").digest()


# Classes of transformers


@pytest.mark.parametrize(
    ("kind", "name", "reads"),
    [
        ("bert", "BertModel", "tokens"),
        ("gpt2", "GPT2Model", "tokens"),
        ("t5", "T5Model", "tokens"),
        ("vit", "ViTModel", "images"),
    ],
)
def test_file_of_transformers_gives_what_its_folder_gives(
    kind: str, name: str, reads: str, tiny: Tiny, pictures: list[Path]
) -> None:
    folder = tiny(kind)
    file = load_checkpoint(
        folder / "model.safetensors", model_class=name, config=folder / "config.json"
    )
    assert file.folder is None
    assert file.reads == reads
    items: list[Any] = pictures if reads == "images" else IDS
    expected = recorded_calls(load_checkpoint(folder), items)
    for one, other in zip(recorded_calls(file, items), expected, strict=True):
        assert torch.equal(one.maps, other.maps)


def test_file_of_transformers_must_fit_exactly(tiny: Tiny) -> None:
    file, config = tiny("bert") / "model.safetensors", tiny("bert") / "config.json"
    with pytest.raises(ValueError, match=r"config must be the config\.json of BertModel"):
        load_checkpoint(file, model_class="BertModel")
    with pytest.raises(ValueError, match=r"tensors of BertForMaskedLM, got \d+ missing, first cls"):
        load_checkpoint(file, model_class="BertForMaskedLM", config=config)
    wide = {**json.loads(config.read_text()), "intermediate_size": 8}
    with pytest.raises(ValueError, match=r"tensors of BertModel, got \d+ misshapen, first encoder"):
        load_checkpoint(file, model_class="BertModel", config=wide)
    with pytest.raises(ValueError, match="model_class must be a model of transformers, got 'Bert'"):
        load_checkpoint(file, model_class="Bert", config=config)
    random = load_checkpoint(file, model_class="BertModel", config=config, random_weights=True)
    assert random.vocabulary == 14


def test_tied_weights_that_a_file_leaves_out_are_tied(tmp_path: Path) -> None:
    config = transformers.GPT2Config(
        n_embd=8, n_head=2, n_layer=1, n_positions=8, vocab_size=14, bos_token_id=1, eos_token_id=1
    )
    transformers.GPT2LMHeadModel(config).save_pretrained(tmp_path)
    checkpoint = load_checkpoint(
        tmp_path / "model.safetensors",
        model_class="GPT2LMHeadModel",
        config=tmp_path / "config.json",
    )
    model = checkpoint.model
    assert model.lm_head.weight is model.transformer.wte.weight


# Classes of installed packages

PACKAGE = """
import torch
from torch import nn
from pathlib import Path

Path(__file__).with_name("imported").touch()

class Words(nn.Module):
    def __init__(self, vocabulary, dim, heads, length=None):
        super().__init__()
        self.words = nn.Embedding(vocabulary, dim)
        self.places = None if length is None else nn.Embedding(length, dim)
        layer = nn.TransformerEncoderLayer(dim, heads, dim, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, ids):
        x = self.words(ids)
        if self.places is not None:
            x = x + self.places(torch.arange(ids.shape[1]))
        return self.encoder(x)

class Pixels(nn.Module):
    def __init__(self, image_size, patch_size, dim, heads):
        super().__init__()
        self.patches = nn.Conv2d(3, dim, patch_size, stride=patch_size)
        self.front = nn.Parameter(torch.zeros(1, 1, dim))
        layer = nn.TransformerEncoderLayer(dim, heads, dim, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2)
        return self.encoder(torch.cat([self.front.expand(len(x), -1, -1), x], dim=1))

class Series(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x):
        return self.layer(x)

class Both(Words):
    def forward(self, ids, other):
        return super().forward(ids)

def build():
    return Series()
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package on the path, and beside it a folder for weights."""
    folder = tmp_path / "installed" / "head_test_nets"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "nets.py").write_text(PACKAGE)
    (tmp_path / "weights").mkdir()
    monkeypatch.syspath_prepend(folder.parent)
    for name in ("head_test_nets", "head_test_nets.nets"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return folder


def weights_of(package: Path, name: str, **config: Any) -> Path:
    """Save random weights of a class of the package, without importing it for good."""
    spec = importlib.util.spec_from_file_location("apart", package / "nets.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (package / "imported").unlink()
    file = package.parents[1] / "weights" / "model.pt"
    torch.save(getattr(module, name)(**config).state_dict(), file)
    return file


@pytest.mark.parametrize("length", [None, 12])
def test_plain_torch_network_reads_texts_of_one_length_together(
    length: int | None, package: Path
) -> None:
    config = {"vocabulary": 14, "dim": 8, "heads": 2, "length": length}
    file = weights_of(package, "Words", **config)
    checkpoint = load_checkpoint(file, model_class="head_test_nets.nets:Words", config=config)
    assert (checkpoint.reads, checkpoint.vocabulary, checkpoint.limit) == ("tokens", 14, length)
    assert len({checkpoint.batch_key(item) for item in IDS}) == 6
    assert len(recorded_calls(checkpoint, IDS[:1])) == 2
    check_batches(checkpoint, [*IDS, [7, 9]])


def test_plain_torch_network_reads_images(package: Path, pictures: list[Path]) -> None:
    config = {"image_size": 8, "patch_size": 4, "dim": 8, "heads": 2}
    file = weights_of(package, "Pixels", **config)
    checkpoint = load_checkpoint(file, model_class="head_test_nets.nets:Pixels", config=config)
    check_batches(checkpoint, pictures)
    assert checkpoint.labels(pictures[0])[0][:2] == ("class", "patch 0,0")


def test_plain_torch_network_with_random_weights(package: Path) -> None:
    config = {"vocabulary": 14, "dim": 8, "heads": 2}
    options = {"model_class": "head_test_nets.nets:Words", "config": config}
    file = weights_of(package, "Words", **config)
    trained = load_checkpoint(file, **options).model.words.weight
    random = load_checkpoint(file, **options, random_weights=True).model.words.weight
    assert trained.shape == random.shape
    assert not torch.equal(trained, random)


@pytest.mark.parametrize(
    ("name", "config", "message"),
    [
        ("Words", {"vocabulary": 15, "dim": 8, "heads": 2}, "got misshapen: words.weight"),
        (
            "Words",
            {"vocabulary": 14},
            "arguments of the class, but .*:Words fails: .*dim",
        ),
        (
            "Both",
            {"vocabulary": 14, "dim": 8, "heads": 2},
            "one positional argument, but .*Both fails: ",
        ),
        (
            "Pixels",
            {"image_size": 8, "patch_size": 4, "dim": 8, "heads": 2},
            "missing: front, ",
        ),
        ("Nothing", {}, "must be a torch module, got 'head_test_nets.nets:Nothing'"),
        ("build", {}, "must be a torch module, got 'head_test_nets.nets:build'"),
        ("torch", {}, "must be a torch module, got"),
    ],
)
def test_plain_torch_networks_that_do_not_fit_are_refused(
    name: str, config: dict[str, Any], message: str, package: Path
) -> None:
    file = weights_of(package, "Words", vocabulary=14, dim=8, heads=2)
    with pytest.raises(ValueError, match=message):
        load_checkpoint(file, model_class=f"head_test_nets.nets:{name}", config=config)


def test_network_that_reads_neither_words_nor_images_is_refused(package: Path) -> None:
    file = weights_of(package, "Series")
    with pytest.raises(ValueError, match="config must give the size of the images as image_size"):
        load_checkpoint(file, model_class="head_test_nets.nets:Series")


@pytest.mark.parametrize(
    "name", ["no_such_package:Net", "os:", ":Net", "../x:Net", "a b:Net", "head_test_nets.no:Net"]
)
def test_class_must_be_in_an_installed_package(name: str, package: Path) -> None:
    file = weights_of(package, "Series")
    with pytest.raises(ValueError, match=r"model_class must be (module:Class|in an installed)"):
        load_checkpoint(file, model_class=name)


@pytest.mark.parametrize("place", ["beside", "below", "link to", "link from"])
def test_module_that_lies_with_the_weights_is_not_imported(place: str, package: Path) -> None:
    """The folder of the weights is on the path, or the module is reached by a link."""
    file = weights_of(package, "Series")
    if place == "beside":
        file = file.rename(package.parent / file.name)
    elif place == "below":
        file = file.rename(package.parents[1] / file.name)
    elif place == "link to":  # a package on the path that is a link into the folder of the weights
        package.rename(file.parent / "code")
        package.symlink_to(file.parent / "code")
    else:  # the folder on the path is the folder of the weights, by another name
        file = file.rename(package.parent / file.name)
        (package.parents[1] / "other").symlink_to(package.parent)
        file = package.parents[1] / "other" / file.name
    with pytest.raises(ValueError, match="must not come from the folder of the weights"):
        load_checkpoint(file, model_class="head_test_nets.nets:Series")
    assert not (package / "imported").exists()
    assert "head_test_nets" not in sys.modules


# What must not be run


@pytest.mark.parametrize("suffix", [".pt", ".pth", ".bin"])
@pytest.mark.parametrize("name", ["LanguageModel", "GPT2Model", "torch.nn:Linear"])
def test_pickled_code_in_files_does_not_run(name: str, suffix: str, tmp_path: Path) -> None:
    file, target = tmp_path / f"w{suffix}", tmp_path / "ran"
    torch.save({"x": torch.zeros(1), "y": Payload(target)}, file)
    configs = {
        "LanguageModel": vars(language().config),
        "GPT2Model": {"n_layer": 1, "n_embd": 12},
        "torch.nn:Linear": {"in_features": 2, "out_features": 2},
    }
    with pytest.raises(ValueError, match=r"must hold tensors only, got a file that would have to"):
        load_checkpoint(file, model_class=name, config=configs[name])
    assert not target.exists()


@pytest.mark.parametrize("name", ["w.txt", "w.pkl", "w.gguf", "w"])
def test_files_of_other_names_are_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("")
    with pytest.raises(ValueError, match=r"must be a folder or end in \.safetensors, .*, got"):
        load_checkpoint(tmp_path / name, model_class="LanguageModel")


def test_folder_has_its_own_config(tiny: Tiny) -> None:
    with pytest.raises(ValueError, match="config must be left out for a folder"):
        load_checkpoint(tiny("bert"), config={})
