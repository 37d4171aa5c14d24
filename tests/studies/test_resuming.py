"""A run that is killed and resumed ends where one that is left alone ends, to the bit."""

import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from training_runs import (
    STEPS,
    same_results,
    short_run,
    start,
    train_and_die,
    train_and_signal,
    train_here,
    train_to_end,
)

from fourierkernels.models import load_model
from fourierkernels.studies.engine.checkpoints import checkpoint_steps, last_checkpoint
from fourierkernels.studies.engine.mixers import ChosenMixer
from fourierkernels.studies.engine.prepared import WithLoss
from fourierkernels.studies.engine.run_setup import Setup
from fourierkernels.studies.language.corpora import read_corpus


def kill_after(run: Setup, output: Path, cache: Path, seconds: float) -> bool:
    """Train in a process that is killed after some seconds; return whether it was still there."""
    process = start(train_to_end, run, output, cache)
    process.join(seconds)
    alive = bool(process.is_alive())
    process.kill()
    process.join()
    return alive


def finish(run: Setup, output: Path, cache: Path) -> None:
    process = start(train_to_end, run, output, cache)
    process.join()
    assert process.exitcode == 0


def seconds_of_a_run(run: Setup, output: Path, cache: Path) -> float:
    start(time.sleep, 0).join()  # the first process also waits for torch to be loaded
    begun = time.perf_counter()
    finish(run, output, cache)
    return time.perf_counter() - begun


def killed_runs_agree(run: Setup, finished: Path, cache: Path, folder: Path, times: int) -> None:
    whole = seconds_of_a_run(run, folder / "timed", cache)
    assert same_results(folder / "timed", finished) == []
    killed = 0
    for number, moment in enumerate(np.random.default_rng(1).uniform(0, whole, times)):
        output = folder / str(number)
        killed += kill_after(run, output, cache, float(moment))
        finish(run, output, cache)
        assert same_results(output, finished) == [], f"killed after {moment:.3f} s"
    assert killed >= times // 2


def test_run_that_is_killed_ends_the_same(
    request_run: Setup, finished: Path, cache: Path, tmp_path: Path
) -> None:
    killed_runs_agree(request_run, finished, cache, tmp_path, 3)


@pytest.mark.slow
def test_run_that_is_killed_at_twenty_moments_ends_the_same(
    request_run: Setup, finished: Path, cache: Path, tmp_path: Path
) -> None:
    killed_runs_agree(request_run, finished, cache, tmp_path, 20)


@pytest.mark.parametrize("part", ["optimiser.safetensors", "random.safetensors"])
def test_run_that_is_killed_while_saving_ends_the_same(
    part: str, request_run: Setup, finished: Path, cache: Path, tmp_path: Path
) -> None:
    output = tmp_path / "run"
    process = start(train_and_die, request_run, output, cache, 6, part)
    process.join()
    assert process.exitcode == -9
    assert checkpoint_steps(output)[-1] == 4
    assert any(output.glob(".unfinished-*"))
    finish(request_run, output, cache)
    assert same_results(output, finished) == []
    assert not any(output.glob(".unfinished-*"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_run_that_is_interrupted_saves_its_update_and_ends_the_same(
    number: int,
    request_run: Setup,
    finished: Path,
    cache: Path,
    tmp_path: Path,
) -> None:
    output = tmp_path / "run"
    process = start(train_and_signal, request_run, output, cache, number)
    process.join()
    assert process.exitcode == 128 + number
    assert last_checkpoint(output).step == 5
    assert not (output / "results.json").exists()
    finish(request_run, output, cache)
    assert same_results(output, finished) == []


@pytest.mark.slow
@pytest.mark.parametrize("order", ["streams", "shuffled"])
def test_run_with_a_limit_goes_on_as_if_it_had_none(
    order: str, texts: Path, cache: Path, tmp_path: Path
) -> None:
    run = short_run(texts, order=order, accumulation=2)
    train_here(run, tmp_path / "whole", cache)
    train_here(run, tmp_path / "parts", cache, limit=4)
    assert last_checkpoint(tmp_path / "parts").step == 4
    train_here(run, tmp_path / "parts", cache, resume=True)
    assert same_results(tmp_path / "whole", tmp_path / "parts") == []


def test_run_with_a_penalised_matrix_of_radii_is_resumed_to_the_bit(
    texts: Path, cache: Path, tmp_path: Path
) -> None:
    options = {"radius_shape": "head_matrix", "radius_penalty": 0.1}
    run = short_run(texts, steps=4, evaluate_every=4, mixer=ChosenMixer("fourier", options))
    train_here(run, tmp_path / "whole", cache)
    train_here(run, tmp_path / "parts", cache, limit=2)
    train_here(run, tmp_path / "parts", cache, resume=True)
    assert same_results(tmp_path / "whole", tmp_path / "parts") == []
    mixer = load_model(tmp_path / "whole/model.safetensors").blocks[0].mixer
    heads, dim = mixer.num_heads, mixer.head_dim
    assert mixer.radius.shape == (heads, dim, dim)
    assert (mixer.log_radius[:, 0, 1] != 0).all()
    model, objective = nn.Sequential(mixer), Constant()
    assert WithLoss(model, objective)()["loss"] == 1.5 + mixer.penalty()  # type: ignore[arg-type]


def test_a_penalty_of_another_module_is_its_own() -> None:
    """It may be a number, or a method of other arguments."""
    model, objective = nn.Sequential(nn.Linear(1, 1)), Constant()
    model[0].penalty = 0.5
    assert WithLoss(model, objective)()["loss"] == 1.5  # type: ignore[arg-type]


class Constant:
    """An objective that is 1.5 whatever the model is."""

    def loss(self, model: nn.Module, batch: object) -> Tensor:
        return torch.tensor(1.5)


@pytest.mark.parametrize("limit", [2, 4])
def test_limit_counts_the_updates_before_a_resumption(
    limit: int, request_run: Setup, cache: Path, tmp_path: Path
) -> None:
    train_here(request_run, tmp_path, cache, limit=4)
    before = [path.read_bytes() for path in sorted(tmp_path.glob("checkpoint-*/*"))]
    assert train_here(request_run, tmp_path, cache, limit=limit, resume=True)
    assert checkpoint_steps(tmp_path) == [4]
    assert [path.read_bytes() for path in sorted(tmp_path.glob("checkpoint-*/*"))] == before


@pytest.mark.slow
def test_run_longer_than_an_epoch_is_resumed_in_the_same_order(
    texts: Path, cache: Path, tmp_path: Path
) -> None:
    run = short_run(texts, batch=256, steps=8, evaluate_every=8)
    train_here(run, tmp_path / "whole", cache)
    assert 1.5 * read_corpus(texts, most=5000, folder=cache).counts["train"] < 8 * 256 * 32
    train_here(run, tmp_path / "parts", cache, limit=6)
    train_here(run, tmp_path / "parts", cache, resume=True)
    assert same_results(tmp_path / "whole", tmp_path / "parts") == []


def test_finished_run_is_measured_again_and_not_trained(
    request_run: Setup, finished: Path, cache: Path, tmp_path: Path
) -> None:
    output = Path(shutil.copytree(finished, tmp_path / "run"))
    train_here(request_run, output, cache, resume=True)
    assert same_results(output, finished) == []
    assert last_checkpoint(output).step == STEPS


@pytest.mark.slow
def test_early_stopping_counts_on_after_a_break(texts: Path, cache: Path, tmp_path: Path) -> None:
    run = short_run(texts, learning_rate=1e-12, patience=2, evaluate_every=2, steps=40)
    train_here(run, tmp_path / "whole", cache)
    stopped = last_checkpoint(tmp_path / "whole").step
    assert stopped < 40
    train_here(run, tmp_path / "parts", cache, limit=4)
    train_here(run, tmp_path / "parts", cache, resume=True)
    assert last_checkpoint(tmp_path / "parts").step == stopped
