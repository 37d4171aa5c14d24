"""Several processes train as one does."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import train_together
from training_runs import short_run, train_here

from fourierkernels.models.tensor_files import read_tensors
from fourierkernels.train.checkpoints import last_checkpoint

SUPPORT = Path(train_together.__file__).parent
ROOT = SUPPORT.parents[1]


def torchrun(*arguments: object, folder: Path) -> None:
    """Start two processes of one thread that talk by gloo."""
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(SUPPORT))),
    }
    launch = ["-m", "torch.distributed.run", "--standalone", "--local-addr=127.0.0.1"]
    command = [sys.executable, *launch, "--nproc-per-node=2", *map(str, arguments)]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]


def test_gradients_of_two_processes_are_those_of_one(
    texts: Path, cache: Path, tmp_path: Path
) -> None:
    train_together.gradients(texts, cache, tmp_path / "one")
    torchrun(SUPPORT / "train_together.py", texts, cache, tmp_path / "two", folder=tmp_path)
    assert last_checkpoint(tmp_path / "two").processes == 2
    one = read_tensors(tmp_path / "one/gradients.safetensors")
    two = read_tensors(tmp_path / "two/gradients.safetensors")
    assert one.keys() == two.keys()
    assert len(one) > 60
    for name, gradient in one.items():
        assert (two[name] - gradient).abs().max() <= 1e-12 * max(1, gradient.abs().max()), name
    weights = [
        last_checkpoint(tmp_path / name).tensors("model.safetensors") for name in ("one", "two")
    ]
    for name, weight in weights[0].items():
        assert torch.allclose(weights[1][name], weight, rtol=0, atol=1e-10), name


@pytest.mark.slow
def test_two_processes_resume_to_the_bit(texts: Path, tmp_path: Path) -> None:
    """Each has its own random numbers for dropout, and gets them back."""
    options = ["--data", texts, "--mixer", "softmax", "--limit-steps"]
    start = ["-m", "fourierkernels.cli", "train", "language", *options]
    torchrun(*start, 200, "--output", tmp_path / "whole", folder=tmp_path)
    torchrun(*start, 100, "--output", tmp_path / "parts", folder=tmp_path)
    torchrun(*start, 200, "--output", tmp_path / "parts", "--resume", folder=tmp_path)
    saved = [last_checkpoint(tmp_path / name) for name in ("whole", "parts")]
    assert [(s.step, s.processes) for s in saved] == [(200, 2)] * 2
    for name in ("model", "optimiser", "random"):
        one, two = (s.tensors(f"{name}.safetensors") for s in saved)
        assert all(torch.equal(one[key], two[key]) for key in one)
    states = saved[0].tensors("random.safetensors")["torch"]
    assert not torch.equal(states[0], states[1])


def test_batch_that_two_processes_cannot_share_is_refused(
    texts: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "3")
    with pytest.raises(ValueError, match="accumulation times processes = 3, got 4"):
        train_here(short_run(texts), tmp_path / "run", cache)
