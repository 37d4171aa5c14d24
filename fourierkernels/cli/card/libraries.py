"""Libraries built at once, each by one process of nvcc, and what the build command shows of them.

PyTorch is loaded only to ask for the architecture of the card.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path

from rich import box
from rich.table import Table

from fourierkernels.foundation.console import standard_output
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


def build_command(
    archs: Sequence[str],
    reals: Sequence[str],
    sizes: Sequence[int],
    output: Path | None,
    *,
    jobs: int,
) -> list[Built]:
    """Build what is asked for and show what was made and what was there.

    Raises
    ------
    ValueError
        For an architecture, type or size without a library, or no architecture where PyTorch sees
        no card.
    BuildError
        The first failure.
    """
    libraries = wanted(archs or _archs_here(), reals, sizes)
    rows = build_all(libraries, output, elsewhere=bool(archs), jobs=jobs)
    made, console = sum(row.made for row in rows), standard_output()
    console.print(_table(rows))
    places = ", ".join(dict.fromkeys(str(row.path.parent) for row in rows))
    console.print(f"{made} built, {len(rows) - made} there already, in {places}", soft_wrap=True)
    return rows


def _table(rows: Sequence[Built]) -> Table:
    """Return one line for each library: whether it was made, in what time, and its size."""
    table = Table("library", "arch", "", "seconds", "MB", box=box.SIMPLE_HEAD)
    for row in rows:
        state = "built" if row.made else "there already"
        seconds = f"{row.seconds:.1f}" if row.made else ""
        table.add_row(row.library, row.arch, state, seconds, f"{row.bytes / 1e6:.2f}")
    return table


def _archs_here() -> list[str]:
    """Return the architectures of all cards, each once."""
    import torch

    if not torch.cuda.is_available():
        raise ValueError(
            "arch must be given where PyTorch sees no card, such as --arch sm_90, got none"
        )
    known = [torch.cuda.get_device_capability(card) for card in range(torch.cuda.device_count())]
    return list(dict.fromkeys(f"sm_{major}{minor}" for major, minor in known))
