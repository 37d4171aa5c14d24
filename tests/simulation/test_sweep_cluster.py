"""The same sweep on a Dask cluster: same numbers, a worker killed in the middle, no scheduler."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fourierkernels.simulation.sweep import Cell, Sweep, compute, read_results, run_sweep

pytest.importorskip("distributed")

SWEEP = Sweep(
    ("gaussian",),
    ("fourier4",),
    (20_000,),
    (1,),
    ("6.0",),
    task="regression",
    replicates=40,
    blocks=12,
    at=0.5,
)
# The cluster lives in a process of its own, as it does for a user.
CLUSTER = """
import sys
from distributed import LocalCluster
if __name__ == "__main__":
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None,
                      host="127.0.0.1") as cluster:
        pids = [worker.pid for worker in cluster.workers.values()]
        print(cluster.scheduler_address, *pids, flush=True)
        sys.stdin.read()
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple["subprocess.Popen[str]", str, list[int]]]:
    script = tmp_path / "cluster.py"
    script.write_text(CLUSTER, encoding="utf-8")
    with subprocess.Popen(
        [sys.executable, str(script)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        address, *pids = process.stdout.readline().split()
        yield process, address, [int(pid) for pid in pids]
        process.kill()


def values(done: object) -> dict[Cell, tuple[float, ...]]:
    return {cell: outcome.values for cell, outcome in done.items()}  # type: ignore[attr-defined]


def test_a_worker_killed_in_the_middle_changes_nothing(
    cluster: tuple[object, str, list[int]], tmp_path: Path
) -> None:
    _, address, pids = cluster
    path, killed = tmp_path / "results.jsonl", []

    def kill_one(finished: int, total: int) -> None:
        if finished == 3 and not killed:
            os.kill(pids[0], signal.SIGKILL)
            killed.append(pids[0])

    done = run_sweep(SWEEP, path, scheduler=address, progress=kill_one)
    assert killed
    assert values(done) == {cell: compute(cell).values for cell in SWEEP.cells()}
    assert path.read_bytes().count(b"\n") == 13
    assert values(read_results(path)[1]) == values(done)


def test_a_scheduler_that_goes_away_is_told_and_finished_cells_are_kept(
    cluster: tuple["subprocess.Popen[str]", str, list[int]], tmp_path: Path
) -> None:
    process, address, pids = cluster
    path = tmp_path / "results.jsonl"

    def kill_all(finished: int, total: int) -> None:
        if finished == 2:
            for pid in (process.pid, *pids):
                os.kill(pid, signal.SIGKILL)

    with pytest.raises(ConnectionError, match=r"scheduler must stay reachable, got 'tcp://"):
        run_sweep(SWEEP, path, scheduler=address, progress=kill_all)
    kept = values(read_results(path)[1])
    assert 2 <= len(kept) < 12
    assert all(kept[cell] == compute(cell).values for cell in list(kept)[:2])


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "nonsense://somewhere"])
def test_an_unreachable_scheduler_is_one_clear_error(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fourierkernels.simulation.sweep.cluster._PATIENCE", 1.0)
    path = tmp_path / "results.jsonl"
    with pytest.raises(ConnectionError, match="scheduler must be reachable, got") as error:
        run_sweep(SWEEP, path, scheduler=address)
    assert address in str(error.value)
    assert "\n" not in str(error.value)
    assert read_results(path)[1] == {}
