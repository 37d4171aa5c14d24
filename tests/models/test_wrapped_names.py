"""Files of training scripts and of Lightning: the same tensors, under other names and entries."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from fourierkernels.models.tensor_files import read_tensors, without_wrappers


@pytest.fixture
def layer() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))


PREFIXES = ["module.", "_orig_mod.", "model.", "net.", "model._orig_mod.", "module.model.net."]


@pytest.mark.parametrize("prefix", PREFIXES)
def test_prefix_of_training_is_taken_off(prefix: str, layer: nn.Module) -> None:
    own = layer.state_dict()
    wrapped = {f"{prefix}{name}": tensor for name, tensor in own.items()}
    assert without_wrappers(wrapped, own) == own


@pytest.mark.parametrize("prefix", PREFIXES)
def test_prefix_that_is_the_network_s_own_stays(prefix: str, layer: nn.Module) -> None:
    own = {f"{prefix}{name}": tensor for name, tensor in layer.state_dict().items()}
    assert without_wrappers(own, own) == own
    twice = {f"model.{name}": tensor for name, tensor in own.items()}
    assert without_wrappers(twice, own) == own


def test_other_tensors_of_a_module_keep_their_names_and_are_not_dropped(layer: nn.Module) -> None:
    own = layer.state_dict()
    wrapped = {f"model.{name}": tensor for name, tensor in own.items()}
    assert set(without_wrappers({**wrapped, "loss.weight": torch.ones(2)}, own)) == {
        *own,
        "loss.weight",
    }


def test_names_that_would_meet_are_left_alone(layer: nn.Module) -> None:
    both = layer.state_dict() | {f"model.{n}": t for n, t in layer.state_dict().items()}
    assert without_wrappers(both, layer.state_dict()) == both
    one = {"0.bias": torch.zeros(3), **{f"model.{n}": t for n, t in layer.state_dict().items()}}
    assert set(without_wrappers(one, layer.state_dict())) == set(one)


@pytest.mark.parametrize("entry", ["model", "state_dict", "model_state_dict", "module", "net"])
def test_entry_of_a_training_dictionary_is_read(
    entry: str, layer: nn.Module, tmp_path: Path
) -> None:
    optimizer = torch.optim.Adam(layer.parameters())
    (layer(torch.ones(2)).sum()).backward()
    optimizer.step()
    content = {
        "epoch": 3,
        "global_step": 7,
        "pytorch-lightning_version": "2.5.0",
        entry: layer.state_dict(),
        "optimizer_states": [optimizer.state_dict()],
        "lr_schedulers": [],
        "hyper_parameters": {"lr": 0.1},
    }
    torch.save(content, tmp_path / "last.ckpt")
    found = read_tensors(tmp_path / "last.ckpt")
    assert all(torch.equal(found[name], tensor) for name, tensor in layer.state_dict().items())


def test_entry_of_that_name_that_holds_something_else_is_passed_over(
    layer: nn.Module, tmp_path: Path
) -> None:
    own = layer.state_dict()
    for content in (
        {"model": {"width": 3}, "state_dict": own},
        {"model": {}, "module": {"model": own, "step": 1}},
        {"net": {"model": {"state_dict": own, "step": 1}, "step": 1}, "step": 1},
    ):
        torch.save(content, tmp_path / "last.ckpt")
        assert read_tensors(tmp_path / "last.ckpt").keys() == own.keys()
    deep: dict[str, Any] = {"step": 1, "model": own}
    for _ in range(400):
        deep = {"model": deep, "step": 1}
    torch.save(deep, tmp_path / "last.ckpt")
    with pytest.raises(ValueError, match="must hold a table of tensors, got dict of model, step"):
        read_tensors(tmp_path / "last.ckpt")


def test_dictionary_without_a_network_says_what_it_holds(tmp_path: Path) -> None:
    torch.save({"epoch": 3, "weights": []}, tmp_path / "last.ckpt")
    with pytest.raises(ValueError, match=r"last.ckpt must hold a table .* got dict of epoch, wei"):
        read_tensors(tmp_path / "last.ckpt")


def test_names_are_texts(tmp_path: Path) -> None:
    torch.save({"model": {0: torch.ones(1)}}, tmp_path / "last.ckpt")
    with pytest.raises(ValueError, match=r"must hold a table of tensors, got dict of model$"):
        read_tensors(tmp_path / "last.ckpt")


def test_class_that_a_file_asks_for_is_named(tmp_path: Path) -> None:
    content = {"state_dict": {}, "hyper_parameters": Path("settings")}
    torch.save(content, tmp_path / "last.ckpt")
    message = r"would have to run code \(pathlib\.[\w.]+\); in the code"
    with pytest.raises(ValueError, match=message):
        read_tensors(tmp_path / "last.ckpt")
