"""``fourierkernels theorems`` as a user meets it."""

import csv
from collections.abc import Callable
from functools import partial
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from fourierkernels.theorems import entries, verify

Run = Callable[..., "CompletedProcess[str]"]


@pytest.fixture
def run(command: Run) -> Run:
    return partial(command, "theorems")


def test_one_statement_in_one_setting_is_told_with_its_reasons(run: Run) -> None:
    done = run("3a ordinary smooth", "--density", "laplace", "--kernel", "fourier1")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    shown = " ".join(done.stdout.split())
    found = verify("3a ordinary smooth", "laplace", "fourier1")
    for piece in (
        "n^-1/2 n^-3/4",
        str(found.slope).replace("moved ", ""),
        "holds, loose",
        "as printed: holds, loose, n^-1/2",
        "as sharp: holds and sharp, n^-3/4",
        "holds: φ(z) = z^l, l = 1",
        "best radius, as printed: n^1/2",
        f"constant of the bound: {found.constant:.4g}",
        "why: squared bias is",
    ):
        assert piece in shown


def test_a_setting_alone_is_put_to_every_theorem_on_densities(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    done = run("--density", "laplace", "--kernel", "fourier4", "--output", str(path))
    assert done.returncode == 0, done.stderr
    with path.open(encoding="utf-8") as file:
        verdicts = {row["theorem"]: row["verdict"] for row in csv.DictReader(file)}
    assert verdicts.pop("density limited by smoothness") == "holds and sharp"
    assert set(verdicts.values()) == {"not applicable"}
    reason = "as proved: the density is ordinary smooth with β = 2"
    assert f"1 (laplace, fourier4, D = 1), {reason}" in done.stdout
    assert [p.name for p in tmp_path.iterdir()] == ["t.csv"]


def test_names_alone_choose_rows_of_the_table(run: Run) -> None:
    done = run("1", "3b supersmooth", "--no-simulate")
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if ", D = " in line and "n^-" in line]
    expected = entries(["1", "3b supersmooth"])
    assert len(lines) == len(expected)
    rough = next(line for line in lines if "gamma, fourier4" in line)
    assert rough.split()[-3:] == ["fails", "n/a", "n/a"]  # printed, proved, sharp


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["lemma"], "theorem must be one of 1, 3a supersmooth"),
        (["--density", "laplace"], "density and kernel must both be given, got laplace and None"),
        (["1", "--dim", "2"], "density and kernel must both be given, got None and None"),
        (["4", "--density", "gaussian", "--kernel", "fourier1"], "function must be given"),
        (["1", "--density", "foo", "--kernel", "fourier4"], "density must be one of gaussian"),
        (["1", "--density", "gaussian", "--kernel", "fourier0"], "power must be at least 1, got 0"),
        (
            ["1", "--density", "gaussian", "--kernel", "fourier4", "--dim", "0"],
            "dim must be at least 1, got 0",
        ),
        (["--output", "/no/such/folder/t.csv"], "output must be in an existing folder"),
    ],
)
def test_what_is_wrong_is_one_line(run: Run, arguments: list[str], message: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
