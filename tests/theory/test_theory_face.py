"""The names of the theory that users and the book rely on."""

import subprocess
import sys

import pytest

import fourierkernels as fk


@pytest.mark.parametrize("name", fk.theory.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(fk.theory, name) is not None


def test_errors_have_their_parts() -> None:
    error = fk.theory.mise(fk.densities.Gaussian(), fk.FourierKernel(power=4), n=100, radius=2.0)
    assert error.total == error.bias2 + error.variance
    best = fk.theory.optimal_radius("gaussian", fk.GaussianKernel(), n=100, dim=1)
    assert fk.theory.optimum("gaussian", "gaussian", n=100).radius == best


def test_theorems_are_objects_with_names_rates_and_settings() -> None:
    theorems = fk.theorems
    assert list(theorems.THEOREMS) == [
        "1",
        "3a supersmooth",
        "3a ordinary smooth",
        "3b supersmooth",
        "3b ordinary smooth",
        "density of order 2",
        "density of higher order",
        "density limited by smoothness",
        "2",
        "4",
        "regression of order 1",
        "regression of order 2",
        "regression of higher order",
        "lemma 1",
    ]
    setting = theorems.Setting.of("laplace", "fourier1")
    assert theorems.THEOREMS["3a ordinary smooth"].applies(setting)
    assert theorems.verify("1", "laplace", "fourier4").verdict == "not applicable"
    rows = theorems.table(theorems.entries(["3a ordinary smooth"])[:1])
    assert [row.verdict for row in rows] == ["holds, loose"]


def test_densities_and_simulation_have_their_names() -> None:
    made = (
        fk.densities.Cauchy(),
        fk.densities.Laplace(),
        fk.densities.Beta(2, 3),
        fk.densities.Gamma(3),
        fk.densities.marron_wand(4),
    )
    for density in made:
        assert all(hasattr(density, name) for name in ("pdf", "cf", "sample", "smoothness"))
    assert callable(fk.simulation.mise)
    assert callable(fk.simulation.mse)


def test_formulas_are_loaded_on_first_use() -> None:
    code = (
        "import sys, fourierkernels as fk; fk.theory.mise; print('sympy' in sys.modules); "
        "fk.theory.symbolic; print('sympy' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["False", "True"]


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'theorem'"):
        fk.theory.theorem  # noqa: B018
