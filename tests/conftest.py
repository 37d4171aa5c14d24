"""How tests share a machine; random maps, and tiny checkpoints read back from disk."""

import gc
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any
from zlib import crc32

import extras
import new_kernels
import numpy as np
import pytest
from hypothesis import settings
from tiny_checkpoints import save_tiny

ROOT = Path(__file__).parents[1]
SLOW_VARIANTS = Path(__file__).with_name("slow_variants.txt")
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"
)
# Settings of a terminal, by which rich and typer colour, cut or widen what they write.
TERMINAL = (
    *("FORCE_COLOR", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "PY_COLORS", "COLORTERM", "TERM"),
    *("TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS", "LINES", "TERMINAL_WIDTH", "GITHUB_ACTIONS"),
)
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def pytest_configure(config: pytest.Config) -> None:
    """Give each process of ``pytest -n`` one numerical thread, and what another has compiled."""
    config.pluginmanager.register(extras)  # a hook of this file would not see the package's
    config.pluginmanager.register(new_kernels)
    gc.disable()  # until all is imported
    if config.getoption("numprocesses", None):
        os.environ |= ONE_THREAD  # the processes inherit it, and what they start does
    if worker := os.environ.get("PYTEST_XDIST_WORKER"):
        os.environ["NUMBA_CACHE_DIR"] = str(config.cache.mkdir(f"numba-{worker}"))
        from shared_compilation import share_compiled_code  # reads the variable

        share_compiled_code(config.cache.mkdir("numba"))


def pytest_sessionstart() -> None:
    """Hide the terminal from the tests and what they start; pytest has looked at it by now."""
    for name in TERMINAL:
        os.environ.pop(name, None)


@pytest.hookimpl(tryfirst=True)  # before pytest leaves out what is slow
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the variants of slow_variants.txt as slow; a line that names none is an error."""
    lines = SLOW_VARIANTS.read_text("utf-8").splitlines()
    slow = {line for line in lines if not line.startswith(("#", "1/3 "))}
    thinned = {line.removeprefix("1/3 ") for line in lines if line.startswith("1/3 ")}
    found = {item.nodeid: item for item in items}
    tests = {name.partition("[")[0] for name in found}
    for name, item in found.items():  # a third by chance, that all values of all parameters occur
        if name in slow or (name.partition("[")[0] in thinned and crc32(name.encode()) % 3):
            item.add_marker(pytest.mark.slow)
    lost = sorted(name for name in slow - found.keys() if name.partition("[")[0] in tests)
    files = {name.partition("::")[0] for name in tests}
    lost += sorted(name for name in thinned - tests if name.partition("::")[0] in files)
    if lost and not any("::" in place for place in config.args):  # where some are left out
        raise pytest.UsageError(f"{SLOW_VARIANTS.name} names no variant of a test: {lost[0]}")


def pytest_collection_finish() -> None:
    """Let the garbage collector pass over what the imports have made, which lasts anyway.

    The Trainer asks for passes at each training; through all that torch imports one takes seconds.
    """
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True, scope="module")
def _nothing_is_left() -> Iterator[None]:
    """Let no file of tests leave a process, or a file in the checkout."""
    before = {*children(), *files_of_the_checkout()}
    yield
    left = {*children(), *files_of_the_checkout()} - before
    assert not left, f"left behind: {sorted(left)}"


def children() -> Iterator[str]:
    """Yield the commands of this process's children, but for those that outlive their purpose.

    multiprocessing keeps a server of forks and a tracker of resources until its process ends.
    """
    for path in Path("/proc").glob("[0-9]*"):  # Linux; elsewhere none are seen
        with suppress(OSError):  # it has ended
            parent = path.joinpath("stat").read_text("utf-8").rpartition(")")[2].split()[1]
            command = path.joinpath("cmdline").read_bytes().decode(errors="replace")
            lasting = re.search("multiprocessing.(forkserver|resource_tracker)", command)
            if int(parent) == os.getpid() and not lasting:
                yield f"process {path.name}: {command}"


def files_of_the_checkout() -> Iterator[str]:
    """Yield the names at its top that no program of the checks keeps there."""
    return (path.name for path in ROOT.iterdir() if not re.match(r"[._].*cache|_build", path.name))


@pytest.fixture
def make_maps() -> Callable[..., np.ndarray]:
    """Random maps with rows of probabilities, peaked so that heads differ."""

    def make(*shape: int, seed: int = 0) -> np.ndarray:
        logits = 2 * np.random.default_rng(seed).normal(size=shape)
        weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
        return weights / weights.sum(axis=-1, keepdims=True)

    return make


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A tiny checkpoint of a kind, saved once and not to be changed."""
    root = tmp_path_factory.mktemp("checkpoints")

    def get(kind: str) -> Path:
        return root / kind if (root / kind).exists() else save_tiny(root / kind, kind)

    return get


@pytest.fixture
def own(tmp_path: Path) -> Callable[[str], Path]:
    """A tiny checkpoint of the test's own, to be damaged."""
    return lambda kind: save_tiny(tmp_path / kind, kind)


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "texts.txt"
    path.write_text("a b c d e\n\nf g\nh i j a b c\n")
    return path


@pytest.fixture
def command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., "CompletedProcess[str]"]:
    """Run a command in this process, as the program runs it in one of its own."""

    from fourierkernels import cli

    def call(*arguments: object) -> "CompletedProcess[str]":
        monkeypatch.setattr(sys, "argv", ["fourierkernels", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        out, err = capsys.readouterr()
        return CompletedProcess(sys.argv, int(stopped.value.code or 0), out, err)

    return call


@pytest.fixture
def run(command: Callable[..., "CompletedProcess[str]"]) -> Callable[..., tuple[int, str, str]]:
    """Run the command heads; return exit status, output and messages."""

    def call(*arguments: object) -> tuple[int, str, str]:
        done = command("heads", *arguments)
        return done.returncode, done.stdout, done.stderr

    return call


@pytest.fixture
def pictures(tmp_path: Path) -> list[Path]:
    """Three images of 9 x 13 pixels."""
    from PIL import Image

    rng = np.random.default_rng(1)
    files = [tmp_path / f"{name}.png" for name in "abc"]
    for file in files:
        Image.fromarray(rng.integers(0, 255, (9, 13, 3), dtype=np.uint8)).save(file)
    return files


@pytest.fixture
def saved(tmp_path: Path) -> Callable[..., Any]:
    """Save a model of this package in a file of its own and load it as a checkpoint."""
    from tiny_models_of_ours import stirred

    from fourierkernels.checkpoints.load import load_checkpoint
    from fourierkernels.models import save_model

    def save(model: Any, **options: Any) -> Any:
        save_model(stirred(model), tmp_path / "model.safetensors")
        return load_checkpoint(tmp_path / "model.safetensors", **options)

    return save
