"""The study of coverage: its limits are those of the package, and its tables say what was run."""

from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest
from study_modules import read_rows, study_module

from fourierkernels import KernelDensity, NadarayaWatson
from fourierkernels.estimators import gcv_score, loo_score
from fourierkernels.kernels import as_kernel


@pytest.fixture(scope="module")
def study() -> Iterator[ModuleType]:
    with study_module("limits_coverage", threads=False) as module:
        yield module


@pytest.mark.parametrize("name", ["gaussian", "fourier2", "fourier4"])
def test_limits_of_regression_are_those_of_the_package(study: ModuleType, name: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, 60)
    y = np.sin(2 * x) + 0.3 * rng.normal(size=60)
    normal = np.random.default_rng(1).standard_normal((60, 40))
    limits, scores = study.regression_limits(as_kernel(name), x, y[:, None], normal)
    place = study.FIRST + 8
    model = NadarayaWatson(name, radius=study.RADII[place]).fit(x[:, None], y)
    for way in ("ignore", "corrected"):
        mine = model.band(study.AT[:, None], rng=np.random.default_rng(1), bias=way, replicates=40)
        other = limits[place][way]
        np.testing.assert_allclose(other.centre[:, 0], mine.centre, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(other.error[:, 0], mine.error, rtol=1e-8)
        assert other.critical == pytest.approx(mine.critical, rel=1e-8)
    assert scores["gcv"][place, 0] == pytest.approx(gcv_score(model.design_fit()), rel=1e-9)
    assert scores["loo"][place, 0] == pytest.approx(loo_score(model.design_fit()), rel=1e-9)
    larger = study.with_larger_radii(limits)[place]["radius x 2"]
    mine = model.interval(study.AT[:, None], undersmooth=2.0)
    np.testing.assert_allclose(larger.error[:, 0], mine.error, rtol=1e-8)


@pytest.mark.parametrize("name", ["fourier1", "gaussian", "fourier2", "fourier4"])
def test_limits_of_densities_are_those_of_the_package(study: ModuleType, name: str) -> None:
    x = np.random.default_rng(0).normal(size=60)
    normal = np.random.default_rng(1).standard_normal((60, 40))
    ways = study.density_ways(as_kernel(name), 2.0, x, normal)
    model = KernelDensity(name, radius=2.0).fit(x[:, None])
    assert ("corrected" in ways) == (name != "fourier1")
    for way, other in ways.items():
        options = {
            "corrected": {"bias": "corrected"},
            "radius x 1.4": {"undersmooth": 2.0**0.5},
            "radius x 2": {"undersmooth": 2.0},
        }.get(way, {})
        mine = model.band(study.AT[:, None], rng=np.random.default_rng(1), replicates=40, **options)
        np.testing.assert_allclose(other.centre, mine.centre, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(other.error, mine.error, rtol=1e-7)
        assert other.critical == pytest.approx(mine.critical, rel=1e-7)


def test_coverage_counts_points_and_whole_curves(study: ModuleType) -> None:
    truth, error = np.zeros(4), np.ones((4, 2))
    centre = np.array([[0.0, 0.0], [0.0, 0.0], [1.9, 2.1], [0.0, 0.0]])
    limits = study.Limits(centre, error, 2.0)
    both = [study.column(limits, c) for c in (0, 1)]
    found = study.covered(both, np.array([3.0, 5.0]), truth)
    np.testing.assert_array_equal(found.points, [1.0, 1.0, 0.5, 1.0])
    assert (found.all_points, found.radius, found.band_width) == (0.5, 4.0, 4.0)


@pytest.mark.parametrize(
    ("name", "sizes", "replicates"),
    [("coverage_regression", {"200", "1000"}, "1000"), ("coverage_density", {"200"}, "500")],
)
def test_tables_have_all_replicates_and_every_way(
    study: ModuleType, name: str, sizes: set[str], replicates: str
) -> None:
    table = read_rows(name)
    assert {row["n"] for row in table} == sizes
    assert {row["replicates"] for row in table} == {replicates}
    ways = {row["way"] for row in table}
    assert ways >= {"ignore", "corrected", *study.LARGER}
    for row in table:
        assert 0 <= float(row["worst_query"]) <= float(row["pointwise"]) <= 1
        assert float(row["pointwise_low"]) < float(row["pointwise"]) < float(row["pointwise_high"])
