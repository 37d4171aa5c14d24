"""States of optimisers and random numbers survive the disk to the bit, and nothing else does."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from fourierkernels.models.tensor_files import read_metadata, read_tensors, write_tensors
from fourierkernels.studies.engine.optimisers import create_optimiser, create_schedule
from fourierkernels.studies.engine.recipe import Recipe
from fourierkernels.studies.engine.state import (
    pack_optimiser,
    pack_random,
    restore_random,
    unpack_optimiser,
)

RECIPE = Recipe(steps=9, batch=1, learning_rate=0.1, schedule="cosine", warmup=3, clip=0.3)


@pytest.fixture(autouse=True)
def _randomness_as_it_was() -> Iterator[None]:
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
    yield
    random.setstate(states[0])
    np.random.set_state(states[1])  # noqa: NPY002
    torch.set_rng_state(states[2])


def trained(recipe: Recipe = RECIPE) -> tuple[nn.Module, torch.optim.Optimizer, object]:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3))
    optimiser = create_optimiser(model, recipe)
    schedule = create_schedule(optimiser, recipe)
    for _ in range(2):
        model(torch.randn(4, 3)).square().sum().backward()
        optimiser.step()
        schedule.step()
    return model, optimiser, schedule


def through_the_disk(folder: Path, tensors: dict, texts: dict) -> tuple[dict, dict]:
    write_tensors(folder / "x.safetensors", tensors, texts)
    return read_tensors(folder / "x.safetensors"), read_metadata(folder / "x.safetensors")


@pytest.mark.parametrize("optimiser", ["adam", "adamw"])
def test_optimiser_survives_the_disk(optimiser: str, tmp_path: Path) -> None:
    _, one, schedule = trained(Recipe(**{**vars(RECIPE), "optimiser": optimiser}))
    packed = pack_optimiser(one.state_dict(), schedule.state_dict())  # type: ignore[attr-defined]
    state, rates = unpack_optimiser(*through_the_disk(tmp_path, *packed), one.state_dict())
    before = one.state_dict()
    assert state["param_groups"] == before["param_groups"]
    for number, values in before["state"].items():
        for name, tensor in values.items():
            assert torch.equal(state["state"][number][name], tensor)
            assert state["state"][number][name].dtype == tensor.dtype
    assert rates == {**schedule.state_dict(), "lr_lambdas": [None] * 2}  # type: ignore[attr-defined]


SPOILED: dict[str, Callable[[dict, dict], object]] = {
    "no groups": lambda tensors, texts: texts.pop("groups"),
    "no JSON": lambda tensors, texts: texts.update(groups="import os"),
    "no list": lambda tensors, texts: texts.update(groups="3"),
    "fewer groups": lambda tensors, texts: texts.update(groups="[]"),
    "other options": lambda tensors, texts: texts.update(groups='[{"lr": 1}, {"lr": 1}]'),
    "other names": lambda tensors, texts: tensors.update({"x.step": torch.ones(())}),
}


@pytest.mark.parametrize("spoil", SPOILED.values(), ids=SPOILED)
def test_foreign_state_is_one_clear_error(spoil: Callable[[dict, dict], object]) -> None:
    _, one, schedule = trained()
    tensors, texts = pack_optimiser(one.state_dict(), schedule.state_dict())  # type: ignore[attr-defined]
    spoil(tensors, texts)
    with pytest.raises(ValueError, match="optimiser state must be that of this model and recipe"):
        unpack_optimiser(tensors, texts, one.state_dict())


def draws() -> tuple[list[float], list[float], list[float]]:
    return (
        [random.random(), random.gauss(0, 1)],
        np.random.normal(size=3).tolist(),  # noqa: NPY002
        torch.randn(3).tolist(),
    )


@pytest.mark.parametrize("rows", [1, 3])
def test_random_numbers_go_on_where_they_were(rows: int, tmp_path: Path) -> None:
    """Also from a row of the states of several processes, a view into a larger tensor."""
    draws()
    together = {name: torch.stack([t] * rows) for name, t in pack_random().items()}
    expected = draws()
    back, _ = through_the_disk(tmp_path, together, {})
    restore_random({name: tensor[-1] for name, tensor in back.items()})
    assert draws() == expected


def test_state_of_another_device_is_refused() -> None:
    with pytest.raises(ValueError, match=r"got .* it is that of another kind of device"):
        restore_random({**pack_random(), "tpu": torch.ones(1)})
