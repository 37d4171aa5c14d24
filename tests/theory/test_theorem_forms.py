"""Theorems as printed, as proved and as sharp: weakest conditions, counterexamples, radii."""

import math

import numpy as np
import pytest

from fourierkernels.kernels import FourierKernel
from fourierkernels.theorems import THEOREMS, Case, Setting, rate_table, verify
from fourierkernels.theorems.decay import decay, face_decay, polynomial_degree, product_decay
from fourierkernels.theorems.measure import central_points
from fourierkernels.theorems.theorem_table import run
from fourierkernels.theory import mise, optimum, regression_at_radius, sharp_radius
from fourierkernels.theory.densities import DENSITIES, MultivariateMixture, Stable, as_density
from fourierkernels.theory.densities.regression_functions import Break

LINE = [name for name, density in DENSITIES.items() if density.dim == 1]


@pytest.mark.parametrize("name", ["1", "3b supersmooth", "3b ordinary smooth"])
@pytest.mark.parametrize("density", [*LINE, "gamma(1.2)", "gamma(1.5)", "gamma(2.6)", "beta(1, 3)"])
def test_the_weakest_condition_is_where_the_printed_rate_ends(name: str, density: str) -> None:
    """It holds if and only if the error falls no slower than the theorem says."""
    others = ("fourier1", "fourier3", "fourier4", "fourier7", "order4", "order6")
    for kernel in ("fourier2", *others) if name == "1" else ("fourier2",):
        theorem, setting = THEOREMS[name], Setting.of(density, kernel)
        assert theorem.claimed is not None
        stated, sharp = theorem.claimed(setting), theorem.sharp(setting)
        gain = sharp.exponent - stated.exponent
        kept = gain > 1e-12 or (abs(gain) <= 1e-12 and sharp.log_power <= stated.log_power)
        weakest = theorem.forms[-1]
        assert all(each.check(setting).holds for each in weakest.assumptions) == kept
        assert kept or not theorem.applies(setting)


@pytest.mark.parametrize(
    ("setting", "verdict"),
    [
        (("laplace", "fourier1"), "holds and sharp"),  # n^-3/4, of infinite order
        (("gaussian", "fourier2"), "holds and sharp"),  # q = 2r: bias² ~ R^-2
        (("gamma(1.5)", "fourier2"), "not applicable"),  # R^-2 log R
    ],
)
def test_theorem_1_as_sharp_takes_every_order_from_one_on(
    setting: tuple[str, str], verdict: str
) -> None:
    found = verify("1", *setting)
    assert [answer.verdict for answer in found.answers] == ["not applicable"] * 2 + [verdict]


def test_theorem_1_is_false_for_the_uniform_density() -> None:
    """R² bias² ~ R: its jumps leave |p̂|² ~ t^{-2}. Exact, without simulation."""
    radii = np.array([8.0, 32.0, 128.0, 512.0])
    grown = [r**2 * mise("beta(1, 1)", "fourier4", n=1, radius=r).bias2 for r in radii]
    np.testing.assert_allclose(grown, [3.1, 12.4, 49.5, 198.1], rtol=0.005)
    found = verify("1", "beta(1, 1)", "fourier4", sizes=[10**e for e in range(2, 7)])
    assert [answer.verdict for answer in found.answers] == [
        "does not hold",
        "not applicable",
        "not applicable",
    ]
    assert found.answers[2].reason == "the energy beyond R is R^-1, and 1 < 2"


@pytest.mark.parametrize(
    ("kernel", "m", "dim"), [("fourier4", 1, 1), ("order4", 3, 1), ("fourier4", 1, 2)]
)
def test_constants_of_theorem_1_depend_on_the_scale_of_p(kernel: str, m: int, dim: int) -> None:
    """A quarter of the scale, s = 4: bias² at the same R/s is s^D times as large."""
    wide, narrow = (
        mise(f"gaussian(0, {1 / s})", kernel, n=1, radius=3.0 * s, dim=dim).bias2 for s in (1, 4)
    )
    assert narrow / wide == pytest.approx(4.0**dim, rel=1e-9)
    grown = 12.0 ** (m + 1) * narrow / (3.0 ** (m + 1) * wide)
    assert grown == pytest.approx(4.0 ** (m + 1 + dim), rel=1e-9)
    (erratum,) = THEOREMS["1"].errata
    assert "R^{m+1} bias² is multiplied by s^{m+1+D} at the same R/s" in erratum


def test_a_density_that_is_not_square_integrable_refutes_theorem_1_as_printed() -> None:
    found = verify("1", "beta(0.4, 2)", "fourier4")
    assert found.answers[0].verdict == "does not hold"
    assert found.answers[0].reason == "p is not square integrable: the MISE is infinite"
    assert found.computed is None


@pytest.mark.parametrize(("degree", "holds"), [(0, False), (1, False), (2, True), (3, True)])
def test_theorem_2_needs_f_smooth_at_the_point_alone(degree: int, holds: bool) -> None:
    """A jump and a kink at a point leave R^{-1}; |t|² sign(t) is odd, and leaves R^{-3}."""
    point = float(central_points(as_density("gaussian"), 1)[2, 0])
    sizes = [10**e for e in range(4, 9)]
    setting = ("gaussian", "fourier6", Break(degree, point))
    found = verify("2", *setting, simulate=False, sizes=sizes)
    printed, _, sharp = (answer.verdict for answer in found.answers)
    assert printed == ("holds and sharp" if holds else "does not hold")
    assert sharp == ("holds and sharp" if holds else "not applicable")
    assert -(0.8 if holds else 2 / 3) == pytest.approx(found.slope.value, abs=0.01)


def test_theorem_2_is_false_at_the_edge_of_the_design() -> None:
    """Half a kernel: bias ~ 1/R, though f is a line and the rate says R^{-2}."""
    terms = [
        regression_at_radius(
            "beta(1, 1)", "linear", "fourier6", n=1, radius=r, at=[[1e-9]], noise_variance=0.09
        )
        for r in (50.0, 100.0)
    ]
    assert terms[0].bias[0] / terms[1].bias[0] == pytest.approx(2.0, rel=0.01)


def test_a_shift_of_responses_leaves_the_error_and_turns_the_printed_variance_negative() -> None:
    """f + C₂ is the factor of R^D/N in print; f - 10 has the same error, for every C₂ < 10."""
    design = np.random.default_rng(0).standard_normal(200)
    y = np.sin(2 * design)
    weights = FourierKernel(6).value(4.0 * (0.5 - design))
    plain, shifted = ((weights @ each) / weights.sum() for each in (y, y - 10.0))
    assert plain - math.sin(1.0) == pytest.approx(shifted - (math.sin(1.0) - 10.0), abs=1e-12)
    assert any("negative" in erratum for erratum in THEOREMS["2"].errata)


def test_no_kernel_of_higher_order_has_a_mean_in_theorem_2() -> None:
    for kernel in ("order4", "order6", "10z^12 - 7z^10", "fourier7"):
        assert "is signed" in THEOREMS["2"].refuted(Setting.of("gaussian", kernel, "sine"))
    found = verify(
        "2", "gaussian", "order4", "sine", simulate=False, sizes=[10**e for e in range(4, 9)]
    )
    assert found.answers[0].verdict == "does not hold"
    assert "is signed" in found.answers[0].reason
    assert not THEOREMS["2"].refuted(Setting.of("gaussian", "fourier6", "sine"))


def test_conditions_that_are_ours_are_marked_and_left_out_of_the_printed_form() -> None:
    for theorem in THEOREMS.values():
        if theorem.claimed is None:
            continue
        printed, proved, _ = theorem.forms
        ours = [each for each in proved.assumptions if each.ours]
        assert set(printed.assumptions) == set(proved.assumptions) - set(ours)
    marked = {n: sum(a.ours for a in t.assumptions) for n, t in THEOREMS.items() if t.claimed}
    assert [marked[name] for name in ("1", "2", "4", "lemma 1")] == [1, 4, 1, 2]
    assert [marked[name] for name in marked if name[0] == "3"] == [0] * 4


@pytest.mark.parametrize(
    ("name", "setting", "sharp"),
    [
        ("3a ordinary smooth", ("gamma(0.6)", "fourier1"), "n^-1/6"),
        ("1", ("gaussian", "gaussian"), "n^-4/5"),
    ],
)
def test_nothing_is_claimed_where_no_form_of_the_paper_applies(
    name: str, setting: tuple[str, str], sharp: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only the form as sharp applies: "stated n^--2/3" for a bias bound that grows."""
    (found,) = run([name], Case(*setting), simulate=False)
    assert "best radius, as printed" not in capsys.readouterr().out
    assert [answer.rate is None for answer in found.answers] == [True, True, False]
    assert (found.claimed, found.row()["paper_rate"], str(found.sharp)) == (None, "", sharp)
    assert f"(stated -, sharp {sharp})" in str(found)


def test_theorem_3_below_order_one() -> None:
    """α = 1/2: (log n)²/n; the best radius is (log(n + 1)/2)², in closed form."""
    found = verify("3a supersmooth", Stable(0.5), "fourier1")
    assert (found.verdict, str(found.claimed)) == ("holds and sharp", "(log n)^2 n^-1")
    best = optimum(Stable(0.5), "fourier1", n=10**4)
    assert best.radius == pytest.approx((0.5 * math.log(10**4 + 1)) ** 2, rel=1e-6)
    law = THEOREMS["3a supersmooth"].radius(found.setting)
    assert law(10**4) == pytest.approx(math.log(10**4) ** 2, rel=1e-3)


@pytest.mark.parametrize(
    ("function", "degree"), [("sine", 0.0), ("linear", 1.0), ("quadratic", 2.0)]
)
def test_theorem_4_has_the_degree_of_its_polynomial(function: str, degree: float) -> None:
    """(x² p)^ = (1 - t²) e^{-t²/2}: deg Q = 2, and R^{2 deg Q + 2 - 2α} in the bound."""
    setting = Setting.of("gaussian", "fourier1", function)
    assert polynomial_degree(setting) == degree
    assert product_decay(setting) == pytest.approx(0.5 if degree else 0.25, rel=1e-3)
    bias = THEOREMS["4"].bound(setting, 1e300, 3.0)
    expected = 3.0 ** max(2 * degree - 2.0, 0.0) * math.exp(-18.0 * product_decay(setting))
    assert bias == pytest.approx(expected, rel=1e-9)


def test_order_six_reaches_its_slope_in_exact_error() -> None:
    """-12/13 to 0.01 at n = 10^14 without extrapolation, and to 0.001 at 10^24."""
    assert optimum("gaussian", "order6", n=10**14).slope == pytest.approx(-12 / 13, abs=0.01)
    assert optimum("gaussian", "order6", n=10**24).slope == pytest.approx(-12 / 13, abs=0.001)


PAPER_RADII = {
    ("gaussian", "fourier4", 1): ("n^1/3", "n^1/5"),
    ("gaussian", "fourier4", 2): ("n^1/4", "n^1/6"),
    ("gaussian", "order6", 1): ("n^1/7", "n^1/13"),
    ("laplace", "fourier1", 1): ("n^1/2", "n^1/4"),
    ("gaussian", "fourier1", 1): ("(2 log n)^1/2", "(log n)^1/2"),
    ("cauchy", "fourier1", 1): ("(log n)", "(0.5 log n)"),
    ("gamma(4)", "fourier2", 1): ("n^1/3", "n^1/3"),
    ("laplace", "fourier3", 1): ("None", "n^1/4"),
    ("gamma(1.5)", "fourier2", 1): ("None", "(log n)^1/3 n^1/3"),  # β = r + 1/2: bias² ~ R^-q log R
    ("gamma(2.5)", "fourier4", 1): ("None", "(log n)^1/5 n^1/5"),
}


@pytest.mark.parametrize("setting", PAPER_RADII, ids=str)
def test_radii_of_the_theorems(setting: tuple[str, str, int]) -> None:
    density, kernel, dim = setting
    row = rate_table(density, [kernel], sizes=[10**12, 10**14], dim=dim)
    assert (str(row[0].paper_radius), str(row[0].sharp_radius)) == PAPER_RADII[setting]
    grown = row[1].optimum.radius / row[0].optimum.radius
    assert grown == pytest.approx(
        row[0].sharp_radius(10**14) / row[0].sharp_radius(10**12), rel=0.02
    )


def test_a_radius_that_depends_on_the_decay_asks_for_it() -> None:
    with pytest.raises(ValueError, match=r"decay must be given, the c of .*, got nan"):
        sharp_radius("gaussian", "fourier1")
    with pytest.raises(ValueError, match="decay must be finite and greater than 0, got -1"):
        sharp_radius("gaussian", "fourier1", decay=-1.0)
    assert sharp_radius("cauchy", "fourier1", decay=1.0)(math.exp(6.0)) == pytest.approx(3.0)


@pytest.mark.parametrize(
    "covariance",
    [
        [[1.0, 0.8], [0.8, 1.0]],
        [[1.0, 0.5], [0.5, 4.0]],
        [[1.0, 0.999], [0.999, 1.0]],  # |p̂| underflows along (1, 1)
        [[2.0, 0.3, -0.5], [0.3, 1.0, 0.6], [-0.5, 0.6, 1.5]],
    ],
)
def test_the_decay_in_more_dimensions_is_that_of_the_slowest_direction(
    covariance: list[list[float]],
) -> None:
    """tᵀΣt/2: least over |t|² the least eigenvalue, least over t_d = 1 the inverse of (Σ⁻¹)_dd."""
    zero = (0.0,) * len(covariance)
    density = MultivariateMixture((1.0,), (zero,), (tuple(map(tuple, covariance)),))
    setting = Setting.of(density, "fourier1")
    assert decay(setting) == pytest.approx(np.linalg.eigvalsh(covariance)[0] / 2, rel=1e-6)
    face = 0.5 / np.linalg.inv(covariance).diagonal().max()
    assert face_decay(setting) == pytest.approx(face, rel=1e-6)


def test_the_constant_of_a_radius_is_its_limit_under_correlation() -> None:
    """The best radius over its law was 0.692, 0.709, 0.718 with c of (1, -1); it tends to 1."""
    rows = rate_table("correlated", ["fourier1"], sizes=[10**6, 10**10, 10**14])
    ratios = [row.optimum.radius / row.sharp_radius(row.optimum.n) for row in rows]
    np.testing.assert_allclose(ratios, [0.928, 0.952, 0.963], atol=0.001)


def test_radii_of_theorems_2_and_4() -> None:
    two, four = (THEOREMS[name].radius for name in ("2", "4"))
    assert two is not None
    assert four is not None
    assert str(two(Setting.of("gaussian", "fourier6", "sine", dim=2))) == "n^1/6"
    assert str(four(Setting.of("gaussian", "fourier1", "linear"))) == "(log n)^1/2"
