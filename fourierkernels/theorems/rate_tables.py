"""Rates of the best exact MISE in n: what the paper proves, what is sharp, and the optima.

The rates themselves are in `fourierkernels.theory.rates`; the theorems that state them are beside
this file. :func:`rates_table` and :func:`rate_records` are what ``fourierkernels rates`` shows and
writes.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from fourierkernels.kernels import Kernel, as_kernel
from fourierkernels.theorems.decay import face_decay
from fourierkernels.theorems.measure import INTEGRATED_ERROR, Setting
from fourierkernels.theorems.registry import THEOREMS
from fourierkernels.theorems.theorem import Theorem
from fourierkernels.theory.densities import Density, as_density
from fourierkernels.theory.optimum import optimum
from fourierkernels.theory.rates import RadiusLaw, Rate, RateRow, sharp_radius, sharp_rate

if TYPE_CHECKING:
    from rich.table import Table

SIZES = tuple(10**e for e in range(2, 9))


def paper_rate(density: Density | str, kernel: Kernel | str, *, dim: int = 1) -> Rate | None:
    """Return the rate proved in [nguyen2022fourierformer]_, or None where it states none.

    Theorem 3(a) for l = 1, 3(b) for l = 2 (it asks β > 3), Theorem 1 as proved for l >= 4 and for
    φ of higher order (it asks m + 1 bounded derivatives: β > m + 2 is enough). l = 3 and the
    Gaussian are not covered.

    Examples
    --------
    >>> str(paper_rate("laplace", "fourier1")), paper_rate("laplace", "fourier2")
    ('n^-1/2', None)
    """
    setting = Setting.of(density, kernel, dim=dim)
    theorem = _proved(setting)
    return theorem.claimed(setting) if theorem is not None and theorem.claimed else None


def paper_radius(density: Density | str, kernel: Kernel | str, *, dim: int = 1) -> RadiusLaw | None:
    """Return the best radius after [nguyen2022fourierformer]_, or None where it states none.

    It balances the two terms of the bound. Where the bound is loose, the radius is too large.

    Examples
    --------
    >>> str(paper_radius("gaussian", "fourier4")), str(paper_radius("laplace", "fourier1"))
    ('n^1/3', 'n^1/2')
    """
    setting = Setting.of(density, kernel, dim=dim)
    theorem = _proved(setting)
    return theorem.radius(setting) if theorem is not None and theorem.radius else None


def _proved(setting: Setting) -> Theorem | None:
    """Return the first theorem on the MISE that states a rate for this setting."""
    return next(
        (
            theorem
            for theorem in THEOREMS.values()
            if theorem.error is INTEGRATED_ERROR and theorem.claimed and theorem.applies(setting)
        ),
        None,
    )


def rate_table(
    density: Density | str,
    kernels: Iterable[Kernel | str],
    *,
    sizes: Iterable[int] = SIZES,
    dim: int = 1,
) -> list[RateRow]:
    """Return the optimum for every kernel and sample size, kernels outermost.

    Examples
    --------
    >>> rows = rate_table("laplace", ["fourier1"], sizes=[10**7, 10**8])
    >>> print(f"{rows[-1].optimum.radius:.1f} {rows[-1].optimum.slope:.3f}")
    100.0 -0.749
    """
    target = as_density(density)
    label = density if isinstance(density, str) else repr(density)
    rows = []
    for kernel in map(as_kernel, kernels):
        paper = paper_rate(target, kernel, dim=dim)
        sharp = sharp_rate(target, kernel, dim=dim)
        setting = Setting.of(target, kernel, dim=dim)
        c = face_decay(setting) if sharp.exponent == 1.0 else math.nan
        radii = (
            paper_radius(target, kernel, dim=dim),
            sharp_radius(target, kernel, dim=dim, decay=c),
        )
        for n in sizes:
            best = optimum(target, kernel, n=n, dim=dim)
            rows.append(RateRow(label, kernel.name, best, paper, sharp, *radii))
    return rows


_HEADER = ("kernel", "n", "best radius", "exact MISE", "local slope", "paper's rate", "sharp rate")


def rates_table(rows: Sequence[RateRow]) -> "Table":
    """Return the table of best radii, errors and rates for the terminal."""
    from rich import box
    from rich.table import Table

    first = rows[0]
    title = f"{first.density}, D = {first.optimum.dim}"
    caption = "- : the paper states none" if any(row.paper is None for row in rows) else None
    table = Table(*_HEADER, title=title, box=box.SIMPLE_HEAD, caption=caption)
    for before, row in zip([first, *rows], rows, strict=False):
        if row.kernel != before.kernel:
            table.add_section()
        best = row.optimum
        numbers = f"{best.radius:.5g}", f"{best.mise.total:.4e}", f"{best.slope:.4f}"
        size = f"1e{len(str(best.n)) - 1}"
        table.add_row(row.kernel, size, *numbers, str(row.paper or "-"), str(row.sharp))
    return table


def radius_lines(rows: Sequence[RateRow]) -> Iterator[str]:
    """Say for each kernel how the best radius grows, after the paper and in truth."""
    for kernel in dict.fromkeys(row.kernel for row in rows):
        row = next(row for row in rows if row.kernel == kernel)
        paper = (
            "" if row.paper_radius is None else f"; {row.paper_radius.source}: {row.paper_radius}"
        )
        yield f"best radius of {kernel} grows like {row.sharp_radius}{paper}"


def rate_records(rows: Sequence[RateRow]) -> list[dict[str, object]]:
    """Return the table as rows of a file."""
    return [_record(row) for row in rows]


def _record(row: RateRow) -> dict[str, object]:
    best = row.optimum
    return {
        "density": row.density,
        "dim": best.dim,
        "kernel": row.kernel,
        "n": best.n,
        "radius": best.radius,
        "bias2": best.mise.bias2,
        "variance": best.mise.variance,
        "mise": best.mise.total,
        "slope": best.slope,
        "paper_rate": row.paper or "",
        "sharp_rate": row.sharp,
        "paper_radius": row.paper_radius or "",
        "sharp_radius": row.sharp_radius,
    }
