"""Models as single files: what is read is what was written, and nothing else is read."""

import json
import pickle  # noqa: TID251 (to write what must be refused)
import zipfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import pytest
import torch
from payload import Payload
from tiny_models import TINY, encoder_config, language, translation
from torch import nn

from fourierkernels import models
from fourierkernels.models import MODELS, load_model, save_model
from fourierkernels.models.saved import Model, build_model
from fourierkernels.models.tensor_files import read_metadata, read_tensors, write_tensors


def some(name: str) -> nn.Module:
    extra = {
        "Encoder": lambda: models.Encoder(encoder_config()),
        "EncoderClassifier": lambda: models.EncoderClassifier(encoder_config(), classes=4),
    }
    tiny = {type(build()).__name__: build for build in (row.build for row in TINY.values())}
    return (tiny | extra)[name]()


@pytest.mark.parametrize("name", MODELS)
def test_model_read_from_a_file_is_the_one_that_was_written(name: str, tmp_path: Path) -> None:
    model = some(name)
    save_model(model, tmp_path / "model.safetensors")
    again = load_model(tmp_path / "model.safetensors")
    assert type(again) is type(model)
    assert not again.training
    assert MODELS[name].find(again) == MODELS[name].find(model)
    expected, found = model.state_dict(), again.state_dict()
    assert expected.keys() == found.keys()
    assert all(torch.equal(found[key], value) for key, value in expected.items())
    assert [path.name for path in tmp_path.iterdir()] == ["model.safetensors"]


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", MODELS)
def test_model_is_read_in_the_precision_in_which_it_was_written(
    name: str, dtype: torch.dtype, tmp_path: Path
) -> None:
    model = some(name).to(dtype)
    with torch.no_grad():  # numbers that the default precision does not have
        for parameter in model.parameters():
            parameter.mul_(1 + 1e-9)
    save_model(model, tmp_path / "model.safetensors")
    again = load_model(tmp_path / "model.safetensors")
    expected, found = model.state_dict(), again.state_dict()
    assert {key: part.dtype for key, part in found.items()} == {
        key: part.dtype for key, part in expected.items()
    }
    assert all(torch.equal(found[key], part) for key, part in expected.items())
    tables = dict(again.named_buffers())
    assert all(torch.equal(tables[key], part) for key, part in model.named_buffers())


def test_one_tensor_in_another_precision_stays_so(tmp_path: Path) -> None:
    model = language("fourier").bfloat16()
    for block in model.blocks:
        block.mixer.log_radius.data = block.mixer.log_radius.data.float()
    save_model(model, tmp_path / "m.safetensors")
    again = load_model(tmp_path / "m.safetensors")
    assert again.blocks[0].mixer.log_radius.dtype is torch.float32
    assert again.blocks[0].feed_forward.widen.weight.dtype is torch.bfloat16
    assert again.positions.dtype is torch.bfloat16


def test_a_model_in_double_precision_answers_the_same_to_the_last_bit(tmp_path: Path) -> None:
    """Once weights came back in float32, and 3.6e-8 was lost."""
    text = torch.arange(12)[None]
    for make in (lambda: language().double(), _built_in_double):
        model = make().eval()
        save_model(model, tmp_path / "m.safetensors")
        again = load_model(tmp_path / "m.safetensors")
        assert torch.equal(again.log_probabilities(text), model.log_probabilities(text))


def _built_in_double() -> nn.Module:
    torch.set_default_dtype(torch.float64)
    try:
        return language()
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize(("former", "shape"), [(True, "feature"), (False, "scalar")])
def test_options_of_earlier_versions_are_read(former: bool, shape: str, tmp_path: Path) -> None:
    model = language(mixer_options={"radius": 1.5, "radius_shape": shape})
    config = asdict(model.config) | {"mixer_options": {"radius": 1.5, "radius_per_feature": former}}
    head = {"fourierkernels_class": "LanguageModel", "config": json.dumps(config)}
    write_tensors(tmp_path / "m.safetensors", model.state_dict(), head)
    again = load_model(tmp_path / "m.safetensors")
    assert again.config == model.config
    text = torch.arange(12)[None]
    assert torch.equal(again.states(text), model.eval().states(text))


def test_radii_of_earlier_versions_are_read(tmp_path: Path) -> None:
    """One radius for all had no dimension."""
    model = language(mixer_options={"radius": 1.5}).eval()
    save_model(model, tmp_path / "new.safetensors")
    head = read_metadata(tmp_path / "new.safetensors")
    former = {k: v.squeeze() if k.endswith("radius") else v for k, v in model.state_dict().items()}
    assert former["blocks.0.mixer.log_radius"].shape == ()
    write_tensors(tmp_path / "former.safetensors", former, head)
    again = load_model(tmp_path / "former.safetensors")
    text = torch.arange(12)[None]
    assert torch.equal(again.states(text), model.states(text))


@pytest.mark.parametrize("learn", [True, False])
@pytest.mark.parametrize("shape", ["scalar", "head"])
def test_a_radius_of_an_ablation_is_read_back(shape: str, learn: bool, tmp_path: Path) -> None:
    options = {"radius": 1.5, "radius_shape": shape, "learn_radius": learn}
    model = language(mixer_options=options)
    plain = language(mixer="softmax")
    radii = 2 * (2 if shape == "head" else 1)  # of two layers with two heads
    extra = models.count_parameters(model) - models.count_parameters(plain)
    assert extra == (radii if learn else 0)
    save_model(model, tmp_path / "m.safetensors")
    again = load_model(tmp_path / "m.safetensors")
    assert again.config.mixer_options == options
    for block in again.blocks:
        torch.testing.assert_close(block.mixer.radius, torch.full_like(block.mixer.radius, 1.5))
        assert isinstance(block.mixer.log_radius, nn.Parameter) == learn


def test_a_config_of_an_earlier_version_has_fewer_fields(tmp_path: Path) -> None:
    """Rates of dropout that it does not have are today's, which no evaluated model shows."""
    model = language()
    new = ("attention_dropout", "feed_forward_dropout", "output_dropout", "start")
    config = {key: value for key, value in asdict(model.config).items() if key not in new}
    head = {"fourierkernels_class": "LanguageModel", "config": json.dumps(config)}
    write_tensors(tmp_path / "m.safetensors", model.state_dict(), head)
    again, text = load_model(tmp_path / "m.safetensors"), torch.arange(12)[None]
    assert torch.equal(again.log_probabilities(text), model.eval().log_probabilities(text))


@pytest.mark.parametrize("preset", ["fourier", "dft_both"])
def test_a_translation_model_of_an_earlier_version_is_read(preset: str, tmp_path: Path) -> None:
    """Places of mixers and lengths of sources were not options; alone, a source had its own."""
    model = translation(preset)
    config = asdict(model.config)
    for name in ("attention_layers", "decoder_attention_layers", "reader_options"):
        config.pop(name)
    config.pop("source_lengths")
    head = {"fourierkernels_class": "TranslationModel", "config": json.dumps(config)}
    write_tensors(tmp_path / "m.safetensors", model.state_dict(), head)
    again = load_model(tmp_path / "m.safetensors")
    assert again.config == model.config
    text = torch.arange(3, 12)[None]
    assert torch.equal(again(text, text), model.eval()(text, text))


def test_tied_weights_are_tied_again(tmp_path: Path) -> None:
    save_model(
        models.PretrainingEncoder(encoder_config(tied_output=True)), tmp_path / "m.safetensors"
    )
    again = load_model(tmp_path / "m.safetensors")
    assert again.output.weight is again.encoder.words.weight


def test_sizes_that_are_tuples_are_tuples_again(tmp_path: Path) -> None:
    save_model(language(cutoffs=(8, 15)), tmp_path / "m.safetensors")
    assert load_model(tmp_path / "m.safetensors").config.cutoffs == (8, 15)


def test_failed_writing_leaves_the_file_that_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "m.safetensors"
    save_model(language(), file)
    before = file.read_bytes()

    def fail(self: Path, content: bytes) -> int:
        with self.open("wb") as half:
            half.write(content[: len(content) // 2])
        raise OSError("disk full")

    monkeypatch.setattr(Path, "write_bytes", fail)
    with pytest.raises(OSError, match="disk full"):
        save_model(translation(), file)
    assert file.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["m.safetensors"]


@dataclass(frozen=True)
class _ScaleConfig:
    sizes: tuple[int, ...] = (2, 3)


class _Scale(nn.Module):
    def __init__(self, config: _ScaleConfig) -> None:
        super().__init__()
        self.config = config
        self.scale = nn.Parameter(torch.randn(config.sizes))


def test_a_model_from_outside_is_written_and_read_by_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(MODELS, "_Scale", Model(_Scale, _ScaleConfig))
    model = _Scale(_ScaleConfig((4, 1)))
    save_model(model, tmp_path / "m.safetensors")
    again = load_model(tmp_path / "m.safetensors")
    assert again.config == model.config
    assert torch.equal(again.scale, model.scale)


def test_only_models_of_the_package_are_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"model must be one of .*, got 'Linear'"):
        save_model(nn.Linear(2, 2), tmp_path / "m.safetensors")

    class LanguageModel(models.LanguageModel):
        pass

    with pytest.raises(ValueError, match="model must be a model of fourierkernels, got"):
        save_model(LanguageModel(language().config), tmp_path / "m.safetensors")
    with pytest.raises(ValueError, match=r"path must end in \.safetensors, got m\.pt"):
        save_model(language(), tmp_path / "m.pt")
    model = language()
    model.config = replace(model.config, mixer_options={"radius": 1j})
    with pytest.raises(ValueError, match=r"config must fit into JSON, got .*complex"):
        save_model(model, tmp_path / "m.safetensors")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ({}, r"m.safetensors must name its class and config"),
        ({"fourierkernels_class": "os", "config": "{}"}, "model_class must be one of .* got 'os'"),
        ({"fourierkernels_class": "LanguageModel", "config": "{"}, "must be JSON, got"),
        ({"fourierkernels_class": "LanguageModel", "config": "[1]"}, "JSON object, got list"),
        ({"fourierkernels_class": "LanguageModel", "config": "[" * 10**5}, "must be JSON, got"),
        ({"fourierkernels_class": "LanguageModel", "config": "{}"}, "config must fit Lang"),
    ],
)
def test_heads_of_other_files_are_refused(
    head: dict[str, str], message: str, tmp_path: Path
) -> None:
    write_tensors(tmp_path / "m.safetensors", {"x": torch.zeros(1)}, head)
    with pytest.raises(ValueError, match=message):
        load_model(tmp_path / "m.safetensors")


@pytest.mark.parametrize(
    "change", [{"layers": -1}, {"dim": "wide"}, {"mixer": "os.system"}, {"color": 3}, {"heads": 3}]
)
def test_configs_that_describe_no_model_are_refused(change: dict[str, object]) -> None:
    config = {"vocabulary": 9, "dim": 8, "layers": 1, "heads": 2, "hidden": 8, "length": 8}
    build_model("LanguageModel", config)
    with pytest.raises(ValueError, match="config must fit LanguageModel, got"):
        build_model("LanguageModel", config | change)


def test_weights_of_other_sizes_than_the_config_are_refused(tmp_path: Path) -> None:
    model = language()
    head = {
        "fourierkernels_class": "LanguageModel",
        "config": json.dumps({**vars(model.config), "hidden": 8}),
    }
    write_tensors(tmp_path / "m.safetensors", model.state_dict(), head)
    with pytest.raises(ValueError, match=r"tensors of LanguageModel, got misshapen: blocks\.0\."):
        load_model(tmp_path / "m.safetensors")


# Files that must not be read


def lying(file: Path, length: int | None = None, shape: list[int] | None = None) -> None:
    """Write a .safetensors file whose head tells of other data than there is."""
    entry = {"dtype": "F32", "shape": shape or [2], "data_offsets": [0, 8]}
    head = json.dumps({"x": entry}).encode()
    size = len(head) if length is None else length
    file.write_bytes(size.to_bytes(8, "little") + head + bytes(8))


def test_safetensors_that_lie_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "m.safetensors"
    lying(file)
    assert read_tensors(file)["x"].shape == (2,)
    for lie in ({"length": 2**62}, {"length": 5}, {"shape": [2**40]}, {"shape": [2**62, 2**62]}):
        lying(file, **lie)
        for read in (read_tensors, read_metadata):
            with pytest.raises(ValueError, match=r"m\.safetensors must be a whole file of tensors"):
                read(file)


@pytest.mark.parametrize("keep", [0, 4, 100, -1])
def test_truncated_files_are_refused(keep: int, tmp_path: Path) -> None:
    save_model(language(), tmp_path / "m.safetensors")
    torch.save(language().state_dict(), tmp_path / "m.pt")
    for file in tmp_path.iterdir():
        file.write_bytes(file.read_bytes()[:keep])
        with pytest.raises(ValueError, match=r"m\.(pt|safetensors) must be a whole file of tens"):
            read_tensors(file)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("legacy", [True, False, None])
def test_no_variant_of_pickle_runs_code(protocol: int, legacy: bool | None, tmp_path: Path) -> None:
    file, target = tmp_path / "m.pt", tmp_path / "ran"
    content = {"weight": torch.zeros(2), "more": Payload(target)}
    if legacy is None:  # not written by torch at all
        file.write_bytes(pickle.dumps({"more": Payload(target)}, protocol=protocol))
    else:
        torch.save(
            content, file, pickle_protocol=protocol, _use_new_zipfile_serialization=not legacy
        )
    with pytest.raises(ValueError, match=r"m\.pt must "):
        read_tensors(file)
    assert not target.exists()


def test_compressed_archives_are_refused_before_they_are_unpacked(tmp_path: Path) -> None:
    torch.save({"weight": torch.zeros(1000, 1000)}, tmp_path / "plain.pt")
    with (
        zipfile.ZipFile(tmp_path / "plain.pt") as plain,
        zipfile.ZipFile(tmp_path / "bomb.pt", "w", zipfile.ZIP_DEFLATED) as bomb,
    ):
        for part in plain.namelist():
            bomb.writestr(part, plain.read(part))
    # torch itself would unpack it
    assert torch.load(tmp_path / "bomb.pt", weights_only=True)["weight"].shape == (1000, 1000)
    with pytest.raises(ValueError, match=r"bomb\.pt must be an uncompressed .* unpack to 4000"):
        read_tensors(tmp_path / "bomb.pt")


def test_archive_without_its_table_of_contents_is_refused_in_one_line(tmp_path: Path) -> None:
    torch.save({"weight": torch.zeros(2)}, tmp_path / "m.pt")
    content = (tmp_path / "m.pt").read_bytes()
    (tmp_path / "m.pt").write_bytes(content.replace(b"PK\x01\x02", b"XXXX", 1))
    with pytest.raises(ValueError, match=r"^m\.pt must be a whole file of tensors, got [^\n]*$"):
        read_tensors(tmp_path / "m.pt")


def test_programs_in_the_place_of_weights_are_refused(tmp_path: Path) -> None:
    torch.save({"weight": torch.zeros(2)}, tmp_path / "m.pt")
    assert read_tensors(tmp_path / "m.pt").keys() == {"weight"}
    with zipfile.ZipFile(tmp_path / "m.pt", "a") as archive:  # as torch.jit writes it
        archive.writestr("m/constants.pkl", b"\x80\x02).")
    with pytest.raises(ValueError, match=r"m\.pt must hold tensors only"):
        read_tensors(tmp_path / "m.pt")
