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


OWN = """
from fourierkernels.kernels import kernel_of_order
from fourierkernels.theory.densities import GaussianMixture
p = GaussianMixture((0.5, 0.5), (-1.0, 1.0), (0.6, 0.9))
k = kernel_of_order(4, (5, 7))
nothing = 3
"""


def test_an_object_of_ones_own_file_is_put_to_the_test(run: Run, tmp_path: Path) -> None:
    path, table = tmp_path / "mine.py", tmp_path / "t.csv"
    path.write_text(OWN, encoding="utf-8")
    setting = ("--density", f"{path}:p", "--kernel", f"{path}:k", "--output", table)
    done = run("density of higher order", *setting)
    assert done.returncode == 0, done.stderr
    with table.open(encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    assert (row["as_proved"], row["sharp_rate"]) == ("holds and sharp", "n^-8/9")
    assert row["density"].startswith("GaussianMixture")


def test_rates_of_ones_own_density(command: Run, tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(OWN, encoding="utf-8")
    setting = ("--density", f"{path}:p", "--kernel", f"{path}:k", "--no-control")
    done = command("rates", *setting, "--largest", "3")
    assert done.returncode == 0, done.stderr
    assert "n^-8/9" in done.stdout
    assert "grows like n^1/9" in done.stdout


@pytest.mark.parametrize(
    ("density", "message"),
    [
        ("missing.py:p", "density must be in an existing file, got missing.py"),
        ("mine.py:q", "density must be a name of mine.py, got 'q'"),
        ("mine.py:nothing", "density must be a density or its name, got 3"),
        ("broken.py:p", "density must be in a file that runs, got broken.py: NameError: name"),
    ],
)
def test_a_file_without_a_density_is_refused_in_one_line(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, density: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(OWN, encoding="utf-8")
    (tmp_path / "broken.py").write_text("p = q", encoding="utf-8")
    done = run("1", "--density", density, "--kernel", "fourier4")
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_rates_on_a_circle_stand_beside_those_on_the_line(command: Run, tmp_path: Path) -> None:
    from fourierkernels.theory import circle_optimum, optimum

    files = ("--output", str(tmp_path / "c.csv"), "--plot", str(tmp_path / "c.svg"))
    options = ("--density", "wrapped_laplace(0.5)", "--power", "1", "--smallest", "4")
    done = command("rates", *options, "--largest", "5", *files)
    assert done.returncode == 0, done.stderr
    with (tmp_path / "c.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["kernel"] for row in rows] == ["fourier1"] * 2 + ["gaussian"] * 2
    around = circle_optimum("wrapped_laplace(0.5)", "fourier1", n=10**4)
    line = optimum("laplace(0, 0.5)", "fourier1", n=10**4)
    assert float(rows[0]["mise"]) == around.mise.total
    assert float(rows[0]["line_mise"]) == line.mise.total
    assert rows[0]["frequencies"] == str(around.frequencies)
    for number in (f"{around.mise.total:.4e}", f"{line.mise.total:.4e}", f"{line.slope:.4f}"):
        assert number in done.stdout
    assert (tmp_path / "c.svg").read_text(encoding="utf-8").count("<svg") == 1


def test_a_circle_without_a_line_has_empty_columns(command: Run) -> None:
    options = ("--density", "von_mises(2)", "--power", "1", "--smallest", "3", "--largest", "3")
    done = command("rates", *options, "--no-control")
    assert done.returncode == 0, done.stderr
    assert "the density is no wrapped one" in done.stdout
    assert "is a bound" in done.stdout


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--density", "cardioid(0.7)"], "cardioid: rho must be at most 0.5, got 0.7"),
        (["--density", "von_mises(x)"], "von_mises: could not convert"),
        (["--density", "arc", "--dim", "2"], "dim must be 1 for a density on a circle, got 2"),
    ],
)
def test_wrong_circles_are_one_line(command: Run, options: list[str], says: str) -> None:
    done = command("rates", *options)
    assert done.returncode == 2
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
