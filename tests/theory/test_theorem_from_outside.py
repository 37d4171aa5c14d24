"""A theorem and a measure of error defined outside the package are checked, verified and shown."""

import csv
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fourierkernels import cli
from fourierkernels.theorems import (
    INTEGRATED_ERROR,
    THEOREMS,
    Assumption,
    Case,
    ErrorMeasure,
    Measured,
    Setting,
    Theorem,
    entries,
    paper_rate,
    rate_table,
    table,
    verify,
)
from fourierkernels.theory.rates import Rate, balanced_rate, sharp_rate


def is_gaussian(setting: Setting) -> tuple[bool, str]:
    return setting.kernel.name == "gaussian", f"the kernel is {setting.kernel.name}"


def bound(setting: Setting, n: float, radius: float) -> float:
    return radius**-4.0 + radius**setting.dim / n


def claim(setting: Setting) -> Rate:
    return balanced_rate(2.0, setting.dim, "a weaker statement")


def sharp(setting: Setting) -> Rate:
    return sharp_rate(setting.density, setting.kernel, dim=setting.dim)


GAUSSIAN_CONTROL = Theorem(
    name="the control",
    source="a test",
    statement=r"\mathrm{MISE} \le C \left(R^{-4} + R^D/N\right)",
    error=INTEGRATED_ERROR,
    assumptions=(Assumption("the kernel is Gaussian", is_gaussian),),
    bound=bound,
    claimed=claim,
    sharp=sharp,
    derivation="the second moment of a Gaussian is finite",
    cases=(Case("gaussian", "gaussian"), Case("gaussian", "fourier4")),
)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(THEOREMS, GAUSSIAN_CONTROL.name, GAUSSIAN_CONTROL)


def test_it_is_checked_and_verified_by_name() -> None:
    found = verify("the control", "gaussian", "gaussian")
    assert (str(found.claimed), str(found.sharp)) == ("n^-2/3", "n^-4/5")
    assert found.verdict == "holds, loose"
    assert 0.0 < found.constant < 1.0
    failed = verify("the control", "gaussian", "fourier4")
    assert failed.verdict == "not applicable"
    assert failed.reason == "the kernel is fourier4"


def test_its_cases_are_in_the_table() -> None:
    rows = [row for row in table(entries(["the control"])) if row.theorem == "the control"]
    assert [row.verdict for row in rows] == ["holds, loose", "not applicable"]
    names = [theorem.name for theorem, _ in entries()]
    assert names.count("the control") == 2
    assert names.index("lemma 1") < names.index("the control") < names.index("2")


def test_its_rate_is_that_of_the_paper_in_the_rate_table() -> None:
    assert str(paper_rate("gaussian", "gaussian")) == "n^-2/3"
    (row,) = rate_table("gaussian", ["gaussian"], sizes=[100])
    assert str(row.paper) == "n^-2/3"


def test_the_command_shows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "theorems.csv"
    arguments = ["fourierkernels", "theorems", "the control", "--output", str(path)]
    monkeypatch.setattr(sys, "argv", arguments)
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 0
    shown = capsys.readouterr().out
    assert "gaussian, gaussian, D = 1" in shown
    forms = "as printed, as proved, as sharp"
    assert f"the control (gaussian, fourier4, D = 1), {forms}: the kernel is fourier4" in shown
    with path.open(encoding="utf-8") as file:
        verdicts = [row["verdict"] for row in csv.DictReader(file)]
    assert verdicts == ["holds, loose", "not applicable"]


def test_a_measure_of_error_from_outside_is_all_that_verify_needs() -> None:
    """Errors n^{-1/2} whatever the setting: the claim of n^{-1/2} is sharp, a simulation agrees."""

    def compute(setting: Setting, sizes: Sequence[int]) -> Measured:
        n = np.array(sizes, float)
        return Measured(n, np.ones(len(n)), n**-0.5, None, "made up")

    def simulation(*, replicates: int = 100, seed: int = 0) -> object:
        def simulate(setting: Setting, sizes: Sequence[int]) -> Measured:
            found = compute(setting, sizes)
            return replace(found, standard_errors=0.001 * found.errors, method="drawn")

        return simulate

    measure = ErrorMeasure(
        name="made up",
        about_regression=False,
        compute=compute,
        sizes=(10**3, 10**4, 10**5, 10**6, 10**7),
        log_sizes=(10**3, 10**4, 10**5, 10**6, 10**7),
        over_bound=lambda bound, setting, n, radius: n**-0.5 / bound(setting, n, radius),
        factors=(1.0,),
        simulation=simulation,  # type: ignore[arg-type]
        simulated_sizes=(100, 200, 400),
    )
    rate = Rate(0.5, 0.0, "made up")
    theorem = replace(
        GAUSSIAN_CONTROL,
        error=measure,
        bound=lambda setting, n, radius: n**-0.5,
        claimed=lambda setting: rate,
        sharp=lambda setting: rate,
    )
    found = verify(theorem, "gaussian", "gaussian")
    assert found.verdict == "holds and sharp"
    assert found.constant == pytest.approx(1.0)
    assert found.simulated is not None
    assert found.simulated.method == "drawn"
