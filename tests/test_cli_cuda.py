"""``fourierkernels cuda`` as a user meets it, on a machine without a card."""

import csv
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from fake_nvcc import FakeNvcc, nvcc
from typer.testing import CliRunner, Result

from fourierkernels import cli
from fourierkernels.cli.card import check
from fourierkernels.cli.card.compared import Measure
from fourierkernels.cli.card.probes import Probe
from fourierkernels.ops.cuda import toolkit as cuda_toolkit
from fourierkernels.ops.cuda.build import Variant, library_name

__all__ = ["nvcc"]  # a fixture


@pytest.fixture(autouse=True)
def no_card(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli.app, ["cuda", *map(str, arguments)])


def words(result: Result) -> str:
    return " ".join(result.stdout.split())


# ---- build ---------------------------------------------------------------------------------------


def test_build_makes_what_first_use_looks_for_and_says_what_was_there(
    nvcc: FakeNvcc, tmp_path: Path
) -> None:
    options = ["--real", "float", "--size", 64, "--size", 16, "--output", tmp_path / "out"]
    first = run("build", "--arch", "sm_80", "--arch", "sm_90", *options)
    assert first.exit_code == 0, first.output
    expected = {
        library_name(Variant("float", size), arch, "12.4")
        for size in (16, 64)
        for arch in ("sm_80", "sm_90")
    }
    assert {path.name for path in (tmp_path / "out").iterdir()} == expected
    assert nvcc.runs == 4
    assert f"4 built, 0 there already, in {tmp_path}" in words(first)
    second = run("build", "--arch", "sm_90", *options)
    assert "0 built, 2 there already" in words(second)
    assert nvcc.runs == 4


def test_build_makes_every_library_unless_told(nvcc: FakeNvcc, tmp_path: Path) -> None:
    assert run("build", "--arch", "sm_90", "--output", tmp_path, "--jobs", 3).exit_code == 0
    assert len(list(tmp_path.glob("*.so"))) == nvcc.runs == 10


def test_build_tries_again_what_has_failed(nvcc: FakeNvcc, tmp_path: Path) -> None:
    options = ["--arch", "sm_90", "--real", "float", "--size", 16, "--output", tmp_path]
    nvcc.breaks("error: no such thing")
    failed = run("build", *options)
    assert failed.exit_code == 2
    assert "error: nvcc failed: " in failed.stderr
    assert "error: no such thing" in failed.stderr.splitlines()  # as nvcc wrote it
    nvcc.mend()
    assert run("build", *options).exit_code == 0


def test_build_for_other_machines_does_not_ask_for_the_driver_of_this_one(
    nvcc: FakeNvcc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_toolkit, "driver_release", lambda: (11, 4))
    options = ["--real", "float", "--size", 16, "--output", tmp_path]
    assert run("build", "--arch", "sm_90", *options).exit_code == 0


def test_build_takes_the_architecture_of_the_card(
    nvcc: FakeNvcc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 6))
    assert run("build", "--size", 16, "--real", "float", "--output", tmp_path).exit_code == 0
    assert [path.name.split("_")[2:4] for path in tmp_path.glob("*.so")] == [["sm", "86"]]


# ---- check ---------------------------------------------------------------------------------------


def test_check_writes_every_number_with_where_it_comes_from(tmp_path: Path) -> None:
    table, numbers = tmp_path / "check.csv", tmp_path / "check.json"
    options = ["--device", "cpu", "--quick", "--only", "eps", "--only", "stream"]
    done = run("check", *options, "--csv", table, "--json", numbers)
    assert done.exit_code == 0, done.output
    assert "0 bad, 1 skipped" in words(done)
    with table.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {row["group"] for row in rows} == {"eps", "calls"}
    content = json.loads(numbers.read_text(encoding="utf-8"))
    assert len(content["rows"]) == len(rows)
    assert content["card"]["arch"] == "cpu"
    assert content["card"]["torch"] == torch.__version__
    assert content["rows"][-1]["error"] is None  # skipped
    assert {"commit", "sources", "versions", "config"} <= set(content)


def test_check_exits_with_one_after_a_miss_and_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe = Probe("mine", lambda device: [Measure("gap", 0.2, 0.1)])
    monkeypatch.setattr(check, "PROBES", [probe])
    done = run("check", "--device", "cpu", "--only", "mine", "--csv", tmp_path / "x.csv")
    assert done.exit_code == 1
    assert "miss: calls, mine: gap 2.00e-01, bound 1.0e-01" in done.stderr
    assert "1 bad" in words(done)
    assert "miss" in (tmp_path / "x.csv").read_text()


SANITIZER = """#!/bin/sh
echo "$PYTORCH_NO_CUDA_MEMORY_CACHING $*" >> {log}
case "$*" in *{bad}*) exit 1 ;; esac
"""


@pytest.mark.parametrize(("bad", "status"), [("racecheck", 1), ("none of them", 0)])
def test_the_sanitizer_runs_the_short_check_under_each_tool(
    bad: str, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script, log = tmp_path / "compute-sanitizer", tmp_path / "log"
    script.write_text(SANITIZER.format(log=log, bad=f"'{bad}'"))
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    done = run("check", "--sanitizer", "--device", "cpu")
    assert done.exit_code == status, done.output
    called = log.read_text().splitlines()
    tools = [line.split()[2] for line in called]
    assert tools == ["memcheck", "racecheck", "synccheck"]
    assert all(line.startswith("1 --tool") for line in called)
    assert all("-m fourierkernels.cli cuda check --quick --only" in line for line in called)
    assert f"racecheck {'found errors' if status else 'ok'}" in words(done)


# ---- bench ---------------------------------------------------------------------------------------


def test_bench_prints_the_table_and_continues_its_file(tmp_path: Path) -> None:
    file = tmp_path / "bench.csv"
    options = ["--device", "cpu", "--quick", "--method", "ours", "--output", file]
    done = run("bench", *options)
    assert done.exit_code == 0, done.output
    assert words(done).count("ours") == 4
    assert "KeOps (pykeops is not installed)" in words(done)
    before = file.read_text()
    assert run("bench", *options).exit_code == 0
    assert file.read_text() == before  # nothing was left to do
    assert run("bench", *options, "--method", "softmax").exit_code == 0
    assert file.read_text().startswith(before)
    assert len(file.read_text().splitlines()) == 9


def test_bench_stops_in_time_and_says_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    options = ["--device", "cpu", "--quick", "--method", "ours", "--minutes", "1e-9"]
    done = run("bench", *options)
    assert done.exit_code == 0
    assert "No time was left for 4: run again with the same output." in words(done)


# ---- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["build"], "arch must be given where PyTorch sees no card, such as --arch sm_90"),
        (["build", "--arch", "sm_75"], "arch must be sm_80 or later, got 'sm_75'"),
        (["build", "--arch", "sm_90; rm"], "arch must be sm_80 or later, got 'sm_90; rm'"),
        (["build", "--arch", "sm_90", "--size", "48"], "size must be one of 16, 32, 64, 128, 256"),
        (["build", "--arch", "sm_90", "--real", "half"], "real must be one of float, double"),
        (["build", "--arch", "sm_90", "--jobs", "0"], "jobs must be at least 1, got 0"),
        (["check"], "device must be given where PyTorch sees no card"),
        (["check", "--device", "cuda"], "device must be 'cpu' on this machine"),
        (["check", "--device", "cpu", "--only", "zzz"], "only must be part of"),
        (["check", "--device", "cpu", "--csv", "no/x.csv"], "csv must be in an existing folder"),
        (["check", "--device", "cpu", "--json", "no/x"], "json must be in an existing folder"),
        (["bench"], "device must be given where PyTorch sees no card"),
        (["bench", "--device", "cpu", "--shape", "zzz"], "shape must be one of language model"),
        (["bench", "--device", "cpu", "--method", "zzz"], "method must be one of ours"),
        (["bench", "--device", "cpu", "--minutes", "-1"], "minutes must be finite and greater"),
        (["bench", "--device", "cpu", "--seconds", "0"], "seconds must be finite and greater"),
        (["bench", "--device", "cpu", "--output", "no/x"], "output must be in an existing folder"),
    ],
)
def test_bad_input_is_refused(arguments: list[str], message: str) -> None:
    done = run(*arguments)
    assert isinstance(done.exception, ValueError), done.output
    assert str(done.exception).startswith(message)


def test_without_compute_sanitizer_the_message_says_where_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(check.shutil, "which", lambda name: None)
    done = run("check", "--sanitizer", "--device", "cpu")
    assert str(done.exception).startswith("sanitizer needs compute-sanitizer on PATH")


def test_the_program_shows_help_and_one_line_for_an_error() -> None:
    program = [sys.executable, "-m", "fourierkernels.cli", "cuda"]
    shown = subprocess.run(program, capture_output=True, text=True, check=False)
    assert shown.returncode == 0
    assert all(word in shown.stdout for word in ("build", "check", "bench"))
    failed = subprocess.run([*program, "build", "--arch", "x"], capture_output=True, check=False)
    assert failed.returncode == 2
    assert failed.stderr == b"error: arch must be sm_80 or later, got 'x'\n"


def test_the_commands_of_the_guide_are_those_of_the_program() -> None:
    text = (Path(__file__).parents[1] / "book/gpu.md").read_text(encoding="utf-8")
    shown = re.findall(r"^fourierkernels cuda (\w+)([^#\n]*)", text, flags=re.MULTILINE)
    assert [name for name, _ in shown] == ["build", "check", "bench"]
    for name, options in shown:
        helped = " ".join(run(name, "--help").stdout.split())
        assert [o for o in re.findall(r"--[a-z]+", options) if o not in helped] == []
