"""The command line as a user meets it: output, files, one-line errors."""

import csv
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from interrupts import hears_interrupts

from fourierkernels.foundation.files import complete_file
from fourierkernels.theory import optimum

Run = Callable[..., "subprocess.CompletedProcess[str]"]
PROGRAM = [sys.executable, "-m", "fourierkernels.cli"]


def test_rates_prints_the_table_of_the_issue(command: Run) -> None:
    done = command("rates", "--density", "laplace", "--power", "1", "2", "4")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    for header in ("n", "best radius", "exact MISE", "local slope", "paper's rate", "sharp rate"):
        assert header in done.stdout
    best = optimum("laplace", "fourier4", n=10**8)
    line = next(row for row in done.stdout.splitlines() if "fourier4" in row and "1e8" in row)
    assert line.split() == [
        "fourier4",
        "1e8",
        f"{best.radius:.5g}",
        f"{best.mise.total:.4e}",
        f"{best.slope:.4f}",
        "-",
        "n^-3/4",
    ]
    assert "gaussian" in done.stdout  # the control


def test_rates_draws_and_writes(command: Run, tmp_path: Path) -> None:
    picture, table = tmp_path / "rates.png", tmp_path / "rates.csv"
    done = command(
        "rates", "--power", "1", "--largest", "4", "--plot", str(picture), "--output", str(table)
    )
    assert done.returncode == 0, done.stderr
    assert picture.read_bytes().startswith(b"\x89PNG")
    with table.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["n"] for row in rows[:3]] == ["100", "1000", "10000"]
    assert float(rows[0]["mise"]) == optimum("gaussian", "fourier1", n=100).mise.total
    assert sorted(p.name for p in tmp_path.iterdir()) == ["rates.csv", "rates.png"]


def test_help_carries_an_example() -> None:
    """In a process of its own, as are those of the README."""
    for name in ("rates", "heads"):
        shown = subprocess.run([*PROGRAM, name, "--help"], capture_output=True, text=True)
        assert shown.returncode == 0
        assert f"fourierkernels {name}" in " ".join(shown.stdout.split())


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("rates", ["mw15", "correlated", "fourier6", "at most 1000"]),
        ("theorems", ["'3a supersmooth'", "lemma 1", "doppler", "mw15", "fourier6"]),
        ("sweep", ["mw15", "doppler", "student", "lscv", "by default 100, 1000, 10000", "optimal"]),
    ],
)
def test_help_lists_the_registries_and_the_defaults(name: str, words: list[str]) -> None:
    environment = {**os.environ, "COLUMNS": "120"}
    shown = subprocess.run(
        [*PROGRAM, name, "--help"], capture_output=True, text=True, env=environment
    )
    text = " ".join(shown.stdout.replace("│", " ").split())
    assert [word for word in words if word not in text] == []
    assert "{" not in text.replace("{results}", "")


def test_rates_of_a_power_of_six_hundred_end(command: Run) -> None:
    """sinc^600 is nearly Gaussian, and so is its error."""
    done = command("rates", "--power", "600", "--smallest", "4", "--largest", "4")
    rows = [line.split() for line in done.stdout.splitlines() if " 1e4 " in line]
    assert [row[0] for row in rows] == ["fourier600", "gaussian"]
    assert float(rows[0][3]) == pytest.approx(float(rows[1][3]), rel=2e-3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rates", "--density", "foo"], "density must be one of gaussian"),
        (["rates", "--power", "0"], "power must be at least 1, got 0"),
        (["rates", "--power", "1001"], "power must be at most 1000, got 1001"),
        (["rates", "--power", "1.5"], "power must be an integer, got '1.5'"),
        (["rates", "--power", "2", "x"], "power must be an integer, got 'x'"),
        (["rates", "--output", "missing/x.csv"], "output must be in an existing folder"),
        (["rates", "--largest", "400"], "smallest and largest must keep 0 <= smallest"),
        (["rates", "--dim", "0"], "dim must be at least 1, got 0"),
        (["rates", "--density", "beta(0.3, 2)"], "density must be square integrable"),
        (["rates", "--plot", "missing/x.png"], "plot must be in an existing folder"),
        (["rates", "--plot", "x.doc"], "plot must be one of .png, .svg, .pdf, got '.doc'"),
        (["rates", "--smallest", "5", "--largest", "3"], "smallest and largest must keep"),
        (["rates", "--bogus"], "No such option"),
        (["bogus"], "No such command"),
        (["heads", "missing-folder", "--text", "missing.txt"], "must be an existing folder"),
    ],
)
def test_errors_are_one_line_with_status_two_and_leave_nothing(
    arguments: list[str],
    message: str,
    command: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    done = command(*arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_rates_refuses_a_folder_as_output_and_leaves_no_part(command: Run, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    done = command("rates", "--power", "1", "--output", str(tmp_path / "folder"))
    assert done.returncode == 2
    assert "output must be a file, got the folder" in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["folder"]


def test_a_folder_that_cannot_be_written_to_is_refused_before_the_work(
    command: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write anywhere
    done = command("rates", "--output", tmp_path / "x.csv")
    assert (done.returncode, done.stdout) == (2, "")
    assert "output must be in a folder that can be written to, got " in done.stderr


def test_two_that_write_a_file_at_once_both_succeed(tmp_path: Path) -> None:
    with complete_file(tmp_path / "x.csv") as first, complete_file(tmp_path / "x.csv") as second:
        first.write_text("1")
        second.write_text("2")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("x.csv", "1")]


# The command, saying when it has read its arguments and starts to compute.
ANNOUNCED = """
import sys
from fourierkernels import cli, theorems
def announced(*arguments, table=theorems.rate_table, **options):
    print("computing", flush=True)
    return table(*arguments, **options)
theorems.rate_table = announced
sys.argv[0] = "fourierkernels"
cli.main()
"""


def test_an_interrupt_is_one_line_with_status_130_and_leaves_nothing(tmp_path: Path) -> None:
    powers = map(str, range(1, 60))
    arguments = ["rates", "--density", "mw15", "--power", *powers, "--output", "x.csv"]
    command = [sys.executable, "-c", ANNOUNCED, *arguments, "--largest", "15"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=tmp_path, preexec_fn=hears_interrupts, **pipes) as process:
        assert process.stdout.readline() == "computing\n"
        process.send_signal(signal.SIGINT)
        printed, message = process.communicate(timeout=60)
    assert process.returncode == 130
    assert (printed, message) == ("", "error: interrupted\n")
    assert list(tmp_path.iterdir()) == []
