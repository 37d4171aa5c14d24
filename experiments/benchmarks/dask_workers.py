"""Time the density of samples in a Dask array on one worker process and on two.

    python experiments/benchmarks/dask_workers.py [--output FOLDER] [--quick] [--repeats K]
                                                  [--scratch FOLDER]

The samples, standard normal, lie in a ``.npy`` file that the workers map; each worker is a process
with one thread, on this machine. Both clusters are up all the time and fit in turn; a row has the
median seconds of both and the median of their ratios with its range over the repeats.

- `given`: kernel l = 4, radius and range given, so that the samples are read once.
- `normal_reference`: the rule, which reads them four times.
"""

import argparse
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import fourierkernels as fk
from fourierkernels.foundation.provenance import write_study

ROOT = Path(__file__).parents[2]
SEED = 2022
KERNEL = "fourier4"
WORKERS = (1, 2)
CHUNK = 2**22  # rows
WITHIN = [(-8.0, 8.0)]


@dataclass(frozen=True)
class Row:
    """One worker against two, `repeats` fits each."""

    radius_from: str
    n: int
    repeats: int
    seconds_one: float
    seconds_two: float
    ratio: float
    least_ratio: float
    largest_ratio: float


def write_samples(path: Path, n: int) -> None:
    """Write `n` standard normal samples, one column."""
    rng = np.random.default_rng(SEED)
    file = np.lib.format.open_memmap(path, mode="w+", dtype=np.float64, shape=(n, 1))
    for start in range(0, n, CHUNK):
        file[start : start + CHUNK] = rng.standard_normal((min(CHUNK, n - start), 1))
    file.flush()


def chunk_of(path: str, start: int) -> np.ndarray:
    """Return one chunk of the file; runs on a worker."""
    return np.array(np.load(path, mmap_mode="r")[start : start + CHUNK])


def samples_of(path: Path, n: int) -> object:
    """Return the file as a Dask array of chunks that the workers read."""
    import dask
    import dask.array as da

    read = dask.delayed(chunk_of, pure=True)
    sizes = [(start, min(CHUNK, n - start)) for start in range(0, n, CHUNK)]
    return da.concatenate(
        [da.from_delayed(read(str(path), start), (size, 1), np.float64) for start, size in sizes]
    )


def seconds(client: object, samples: object, rule: str, n: int) -> float:
    """Fit on the workers of a client, and return how long it took."""
    options = {"radius": rule} if rule else {"radius": 2.0 * n**0.12, "within": WITHIN}
    with client.as_current():  # type: ignore[attr-defined]
        start = time.perf_counter()
        fk.KernelDensity(KERNEL, **options).fit(samples).density(np.zeros((1, 1)))
        return time.perf_counter() - start


def rows(scratch: Path, n: int, repeats: int) -> Iterator[Row]:
    """Fit on both clusters in turn, after one fit that is not counted."""
    from distributed import Client, LocalCluster

    path = scratch / "samples.npy"
    write_samples(path, n)
    samples = samples_of(path, n)
    with ExitStack() as stack:
        clients = []
        for count in WORKERS:
            cluster = LocalCluster(
                n_workers=count, threads_per_worker=1, dashboard_address=None, host="127.0.0.1"
            )
            client = Client(stack.enter_context(cluster), set_as_default=False)
            clients.append(stack.enter_context(client))
        for rule in ("", "normal_reference"):
            times = [[seconds(c, samples, rule, n) for c in clients] for _ in range(repeats + 1)]
            taken = np.array(times[1:])
            ratios = taken[:, 0] / taken[:, 1]
            one, two = np.median(taken, axis=0)
            spread = float(np.median(ratios)), float(ratios.min()), float(ratios.max())
            yield Row(rule or "given", n, repeats, one, two, *spread)


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "experiments/results")
    parser.add_argument("--quick", action="store_true", help="half a million samples, once")
    parser.add_argument("--samples", type=int, default=10**8)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--scratch", type=Path, help="folder for the file of samples")
    options = parser.parse_args()
    n, repeats = (500_000, 1) if options.quick else (options.samples, options.repeats)
    table = []
    with tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
        for row in rows(Path(scratch), n, repeats):
            print(row, flush=True)
            table.append(row)
    config = {"seed": SEED, "kernel": KERNEL, "chunk": CHUNK}
    write_study(options.output, "dask_workers", table, config, source=Path(__file__))


if __name__ == "__main__":
    main()
