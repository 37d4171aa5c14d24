"""The package does without what Windows misses, as far as Linux can tell, and spawns processes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SUPPORT = Path(__file__).parent / "support"
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="imitates Windows on Linux")

START = f"""
import sys; sys.path.append({str(SUPPORT)!r})
import concurrent.futures.process, multiprocessing.popen_spawn_posix, multiprocessing.connection
import finufft, numba, scipy.stats, sklearn.base
import rich.console, rich.progress, rich.table, typer.main
"""
ALL_MODULES = """
import torch, transformers, accelerate, torch.distributed.fsdp, matplotlib.pyplot, dask.distributed
from transformers import Trainer, PreTrainedModel, AutoModel, MarianMTModel
from as_windows import become_windows; become_windows()
import importlib, pkgutil, fourierkernels
for module in pkgutil.walk_packages(fourierkernels.__path__, "fourierkernels."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
        print(module.name)
"""
FILES = """
from as_windows import become_windows; become_windows()
from pathlib import Path
from fourierkernels.foundation import files
files.write_text(Path("text"), "a\\n")
files.write_folder(Path("folder").absolute(), lambda made: (made / "a").write_bytes(b"a"))
files.remove_unfinished(Path.cwd())
for _ in range(2):
    with files.claimed(Path("run")):
        pass
print(*sorted(str(path) for path in Path().rglob("*")))
"""
SWEEP = """
from as_windows import become_windows; become_windows()
from pathlib import Path
from fourierkernels.simulation.sweep.grid import Sweep
from fourierkernels.simulation.sweep.results import Results, read_results
from fourierkernels.simulation.sweep.cells import Outcome
sweep, path = Sweep(("gaussian",), ("fourier4",), (50, 60), replicates=2), Path("results.jsonl")
try:
    with Results(path, sweep):
        raise KeyboardInterrupt
except KeyboardInterrupt:
    print(len(read_results(path)[1]))
for cell in sweep.cells():
    with Results(path, sweep) as results:
        results.append(cell, Outcome(values=(0.5,), undefined=0, radius=1.0, seconds=0.0))
print(len(read_results(path)[1]))
"""


def printed(program: str, folder: Path) -> list[str]:
    """Run a program that becomes Windows after other packages are imported; its words.

    The default encoding of files is ASCII, and relying on it is an error.
    """
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    root, package = str(SUPPORT.parents[1]), f"{SUPPORT.parents[1]}/fourierkernels/"
    command = [sys.executable, "-X", "warn_default_encoding", "-c", START + program]
    done = subprocess.run(
        command,
        capture_output=True,
        check=False,
        cwd=folder,
        encoding="utf-8",
        env={**os.environ, **plain, "PYTHONPATH": root},
    )
    told = [line for line in done.stderr.splitlines() if "EncodingWarning" in line]
    assert not [line for line in told if line.startswith(package)]
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.slow
def test_every_module_is_imported_without_modules_of_unix(tmp_path: Path) -> None:
    assert len(printed(ALL_MODULES, tmp_path)) > 300


def test_files_are_written_where_folders_cannot_be_opened(tmp_path: Path) -> None:
    expected = ["folder", "folder/a", "run", "run/.in-use", "text"]
    assert printed(FILES, tmp_path) == expected


def test_sweep_is_resumed_where_open_files_cannot_be_removed(tmp_path: Path) -> None:
    assert printed(SWEEP, tmp_path) == ["0", "2"]
