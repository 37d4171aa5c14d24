"""Whatever happens to a run, its last good checkpoint stays, and nothing in a file is run."""

import json
import multiprocessing
import pickle  # noqa: TID251 (the attack)
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from payload import Payload
from training_runs import (
    claim_and_wait,
    error_of,
    short_run,
    start,
    train_here,
    train_on_little_disk,
)

from fourierkernels.foundation import files
from fourierkernels.foundation.files import claimed, file_digest, write_folder
from fourierkernels.models.tensor_files import read_tensors
from fourierkernels.studies.engine import run as runs
from fourierkernels.studies.engine.checkpoints import (
    MANIFEST,
    OPTIMISER,
    checkpoint_steps,
    last_checkpoint,
    read_checkpoint,
)
from fourierkernels.studies.engine.optimisers import create_optimiser
from fourierkernels.studies.engine.recipe import Recipe
from fourierkernels.studies.engine.run_setup import Setup
from fourierkernels.studies.language import study as language


@pytest.fixture
def begun(request_run: Setup, cache: Path, tmp_path: Path) -> Path:
    """A run of its own that has a checkpoint after 4 updates."""
    train_here(request_run, tmp_path / "run", cache, limit=4)
    return tmp_path / "run"


@pytest.fixture
def resumed(request_run: Setup, cache: Path) -> Callable[[Path], str]:
    """Resume a run and return its error."""
    return lambda output: error_of(lambda: train_here(request_run, output, cache, resume=True))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of sixteen megabytes."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(place)]
    try:
        done = subprocess.run(mount, capture_output=True, check=False)
    except OSError:
        pytest.skip("no mount here")
    if done.returncode:
        pytest.skip("file systems cannot be mounted here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def sign(folder: Path) -> None:
    """Make the digests of a checkpoint those of its files, as an attacker would."""
    facts = json.loads((folder / MANIFEST).read_text())
    facts["files"] = {name: file_digest(folder / name) for name in facts["files"]}
    (folder / MANIFEST).write_text(json.dumps(facts))


def test_full_disk_keeps_the_checkpoint_before(
    request_run: Setup, cache: Path, small_disk: Path
) -> None:
    output = small_disk / "run"
    train_here(request_run, output, cache, limit=4)
    used = sum(path.stat().st_size for path in output.rglob("*") if path.is_file())
    free = shutil.disk_usage(small_disk).free
    (small_disk / "filler").write_bytes(b"\1" * (free - used // 2))
    message = error_of(lambda: train_here(request_run, output, cache, resume=True))
    assert message.startswith("OSError: checkpoint of step 6 could not be written")
    assert "No space left on device" in message
    assert message.endswith("checkpoint-4")
    assert last_checkpoint(output).step == 4
    assert not any(output.glob(".unfinished-*"))
    (small_disk / "filler").unlink()
    train_here(request_run, output, cache, resume=True, limit=8)
    assert last_checkpoint(output).step == 8


def test_file_that_cannot_grow_keeps_the_checkpoint_before(
    request_run: Setup, cache: Path, begun: Path
) -> None:
    queue = multiprocessing.get_context("forkserver").Queue()
    most = (begun / "checkpoint-4" / OPTIMISER).stat().st_size // 2
    process = start(train_on_little_disk, request_run, begun, cache, most, queue)
    message = queue.get(timeout=120)
    process.join()
    assert message.startswith("OSError: checkpoint of step 6 could not be written")
    assert last_checkpoint(begun).step == 4
    assert not any(begun.glob(".unfinished-*"))


@pytest.fixture
def spoiled(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, float], None]:
    """Let the update of a step multiply the first parameter."""
    from fourierkernels.studies.engine import trainer as engine

    def spoil(step: int, factor: float) -> None:
        def create(model: torch.nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
            optimiser, steps = create_optimiser(model, recipe), []

            def hook(*given: object) -> None:
                steps.append(1)
                if len(steps) == step:
                    next(iter(model.parameters())).data.mul_(factor)

            optimiser.register_step_post_hook(hook)
            return optimiser

        monkeypatch.setattr(engine, "create_optimiser", create)

    return spoil


@pytest.mark.parametrize("factor", [1e4, 1e30, float("inf")])
def test_diverging_run_stops_with_step_and_gradient_norm(
    factor: float,
    spoiled: Callable[[int, float], None],
    texts: Path,
    cache: Path,
    tmp_path: Path,
) -> None:
    """Parameters that an update has ruined, finite or not, are no good checkpoint."""
    spoiled(6, factor)
    message = error_of(lambda: train_here(short_run(texts), tmp_path / "run", cache))
    step = 6 if factor == float("inf") else 7
    assert message.startswith(f"DivergenceError: training diverged at step {step}: loss ")
    assert ", gradient norm " in message
    last = last_checkpoint(tmp_path / "run")
    assert last.step == 4
    assert message.endswith(f"the last good checkpoint is {last.folder}")


def test_parameters_that_are_not_finite_are_not_saved(
    texts: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, calls = language.smoothed_loss, []

    def failing(model: torch.nn.Module, *rest: object) -> torch.Tensor:
        calls.append(1)
        return plain(model, *rest) * (float("nan") if len(calls) == 5 else 1.0)

    monkeypatch.setattr(language, "smoothed_loss", failing)
    message = error_of(lambda: train_here(short_run(texts), tmp_path / "run", cache))
    assert "diverged at step 5: loss nan" in message
    saved = last_checkpoint(tmp_path / "run")
    assert saved.step == 4
    assert all(t.isfinite().all() for t in saved.tensors("model.safetensors").values())


def test_malicious_files_are_not_run(
    begun: Path, resumed: Callable[[Path], str], tmp_path: Path
) -> None:
    folder, target = begun / "checkpoint-4", tmp_path / "made by the payload"
    attack = pickle.dumps(Payload(target))
    for name in ("optimizer.pt", "optimizer.bin", "scheduler.pt", "rng_state.pth"):
        (folder / name).write_bytes(attack)
    for name in ("pytorch_model.bin", "training_args.bin", "scaler.pt"):
        torch.save(Payload(target), folder / name)
    assert resumed(Path(shutil.copytree(begun, tmp_path / "beside"))) == "none"
    (folder / OPTIMISER).write_bytes(attack)
    sign(folder)
    assert "optimiser.safetensors must be a whole file of tensors" in resumed(begun)
    assert not target.exists()


@pytest.mark.parametrize("name", ["model", "optimiser", "random"])
@pytest.mark.parametrize("damage", ["cut", "changed", "missing"])
def test_damaged_checkpoint_is_one_clear_error(
    name: str, damage: str, finished: Path, tmp_path: Path
) -> None:
    output = Path(shutil.copytree(finished, tmp_path / "run"))
    file = output / f"checkpoint-12/{name}.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes({"cut": content[:-10], "changed": content, "missing": b""}[damage])
    if damage == "missing":
        file.unlink()
    message = error_of(lambda: read_checkpoint(output / "checkpoint-12"))
    assert message.startswith("ValueError: ")
    assert f"{name}.safetensors" in message


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("{", "must describe a checkpoint"),
        ("[]", "must describe a checkpoint"),
        ('{"format": 1}', "must describe a checkpoint"),
        ('{"format": 0, "step": 4, "processes": 1, "files": {}}', "must have format 1"),
        ('{"format": 1, "step": 4, "processes": 1, "files": {}}', "must name model.safetensors"),
    ],
)
def test_older_or_foreign_checkpoint_is_one_clear_error(
    text: str, rule: str, begun: Path, resumed: Callable[[Path], str]
) -> None:
    (begun / "checkpoint-4" / MANIFEST).write_text(text)
    assert rule in resumed(begun)


@pytest.mark.parametrize(
    "text", ["{", "[]", "{}", '{"log_history": [{}], "best_global_step": 1, "global_step": 1}']
)
def test_foreign_state_of_the_trainer_is_one_clear_error(
    text: str, begun: Path, resumed: Callable[[Path], str]
) -> None:
    (begun / "checkpoint-4/trainer_state.json").write_text(text)
    sign(begun / "checkpoint-4")
    message = resumed(begun)
    assert message.startswith("ValueError: ")
    assert "trainer_state.json must be a state of the Trainer" in message


def test_checkpoint_of_more_processes_is_resumed_with_a_warning(
    begun: Path, resumed: Callable[[Path], str]
) -> None:
    """Each process has random numbers of its own, so that fewer do not go on quite as before."""
    manifest = begun / "checkpoint-4" / MANIFEST
    manifest.write_text(manifest.read_text().replace('"processes": 1', '"processes": 2'))
    with pytest.warns(UserWarning, match="of 2 processes is resumed by 1: .* other numbers"):
        assert resumed(begun) == "none"
    assert last_checkpoint(begun).processes == 1


def test_checkpoint_of_transformers_is_refused(begun: Path, resumed: Callable[[Path], str]) -> None:
    (begun / "checkpoint-4" / MANIFEST).unlink()
    assert "checkpoint must be a folder with checkpoint.json" in resumed(begun)


def test_optimiser_of_another_model_is_refused(
    begun: Path, resumed: Callable[[Path], str], texts: Path, cache: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    train_here(short_run(texts, mixer="fourier"), other, cache, limit=4)
    shutil.copy(other / "checkpoint-4" / OPTIMISER, begun / "checkpoint-4" / OPTIMISER)
    sign(begun / "checkpoint-4")
    assert "optimiser state must be that of this model and recipe" in resumed(begun)


def test_folder_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "half").write_text("x")
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        write_folder(tmp_path / "a", fail)
    assert list(tmp_path.iterdir()) == []
    write_folder(tmp_path / "a", lambda folder: None)
    write_folder(tmp_path / "a", fail)  # there already: nothing is written
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_only_the_best_and_the_last_checkpoint_are_kept(
    texts: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    losses = [6.0, 5.0, 5.5]
    monkeypatch.setattr(language, "plain_loss", lambda *given, **options: (losses.pop(0), 1))
    train_here(short_run(texts), tmp_path / "run", cache)
    assert checkpoint_steps(tmp_path / "run") == [8, 12]
    best = read_checkpoint(tmp_path / "run/checkpoint-8").tensors("model.safetensors")
    kept = read_tensors(tmp_path / "run/model.safetensors")
    assert all(torch.equal(kept[name], best[name]) for name in best)


@pytest.mark.parametrize("resume", [False, True])
def test_a_folder_takes_one_run_at_a_time(
    resume: bool, request_run: Setup, begun: Path, cache: Path, tmp_path: Path
) -> None:
    output = begun if resume else tmp_path / "new"
    with claimed(output):
        before = sorted(output.iterdir())
        message = error_of(lambda: train_here(request_run, output, cache, resume=resume))
        assert sorted(output.iterdir()) == before
    assert message == f"ValueError: output must not be in use by another run, got {output}"


def test_run_that_ends_while_another_loads_is_not_overwritten(
    request_run: Setup, texts: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one has found an empty folder before, and nobody's claim on it afterwards."""
    plain, output = runs.load_teacher, tmp_path / "run"

    def while_loading(run: Setup, data: object) -> object:
        monkeypatch.setattr(runs, "load_teacher", plain)
        train_here(request_run, output, cache)
        return plain(run, data)

    monkeypatch.setattr(runs, "load_teacher", while_loading)
    message = error_of(lambda: train_here(short_run(texts, mixer="fourier"), output, cache))
    assert message.startswith("ValueError: output must be a new folder, or resumed (--resume)")
    assert json.loads((output / "study.json").read_text())["mixer"] == "softmax"


def test_results_whose_checkpoints_are_deleted_are_not_overwritten(
    request_run: Setup, begun: Path, cache: Path
) -> None:
    shutil.rmtree(begun / "checkpoint-4")
    message = error_of(lambda: train_here(request_run, begun, cache))
    assert message.startswith("ValueError: output must be a new folder, or resumed (--resume)")


def test_claim_ends_with_its_process_and_leaves_no_file(tmp_path: Path) -> None:
    output, queue = tmp_path / "run", multiprocessing.get_context("forkserver").Queue()
    process = start(claim_and_wait, output, queue)
    assert queue.get(timeout=120) == "claimed"
    assert error_of(claimed(output).__enter__).endswith(f"another run, got {output}")
    process.kill()
    process.join()
    with claimed(output), pytest.raises(ValueError, match="in use by another run"):
        claimed(output).__enter__()
    assert list(output.iterdir()) == []


def test_folder_that_cannot_be_locked_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(file: int) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(files, "lock_file", no_locks)
    with pytest.warns(UserWarning, match="nothing keeps another run out"), claimed(tmp_path):
        pass
