"""The methods of summation: one row per method, with what it can do and what it costs.

To add a method, write its class and a row of :data:`METHODS`; tests, :func:`plan_sum` and the
benchmark pick it up. The times are those of one thread of one machine (AMD EPYC; pairs and splits
in the ratio that they have to transforms on an Intel Xeon), over the threads that numba and OpenMP
were given. Another machine has other times, and then only their ratio counts:
``experiments/benchmarks/plan_accuracy.py`` measures both.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Protocol

import numpy as np

from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.foundation.validation import check_choice
from fourierkernels.kernels import GaussianKernel
from fourierkernels.ops.shapes import QUERIES, TILE
from fourierkernels.sums.coordinates import centring_limit, steepness
from fourierkernels.sums.problem import Problem, compiled_refusal
from fourierkernels.sums.result import KernelSums
from fourierkernels.sums.transforms import Choice, choice, loop_threads, transform_tolerance

_LARGEST_GRID = 2**31  # bytes of the oversampled grid of a nonuniform transform
# Times `tol` that a promise may be: band-limited sums promise tol and the rounding of their phases.
_SLACK = 4.0
_EPS = float(np.finfo(float).eps)
_SINGLE_EPS = float(np.finfo(np.float32).eps)


@dataclass(frozen=True)
class Plan:
    """The method chosen, its estimated time in seconds, and the accuracy it promises.

    `accuracy` is relative to the largest sum. It grows with the radius times the range of the data,
    whose angles carry that rounding.
    """

    method: str
    seconds: float
    accuracy: float


class Summer(Protocol):
    """Samples, prepared by a method for any number of blocks of queries.

    What it returns must not depend on the blocks it was given before.
    """

    def at(self, queries: FloatArray, parts: tuple[str, ...]) -> KernelSums:
        """Return the sums at queries of shape ``(m, dim)``.

        One that sums several parts at less than the cost of each has ``at_all`` too, as
        :class:`fourierkernels.sums.bandlimited.BandlimitedSum`.
        """


@dataclass(frozen=True)
class Method:
    """One way to compute a kernel sum; its module is imported on first use.

    Attributes
    ----------
    refusal : callable
        Problem -> the reason why this method cannot do it, or an empty string.
    seconds : callable
        Problem -> estimated time with the threads that were given.
    accuracy : callable
        Problem -> the accuracy it reaches, relative to the largest sum.
    exact : bool
        Whether every row is as accurate as its own terms allow in float64; rows of the others are
        summed again where their denominator is faint.
    on_device : bool
        Whether it runs on a device of torch, which its class is told as `device`; never chosen on
        a CPU.
    ranged : bool
        Whether it prepares for a range of queries, which its class is told as `box`.
    periodic : bool
        Whether it sums over images on circles, whose `periods` its class is told.
    """

    name: str
    module: str
    summer: str
    refusal: Callable[[Problem], str]
    seconds: Callable[[Problem], float]
    accuracy: Callable[[Problem], float]
    exact: bool = True
    on_device: bool = False
    ranged: bool = False
    periodic: bool = False

    def load(self) -> "Callable[..., Summer]":
        """Return the class whose instances compute the sums."""
        summer: Callable[..., Summer] = getattr(import_module(self.module), self.summer)
        return summer


def _direct_refusal(problem: Problem) -> str:
    if problem.circles:
        return "has no sums over images on a circle"
    if not (problem.plain or problem.moments):
        return "has no compiled slopes and integrals"
    return compiled_refusal(problem.kernel)


def _single_refusal(problem: Problem) -> str:
    if problem.moments:
        return "has no moments"
    reached = _single_accuracy(problem)
    coarse = f"reaches {reached:.1e} at this radius and range of data"
    return _direct_refusal(problem) or (coarse if reached > problem.tol else "")


# Seconds and nanoseconds from here on are those of the machines that are named at the top.


def _direct_seconds(problem: Problem) -> float:
    """Nanoseconds per pair, whole tiles of samples, and threads beyond a few milliseconds."""
    gaussian = isinstance(problem.kernel, GaussianKernel)
    pair = (2.7 + 0.15 * problem.dim) if gaussian else (2.1 + 0.9 * problem.dim)
    pair += 0.6 * (problem.columns - 1) + problem.moments
    work = 1e-9 * pair * TILE * math.ceil(problem.n / TILE) * problem.m
    threads = min(loop_threads(), math.ceil(problem.m / QUERIES)) if work > 4e-3 else 1
    return 4e-4 + work / threads


def _direct_accuracy(problem: Problem, eps: float = _EPS) -> float:
    """Coordinates are scaled before they are subtracted: an angle carries the span's rounding."""
    steep = steepness(problem.kernel)
    return eps * sum(4.0 + 2.0 * steep * band for band in problem.bands)


def _centred_accuracy(problem: Problem) -> float:
    """Only the queries' distance from their centre counts: see `centring_limit`."""
    limit = centring_limit(problem.kernel, problem.dim, problem.tol)
    # Four times, not two as above: a sample may lie farther out, |x| <= |u| + |q|, q counts twice.
    bands = (min(band, limit) for band in problem.bands)
    return _EPS * sum(4.0 + 4.0 * steepness(problem.kernel) * band for band in bands)


def _centring_seconds(problem: Problem) -> float:
    """Return the seconds of further centres: each takes the sines of all samples anew."""
    return (min(problem.cells, problem.m) - 1) * (3e-4 + 50e-9 * problem.n * problem.dim)


def _single_accuracy(problem: Problem) -> float:
    return _direct_accuracy(problem, _SINGLE_EPS)


def _bandlimited_refusal(problem: Problem) -> str:
    if problem.dim > 3:
        return "has at most 3 dimensions"
    if math.isinf(problem.kernel.support) and not isinstance(problem.kernel, GaussianKernel):
        return "needs a transform of compact support"
    if problem.accuracy > _SLACK * problem.tol:
        return f"reaches {problem.accuracy:.1e} at this radius and range of data"
    if 8.0 * problem.columns * math.prod(_way(problem, problem.m).sizes) > _LARGEST_GRID:
        return f"would need {math.prod(problem.modes):.1e} modes"
    return ""


def _way(problem: Problem, count: int) -> Choice:
    """Return the transform of so many samples or queries."""
    return choice(problem.modes, count, problem.columns, transform_tolerance(problem.tol))


def grid_seconds(problem: Problem) -> float:
    """Return the part of a band-limited sum that does not depend on the number of points: FFTs."""
    return 2.0 * _way(problem, 0).seconds + problem.columns * 40e-9 * math.prod(problem.modes)


def _bandlimited_seconds(problem: Problem) -> float:
    """Seconds of the series, and of the transforms of samples and queries."""
    moments = max(1, problem.moments)  # for each, transforms back
    series = 9e-4 if isinstance(problem.kernel, GaussianKernel) else 1.8e-3
    modes = problem.columns * 40e-9 * math.prod(problem.modes)
    back = moments * (_way(problem, problem.m).seconds + modes)
    return series + _way(problem, problem.n).seconds + back


def _split_refusal(problem: Problem) -> str:
    if problem.circles:
        return "has no sums over images on a circle"
    return _bandlimited_refusal(problem.inside)


def _split_seconds(problem: Problem) -> float:
    """Seconds within the bulk, and of all pairs with one outside."""
    if problem.bulk is None:
        return 1e-4 + _bandlimited_seconds(problem)
    inside, bulk = problem.inside, problem.bulk
    far = [(bulk.samples, inside.m), (inside.n, bulk.queries)]
    outside = _reference_seconds(replace(problem, n=bulk.samples, m=bulk.queries))
    pairwise = sum(_exact_seconds(problem, *sizes) for sizes in far) + outside
    sorting = 4e-8 * problem.dim * (problem.n + problem.m)
    return 3e-3 + _bandlimited_seconds(inside) + sorting + pairwise


def _exact_seconds(problem: Problem, n: int, m: int) -> float:
    """Seconds of the pairs of n samples and m queries."""
    if n < 1 or m < 1:
        return 0.0
    pairs = replace(problem, n=n, m=m, cells=1, bulk=None)
    return _reference_seconds(pairs) if _direct_refusal(pairs) else _direct_seconds(pairs)


def _reference_seconds(problem: Problem) -> float:
    gaussian = isinstance(problem.kernel, GaussianKernel)
    pair = (30e-9 + 7e-9 * problem.dim) if gaussian else (24e-9 + 54e-9 * problem.dim)
    return 4e-4 + pair * problem.n * problem.m * max(1, problem.moments)


METHODS = {
    method.name: method
    for method in (
        Method(
            "direct",
            "fourierkernels.sums.direct",
            "CentredSum",
            _direct_refusal,
            lambda problem: _direct_seconds(problem) + _centring_seconds(problem),
            _centred_accuracy,
        ),
        Method(
            "direct_float32",
            "fourierkernels.sums.direct",
            "SinglePrecisionSum",
            _single_refusal,
            lambda problem: 0.5 * _direct_seconds(problem),
            _single_accuracy,
            exact=False,
        ),
        Method(
            "bandlimited",
            "fourierkernels.sums.bandlimited",
            "BandlimitedSum",
            _bandlimited_refusal,
            _bandlimited_seconds,
            lambda problem: problem.accuracy,
            exact=False,
            ranged=True,
            periodic=True,
        ),
        Method(
            "split",
            "fourierkernels.sums.split",
            "SplitSum",
            _split_refusal,
            _split_seconds,
            lambda problem: problem.inside.accuracy,
            exact=False,
            ranged=True,
        ),
        Method(
            "reference",
            "fourierkernels.sums.reference",
            "ReferenceSum",
            lambda problem: "",
            _reference_seconds,
            lambda problem: 1e-15 * problem.dim,
            periodic=True,
        ),
        Method(
            "torch",
            "fourierkernels.sums.on_device",
            "TorchSum",
            _direct_refusal,
            lambda problem: math.inf,
            _direct_accuracy,
            exact=False,
            on_device=True,
        ),
    )
}


def plan_sum(problem: Problem, method: str = "auto") -> Plan:
    """Return the plan: the cheapest method that reaches `tol`, or the one named.

    If none reaches it, the cheapest that can do the sum; the plan has the accuracy.

    Raises
    ------
    ValueError
        If the method is unknown or cannot do this problem; the message says why.
    """
    if check_choice("method", method, ["auto", *METHODS]) == "auto":
        able = [row for row in METHODS.values() if not row.refusal(problem)]
        exact = [row for row in able if row.accuracy(problem) <= _SLACK * problem.tol]
        chosen = min(exact or able, key=lambda row: row.seconds(problem))
    else:
        chosen = METHODS[method]
        refusal = chosen.refusal(problem)
        if refusal:
            raise ValueError(f"method must be able to do the sum: {method!r} {refusal}")
    return Plan(chosen.name, chosen.seconds(problem), chosen.accuracy(problem))
