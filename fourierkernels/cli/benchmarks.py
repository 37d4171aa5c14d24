"""``fourierkernels bench``: how fast, and how exact, every method is on this machine.

To add a task, write a function from a :class:`Setting` to contenders and add a row to
:data:`TASKS`.
"""

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec

import numpy as np
from rich import box
from rich.table import Table

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.timing import rounds
from fourierkernels.foundation.validation import check_choice, check_integer
from fourierkernels.kernels import FourierKernel
from fourierkernels.sums import METHODS, PreparedSum

_CHECKED = 256  # queries that are compared with the reference
_BUDGET = 20.0  # seconds that a single run may take by the cost model; slower ones are left out
_ENTRIES = 2**27  # of the arrays that the attention reference stores
_HEADS = 8
_LEAST_ROUNDS, _MOST_ROUNDS = 3, 25


@dataclass(frozen=True)
class Setting:
    """One problem: n samples or keys, as many queries, dimension, power of sinc, and seed."""

    n: int
    dim: int
    power: int
    seed: int


@dataclass(frozen=True)
class Contender:
    """A way to do a task.

    Attributes
    ----------
    run : callable
        Does the whole task once.
    error : callable or None
        Largest error relative to the largest value, against the reference; None for a method that
        computes another formula.
    chosen : bool
        Whether the package chooses this one by default.
    """

    run: Callable[[], object]
    error: Callable[[], float] | None
    chosen: bool = False


@dataclass(frozen=True)
class Timing:
    """One line of the table; `ratio` is to the method that the package chooses."""

    task: str
    n: int
    dim: int
    method: str
    milliseconds: float
    ratio: float
    error: float
    chosen: bool


@dataclass(frozen=True)
class Task:
    """Something to time, and the optional package that it needs."""

    name: str
    contenders: Callable[[Setting], Mapping[str, Contender]]
    description: str
    package: str = "numpy"


def _sums(setting: Setting, *, responses: bool) -> Mapping[str, Contender]:
    """Return every method of kernel sums that can do the problem in reasonable time."""
    rng = np.random.default_rng(setting.seed)
    points, queries = rng.normal(size=(2, setting.n, setting.dim))
    y = np.sin(points[:, 0]) if responses else None
    radius = 2.0 * setting.n ** (1 / (4 + setting.dim))  # of the order that is best for density

    def prepared(method: str) -> PreparedSum:
        return PreparedSum(
            points,
            kernel=FourierKernel(setting.power),
            radius=radius,
            responses=y,
            method=method,
            tol=1e-5 if method == "direct_float32" else 1e-12,
        )

    def values(method: str, at: FloatArray) -> FloatArray:
        sums = prepared(method).at(at)
        return sums.totals() if y is None else sums.ratios()[:, 0]

    def error(method: str) -> float:
        some = queries[:: max(1, setting.n // _CHECKED)]
        exact = values("reference", some)
        gap = np.abs(values(method, some) - exact)  # not a number where a ratio is undefined
        return float(np.nanmax(gap) / np.nanmax(np.abs(exact)))

    best = (
        PreparedSum(points, kernel=FourierKernel(setting.power), radius=radius, responses=y)
        .plan(queries)
        .method
    )
    return {
        name: Contender(partial(values, name, queries), partial(error, name), name == best)
        for name in METHODS
        if _able(partial(prepared, name), queries)
    }


def _able(prepare: Callable[[], PreparedSum], queries: FloatArray) -> bool:
    try:
        return prepare().plan(queries).seconds < _BUDGET
    except ValueError:  # the method cannot do this problem
        return False


def _attention(setting: Setting) -> Mapping[str, Contender]:
    """Return Fourier attention of eight heads, compiled and by definition, and softmax."""
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    from fourierkernels.attention import fourier_attention

    generator = torch.Generator().manual_seed(setting.seed)
    shape = (3, 1, _HEADS, setting.n, setting.dim)
    query, key, value = torch.randn(shape, generator=generator)
    attend = partial(fourier_attention, power=setting.power)

    def fused() -> torch.Tensor:
        return attend(query, key, value, 2.0)

    def error(found: Callable[[], torch.Tensor]) -> float:
        some = query[..., :: max(1, setting.n // _CHECKED), :].double()
        exact = attend(some, key.double(), value.double(), 2.0, implementation="reference")
        part = found()[..., :: max(1, setting.n // _CHECKED), :]
        return float((part - exact).abs().max() / exact.abs().max())

    contenders = {"fourier, compiled": Contender(fused, partial(error, fused), chosen=True)}
    if _HEADS * setting.n**2 * setting.dim <= _ENTRIES:
        plain = partial(attend, query, key, value, 2.0, implementation="reference")
        contenders["fourier, reference"] = Contender(plain, partial(error, plain))
    softmax = partial(scaled_dot_product_attention, query, key, value)
    return contenders | {"softmax (another formula)": Contender(softmax, None)}


TASKS = {
    row.name: row
    for row in (
        Task("density", partial(_sums, responses=False), "kernel density at n queries"),
        Task("regression", partial(_sums, responses=True), "Nadaraya-Watson at n queries"),
        Task("attention", _attention, f"attention, {_HEADS} heads, n tokens, float32", "torch"),
    )
}


def run_bench(
    names: Sequence[str], sizes: Sequence[int], dims: Sequence[int], *, power: int, seed: int = 0
) -> Iterator[Timing]:
    """Time every method that can do the tasks, and measure its error.

    The methods of a problem take turns, so that other load on the machine affects all alike.

    Parameters
    ----------
    names : sequence of str
        Keys of :data:`TASKS`; with none, those whose package is installed.
    sizes, dims : sequence of int
    power : int
        l of sinc^l; even for attention.

    Yields
    ------
    Timing
        Times are medians, in milliseconds, preparation included.

    Raises
    ------
    ValueError
        For an unknown task, a size, dimension or power that is not positive, or problems that are
        too large for every method.
    ImportError
        If a task needs a package that is missing.
    """
    chosen = [TASKS[check_choice("task", name, list(TASKS))] for name in names]
    chosen = chosen or [task for task in TASKS.values() if find_spec(task.package)]
    settings = [
        Setting(
            check_integer("n", n),
            check_integer("dim", dim),
            check_integer("power", power),
            check_integer("seed", seed, least=0),
        )
        for n in sizes
        for dim in dims
    ]
    empty = True
    for task in chosen:
        for setting in settings:
            for timing in _timed(task, setting):
                empty = False
                yield timing
    if empty:
        raise ValueError(
            f"n and dim must leave a method that takes less than {_BUDGET:g} s, "
            f"got n = {list(sizes)} and dim = {list(dims)}"
        )


def _timed(task: Task, setting: Setting) -> Iterator[Timing]:
    contenders = task.contenders(setting)
    if not contenders:
        return
    runs = {name: contender.run for name, contender in contenders.items()}
    turns = rounds(runs, least=_LEAST_ROUNDS, most=_MOST_ROUNDS, seconds=1.0)
    times = {name: statistics.median(seconds) for name, seconds in turns.items()}
    base = next(
        (name for name, contender in contenders.items() if contender.chosen), next(iter(times))
    )
    for name, contender in contenders.items():
        error = math.nan if contender.error is None else contender.error()
        ratio = times[name] / times[base]
        yield Timing(
            task.name,
            setting.n,
            setting.dim,
            name,
            1e3 * times[name],
            ratio,
            error,
            contender.chosen,
        )


def bench_table(rows: Sequence[Timing]) -> Table:
    """Return the table of timings as the command shows it."""
    header = ("task", "n", "D", "method", "ms", "ratio", "largest error")
    note = "* what the package chooses; ratios are to it, errors relative to the largest value"
    table = Table(*header, box=box.SIMPLE_HEAD, caption=note)
    for before, row in zip([rows[0], *rows], rows, strict=False):
        if (row.task, row.n, row.dim) != (before.task, before.n, before.dim):
            table.add_section()
        error = "-" if math.isnan(row.error) else f"{row.error:.1e}"
        name = f"{row.method} *" if row.chosen else row.method
        table.add_row(
            row.task,
            str(row.n),
            str(row.dim),
            name,
            f"{row.milliseconds:.3g}",
            f"{row.ratio:.3g}",
            error,
        )
    return table
