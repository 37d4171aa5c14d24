"""Folders of transformers: padding, calls, random weights, and what cannot be used."""

import importlib
import json
import random
import sys
import weakref
from collections.abc import Callable
from pathlib import Path

import numpy as np
import profiles
import pytest
import torch
import transformers
from tiny_checkpoints import MINILM, RXNMAPPER, needs_fracast, needs_minilm, needs_rxnmapper
from tolerances import TOLERANCE

from fourierkernels.checkpoints import attention_calls
from fourierkernels.checkpoints.find import find_checkpoint
from fourierkernels.checkpoints.load import load_checkpoint, load_tokenizer
from fourierkernels.diagnostics.networks import samples
from fourierkernels.diagnostics.networks.samples import head_samples
from fourierkernels.models.tensor_files import load_exactly, read_tensors

Tiny = Callable[[str], Path]
ROUNDING = TOLERANCE["float32"]["exact"]
IDS = [[1, 2, 3, 4, 5, 6, 7], [3, 4], [9, 8, 7, 6], [5, 5, 5], [2], [11, 12, 13, 1, 2, 3]]
ATTENTIVE = ["bert", "roberta", "gpt2", "albert", "t5"]


def maps_of(folder: Path, ids: list[list[int]], batch_size: int) -> dict[int, np.ndarray]:
    windows = head_samples(load_checkpoint(folder), ids, batch_size=batch_size)
    return {window.index: window.maps for window in windows}


@pytest.mark.parametrize("kind", ATTENTIVE)
def test_padded_batch_equals_one_by_one(kind: str, tiny: Tiny) -> None:
    together, alone = (maps_of(tiny(kind), IDS, size) for size in (6, 1))
    assert sorted(together) == list(range(len(IDS)))
    for index, maps in together.items():
        assert maps.shape == (3, 4, len(IDS[index]), len(IDS[index]))
        np.testing.assert_allclose(maps, alone[index], rtol=0, atol=rounding_of(maps))


def rounding_of(maps: np.ndarray) -> float:
    """Rounding of maps in float32: that of their logits, which T5 does not scale, times four."""
    seen = np.where(maps > 0, maps, 1.0)  # a causal map has zeros
    spread = np.log(maps.max(axis=-1) / seen.min(axis=-1)).max()
    return float(4 * np.finfo(np.float32).eps * max(1.0, spread))


@pytest.mark.parametrize("kind", ATTENTIVE)
def test_rows_are_probabilities_in_float64(kind: str, tiny: Tiny) -> None:
    for maps in maps_of(tiny(kind), IDS, 4).values():
        assert maps.dtype == np.float64
        np.testing.assert_allclose(maps.sum(axis=-1), 1, atol=ROUNDING)


def test_causal_maps_see_no_later_token(tiny: Tiny) -> None:
    for maps in maps_of(tiny("gpt2"), IDS, 6).values():
        np.testing.assert_array_equal(np.triu(maps, k=1), 0)


def test_shared_layer_gives_one_map_a_call_and_not_a_module(tiny: Tiny) -> None:
    maps = maps_of(tiny("albert"), IDS[:1], 1)[0]
    assert len(maps) == 3
    assert np.abs(maps[0] - maps[1]).max() > 1e-3


def test_default_attention_returns_no_maps_and_capture_does(tiny: Tiny) -> None:
    model = transformers.AutoModel.from_pretrained(tiny("bert"))
    assert model(input_ids=torch.tensor([[1, 2]]), output_attentions=True).attentions == ()
    assert len(maps_of(tiny("bert"), [[1, 2]], 1)[0]) == 3


def test_consumer_is_not_left_in_inference_mode_and_no_parameter_wants_gradients(
    tiny: Tiny,
) -> None:
    checkpoint = load_checkpoint(tiny("bert"))
    assert not any(parameter.requires_grad for parameter in checkpoint.model.parameters())
    assert not checkpoint.model.training
    for _ in head_samples(checkpoint, IDS):
        assert not torch.is_inference_mode_enabled()


def test_windows_are_read_lazily(tiny: Tiny) -> None:
    taken = []

    def endless():
        while True:
            taken.append(1)
            yield [1, 2, 3]

    next(head_samples(load_checkpoint(tiny("bert")), endless(), batch_size=2))
    assert len(taken) == 2 * 16


def test_one_batch_of_maps_is_held_at_a_time(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    alive, run = [], samples._calls

    def counted(*args):
        alive.append(sum(reference() is not None for reference in references))
        calls = run(*args)
        references.extend(weakref.ref(call.maps) for call in calls)
        return calls

    references: list[weakref.ref] = []
    monkeypatch.setattr(samples, "_calls", counted)
    texts = [" ".join(map(str, ids)) for ids in IDS]
    profiles.distances(tiny("bert"), texts, tokens="ids", batch_size=2)
    assert alive == [0, 0, 0]
    assert len(references) == 9


def test_random_weights_follow_the_seed_and_leave_global_randomness_alone(tiny: Tiny) -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].copy()  # noqa: NPY002
    first, again, other = (
        load_checkpoint(tiny("bert"), random_weights=True, seed=seed).model.state_dict()
        for seed in (1, 1, 2)
    )
    load_checkpoint(tiny("bert"))
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1] == random.getstate()
    np.testing.assert_array_equal(before[2], np.random.get_state()[1])  # noqa: NPY002
    name = "encoder.layer.0.attention.self.query.weight"
    assert torch.equal(first[name], again[name])
    assert not torch.equal(first[name], other[name])


def test_random_weights_need_no_weights(own: Tiny) -> None:
    folder = own("bert")
    (folder / "model.safetensors").unlink()
    assert load_checkpoint(folder, random_weights=True).vocabulary == 14


def test_half_precision_weights_are_computed_in_float32(own: Tiny) -> None:
    folder = own("bert")
    transformers.AutoModel.from_pretrained(folder).half().save_pretrained(folder)
    assert load_checkpoint(folder).model.dtype == torch.float32


@pytest.mark.parametrize(("kind", "limit"), [("bert", 32), ("roberta", 30), ("t5", None)])
def test_longest_text_follows_the_architecture(kind: str, limit: int | None, tiny: Tiny) -> None:
    checkpoint = load_checkpoint(tiny(kind))
    assert checkpoint.limit == limit
    if limit is not None:
        assert maps_of(tiny(kind), [[3] * limit], 1)[0].shape[-1] == limit


def test_class_is_named_where_the_configuration_names_none(own: Tiny) -> None:
    folder = own("bert")
    config = json.loads((folder / "config.json").read_text())
    del config["model_type"]
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(
        ValueError,
        match=r"cannot be used \(name its class: --model-class\): .*model_type",
    ):
        load_checkpoint(folder)
    assert type(load_checkpoint(folder, model_class="BertModel").model).__name__ == "BertModel"
    random_one = load_checkpoint(folder, model_class="BertModel", random_weights=True)
    assert type(random_one.model).__name__ == "BertModel"


@pytest.mark.parametrize("name", ["NoSuchModel", "BertConfig", "pipeline"])
def test_class_must_be_a_model(name: str, tiny: Tiny) -> None:
    with pytest.raises(ValueError, match=f"model_class must be a model .* got '{name}'"):
        load_checkpoint(tiny("bert"), model_class=name)


def test_class_whose_weights_are_not_in_the_file_is_refused(tiny: Tiny) -> None:
    with pytest.raises(
        ValueError, match=r"weights of roberta must fit AlbertModel, got .* missing"
    ):
        load_checkpoint(tiny("roberta"), model_class="AlbertModel")


def test_missing_head_of_a_task_is_no_harm(tiny: Tiny) -> None:
    assert load_checkpoint(tiny("bert"), model_class="BertForMaskedLM").vocabulary == 14


def test_weights_of_another_shape_are_refused(own: Tiny) -> None:
    folder = own("bert")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "intermediate_size": 8}))
    with pytest.raises(ValueError, match=r"weights of bert must fit BertModel, .* another shape"):
        load_checkpoint(folder)


# What cannot be read


def test_package_is_found_without_being_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "packaged"
    save = package / "model"
    save.mkdir(parents=True)
    (save / "config.json").write_text("{}")
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    assert find_checkpoint("packaged:model").path == save
    assert "packaged" not in sys.modules


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no/such/folder", r"a file or PACKAGE:FOLDER \(nothing is downloaded\), got no/"),
        ("bert-base-uncased", "nothing is downloaded"),
        ("no_such_package:model", "installed package, got no_such_package"),
        ("numpy:no_such_folder", "a folder inside package numpy, got no_such_folder"),
        ("numpy:linalg", "or with the study.json of a training run, got numpy:linalg"),
        ("numpy:..", r"a folder inside package numpy, got \.\."),
        ("numpy:../numpy", "a folder with a config.json"),
        ("numpy:/etc", "a folder inside package numpy, got /etc"),
        ("numpy:linalg/../../..", "a folder inside package numpy"),
        ("math:x", "a folder inside package math, got x"),
    ],
)
def test_checkpoints_that_are_not_there_are_refused(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        find_checkpoint(name)


@pytest.mark.parametrize("kind", ["fnet", "mamba"])
def test_network_without_attention_is_refused(kind: str, tiny: Tiny) -> None:
    with pytest.raises(ValueError, match="checkpoint must have attention, got none in"):
        maps_of(tiny(kind), [[1, 2]], 1)


def test_missing_weights_and_broken_configuration_are_refused(own: Tiny) -> None:
    folder = own("bert")
    (folder / "model.safetensors").unlink()
    with pytest.raises(ValueError, match=r"weights of bert cannot be read: .*no file named"):
        load_checkpoint(folder)
    (folder / "config.json").write_text("{")
    with pytest.raises(ValueError, match=r"config.json of bert cannot be used: .*JSON"):
        load_checkpoint(folder)


def test_missing_tokenizer_is_refused_with_a_way_out(own: Tiny) -> None:
    folder = own("bert")
    (folder / "vocab.txt").unlink()
    checkpoint = load_checkpoint(folder)
    with pytest.raises(
        ValueError, match=r"must hold a tokenizer .* got none in bert: .*--ids FILE"
    ):
        load_tokenizer(checkpoint)
    assert load_tokenizer(checkpoint, tokens="ids").encode("4 5") == [4, 5]


def test_unreadable_tokenizer_is_refused_with_a_way_out(own: Tiny) -> None:
    folder = own("bert")
    (folder / "tokenizer.json").write_text("{")
    with pytest.raises(ValueError, match=r"tokenizer of bert cannot be read; .*--ids FILE.*: "):
        load_tokenizer(load_checkpoint(folder))


def test_missing_framework_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    monkeypatch.delitem(sys.modules, "fourierkernels.checkpoints.load")
    with pytest.raises(ImportError, match=r"pip install 'fourierkernels\[heads\]'"):
        importlib.import_module("fourierkernels.checkpoints.load")


# Published checkpoints


@needs_minilm
def test_minilm_tokenizer_frames_texts_as_bert_does() -> None:
    tokenizer = load_tokenizer(load_checkpoint(MINILM))
    assert (tokenizer.prefix, tokenizer.suffix, tokenizer.limit) == ((101,), (102,), 512)
    assert tokenizer.encode("a") == [1037]


@needs_rxnmapper
def test_rxnmapper_smiles_tokens_equal_those_of_its_own_code() -> None:
    folder = find_checkpoint(RXNMAPPER).path
    vocabulary = (folder / "vocab.txt").read_text().split("\n")
    tokenizer = load_tokenizer(load_checkpoint(RXNMAPPER), tokens="smiles")
    tokens = [vocabulary[i] for i in tokenizer.encode("CC(=O)Cl.[NH4+]>>CC(N)=O")]
    # rxnmapper.tokenization_smiles.BasicSmilesTokenizer().tokenize of the same string
    assert " ".join(tokens) == "C C ( = O ) Cl . [NH4+] >> C C ( N ) = O"
    assert [vocabulary[i] for i in (*tokenizer.prefix, *tokenizer.suffix)] == ["[CLS]", "[SEP]"]


@needs_rxnmapper
def test_rxnmapper_gives_twelve_calls_of_its_one_layer() -> None:
    checkpoint = load_checkpoint(RXNMAPPER)
    window = next(head_samples(checkpoint, [[12, 16, 16, 13]]))
    assert window.maps.shape == (12, 8, 4, 4)


@needs_fracast
def test_attention_free_package_is_refused_whichever_way_it_is_asked() -> None:
    from fracast._core.model import FracastCore

    place = find_checkpoint("fracast:weights/model.safetensors").path
    with pytest.raises(
        ValueError, match=r"cannot be used \(name its class: --model-class\): .*model_type"
    ):
        load_checkpoint("fracast:weights")
    with pytest.raises(ValueError, match="model_class must be named for a file of weights"):
        load_checkpoint("fracast:weights/model.safetensors")
    config = json.loads((place.parent / "config.json").read_text())
    with pytest.raises(ValueError, match="config must give the size of the images"):
        load_checkpoint(
            "fracast:weights/model.safetensors",
            model_class="fracast._core.model:FracastCore",
            config={"cfg": config},
            random_weights=True,
        )
    tensors = {
        name.removeprefix("core."): tensor
        for name, tensor in read_tensors(place).items()
        if name.startswith("core.")
    }
    model = FracastCore(config).eval()
    load_exactly(model, tensors)
    series = torch.zeros(1, 1, model.W)
    with pytest.raises(
        ValueError, match="model must have attention that is recognised, got none in FracastCore"
    ):
        attention_calls(model, series, torch.ones_like(series), torch.zeros_like(series))
