"""Work that is spread over processes or a cluster, whatever else runs there."""

import os
import re
import select
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from fourierkernels.foundation.workers import Work, on_cluster


@dataclass(frozen=True)
class Number:
    """A piece whose key says nothing about the work that it belongs to."""

    value: int

    @property
    def key(self) -> str:
        return str(self.value)


def test_results_of_one_work_on_a_cluster_are_not_those_of_another() -> None:
    distributed = pytest.importorskip("distributed")
    numbers = [Number(3), Number(4)]
    doubled, squared = (
        Work(lambda number, times=times: times(number.value), "number", "numbers")
        for times in (lambda value: 2 * value, lambda value: value**2)
    )
    options = {"processes": False, "n_workers": 1, "threads_per_worker": 1}
    with distributed.LocalCluster(
        **options, protocol="tcp", host="127.0.0.1", dashboard_address=None
    ) as cluster:
        first = on_cluster(doubled, numbers, cluster.scheduler_address)
        held = [next(first)]  # the scheduler keeps the other result until it is taken
        second = dict(on_cluster(squared, numbers, cluster.scheduler_address))
        assert dict([*held, *first]) == {Number(3): 6, Number(4): 8}
    assert second == {Number(3): 9, Number(4): 16}


WAITING = """
import os, signal, sys
from fourierkernels.foundation.workers import Work, on_machine

def compute(piece):
    told = os.open(sys.argv[1], os.O_WRONLY)  # until this process ends

    def save(number, frame):
        os.write(told, b"saved\\n")
        sys.exit(1)

    signal.signal(signal.SIGTERM, save)
    os.write(told, f"{os.getpid()}\\n".encode())
    signal.pause()

if __name__ == "__main__":
    list(on_machine(Work(compute, "piece", "whole"), [1, 2], 2))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs a named pipe")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_workers_save_and_end_with_their_parent(number: int, tmp_path: Path) -> None:
    script, pipe = tmp_path / "waiting.py", tmp_path / "pipe"
    script.write_text(WAITING, encoding="utf-8")
    os.mkfifo(pipe)
    with (
        subprocess.Popen([sys.executable, str(script), str(pipe)]) as parent,
        pipe.open("rb", buffering=0) as told,
    ):
        workers = [int(told.readline()) for _ in range(2)]
        parent.send_signal(number)
        said = b""
        try:
            while select.select([told], [], [], 20)[0] and (more := told.read(100)):
                said += more
        finally:
            for pid in workers if said.count(b"saved") < 2 else ():
                os.kill(pid, signal.SIGKILL)
    assert said == b"saved\n" * 2


COMPILING = """
import numba
from fourierkernels.foundation.workers import Work, on_machine, one_thread

def compute(piece):
    with one_thread():
        return numba.njit(lambda x: x + 1)(piece), numba.config.NUMBA_NUM_THREADS

if __name__ == "__main__":
    found = dict(on_machine(Work(compute, "piece", "whole"), [1, 2], 2))
    print(found[1], found[2])
"""


@pytest.mark.parametrize(("given", "threads"), [({}, 1), ({"NUMBA_NUM_THREADS": "2"}, 2)])
def test_a_worker_that_has_begun_its_threads_can_compile(
    given: dict[str, str], threads: int, tmp_path: Path
) -> None:
    script = tmp_path / "compiling.py"  # which a worker imports, and numba with it, before all
    script.write_text(COMPILING, encoding="utf-8")
    others = {name: text for name, text in os.environ.items() if not name.startswith("NUMBA_")}
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, env=others | given
    )
    assert done.stdout.strip() == f"(2, {threads}) (3, {threads})", done.stderr


UNSENT = """
from fourierkernels.foundation.workers import Work, on_machine

def compute(piece):
    return lambda: piece

if __name__ == "__main__":
    try:
        list(on_machine(Work(compute, "piece", "whole"), [1, 2], 2))
    except ValueError as error:
        print(error)
"""


def test_a_result_that_cannot_be_sent_is_the_failure_of_its_piece(tmp_path: Path) -> None:
    script = tmp_path / "unsent.py"
    script.write_text(UNSENT, encoding="utf-8")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert re.match(r"piece [12] failed: \w+: .*pickle", done.stdout), done.stderr


UNREADABLE = """
from multiprocessing import active_children
from fourierkernels.foundation.workers import Work, on_machine

def fails():
    raise TypeError("no result")

class Result:
    def __reduce__(self):
        return fails, ()

def compute(piece):
    return Result()

if __name__ == "__main__":
    try:
        list(on_machine(Work(compute, "piece", "whole"), [1, 2], 2))
    except TypeError as error:
        print(error, active_children())
"""


def test_a_result_that_cannot_be_read_leaves_no_worker(tmp_path: Path) -> None:
    script = tmp_path / "unreadable.py"
    script.write_text(UNREADABLE, encoding="utf-8")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert done.stdout.strip() == "no result []", done.stderr
