"""Rates over a run: their shape, and torch's own where it has the same one."""

import math
from itertools import pairwise

import pytest
import torch
from torch import nn

from fourierkernels.studies.engine.optimisers import create_optimiser, create_schedule
from fourierkernels.studies.engine.recipe import SCHEDULES, Recipe

STEPS, WARMUP = 50, 10


def rates(schedule: str, warmup: int = WARMUP) -> list[float]:
    recipe = Recipe(steps=STEPS, batch=1, learning_rate=2.0, schedule=schedule, warmup=warmup)
    optimiser = create_optimiser(nn.Linear(2, 2), recipe)
    plan, found = create_schedule(optimiser, recipe), []
    for _ in range(STEPS):
        found.append(optimiser.param_groups[0]["lr"])
        optimiser.step()
        plan.step()
    return found


def published() -> list[float]:
    """The rates of the loop in lmtool-fwp's ``src/train.py``, with torch's own cosine."""
    optimiser = torch.optim.Adam(nn.Linear(2, 2).parameters(), lr=2.0)
    found = []
    for train_step in range(1, STEPS + 1):
        found.append(optimiser.param_groups[0]["lr"])
        optimiser.step()
        if train_step < WARMUP:
            optimiser.param_groups[0]["lr"] = 2.0 * train_step / WARMUP
        else:
            cosine = (1 + math.cos(math.pi * train_step / STEPS)) / 2  # its closed form
            optimiser.param_groups[0]["lr"] = 2.0 * cosine
    return found


def test_transformer_xl_is_the_published_loop() -> None:
    assert rates("transformer_xl") == pytest.approx(published(), rel=1e-14)


@pytest.mark.parametrize("name", sorted(SCHEDULES.keys() - {"transformer_xl", "deit", "fairseq"}))
def test_warmup_rises_by_equal_steps_to_the_largest_rate(name: str) -> None:
    found = rates(name)
    rise = [b - a for a, b in pairwise(found[: WARMUP + 1])]
    assert rise == pytest.approx([2.0 / (WARMUP + 1)] * WARMUP)
    assert max(found) == pytest.approx(2.0)


def test_cosine_is_that_of_torch() -> None:
    optimiser = torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=2.0)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, STEPS)
    found = []
    for _ in range(STEPS):
        found.append(optimiser.param_groups[0]["lr"])
        optimiser.step()
        cosine.step()
    assert rates("cosine", warmup=0) == pytest.approx(found, rel=1e-12)


def test_inverse_root_is_that_of_the_transformer() -> None:
    found = rates("inverse_root")
    assert found[40] == pytest.approx(2.0 * math.sqrt(WARMUP / 40))


def test_fairseq_is_its_published_loop() -> None:
    """``step_update`` of ``inverse_square_root_schedule.py``, called after each update."""
    step, factor = 2.0 / WARMUP, 2.0 * WARMUP**0.5
    expected = [n * step if n < WARMUP else factor * n**-0.5 for n in range(STEPS)]
    assert rates("fairseq") == pytest.approx(expected, rel=1e-14)


def test_decay_of_adamw_is_that_of_fairseq_s_adam() -> None:
    """``optim/adam.py``, lines 229 to 232: p (1 - rate decay), whatever the gradients."""
    recipe = Recipe(
        steps=1,
        batch=1,
        learning_rate=5e-4,
        optimiser="adamw",
        weight_decay=1e-4,
        decaying="all",
    )
    model = nn.Linear(2, 2)
    before = [p.detach().clone() for p in model.parameters()]
    optimiser = create_optimiser(model, recipe)
    for _ in range(100):
        for p in model.parameters():
            p.grad = torch.zeros_like(p)
        optimiser.step()
    for old, new in zip(before, model.parameters(), strict=True):
        torch.testing.assert_close(new.detach(), old * (1 - 5e-8) ** 100)


def test_linear_ends_at_zero_after_the_last_update() -> None:
    found = rates("linear")
    assert found[-1] == pytest.approx(2.0 / (STEPS - WARMUP))


def test_schedule_can_be_added_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SCHEDULES, "halves", lambda done, warmup, steps: 0.5**done)
    assert rates("halves")[:3] == [2.0, 1.0, 0.5]


def test_vectors_do_not_decay() -> None:
    recipe = Recipe(steps=1, batch=1, learning_rate=0.1, optimiser="adamw", weight_decay=0.5)
    model = nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2))
    groups = create_optimiser(model, recipe).param_groups
    assert [(len(g["params"]), g["weight_decay"]) for g in groups] == [(1, 0.5), (3, 0.0)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": 0}, "steps must be at least 1, got 0"),
        ({"batch": 2.5}, "batch must be an integer, got 2.5"),
        ({"learning_rate": 0.0}, "learning_rate must be finite and greater than 0, got 0"),
        ({"schedule": "step"}, "schedule must be one of .*, got 'step'"),
        ({"optimiser": "sgd"}, "optimiser must be one of adam, adamw, radam, got 'sgd'"),
        ({"precision": "float8"}, "precision must be one of .*, got 'float8'"),
        ({"label_smoothing": 1.0}, r"label_smoothing must be in \[0, 1\), got 1.0"),
        ({"accumulation": 3}, "accumulation must divide batch = 4, got 3"),
        ({"clip": -1.0}, "clip must be finite and greater than 0, got -1"),
        ({"patience": 0}, "patience must be at least 1, got 0"),
        ({"order": "random"}, "order must be one of streams, shuffled, got 'random'"),
    ],
)
def test_bad_settings_are_named(changes: dict[str, object], message: str) -> None:
    settings: dict[str, object] = {"steps": 2, "batch": 4, "learning_rate": 0.1} | changes
    with pytest.raises((ValueError, TypeError), match=message):
        Recipe(**settings)  # type: ignore[arg-type]


def test_recipe_survives_json() -> None:
    recipe = Recipe(steps=2, batch=4, learning_rate=0.1, betas=(0.8, 0.95), clip=0.5)
    assert Recipe.from_json(recipe.as_json()) == recipe
    with pytest.raises(ValueError, match="known settings only, got colour"):
        Recipe.from_json(recipe.as_json() | {"colour": 1})
