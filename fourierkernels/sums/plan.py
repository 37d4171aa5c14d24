"""The methods of summation: one row per method, with what it can do and what it costs.

To add a method, write its class and a row of :data:`METHODS`; tests, :func:`plan_sum` and the
benchmark pick it up. The times were fitted on one machine (AMD EPYC, AVX-512); only their ratio
matters, which ``experiments/benchmarks/kernel_limits.py`` measures anew.
"""

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol

import numpy as np

from fourierkernels.arrays import FloatArray
from fourierkernels.kernels import GaussianKernel
from fourierkernels.sums.compiled import compiled_refusal
from fourierkernels.sums.problem import Problem
from fourierkernels.sums.result import KernelSums
from fourierkernels.validation import check_choice

_LARGEST_GRID = 2**31  # bytes of the oversampled grid of a nonuniform transform
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
        Problem -> estimated time on this machine's cores.
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

    def load(self) -> "Callable[..., Summer]":
        """Return the class whose instances compute the sums."""
        summer: Callable[..., Summer] = getattr(import_module(self.module), self.summer)
        return summer


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _direct_refusal(problem: Problem) -> str:
    if not (problem.plain or problem.moments):
        return "has no compiled slopes and integrals"
    return compiled_refusal(problem.kernel)


def _single_refusal(problem: Problem) -> str:
    if problem.moments:
        return "has no moments"
    reached = _single_accuracy(problem)
    coarse = f"reaches {reached:.1e} at this radius and range of data"
    return _direct_refusal(problem) or (coarse if reached > problem.tol else "")


def _direct_seconds(problem: Problem) -> float:
    """Nanoseconds per pair, samples in tiles of 256, and threads beyond a few milliseconds."""
    gaussian = isinstance(problem.kernel, GaussianKernel)
    pair = (1.05 + 0.06 * problem.dim) if gaussian else (1.3 + 0.28 * problem.dim)
    pair += 0.28 * (problem.columns - 1) + 0.7 * problem.moments
    work = 1e-9 * pair * 256 * math.ceil(problem.n / 256) * problem.m
    threads = min(_cores(), math.ceil(problem.m / 16)) if work > 4e-3 else 1
    return 1e-4 + work / threads


def _direct_accuracy(problem: Problem, eps: float = _EPS) -> float:
    """Coordinates are scaled before they are subtracted: an angle carries the span's rounding."""
    steepness = math.sqrt(getattr(problem.kernel, "power", 1))  # |d shape/du| <= 0.6 of it
    return eps * sum(4.0 + 2.0 * steepness * band for band in problem.bands)


def _single_accuracy(problem: Problem) -> float:
    return _direct_accuracy(problem, _SINGLE_EPS)


def _bandlimited_refusal(problem: Problem) -> str:
    if problem.dim > 3:
        return "has at most 3 dimensions"
    if math.isinf(problem.kernel.support) and not isinstance(problem.kernel, GaussianKernel):
        return "needs a transform of compact support"
    if problem.accuracy > 4.0 * problem.tol:
        return f"reaches {problem.accuracy:.1e} at this radius and range of data"
    pairs = (problem.columns + 1) // 2
    if 16.0 * pairs * 2**problem.dim * math.prod(problem.modes) > _LARGEST_GRID:
        return f"would need {math.prod(problem.modes):.1e} modes"
    return ""


def _bandlimited_seconds(problem: Problem) -> float:
    """Seconds on one thread: to spread each point to its neighbours on the grid, and the FFTs."""
    spread, point = {1: (42e-9, 40e-9), 2: (118e-9, 14e-9), 3: (555e-9, 19e-9)}[problem.dim]
    grid = float(2**problem.dim) * math.prod(problem.modes)
    pairs = (problem.columns + 1) // 2
    series = max(1, problem.moments)  # for each, transforms back
    fft = point * grid * max(1.0, math.log2(grid) / 10.0)
    points = problem.n + series * problem.m
    return 8e-4 + pairs * (spread * points + 0.5 * (1 + series) * fft)


def _reference_seconds(problem: Problem) -> float:
    return 2e-4 + 60e-9 * problem.n * problem.m * problem.dim * max(1, problem.moments)


METHODS = {
    method.name: method
    for method in (
        Method(
            "direct",
            "fourierkernels.sums.direct",
            "DirectSum",
            _direct_refusal,
            _direct_seconds,
            _direct_accuracy,
        ),
        Method(
            "direct_float32",
            "fourierkernels.sums.direct",
            "SinglePrecisionSum",
            _single_refusal,
            lambda problem: 0.55 * _direct_seconds(problem),
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
        ),
        Method(
            "reference",
            "fourierkernels.sums.reference",
            "ReferenceSum",
            lambda problem: "",
            _reference_seconds,
            lambda problem: 1e-15 * problem.dim,
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
    """Return the plan: the cheapest method that can do it, or the one named.

    Raises
    ------
    ValueError
        If the method is unknown or cannot do this problem; the message says why.
    """
    if check_choice("method", method, ["auto", *METHODS]) == "auto":
        able = [row for row in METHODS.values() if not row.refusal(problem)]
        chosen = min(able, key=lambda row: row.seconds(problem))
    else:
        chosen = METHODS[method]
        refusal = chosen.refusal(problem)
        if refusal:
            raise ValueError(f"method must be able to do the sum: {method!r} {refusal}")
    return Plan(chosen.name, chosen.seconds(problem), chosen.accuracy(problem))
