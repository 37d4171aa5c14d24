"""The study of robust densities: its errors are those of the package, its estimates as defined."""

from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest
from study_modules import study_module

from fourierkernels import KernelDensity
from fourierkernels.kernels import as_kernel


@pytest.fixture(scope="module")
def study() -> Iterator[ModuleType]:
    with study_module("robust_densities", threads=False) as module:
        yield module


def gram(kernel: str, radius: float, x: np.ndarray) -> np.ndarray:
    return radius * as_kernel(kernel).value(radius * (x[:, None] - x))


@pytest.mark.parametrize("kernel", ["fourier4", "gaussian"])
def test_errors_of_weighted_estimates_are_exact(study: ModuleType, kernel: str) -> None:
    x = study.contaminated("mw6", "wide", 0.2, 4)
    choices = [("mean", 3.0, 1), ("Huber", 3.0, 1), ("Hampel", 3.0, 1)]
    found = study.errors("mw6", kernel, x, choices)
    density = study.as_density("mw6")
    for (loss, *_), value in zip(choices, found, strict=True):
        weights = None if loss == "mean" else study.robust_weights(gram(kernel, 3.0, x), loss)
        model = KernelDensity(kernel, radius=3.0).fit(x[:, None], sample_weight=weights)
        assert value == pytest.approx(model.ise(density) / density.roughness, rel=1e-4)


def test_outliers_in_fewer_than_half_of_the_blocks_do_not_move_the_median(
    study: ModuleType,
) -> None:
    kernels = np.random.default_rng(0).uniform(size=(study.GRID.size, 12))
    median = np.median(kernels.reshape(-1, 3, 4).mean(axis=2), axis=1)
    found = study.median_of_means(kernels, 3)
    np.testing.assert_allclose(found, median / (median.sum() * study.STEP))
    far = np.concatenate([np.zeros((study.GRID.size, 4)), kernels[:, 4:]], axis=1)
    farther = np.concatenate([np.full((study.GRID.size, 4), -9.0), kernels[:, 4:]], axis=1)
    np.testing.assert_array_equal(study.median_of_means(far, 3), study.median_of_means(farther, 3))


def test_huber_bounds_outliers_and_hampel_leaves_them_out(study: ModuleType) -> None:
    x = np.append(np.random.default_rng(1).normal(size=60), [40.0, 60.0])
    huber, hampel = (study.robust_weights(gram("fourier4", 2.0, x), s) for s in ("Huber", "Hampel"))
    assert huber.sum() == pytest.approx(1.0)
    assert 0.0 < huber[-1] == pytest.approx(huber.min())
    assert hampel[-2:].max() == 0.0 < hampel[:60].mean()


def test_hampel_may_leave_out_a_whole_mode(study: ModuleType) -> None:
    x = study.contaminated("mw6", "none", 0.0, 1)
    weights = study.robust_weights(gram("fourier4", 1.4, x), "Hampel")
    assert (x < 0).mean() > 0.4
    assert weights[x < 0].sum() < 0.05


def test_samples_of_one_number_differ_in_their_outliers_alone(study: ModuleType) -> None:
    clean, few = (study.contaminated("gaussian", "clump", share, 2) for share in (0.0, 0.05))
    assert len(np.setdiff1d(few, clean)) == round(0.05 * study.N)
    assert np.abs(np.setdiff1d(few, clean) - 4.0).max() < 1.0
