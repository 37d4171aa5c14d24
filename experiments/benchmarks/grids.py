"""Time densities on grids and the improved Sheather-Jones rule beside KDEpy's, in one run.

    python experiments/benchmarks/grids.py [--output FOLDER] [--quick] [--repeats K]

- `grid`: samples to values on a grid, fit included, over KDEpy's FFTKDE with the same samples,
  bandwidth and grid; Gaussian kernel, standard normal samples, h = 1.06 n^{-1/(4+D)}. FFTKDE bins
  linearly and cuts the kernel off, so that its error is given beside ours, each the largest one at
  300 random places of the grid relative to the largest value, from the float64 sum over all pairs.
  Rows of several tolerances say what accuracy costs; none is looser than FFTKDE's error.
- `rule`: the improved Sheather-Jones rule over KDEpy's, on normal samples and on two far modes.
  KDEpy 1.1.12 multiplies by the range of the samples what it has found on a longer grid (six units
  or half of the range more at both ends); `peer_error` is how far its bandwidth is below ours, and
  `error` what remains of the difference where it is multiplied by the range of its grid.

Processor seconds of one thread, the two sides of a ratio in turn: medians of each and median, least
and largest of the ratios. Peer: pip install KDEpy.
"""

import argparse
import itertools
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numba
import numpy as np

import fourierkernels as fk
from fourierkernels.foundation.provenance import write_study
from fourierkernels.foundation.timing import Ratios, in_turn

ROOT = Path(__file__).parents[2]
SEED = 2022
PEER = find_spec("KDEpy") is not None
CHECKED = 300
TOLERANCES = (1e-3, 1e-6, 1e-12)
Array = np.ndarray


@dataclass(frozen=True)
class Row:
    """One comparison; seconds are of one processor, errors relative."""

    what: str
    case: str
    dim: int
    n: int
    tol: float
    seconds: float
    peer_seconds: float
    ratio: float
    least: float
    largest: float
    error: float
    peer_error: float


def timed(ours: Callable, peer: Callable | None, repeats: int) -> Ratios:
    """Return processor seconds and ratios; without a peer, our seconds alone."""
    times = in_turn(ours, peer or ours, repeats=repeats, clock=time.process_time)
    return times if peer else Ratios(times.seconds, *4 * (math.nan,))


def peer_values(x: Array, h: float, lengths: tuple[int, ...]) -> tuple[Array, Array]:
    """Return FFTKDE's grid and values."""
    from KDEpy import FFTKDE

    return FFTKDE(kernel="gaussian", bw=h).fit(x).evaluate(lengths)


def grid_rows(cases: list[tuple[int, int, tuple[int, ...]]], repeats: int) -> Iterator[Row]:
    """Yield densities on grids, ours at several tolerances."""
    for dim, n, lengths in cases:
        x = np.random.default_rng([SEED, n, dim]).normal(size=(n, dim))
        h = 1.06 * n ** (-1 / (4 + dim))
        peer = partial(peer_values, x, h, lengths) if PEER else None
        places, values = peer() if peer else own_places(x, h, lengths)
        places = places.reshape(-1, dim)
        within = list(zip(places[0], places[-1], strict=True))
        some = np.random.default_rng(SEED).choice(len(places), min(CHECKED, len(places)), False)
        model = fk.KernelDensity("gaussian", bandwidth=h, method="reference").fit(x)
        exact, largest = model.density(places[some]), values.max()
        wrong = np.abs(values.ravel()[some] - exact).max() / largest
        for tol in (tol for tol in TOLERANCES if tol <= max(wrong, TOLERANCES[-1])):
            ours = partial(own_values, x, h, lengths, within, tol)
            error = np.abs(ours().values.ravel()[some] - exact).max() / largest
            case, theirs = "x".join(map(str, lengths)), wrong if PEER else math.nan
            yield Row("grid", case, dim, n, tol, *timed(ours, peer, repeats), error, theirs)


def own_places(x: Array, h: float, lengths: tuple[int, ...]) -> tuple[Array, Array]:
    """Return a grid over the samples and our density there."""
    grid = fk.KernelDensity("gaussian", bandwidth=h).fit(x).on_grid(lengths)
    return np.stack(np.meshgrid(*grid.axes, indexing="ij"), axis=-1), grid.values


def own_values(x: Array, h: float, lengths: tuple[int, ...], within: list, tol: float) -> object:
    """Return our density on the same grid."""
    model = fk.KernelDensity("gaussian", bandwidth=h, tol=tol).fit(x)
    return model.on_grid(lengths, within=within)


def rule_rows(sizes: list[int], repeats: int) -> Iterator[Row]:
    """Yield the improved Sheather-Jones rule."""
    for n, name in itertools.product(sizes, ("normal", "two modes")):
        x = np.random.default_rng([SEED, n]).normal(size=(n, 1))
        x[n // 2 :] += 8.0 * (name == "two modes")
        ours = partial(fk.KernelDensity("gaussian", radius="improved_sheather_jones").fit, x)
        peer = partial(peer_rule, x) if PEER else None
        theirs = peer() * ours().radius_[0] if peer else math.nan  # over our bandwidth
        reach = np.ptp(x)
        whole = theirs * (1.0 + 2.0 * max(0.5, 6.0 / reach))
        apart = abs(whole - 1.0), 1.0 - theirs
        yield Row("rule", name, 1, n, 1e-12, *timed(ours, peer, repeats), *apart)


def peer_rule(x: Array) -> float:
    """Return KDEpy's bandwidth."""
    from KDEpy.bw_selection import improved_sheather_jones

    return improved_sheather_jones(x)


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "experiments/results")
    parser.add_argument("--quick", action="store_true", help="smallest sizes only")
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    numba.set_num_threads(1)
    cases = [(1, 10**4, (1024,)), (2, 10**4, (64, 64))]
    if not options.quick:
        shapes = {1: [(1024,), (2**14,)], 2: [(512, 512)], 3: [(64, 64, 64)]}
        cases = [(d, n, s) for d in shapes for n in (10**5, 10**6) for s in shapes[d]]
    repeats, table = 1 if options.quick else options.repeats, []
    sizes = [10**3] if options.quick else [10**4, 10**5, 10**6]
    for row in itertools.chain(grid_rows(cases, repeats), rule_rows(sizes, repeats)):
        print(row, flush=True)
        table.append(row)
    config = {"seed": SEED, "repeats": repeats, "threads": 1}
    write_study(
        options.output,
        "grids",
        table,
        config,
        source=Path(__file__),
        packages=("fourierkernels", "KDEpy"),
    )


if __name__ == "__main__":
    main()
