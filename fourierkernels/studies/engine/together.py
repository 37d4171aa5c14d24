"""A run that several processes of this machine train together, started as torchrun starts them.

``python -m torch.distributed.run … -m fourierkernels.studies.engine.together ASKED FOLDER RESUME``
is what each of them executes. When the process that started them ends, they save a checkpoint and
end as well: on Linux however it ends, elsewhere if Ctrl-C ends it.
"""

import csv
import ctypes
import functools
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from fourierkernels.foundation.run_folder import RESULTS
from fourierkernels.studies.engine.optimisers import DivergenceError
from fourierkernels.studies.engine.run import train
from fourierkernels.studies.engine.run_setup import Setup, load_setup, save_setup
from fourierkernels.studies.engine.study import Measured

_ERROR = "error.txt"  # of the process that failed first
_OUTPUT = "output.txt"  # on standard error
_LAUNCH = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node")


def train_together(run: Setup, folder: Path, *, resume: bool, processes: int) -> None:
    """Train a run in several processes; what it leaves is in its folder.

    Raises
    ------
    DivergenceError
        If it diverges.
    ChildProcessError
        If a process fails, by its error.
    """
    with tempfile.TemporaryDirectory() as scratch:
        asked = Path(scratch)
        save_setup(asked, run, digest="")
        program = ("-m", __name__)
        command = [sys.executable, *_LAUNCH, str(processes), *program, scratch, str(folder)]
        status = _status_of([*command, str(int(resume))], asked / _OUTPUT)
        if status == 0:
            return
        error = asked / _ERROR
        said = error.read_text(encoding="utf-8") if error.is_file() else ""
        lines = (asked / _OUTPUT).read_text(encoding="utf-8", errors="replace").split("\n")
    kind, _, message = said.partition(": ")
    if kind == DivergenceError.__name__:
        raise DivergenceError(message)
    last = next((line for line in reversed(lines) if line.strip()), f"status {status}")
    raise ChildProcessError(said or f"{processes} processes ended without a word: {last}")


def _status_of(command: list[str], output: Path) -> int:
    """Return the exit status of a command, which ends if this process does.

    It has a session of its own: Ctrl-C reaches it once, as SIGTERM, since a second signal would end
    a training without a checkpoint. It writes to a file, since a pipe to a process that has died
    ends it at its next line.
    """
    first = None
    if sys.platform == "linux":
        first = functools.partial(_end_with, os.getpid(), ctypes.CDLL(None).prctl)
    with (
        output.open("wb") as file,
        subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=file,
            start_new_session=True,
            preexec_fn=first,
        ) as process,
    ):
        try:
            return process.wait()
        except BaseException:
            process.terminate()
            process.wait()  # until the checkpoint is saved, or a second Ctrl-C
            raise


_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def _end_with(parent: int, prctl: Callable[[int, int], int]) -> None:
    """Let Linux send SIGTERM to this process when its parent dies; heed Ctrl-C again."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # workers ignore it
    prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it died before
        os.kill(os.getpid(), signal.SIGTERM)


def read_measured(folder: Path) -> list[Measured]:
    """Return the numbers of a finished run from its folder."""
    with (folder / f"{RESULTS}.csv").open(encoding="utf-8") as file:
        return [
            Measured(
                row["split"],
                row["metric"],
                float(row["value"]),
                int(row["positions"]),
                float(row["published"]) if row["published"] else None,
            )
            for row in csv.DictReader(file)
        ]


def _main(asked: Path, folder: Path, resume: bool) -> None:
    run, _ = load_setup(asked)
    try:
        train(run, folder, resume=resume)
    except Exception as error:
        said = f"{type(error).__name__}: {' '.join(str(error).split())}"
        if not (asked / _ERROR).exists():
            (asked / _ERROR).write_text(said, encoding="utf-8")
        raise


if __name__ == "__main__":
    _main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3] == "1")
