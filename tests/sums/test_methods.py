"""A method of summation is a row: one from outside the package is offered wherever methods are."""

import numpy as np
import pytest
from sum_problems import problem

from fourierkernels import KernelDensity, NadarayaWatson
from fourierkernels.cli.benchmarks import run_bench
from fourierkernels.foundation.arrays import FloatArray
from fourierkernels.kernels import Kernel
from fourierkernels.sums import METHODS, KernelSums, kernel_sum
from fourierkernels.sums.coordinates import Box
from fourierkernels.sums.plan import Method
from fourierkernels.sums.problem import Problem

MODULE = __name__


class LoopSum:
    """Sums by a loop over the samples; counts its calls and notes the range it is told."""

    calls = 0
    boxes: list[Box]

    def __init__(
        self,
        points: FloatArray,
        weights: FloatArray,
        responses: FloatArray,
        *,
        kernel: Kernel,
        radius: FloatArray,
        tol: float,
        box: Box,
    ) -> None:
        self._samples = (
            points,
            weights[:, None] * np.column_stack([np.ones(len(points)), responses]),
        )
        self._kernel, self._radius = kernel, radius
        type(self).boxes = [*getattr(type(self), "boxes", []), box]

    def at(self, queries: FloatArray, parts: tuple[str, ...]) -> KernelSums:
        type(self).calls += 1
        total = np.zeros((len(queries), self._samples[1].shape[1]))
        for point, columns in zip(*self._samples, strict=True):
            shapes = self._kernel.value(self._radius * (queries - point)) * self._kernel.constant
            total += shapes.prod(axis=1)[:, None] * columns
        error = 1e-13 * np.abs(total[:, 0]).max() * np.ones(len(queries))
        return KernelSums(total[:, 1:], total[:, 0], error, np.zeros(len(queries), np.int64))


def refusal(problem: Problem) -> str:
    return "has one dimension" if problem.dim > 1 else ""


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> str:
    row = Method(
        "loop", MODULE, "LoopSum", refusal, lambda asked: 1e-9, lambda asked: 1e-13, ranged=True
    )
    monkeypatch.setitem(METHODS, "loop", row)
    monkeypatch.setattr(LoopSum, "calls", 0)
    monkeypatch.setattr(LoopSum, "boxes", [], raising=False)
    return row.name


@pytest.mark.parametrize("method", ["loop", "auto"])
def test_a_method_from_outside_sums_by_name_and_where_it_is_cheapest(
    method: str, loop: str
) -> None:
    points, at, y = problem(30, 7, 1)
    options = {"kernel": "fourier4", "radius": 1.5, "responses": y}
    sums = kernel_sum(points, at, method=method, **options)
    assert LoopSum.calls == 1
    expected = kernel_sum(points, at, method="reference", **options)
    np.testing.assert_allclose(sums.ratios(), expected.ratios(), rtol=1e-9)


@pytest.mark.parametrize("method", ["loop", "auto"])
def test_a_method_from_outside_serves_the_estimators_and_is_told_their_range(
    method: str, loop: str
) -> None:
    points, at, y = problem(30, 7, 1)
    density = KernelDensity("fourier4", radius=1.5, method=method).fit(points)
    regression = NadarayaWatson("fourier4", radius=1.5, method=method).fit(points, y)
    assert density.plan_.method == regression.plan_.method == loop
    plain = KernelDensity("fourier4", radius=1.5, method="reference").fit(points)
    np.testing.assert_allclose(density.density(3 * at), plain.density(3 * at), rtol=1e-9)
    regression.predict(3 * at)
    assert set(LoopSum.boxes) == {Box.around(np.vstack([points, 3 * at]))}


def test_a_method_from_outside_refuses_with_its_reason(loop: str) -> None:
    points, at, _ = problem(30, 7, 2)
    with pytest.raises(ValueError, match="method must be able to do the sum: 'loop' has one dim"):
        kernel_sum(points, at, kernel="fourier4", radius=1.5, method=loop)
    with pytest.raises(ValueError, match=r"method must be one of auto, .*loop, got 'loops'"):
        kernel_sum(points, at, kernel="fourier4", radius=1.5, method="loops")


def test_a_method_from_outside_is_timed_and_checked_with_the_others(loop: str) -> None:
    rows = {row.method: row for row in run_bench(["density"], [32], [1], power=4)}
    assert rows[loop].chosen
    assert rows[loop].error < 1e-12
