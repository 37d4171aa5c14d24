"""A run that several processes of this machine train together, started as torchrun starts them.

``python -m torch.distributed.run … -m fourierkernels.studies.engine.together ASKED FOLDER RESUME``
is what each of them executes.
"""

import csv
import subprocess
import sys
import tempfile
from pathlib import Path

from fourierkernels.foundation.run_folder import RESULTS
from fourierkernels.studies.engine.optimisers import DivergenceError
from fourierkernels.studies.engine.run import train
from fourierkernels.studies.engine.run_setup import Setup, load_setup, save_setup
from fourierkernels.studies.engine.study import Measured

_ERROR = "error.txt"  # of the process that failed first
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
        done = subprocess.run(
            [*command, str(int(resume))], capture_output=True, text=True, check=False
        )
        if done.returncode == 0:
            return
        error = asked / _ERROR
        said = error.read_text(encoding="utf-8") if error.is_file() else ""
    kind, _, message = said.partition(": ")
    if kind == DivergenceError.__name__:
        raise DivergenceError(message)
    last = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
    raise ChildProcessError(said or f"{processes} processes ended without a word: {last}")


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
