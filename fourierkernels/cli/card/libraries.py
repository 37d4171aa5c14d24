"""Several libraries built at once, each by one process of nvcc."""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path

from fourierkernels.foundation.validation import check_choice, check_integer
from fourierkernels.ops.cuda.build import REALS, SIZES, VARIANTS, Variant, build, check_arch, say


@dataclass(frozen=True)
class Built:
    """A library of the list; `made` unless it was there already."""

    library: str
    arch: str
    made: bool
    seconds: float
    bytes: int
    path: Path


def wanted(
    archs: Sequence[str], reals: Sequence[str] = (), sizes: Sequence[int] = ()
) -> list[tuple[Variant, str]]:
    """Return what to build, every precision and size if none is named.

    Raises
    ------
    ValueError
        For an architecture, a type or a size for which there is no library.

    Examples
    --------
    >>> wanted(["sm_90"], ["float"], [64])
    [(Variant(real='float', size=64), 'sm_90')]
    """
    for real in reals:
        check_choice("real", real, REALS)
    for size in sizes:
        check_choice("size", str(size), tuple(map(str, SIZES)))
    return [
        (variant, check_arch(arch))
        for arch, variant in product(archs, VARIANTS)
        if variant.real in (reals or REALS) and variant.size in (sizes or SIZES)
    ]


def build_all(
    libraries: Sequence[tuple[Variant, str]],
    folder: Path | None = None,
    *,
    elsewhere: bool = False,
    jobs: int = 1,
    built: Callable[[Built], None] = lambda row: None,
) -> list[Built]:
    """Build libraries, `jobs` at a time, and return them in the order of the list.

    Parameters
    ----------
    libraries : sequence of (Variant, str)
        Which ones, for which architectures.
    folder : Path or None
        The cache if not given.
    elsewhere : bool
        They are for another machine: the driver of this one does not matter.
    built : callable
        Called with each as it is there.

    Raises
    ------
    BuildError
        The first failure; libraries that have not been begun are left out.
    """
    check_integer("jobs", jobs)
    one = partial(_one, folder=folder, elsewhere=elsewhere)
    rows = []
    with ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(one, *library) for library in libraries]
        try:
            for future in futures:
                rows.append(future.result())
                built(rows[-1])
        except BaseException:
            for future in futures:
                future.cancel()
            raise
    return rows


def _one(variant: Variant, arch: str, *, folder: Path | None, elsewhere: bool) -> Built:
    begun: list[str] = []

    @contextmanager
    def announce(message: str) -> Iterator[None]:
        begun.append(message)
        say(message)
        yield

    start = time.perf_counter()
    path = build(variant, arch, folder, elsewhere=elsewhere, again=True, announce=announce)
    seconds = time.perf_counter() - start
    name = f"{variant.real}, {variant.size}"
    return Built(name, arch, bool(begun), seconds, path.stat().st_size, path)
