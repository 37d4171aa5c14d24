"""Configs of networks that would not fit into memory are refused before anything is built."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from fourierkernels.checkpoints import load_checkpoint, memory
from fourierkernels.checkpoints.memory import check_size

Tiny = Callable[[str], Path]
FREE = 20e9


@pytest.fixture(autouse=True)
def _memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_memory", lambda: FREE)


def change(folder: Path, **values: Any) -> Path:
    file = folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **values}))
    return folder


@pytest.mark.parametrize("random", [False, True], ids=["weights", "random"])
@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"num_hidden_layers": 10_000_000}, "got 10000000 layers of 16 features and 14 words"),
        ({"num_hidden_layers": 10**15}, r"about [\d,.]+ TB, of 20\.0 GB that may be used"),
        ({"hidden_size": 10**6}, "got 3 layers of 1000000 features"),
        ({"intermediate_size": 10**10}, "config of bert must be that of a network that fits"),
        ({"vocab_size": 10**10}, "and 10000000000 words"),
    ],
)
def test_huge_networks_are_refused(
    values: dict[str, Any], message: str, random: bool, own: Tiny
) -> None:
    with pytest.raises(ValueError, match=message):
        load_checkpoint(change(own("bert"), **values), random_weights=random)


def test_config_of_a_file_of_weights_is_looked_at_too(tmp_path: Path) -> None:
    torch.save({"a": torch.zeros(1)}, tmp_path / "model.bin")
    config = {"num_hidden_layers": 10_000_000, "hidden_size": 16}
    with pytest.raises(ValueError, match=r"config of model\.bin must be that of a network"):
        load_checkpoint(tmp_path / "model.bin", model_class="BertModel", config=config)


# Sizes like those of large published networks; the first is 2.8 GB in float32.
@pytest.mark.parametrize(
    "config",
    [
        {"n_layer": 36, "n_embd": 1280, "n_inner": None, "vocab_size": 50257},
        {
            "num_hidden_layers": 12,
            "num_hidden_groups": 1,
            "hidden_size": 4096,
            "intermediate_size": 16384,
            "vocab_size": 30000,
        },
        {"text_config": {"hidden_size": 512}, "vision_config": {"num_hidden_layers": 12}},
        {"depths": [2, 2, 18, 2], "hidden_sizes": [64, 128, 320, 512]},
        {"num_hidden_layers": True, "hidden_size": "huge", "vocab_size": None},
    ],
    ids=["gpt2-large", "albert-xxlarge", "nested", "pyramid", "not numbers"],
)
def test_networks_that_fit_pass(config: dict[str, Any]) -> None:
    check_size(config, "config.json")


def test_parts_of_a_network_count() -> None:
    with pytest.raises(ValueError, match="got 4000000000 layers"):
        check_size({"text_config": {"num_hidden_layers": 4 * 10**9}}, "clip")
