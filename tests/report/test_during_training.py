"""Distances logged while a model is trained, which is not changed by it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import nn

from fourierkernels import head_report
from fourierkernels.report import HeadDistances, layer_distances, log_heads

Tiny = Callable[[str], Path]
IDS = ["1 2 3 4 5", "6 7", "8 9 10"]


def trained(
    folder: Path, output: Path, logging: Callable[[Any], Any] | None = None
) -> tuple[Any, list[Any]]:
    """Train a tiny model with dropout for a few steps; return it and the Trainer's log."""
    transformers.set_seed(0)
    model = transformers.AutoModelForMaskedLM.from_pretrained(folder)
    ids = torch.randint(4, 14, (24, 6), generator=torch.Generator().manual_seed(1))
    rows = [{"input_ids": row, "labels": row} for row in ids]
    arguments = transformers.TrainingArguments(
        output, max_steps=6, per_device_train_batch_size=4, logging_steps=2, report_to=[],
        save_strategy="no", use_cpu=True, disable_tqdm=True, learning_rate=1e-2,
    )  # fmt: skip
    trainer = transformers.Trainer(model=model, args=arguments, train_dataset=rows)
    if logging is not None:
        trainer.add_callback(logging(trainer))
    trainer.train()
    return model, trainer.state.log_history


def test_trainer_logs_distances_and_trains_as_without(tiny: Tiny, tmp_path: Path) -> None:
    options = {"every": 2, "tokens": "ids", "metrics": ["jensen_shannon", "frobenius_per_sqrt_n"]}
    bare, history = trained(tiny("bert"), tmp_path)
    model, both = trained(tiny("bert"), tmp_path, lambda one: HeadDistances(one, IDS, **options))
    assert all(
        torch.equal(one, other)
        for one, other in zip(bare.state_dict().values(), model.state_dict().values(), strict=True)
    )
    losses = [
        [(row["step"], row["loss"]) for row in rows if "loss" in row] for rows in (history, both)
    ]
    assert losses[0] == losses[1]
    assert [step for step, _ in losses[0]] == [2, 4, 6]
    logged = [row for row in both if "heads/jensen_shannon/average" in row]
    assert [row["step"] for row in logged] == [2, 4, 6]
    now = layer_distances(model, IDS, tokens="ids", metrics=options["metrics"])
    assert {name: logged[-1][name] for name in now} == now
    assert len(now) == 2 * (3 + 1)
    assert logged[0]["heads/jensen_shannon/average"] != logged[-1]["heads/jensen_shannon/average"]


def test_layer_distances_are_those_of_the_report(tiny: Tiny) -> None:
    model = transformers.AutoModel.from_pretrained(tiny("bert"))
    found = layer_distances(model, IDS, tokens="ids")
    means = head_report(tiny("bert"), IDS, tokens="ids", baseline=False).summaries()["trained"]
    assert list(found.values()) == [*means.mean, means.layer_average]
    assert next(iter(found)) == "heads/frobenius_per_sqrt_n/layer_1"


def steps(model: nn.Module, count: int, **watched: Any) -> list[torch.Tensor]:
    """Take steps with dropout in a plain loop."""
    torch.manual_seed(2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    handle = log_heads(optimizer, model, **watched) if watched else None
    for step in range(count):
        optimizer.zero_grad()
        model(torch.randn(2, 5, 8)).square().mean().backward()
        optimizer.step()
        if handle is not None and step == 4:
            handle.remove()
    return [one.detach().clone() for one in model.parameters()]


def layer() -> nn.Module:
    torch.manual_seed(0)
    return nn.TransformerEncoderLayer(8, 2, 16, dropout=0.5, batch_first=True)


def test_plain_loop_logs_distances_and_trains_as_without() -> None:
    logged: list[tuple[int, Any]] = []
    watched = {"inputs": torch.ones(3, 4, 8), "every": 2, "log": lambda *one: logged.append(one)}
    bare, measured = steps(layer(), 8), steps(layer(), 8, **watched)
    assert all(torch.equal(one, other) for one, other in zip(bare, measured, strict=True))
    assert [step for step, _ in logged] == [2, 4]
    assert list(logged[0][1]) == [f"heads/frobenius_per_sqrt_n/{x}" for x in ("layer_1", "average")]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"every": 0}, "every must be"),
        ({"metrics": ["nearness"]}, "metrics must be one of"),
        ({"inputs": None}, "inputs must be texts or batches"),
    ],
)
def test_wrong_options_are_refused_before_training(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises((ValueError, TypeError), match=words):
        steps(layer(), 1, **{"inputs": torch.ones(1, 4, 8), "log": print, **wrong})
