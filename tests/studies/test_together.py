"""Several processes train as one does."""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import train_together
from train_together import together
from training_runs import error_of, launch_and_wait, short_run, start, train_here

from fourierkernels.models.tensor_files import read_tensors
from fourierkernels.studies.engine.checkpoints import SavedStep, last_checkpoint
from fourierkernels.studies.engine.run_setup import Setup
from fourierkernels.studies.engine.state import check_sharding
from fourierkernels.studies.language import study as language

TOGETHER = Path(train_together.__file__)
SUPPORT = TOGETHER.parent
ROOT = SUPPORT.parents[1]


def torchrun(*arguments: object, folder: Path, processes: int = 2) -> None:
    """Start processes of one thread that talk by gloo."""
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(SUPPORT))),
    }
    launch = ["-m", "torch.distributed.run", "--standalone", "--local-addr=127.0.0.1"]
    command = [sys.executable, *launch, f"--nproc-per-node={processes}", *map(str, arguments)]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]


@pytest.fixture(scope="module")
def trained(texts: Path, cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders of a run by one process, by two with whole parameters and by two that share them."""
    folder = tmp_path_factory.mktemp("together")
    train_together.gradients(texts, cache, folder / "one")
    together("gradients_both_ways", texts, cache, folder)
    return folder


@pytest.mark.parametrize("kind", ["whole", "sharded"])
def test_gradients_of_two_processes_are_those_of_one(kind: str, trained: Path) -> None:
    assert last_checkpoint(trained / kind).processes == 2
    one = read_tensors(trained / "one/gradients.safetensors")
    two = read_tensors(trained / f"{kind}/gradients.safetensors")
    assert one.keys() == two.keys()
    assert len(one) > 60
    for name, gradient in one.items():
        assert (two[name] - gradient).abs().max() <= 1e-12 * max(1, gradient.abs().max()), name


@pytest.mark.parametrize("kind", ["whole", "sharded"])
def test_checkpoint_of_two_processes_is_that_of_one(kind: str, trained: Path) -> None:
    """The same files and tensors, each tensor whole, and the same curve."""
    one, two = (last_checkpoint(trained / name) for name in ("one", kind))
    assert one.texts("model.safetensors") == two.texts("model.safetensors")
    assert sorted(p.name for p in two.folder.iterdir()) == sorted(
        p.name for p in one.folder.iterdir()
    )
    assert differences(one, two) == []
    curves = [np.genfromtxt(trained / name / "curve.csv", delimiter=",") for name in ("one", kind)]
    # Trainer logs in single precision, where the last bit of a double may decide one unit.
    np.testing.assert_allclose(curves[1], curves[0], rtol=np.finfo(np.float32).eps)


@pytest.mark.slow
def test_student_of_two_processes_gets_the_gradients_of_one(
    corpus: Path, cache: Path, translator: Path, tmp_path: Path
) -> None:
    """Each process has the whole teacher; batches are shared and gradients accumulated."""
    run = [TOGETHER, "distilled_gradients", corpus, cache]
    for name, processes in (("one", 1), ("two", 2)):
        torchrun(*run, tmp_path / name, translator, folder=tmp_path, processes=processes)
        assert last_checkpoint(tmp_path / name).processes == processes
    one, two = (read_tensors(tmp_path / f"{n}/gradients.safetensors") for n in ("one", "two"))
    assert one.keys() == two.keys()
    assert len(one) > 60
    for name, gradient in one.items():
        assert (two[name] - gradient).abs().max() <= 1e-12 * max(1, gradient.abs().max()), name


def differences(one: SavedStep, two: SavedStep, *, at_most: float = 1e-12) -> list[str]:
    """Names of the weights and of the states of the optimiser that differ by more."""
    differ = []
    for file in ("model.safetensors", "optimiser.safetensors"):
        pair = one.tensors(file), two.tensors(file)
        assert pair[0].keys() == pair[1].keys()
        errors = {name: (pair[1][name] - tensor).abs().max() for name, tensor in pair[0].items()}
        differ += [f"{name}: {error:.1e}" for name, error in errors.items() if error > at_most]
    return differ


@pytest.mark.slow
def test_run_of_shared_parameters_that_is_killed_ends_the_same(texts: Path, tmp_path: Path) -> None:
    """To the bit, dropout included."""
    run = ["sharded", texts, tmp_path / "tokens"]
    together(*run, tmp_path / "whole", 0.1)
    with pytest.raises(AssertionError, match="SIGKILL"):
        torchrun(TOGETHER, *run, tmp_path / "parts", 0.1, "", 7, folder=tmp_path)
    assert last_checkpoint(tmp_path / "parts").step == 6
    together(*run, tmp_path / "parts", 0.1, "resume")
    saved = [last_checkpoint(tmp_path / name) for name in ("whole", "parts")]
    assert [(s.step, s.processes) for s in saved] == [(12, 2)] * 2
    assert differences(*saved, at_most=0.0) == []


@pytest.mark.slow
def test_one_process_and_two_that_share_resume_each_other(
    texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without dropout they end the same; with it they would draw other numbers."""
    monkeypatch.setitem(language.PRESETS, "tiny", train_together.without_dropout())
    run, cache = short_run(texts, **train_together.FEW), tmp_path / "tokens"
    train_here(run, tmp_path / "whole", cache)
    train_here(run, tmp_path / "parts", cache, limit=4)
    arguments = [texts, cache, tmp_path / "parts", 0, "resume", 9]
    with pytest.raises(AssertionError, match="SIGKILL"):
        torchrun(TOGETHER, "sharded", *arguments, folder=tmp_path)
    assert (
        last_checkpoint(tmp_path / "parts").step,
        last_checkpoint(tmp_path / "parts").processes,
    ) == (8, 2)
    with pytest.warns(UserWarning, match="checkpoint of 2 processes is resumed by 1"):
        train_here(run, tmp_path / "parts", cache, resume=True)
    saved = [last_checkpoint(tmp_path / name) for name in ("whole", "parts")]
    assert differences(*saved) == []


def test_signal_to_one_of_two_processes_stops_both_after_one_update(
    texts: Path, tmp_path: Path
) -> None:
    together("interrupted", texts, tmp_path / "tokens", tmp_path / "run")
    saved = last_checkpoint(tmp_path / "run")
    assert (saved.step, saved.processes) == (3, 2)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of a parent's death")
@pytest.mark.parametrize(
    ("number", "handler"),
    [
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGTERM, signal.SIG_IGN),  # as a worker of several
        (signal.SIGKILL, signal.SIG_IGN),
    ],
)
def test_launched_processes_save_and_end_with_the_one_that_started_them(
    number: int, handler: signal.Handlers, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pipe")
    parent = start(launch_and_wait, tmp_path / "pipe", tmp_path / "output", handler)
    with (tmp_path / "pipe").open("rb", buffering=0) as told:
        pid, heeds = told.readline().split()
        os.kill(parent.pid, number)
        ready = select.select([told], [], [], 20)[0]
        said = told.read() if ready else os.kill(int(pid), signal.SIGKILL)
    parent.join()
    assert (said, heeds) == (b"saved\n", b"True")


def test_sharing_without_accelerators_is_refused(
    request_run: Setup, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """accelerate would train by DDP and say nothing."""
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    message = error_of(lambda: train_here(request_run, tmp_path / "run", cache))
    assert message.startswith("ValueError: FSDP must be on accelerators")
    assert "got ACCELERATE_USE_FSDP=true on device cpu, where accelerate 1." in message


def test_first_version_of_sharing_is_refused() -> None:
    state = SimpleNamespace(fsdp_plugin=SimpleNamespace(fsdp_version=1))
    with pytest.raises(ValueError, match=r"FSDP_VERSION must be 2 .*, got 1"):
        check_sharding(SimpleNamespace(state=state))


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
