"""``fourierkernels sweep`` as a user meets it: the table, resuming, interrupts, one-line errors."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from interrupts import hears_interrupts

from fourierkernels.simulation.sweep import read_results

SMALL = [
    "--kernel",
    "fourier4",
    "--kernel",
    "gaussian",
    "--n",
    "50",
    "--n",
    "100",
    "--replicates",
    "3",
    "--blocks",
    "2",
]


Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(command: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a sweep in the test's folder."""
    monkeypatch.chdir(tmp_path)
    return partial(command, "sweep")


def test_sweep_prints_its_table_and_goes_on_from_the_file_alone(run: Run, tmp_path: Path) -> None:
    first = run("r.jsonl", *SMALL, "--workers", "2")
    assert first.returncode == 0, first.stderr
    assert first.stderr == ""
    rows = [line.split() for line in first.stdout.splitlines() if line.split()[:1] == ["gaussian"]]
    assert [(row[1], row[4], row[9]) for row in rows] == [
        ("fourier4", "50", "6"),
        ("fourier4", "100", "6"),
        ("gaussian", "50", "6"),
        ("gaussian", "100", "6"),
    ]
    lines = (tmp_path / "r.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "r.jsonl").write_bytes(b"".join(lines[:4]))
    again = run("r.jsonl")
    assert again.stdout == first.stdout
    assert len(read_results(tmp_path / "r.jsonl")[1]) == 8


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["r.jsonl", "--kernel", "foo"], "kernel must be one of"),
        (["missing/r.jsonl"], "results must be in an existing folder"),
        (["r.jsonl", "--task", "foo"], "task must be one of density, regression"),
        (
            ["r.jsonl", "--density", "beta(0.3, 2)", "--n", "50"],
            "density must be square integrable",
        ),
    ],
)
def test_errors_are_one_line_and_leave_nothing(
    arguments: list[str], message: str, run: Run, tmp_path: Path
) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_corrected_sweep_starts_after_one_that_failed(run: Run, tmp_path: Path) -> None:
    assert run("r.jsonl", *SMALL, "--density", "beta(0.3, 2)").returncode == 2
    assert run("r.jsonl", *SMALL, "--density", "beta(2, 2)").returncode == 0
    assert (tmp_path / "r.jsonl").exists()


def test_a_failing_sweep_keeps_the_file_it_found(run: Run, tmp_path: Path) -> None:
    (tmp_path / "r.jsonl").touch()
    assert run("r.jsonl", *SMALL, "--density", "beta(0.3, 2)").returncode == 2
    assert (tmp_path / "r.jsonl").exists()


def test_another_sweep_and_a_foreign_file_are_refused_in_one_line(run: Run, tmp_path: Path) -> None:
    run("r.jsonl", *SMALL)
    before = (tmp_path / "r.jsonl").read_bytes()
    done = run("r.jsonl", *SMALL, "--seed", "5")
    assert "error: results must be of the same sweep, got r.jsonl with seed = 0 (now 5)" in (
        done.stderr
    )
    assert (tmp_path / "r.jsonl").read_bytes() == before
    (tmp_path / "notes.txt").write_text("my notes\n", encoding="utf-8")
    done = run("notes.txt")
    assert done.stderr == (
        "error: results must be of a sweep, got notes.txt: no valid header line\n"
    )


@pytest.mark.parametrize("workers", ["1", "2"])
def test_an_interrupt_says_so_and_keeps_finished_cells(workers: str, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    command = [
        sys.executable,
        "-m",
        "fourierkernels.cli",
        "sweep",
        "r.jsonl",
        "--task",
        "regression",
        "--at",
        "0.5",
        "--kernel",
        "fourier4",
        "--n",
        "20000",
        "--radius",
        "6",
        "--replicates",
        "40",
        "--blocks",
        "200",
        "--workers",
        workers,
    ]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, cwd=tmp_path, preexec_fn=hears_interrupts
    ) as process:
        for _ in range(1200):
            if path.exists() and path.read_bytes().count(b"\n") > 2:
                break
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        message = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert message == "error: interrupted\n"
    assert 2 <= len(read_results(path)[1]) < 200


def test_an_address_without_a_port_is_one_line(run: Run, tmp_path: Path) -> None:
    done = run("r.jsonl", *SMALL, "--scheduler", "nonsense")
    assert done.returncode == 2
    assert "scheduler must be reachable, got 'nonsense' (missing port" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_results_are_a_file(run: Run) -> None:
    done = run("/dev/null", *SMALL)
    assert done.returncode == 2
    assert done.stderr == "error: results must be a file, got the device /dev/null\n"
