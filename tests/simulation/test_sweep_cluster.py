"""The same sweep on a Dask cluster: same numbers, a worker killed in the middle, no scheduler."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters import Cluster, start_cluster

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


@pytest.fixture(scope="module")
def clusters() -> Iterator[list[Cluster]]:
    """All that were started, to be ended."""
    started: list[Cluster] = []
    yield started
    for process, *_ in started:
        with process:
            process.kill()


@pytest.fixture
def cluster(clusters: list[Cluster], tmp_path: Path) -> Cluster:
    """A cluster that another test has left running, or a new one."""
    if not clusters or clusters[-1][0].poll() is not None:
        clusters.append(start_cluster(tmp_path / "cluster.py"))
    return clusters[-1]


def values(done: object) -> dict[Cell, tuple[float, ...]]:
    return {cell: outcome.values for cell, outcome in done.items()}  # type: ignore[attr-defined]


@pytest.mark.slow
def test_a_worker_killed_in_the_middle_changes_nothing(cluster: Cluster, tmp_path: Path) -> None:
    _, address, pids = cluster
    path, killed = tmp_path / "results.jsonl", []

    def kill_one(finished: int, total: int) -> None:
        if finished == 3 and not killed:
            killed.append(pids.pop())
            os.kill(killed[0], signal.SIGKILL)

    done = run_sweep(SWEEP, path, scheduler=address, progress=kill_one)
    assert killed
    assert values(done) == {cell: compute(cell).values for cell in SWEEP.cells()}
    assert path.read_bytes().count(b"\n") == 13
    assert values(read_results(path)[1]) == values(done)


@pytest.mark.slow
def test_a_scheduler_that_goes_away_is_told_and_finished_cells_are_kept(
    cluster: Cluster, tmp_path: Path
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
    monkeypatch.setattr("fourierkernels.foundation.workers._PATIENCE", 1.0)
    path = tmp_path / "results.jsonl"
    with pytest.raises(ConnectionError, match="scheduler must be reachable, got") as error:
        run_sweep(SWEEP, path, scheduler=address)
    assert address in str(error.value)
    assert "\n" not in str(error.value)
    assert not path.exists()  # so that nothing blocks the corrected run
