"""Densities as text and as characteristic functions, and the decay that a sample shows."""

import math
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy.integrate import quad
from tolerances import MONTE_CARLO_SIGMAS

from fourierkernels import simulation
from fourierkernels.estimators.smoothness import decay_table, estimate_decay
from fourierkernels.theorems import verify
from fourierkernels.theory import mise, optimum, sharp_rate
from fourierkernels.theory.densities import (
    DENSITIES,
    Beta,
    Gaussian,
    GaussianMixture,
    Laplace,
    Mixture,
    MultivariateMixture,
    Product,
    Smoothness,
    Uniform,
    as_density,
    mixed,
    mixture,
    read_characteristic,
)

if TYPE_CHECKING:
    import subprocess

Run = Callable[..., "subprocess.CompletedProcess[str]"]

TEXTS = {
    "1/4 normal(-2, .5) + 3/4 normal(3)": GaussianMixture((0.25, 0.75), (-2, 3), (0.5, 1)),
    "0.3normal(-2,.5)+0.7*laplace(1, 2)": mixture((0.3, 0.7), (Gaussian(-2, 0.5), Laplace(1, 2))),
    "normal × uniform(-1, 3)": Product((Gaussian(), Uniform(-1, 3))),
    "laplace * normal(1e-1) * beta(2, 5)": Product((Laplace(), Gaussian(0.1), Beta(2, 5))),
    "0.5 (0.5 normal + 0.5 normal(4)) + 0.5 normal(8)": GaussianMixture(
        (0.25, 0.25, 0.5), (0, 4, 8), (1, 1, 1)
    ),
    "0.5 normal(0, 2) × normal + 0.5 normal(3) × normal": MultivariateMixture(
        (0.5, 0.5), ((0, 0), (3, 0)), (((4, 0), (0, 1)), ((1, 0), (0, 1)))
    ),
    "uniform(0, 2)": Uniform(0, 2),
    "0.5 normal(0,2) +0.5 laplace": mixture((0.5, 0.5), (Gaussian(0, 2), Laplace())),
    "normal(-1/2, 1)": Gaussian(-0.5, 1),
    "normal()": Gaussian(),
    "0.5 (0.4 normal + 0.6 laplace) + 0.5 uniform": mixture(
        (0.2, 0.3, 0.5), (Gaussian(), Laplace(), Uniform())
    ),
}


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_is_the_density_that_it_describes(text: str) -> None:
    assert as_density(text) == TEXTS[text]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(1)", "'[)]' stands where name must"),
        ("0.5 normal + 0.4 laplace", "weights must sum to 1, got 0.9"),
        ("0.5 normal - 0.5 laplace", "'-' is too much"),
        ("0.5 beta(2,5)(3) + 0.5 normal", "'[(]' is too much"),
        ("normal(1_0)", "'_' stands where , must"),
        ("normal(1,)", "'[)]' stands where number must"),
        ("(" * 400 + "normal" + ")" * 400, "parentheses must be at most 20 deep"),
        ("0.33333 laplace + 0.66666 normal", r"sum to 1, got 0.99999 \(off by over 1e-9\)"),
        (
            "0.5 (mw10 × mw10 × mw10 × mw10 × mw10) + 0.5 (" + "normal × " * 4 + "normal)",
            "must have at most 2000 normal components, got 7776",
        ),
        ("0.3 normal +", "'the end' stands where name must"),
        ("normal + laplace", "each part of a sum must have a weight"),
        ("0.5 normal + 0.5 normal × normal", r"must have one dimension, got \[1, 2\]"),
        ("0.5 laplace × normal + 0.5 normal × normal", "several dimensions must be normal"),
        ("-0.5 normal + 1.5 laplace", "weights must be positive and finite, got -0.5"),
        ("0.5 laplace(0, -1) + 0.5 normal", "scale must be finite and greater than 0, got -1"),
        ("0.5 lapalce + 0.5 normal", "density must be one of gaussian, .* got 'lapalce'"),
        ("1/0 normal + 1 laplace", "weights must be"),
        ("__import__('os') + 1", "'_' stands where name must"),
        ("0.5 normal + 0.5 laplace.scale", "'[.]' is too much"),
        ("uniform(3, 1)", "high must be finite and greater than 3, got 1"),
        # the slopes of their parts jump by +6/13 and -6/13 at 0 and at 1
        ("6/13 laplace + 1/13 beta(2, 2) + 6/13 laplace(1)", "must not cancel where they are"),
    ],
)
def test_a_text_outside_the_grammar_is_refused_in_one_line(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        as_density(text)
    assert len(str(error.value).splitlines()) == 1


MIXED = {
    "kinks": "0.3 normal(-2, .5) + 0.7 laplace(1, 2)",
    "beats": "0.5 laplace + 0.5 laplace(3)",
    "jumps": "0.25 uniform(-1, 0.5) + 0.5 beta(2, 3) + 0.25 gamma(1.5)",
    "smooth": "0.2 cauchy + 0.8 normal(3, .2)",
}


@pytest.mark.parametrize("name", MIXED)
def test_a_mixture_keeps_the_contract_of_densities(name: str) -> None:
    density = as_density(MIXED[name])
    assert isinstance(density, Mixture)
    t = np.array([1e-3, 0.4, 3.0, 11.0])
    power = density.power(t)
    np.testing.assert_allclose(power.kept, np.abs(density.cf(t)) ** 2, rtol=1e-12)
    np.testing.assert_allclose(power.gap, 1.0 - power.kept, atol=1e-14)
    ends = [-np.inf, *(density.breaks or (0.0,)), np.inf]
    square = sum(quad(lambda x: density.pdf(x) ** 2, a, b, limit=400)[0] for a, b in pairwise(ends))
    assert density.roughness == pytest.approx(square, rel=1e-6)
    for start, end in ((0.0, 3.0), (70.0, 90.0)):
        if hasattr(density, "spectral_tail"):
            part = density.spectral_tail(start) - density.spectral_tail(end)
            exact = quad(lambda t: abs(density.cf(t)) ** 2, start, end, limit=1000, epsabs=1e-15)[0]
            assert part == pytest.approx(exact / math.pi, rel=1e-7)
    sample = density.sample(40_000, np.random.default_rng(0))
    assert np.abs(np.exp(1j * np.outer(t, sample)).mean(axis=1) - density.cf(t)).max() < 0.02


def test_a_mixture_of_equal_parts_is_that_part() -> None:
    one, two = Laplace(0.3), mixture((0.25, 0.75), (Laplace(0.3), Laplace(0.3)))
    for n in (100, 10**9):
        best, same = optimum(one, "fourier1", n=n), optimum(two, "fourier1", n=n)
        assert same.mise.total == pytest.approx(best.mise.total, rel=1e-9)


def test_error_of_a_mixture_is_that_of_its_simulation() -> None:
    density = as_density(MIXED["kinks"])
    options = {"n": 200, "radius": 2.0}
    simulated = simulation.mise(
        density, "fourier4", replicates=40, rng=np.random.default_rng(0), **options
    )
    exact = mise(density, "fourier4", **options).total
    assert abs(simulated.mean - exact) < MONTE_CARLO_SIGMAS * simulated.standard_error
    assert simulated.standard_error < 0.2 * exact


def test_faded_beats_of_a_mixture_leave_its_energy() -> None:
    density = as_density(MIXED["jumps"])
    near, far = (mise(density, "fourier2", n=10**6, radius=r).bias2 for r in (1e5, 4e5))
    assert near / far == pytest.approx(4.0, rel=1e-3)  # jumps: the energy beyond R is ~ 1/R


def test_a_mixture_far_from_zero_is_the_same_moved() -> None:
    moved = as_density("0.5 normal(1.6e9, 2) + 0.5 laplace(1.6e9, 1)")
    there = as_density("0.5 normal(0, 2) + 0.5 laplace(0, 1)")
    assert moved.spectral_span == pytest.approx(0.0, abs=1e-6)
    assert moved.roughness == pytest.approx(there.roughness, rel=1e-9)


def test_a_mixture_is_integrated_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    longest = []
    plain = mixed.panels

    def noted(*arguments: np.ndarray, **options: float) -> tuple[np.ndarray, np.ndarray]:
        t, weight = plain(*arguments, **options)
        longest.append(len(t))
        return t, weight

    monkeypatch.setattr(mixed, "panels", noted)
    width = 1e-4
    density = as_density(f"0.5 uniform(0, 1) + 0.5 uniform(1, {1 + width})")
    assert density.roughness == pytest.approx(0.25 * (1.0 + 1.0 / width), rel=1e-9)
    assert max(longest) < 100_000 < sum(longest)


@pytest.mark.parametrize(
    ("text", "radians"),
    [
        ("0.5 normal(6283185.307179586, 1) + 0.5 cauchy(0, 1)", "2.3e[+]08"),  # a phase of 2π
        ("0.5 normal(6.3e6, 1) + 0.5 laplace", "6.3e[+]07"),
        ("0.5 uniform(0, 1) + 0.5 uniform(1, 1.0000001)", "8.0e[+]08"),
    ],
)
def test_a_mixture_that_waves_too_often_is_refused(text: str, radians: str) -> None:
    with pytest.raises(ValueError, match=f"must be closer in place and width.*got {radians}"):
        assert as_density(text).roughness


def test_uniform_is_beta_moved_and_scaled() -> None:
    wide, unit = Uniform(-1.0, 3.0), Beta(1.0, 1.0)
    t = np.array([0.3, 5.0, 80.0])
    np.testing.assert_allclose(wide.cf(t), np.exp(-1j * t) * unit.cf(4.0 * t), atol=1e-14)
    for radius in (2.0, 1e6):
        found = mise(wide, "fourier4", n=1000, radius=radius)
        same = mise(unit, "fourier4", n=1000, radius=4.0 * radius)
        assert 4.0 * found.bias2 == pytest.approx(same.bias2, rel=1e-9)
        assert 4.0 * found.variance == pytest.approx(same.variance, rel=1e-9)


# --- characteristic functions ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("formula", "smoothness", "same"),
    [
        ("1/(1 + t**2)", "ordinary 2", "laplace"),
        ("(1 - i*t)**-3", "ordinary smooth 3", "gamma"),
        ("exp(-abs(t))", "supersmooth 1", "cauchy"),
        ("exp(-t**2/2)*cos(3*t)", "supersmooth 2", "0.5 normal(-3) + 0.5 normal(3)"),
    ],
)
def test_a_formula_has_the_error_of_its_density(formula: str, smoothness: str, same: str) -> None:
    density = read_characteristic(formula, smoothness)
    assert density.smoothness == as_density(same).smoothness
    assert density.roughness == pytest.approx(as_density(same).roughness, rel=1e-9)
    for n in (100, 10**6):
        found, known = optimum(density, "fourier1", n=n), optimum(same, "fourier1", n=n)
        assert found.mise.total == pytest.approx(known.mise.total, rel=1e-9)


def test_factors_of_a_formula_leave_its_exponent() -> None:
    assert read_characteristic("exp(-t**2/2)*(2 + cos(t))/3", "supersmooth 2").breaks == ()
    formula = "0.999*exp(-t**2/2) + 0.001*exp(-abs(t))"
    assert read_characteristic(formula, "supersmooth 1").smoothness.exponent == 1.0
    with pytest.raises(ValueError, match="whose exponent as such is 1"):
        read_characteristic(formula, "supersmooth 0.756")


def test_the_rate_of_order_four_holds_for_a_formula() -> None:
    """Does n^(-8/9) hold for my density?"""
    density = read_characteristic("exp(-abs(t)**1.5)", "supersmooth 1.5")
    assert str(sharp_rate(density, "order4")) == "n^-8/9"
    found = verify("1", density, "order4")
    assert found.verdict == "holds, loose"
    assert found.slope is not None
    assert found.slope.value == pytest.approx(-8 / 9, abs=0.002)
    with pytest.raises(ValueError, match="density must have values and samples for this"):
        verify("lemma 1", density, "order4")


@pytest.mark.parametrize(
    ("formula", "smoothness", "message"),
    [
        ("exp(-t**4)", "supersmooth 4", "would make some of the density negative"),
        ("1/(1+t**2)", "ordinary 3", "smoothness must be that of the formula, .*as such is 2"),
        ("exp(-abs(t))", "supersmooth 2", "whose exponent as such is 1"),
        ("cos(t)/(1+t**2)", "ordinary 2", "must not wave if its tail is a power"),
        ("exp(-abs(t)*1e14)", "supersmooth 1", "must fall beyond t = 1e-12"),
        ("(1-abs(t)+abs(1-abs(t)))/2", "supersmooth 2", "must not vanish beyond a frequency"),
        ("exp(-abs(t)**1.5)", "supersmooth 1.8", "whose exponent as such is 1.5"),
        ("sin(t)/t", "ordinary 1", "which has no value at t = 0"),
        ("2*exp(-t**2)", "supersmooth 2", "is 2.* at t = 0, not 1"),
        ("exp(-t**2 + t/9)", "supersmooth 2", "not the conjugate"),
        ("1", "ordinary 2", "formula must tend to 0, got '1'"),
        ("exp(-t", "supersmooth 1", "formula must be one of t"),
        ("__import__('os').system('true')", "ordinary 2", "formula must be of numbers, t and abs"),
        ("t.real", "ordinary 2", "formula must be of numbers"),
        ("(lambda: 1)()", "ordinary 2", "formula must be of numbers"),
        ("exp(-t**2)", "smooth", "smoothness must be as 'supersmooth 1.5' or 'ordinary 2'"),
        ("exp(-t**2)", "supersmooth -2", "smoothness must be finite and greater than 0"),
        ("t" * 501, "ordinary 2", "formula must have at most 500 characters, got 501"),
    ],
)
def test_a_formula_that_is_none_is_refused_in_one_line(
    formula: str, smoothness: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message) as error:
        read_characteristic(formula, smoothness)
    assert len(str(error.value).splitlines()) == 1


# --- samples -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kind", "exponent"),
    [
        ("laplace", "ordinary_smooth", 2.0),
        ("gamma", "ordinary_smooth", 3.0),
        ("cauchy", "supersmooth", 1.0),
        ("gaussian", "supersmooth", 2.0),
    ],
)
def test_a_sample_shows_the_decay_of_its_density(name: str, kind: str, exponent: float) -> None:
    x = 7.0 * DENSITIES[name].sample(8000, np.random.default_rng(4)) - 3.0
    found = estimate_decay(x, replicates=39)
    better = found.fits[0 if found.ordinary > 0.5 else 1]
    assert better.smoothness == Smoothness(kind, better.smoothness.exponent)  # type: ignore[arg-type]
    assert better.smoothness.exponent == pytest.approx(exponent, rel=0.1)
    assert better.low < better.smoothness.exponent < better.high
    assert "proves nothing" in found.lines[1]


def test_two_shapes_that_do_not_fit_are_said_not_to() -> None:
    x = np.random.default_rng(0).uniform(size=8000)
    assert "neither shape fits" in estimate_decay(x, replicates=19).lines[0]


def test_an_exponent_at_the_end_of_the_search_is_an_open_interval() -> None:
    found = estimate_decay(np.random.default_rng(1003).normal(size=1000), replicates=39)
    ordinary = found.fits[0]
    assert ordinary.low > 2.0
    assert ordinary.high == math.inf
    columns = decay_table("x", found, ["fourier1"]).columns
    assert [next(iter(column.cells)) for column in columns[:3]] == [
        "ordinary smooth",
        "≥ 50.00",
        f"{ordinary.low:.2f} to ∞",
    ]
    assert next(iter(columns[4].cells)) == "–"


def test_a_sample_of_a_density_that_is_not_square_integrable_has_no_rate() -> None:
    found = estimate_decay(np.random.default_rng(0).gamma(0.4, size=5000), replicates=19)
    assert found.fits[0].high < 0.5
    rates = decay_table("x", found, ["fourier1"]).columns[4].cells
    assert list(rates) == ["–", "(log n)^2/3 n^-1"]


def test_a_supersmooth_shape_above_order_two_does_not_count_as_one_that_fits() -> None:
    x = np.random.default_rng(0).beta(3, 3, size=3000)
    found = estimate_decay(x, replicates=39)
    assert found.fits[1].low > 2.0
    assert "neither shape fits" in found.lines[0]


@pytest.mark.parametrize(
    ("sample", "message"),
    [
        (np.arange(9.0), r"at least 100 numbers, got shape \(9,\)"),
        (np.zeros(200), "must vary in its middle half"),
        (np.round(np.random.default_rng(0).normal(size=500)), "sample must be rounded less"),
        (np.append(np.arange(150.0), math.nan), "sample must be finite"),
    ],
)
def test_samples_that_show_no_decay_are_refused(sample: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        estimate_decay(sample)


# --- commands ----------------------------------------------------------------------------------


def test_rates_take_texts_formulas_and_tables(command: Run, tmp_path: Path) -> None:
    short = ("--smallest", "4", "--largest", "4", "--no-control", "--power", "4")
    mixed = command("rates", "--density", MIXED["kinks"], *short)
    assert "n^-3/4" in mixed.stdout, mixed.stderr
    product = command("rates", "--density", "normal × uniform", *short)
    assert "D = 2" in product.stdout, product.stderr
    law = ("--characteristic", "exp(-abs(t)**1.5)", "--smoothness", "supersmooth 1.5")
    assert "n^-4/5" in command("rates", *law, *short).stdout
    table = tmp_path / "t.csv"
    values = np.random.default_rng(0).laplace(size=400).tolist()
    table.write_text("x\n" + "\n".join(map(str, values)), encoding="utf-8")
    shown = command("rates", "--from", table, "--column", "x", "--power", "4")
    assert "which proves nothing" in " ".join(shown.stdout.split()), shown.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--density", "laplace", "--from", "x.csv"),
            "density must be given once, got density and",
        ),
        (("--characteristic", "1/(1+t**2)"), "characteristic and smoothness must both be given"),
        (("--from", "x.csv"), "from and column must both be given"),
        (
            ("--from", "x.csv", "--column", "x", "--smoothness", "ordinary 2"),
            "smoothness must not be given with a table of samples, got ordinary 2",
        ),
        (
            ("--from", "x.csv", "--column", "x", "--smallest", "3"),
            "smallest must not be given with a table of samples, got 3",
        ),
        (("--column", "x"), "from and column must both be given"),
        (("--density", "0.5 normal"), "weights must sum to 1, got 0.5"),
    ],
)
def test_options_that_do_not_fit_are_one_line(
    command: Run, arguments: tuple[str, ...], message: str
) -> None:
    done = command("rates", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_theorems_take_a_characteristic_function(command: Run) -> None:
    law = ("--characteristic", "1/(1 + t**2)", "--smoothness", "ordinary 2")
    done = command("theorems", "3a ordinary smooth", *law, "--kernel", "fourier1")
    assert "n^-1/2" in done.stdout, done.stderr
