"""A fit to samples on a Dask cluster: modes travel, and a worker that dies changes nothing."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from clusters import start_cluster

from fourierkernels import KernelDensity, NadarayaWatson

distributed = pytest.importorskip("distributed")
array = pytest.importorskip("dask.array")

CHUNKS, ROWS = 24, 500


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, list[int]]]:
    """The address of a scheduler, and the process ids of its two workers."""
    process, address, pids = start_cluster(tmp_path_factory.mktemp("cluster") / "cluster.py")
    with process:
        yield address, pids
        process.kill()


def chunk(number: int) -> np.ndarray:
    """Samples that a worker draws itself."""
    return np.random.default_rng(number).normal(size=(ROWS, 1))


def samples(started: Path | None = None) -> "array.Array":
    """Chunks that say in a folder that they are computed, and then take their time."""

    def drawn(block_info: dict[object, dict[str, tuple[int, ...]]]) -> np.ndarray:
        number = block_info[None]["chunk-location"][0]
        if started is not None:
            (started / f"{number}-{os.getpid()}").touch()
            time.sleep(0.1)
        return np.random.default_rng(number).normal(size=(ROWS, 1))

    chunks = ((ROWS,) * CHUNKS, (1,))
    return array.map_blocks(drawn, chunks=chunks, dtype=float, meta=np.empty((0, 1)))


def whole() -> np.ndarray:
    return np.concatenate([chunk(number) for number in range(CHUNKS)])


AT = np.linspace(-3, 3, 50)[:, None]


def test_the_active_scheduler_fits_as_this_process_does(cluster: tuple[str, list[int]]) -> None:
    x, (address, _) = samples(), cluster
    model = NadarayaWatson(radius="normal_reference")
    with distributed.Client(address):
        found = model.fit(x, array.sin(x[:, 0]))
    expected = NadarayaWatson(radius="normal_reference").fit(whole(), np.sin(whole()[:, 0]))
    np.testing.assert_allclose(found.radius_, expected.radius_, rtol=1e-13)
    np.testing.assert_allclose(found.predict(AT), expected.predict(AT), rtol=0, atol=1e-10)


def test_bad_samples_on_a_worker_are_told_with_their_place(cluster: tuple[str, list[int]]) -> None:
    x = array.where(samples() == chunk(7)[3, 0], np.nan, samples())
    with (
        distributed.Client(cluster[0]),
        pytest.raises(ValueError, match=r"got nan in block 7, row 3, column 0 \(row 3503 of the"),
    ):
        KernelDensity(radius=2.0).fit(x)


def test_a_worker_killed_during_a_fit_changes_nothing(
    cluster: tuple[str, list[int]], tmp_path: Path
) -> None:
    from threading import Thread

    address, pids = cluster
    killed = []

    def kill_one() -> None:
        while len(list(tmp_path.iterdir())) < 6:
            time.sleep(0.01)
        killed.append(pids.pop())
        os.kill(killed[0], signal.SIGKILL)

    watcher = Thread(target=kill_one, daemon=True)
    model = KernelDensity(radius=3.0, within=[(-9, 9)])
    with distributed.Client(address):
        watcher.start()
        found = model.fit(samples(tmp_path)).density(AT)
    watcher.join(1)
    assert killed
    done = [path.name.split("-")[0] for path in tmp_path.iterdir()]
    assert sorted(set(done), key=int) == [str(number) for number in range(CHUNKS)]
    assert any(path.name.endswith(f"-{killed[0]}") for path in tmp_path.iterdir())
    undisturbed = KernelDensity(radius=3.0, within=[(-9, 9)]).fit(samples()).density(AT)
    np.testing.assert_array_equal(found, undisturbed)
    np.testing.assert_allclose(
        found, KernelDensity(radius=3.0).fit(whole()).density(AT), rtol=0, atol=1e-12
    )
