"""A checkpoint is found once and loaded once; what was found and loaded is all that travels."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import transformers
from batches import IDS, PAIRS, recorded_calls
from tiny_models_of_ours import language

from fourierkernels import checkpoints
from fourierkernels.checkpoints import Checkpoint, find_checkpoint, load_checkpoint

Tiny = Callable[[str], Path]

TASKS = {
    "bert": "BertForMaskedLM",
    "gpt2": "GPT2LMHeadModel",
    "bart": "BartForConditionalGeneration",
    "t5": "T5ForConditionalGeneration",
    "llama": "LlamaForCausalLM",
    "vit": "ViTForImageClassification",
}


@pytest.fixture
def with_head(tmp_path: Path, tiny: Tiny) -> Tiny:
    """Save a tiny network together with the head for its task."""

    def save(kind: str) -> Path:
        config = transformers.AutoConfig.from_pretrained(tiny(kind))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(4)
            model = getattr(transformers, TASKS[kind])(config)
        model.save_pretrained(tmp_path / kind)
        return tmp_path / kind

    return save


def equal(one: Checkpoint, other: Checkpoint) -> bool:
    first, second = one.model.state_dict(), other.model.state_dict()
    return first.keys() == second.keys() and all(torch.equal(first[n], second[n]) for n in first)


def test_room_is_imported_without_a_framework() -> None:
    code = (
        "import sys; from fourierkernels.checkpoints import Checkpoint, find_checkpoint, read_texts"
        "\nprint([m for m in ('torch', 'transformers', 'PIL') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_public_names_are_there() -> None:
    for name in checkpoints.__all__:
        assert getattr(checkpoints, name).__module__.startswith("fourierkernels.checkpoints.")
        assert name in dir(checkpoints)
    with pytest.raises(AttributeError, match="no attribute 'found'"):
        _ = checkpoints.found


def test_what_was_found_is_not_looked_for_again(tiny: Tiny) -> None:
    files = find_checkpoint(str(tiny("bert")))
    assert find_checkpoint(files) is files
    assert (files.name, files.path) == (str(tiny("bert")), tiny("bert"))
    checkpoint = load_checkpoint(files)
    assert checkpoint.files is files
    assert (checkpoint.name, checkpoint.folder) == (files.name, files.path)


def test_class_for_the_task_is_the_one_that_the_config_names(with_head: Tiny, own: Tiny) -> None:
    assert find_checkpoint(with_head("bert")).task_class == "BertForMaskedLM"
    assert find_checkpoint(with_head("bert") / "model.safetensors").task_class is None
    config = own("bert") / "config.json"
    for content in ('{"architectures": ["NoModel"]}', '{"architectures": []}', "{}"):
        config.write_text(content)
        assert find_checkpoint(config.parent).task_class is None
    config.write_text("{")
    with pytest.raises(ValueError, match=r"config of config\.json must be JSON"):
        _ = find_checkpoint(config.parent).task_class


@pytest.mark.parametrize("part", [None, "decoder"])
@pytest.mark.parametrize("kind", TASKS)
def test_random_weights_do_not_depend_on_the_head_for_the_task(
    kind: str, part: str | None, with_head: Tiny
) -> None:
    if part is not None and kind not in ("bart", "t5"):
        part = None
    folder = with_head(kind)
    expected = load_checkpoint(folder, part=part, random_weights=True, seed=3)
    for options in ({}, {"task_head": True}):
        loaded = load_checkpoint(folder, part=part, **options)
        again = loaded.with_random_weights(3)
        assert equal(again, expected)
        assert equal(loaded.without_task_head().with_random_weights(3), expected)
        assert not equal(loaded.with_random_weights(4), expected)
        assert (again.files, again.reads) == (loaded.files, loaded.reads)


def test_random_weights_keep_the_class_that_was_asked_for(with_head: Tiny) -> None:
    folder = with_head("bert")
    options = {"model_class": "BertForMaskedLM", "random_weights": True, "seed": 3}
    expected = load_checkpoint(folder, **options)
    loaded = load_checkpoint(folder, model_class="BertForMaskedLM", task_head=True)
    assert type(loaded.with_random_weights(3).model).__name__ == "BertForMaskedLM"
    assert equal(loaded.with_random_weights(3), expected)
    assert loaded.without_task_head() is loaded


def test_files_are_drawn_anew_too(saved: Callable[..., Checkpoint]) -> None:
    loaded = saved(language())
    assert loaded.files is not None
    expected = load_checkpoint(loaded.files.path, random_weights=True, seed=3)
    assert equal(loaded.with_random_weights(3), expected)
    assert loaded.without_task_head() is loaded


@pytest.mark.parametrize("kind", TASKS)
def test_heads_inside_a_network_with_a_task_are_those_of_the_network_alone(
    kind: str, with_head: Tiny, pictures: list[Path]
) -> None:
    part = "cross" if kind in ("bart", "t5") else None
    folder, items = with_head(kind), {"vit": pictures, "bart": PAIRS, "t5": PAIRS}.get(kind, IDS)
    alone = load_checkpoint(folder, part=part)
    tasked = load_checkpoint(folder, part=part, task_head=True)
    assert type(tasked.model).__name__ == TASKS[kind]
    inside = tasked.without_task_head()
    assert inside.limit == alone.limit
    assert inside.start == alone.start
    for one, other in zip(recorded_calls(inside, items), recorded_calls(alone, items), strict=True):
        assert one.name == other.name
        assert torch.equal(one.maps, other.maps)


def test_task_head_that_the_weights_lack_is_told(tiny: Tiny, own: Tiny) -> None:
    config = own("bert") / "config.json"
    config.write_text(config.read_text().replace("BertModel", "BertForMaskedLM"))
    loaded = load_checkpoint(config.parent, task_head=True)
    assert any(name.startswith("cls.") for name in loaded.untrained)
    assert load_checkpoint(tiny("bert"), task_head=True).without_task_head().untrained == ()
