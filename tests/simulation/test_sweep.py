"""Sweeps: same numbers whoever computes them, nothing lost, nothing twice, clear refusals."""

import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tolerances import MONTE_CARLO_SIGMAS

import fourierkernels
from fourierkernels import theory
from fourierkernels.estimators.radius import RADIUS_RULES
from fourierkernels.simulation import Estimate
from fourierkernels.simulation.sweep import (
    TASKS,
    Cell,
    Outcome,
    Sweep,
    compute,
    read_results,
    run_sweep,
    summarise,
)
from fourierkernels.simulation.sweep.cells import Task
from fourierkernels.simulation.sweep.results import Done

SMALL = Sweep(("gaussian", "laplace"), ("fourier1", "fourier4"), (60, 120), replicates=4, blocks=2)
FITS = Sweep(
    ("gaussian",),
    ("fourier1", "fourier4"),
    (80,),
    (1, 2),
    ("optimal", "3.0"),
    task="regression",
    replicates=4,
    blocks=2,
    at=0.5,
)


def numbers(done: Done) -> dict[Cell, tuple[float, ...]]:
    return {cell: outcome.values for cell, outcome in done.items()}


@pytest.fixture(scope="module")
def expected() -> dict[Cell, tuple[float, ...]]:
    """Every cell of the small sweep, computed one by one without any file."""
    return {cell: compute(cell).values for cell in SMALL.cells()}


def count_lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def test_rules_of_densities_are_the_optimum_and_those_of_the_estimators() -> None:
    assert TASKS["density"].rule_names == ["optimal", *RADIUS_RULES]
    assert TASKS["regression"].rule_names == ["optimal"]


def test_a_task_and_a_rule_from_outside_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One row each: names are checked, cells computed, and the summary has its title."""
    monkeypatch.setitem(TASKS["density"].rules, "three", lambda cell: 3.0)
    ruled = compute(Cell("density", "gaussian", "fourier4", 80, 1, "three", 0, 3, seed=0))
    assert ruled.radius == pytest.approx(3.0)
    outside = Task("distance from 0", lambda cell, r: (np.full(cell.replicates, r), r), {})
    monkeypatch.setitem(TASKS, "outside", outside)
    sweep = replace(SMALL, task="outside", radii=("0.5",))
    rows = summarise(run_sweep(sweep, tmp_path / "results.jsonl"))
    assert {row.mean for row in rows} == {0.5}
    with pytest.raises(ValueError, match="radii must be one of optimal"):
        replace(SMALL, radii=("four",))


@pytest.mark.parametrize("workers", [1, 3])  # with two, below
def test_numbers_do_not_depend_on_the_number_of_workers(
    workers: int, expected: dict[Cell, tuple[float, ...]], tmp_path: Path
) -> None:
    path = tmp_path / "results.jsonl"
    assert numbers(run_sweep(SMALL, path, workers=workers)) == expected
    assert count_lines(path) == 1 + len(SMALL.cells())
    sweep, done = read_results(path)
    assert sweep == SMALL
    assert numbers(done) == expected


def test_every_cell_and_block_draws_its_own_numbers() -> None:
    cells = [*SMALL.cells(), *FITS.cells(), replace(SMALL.cells()[0], seed=1)]
    assert len({cell.key for cell in cells}) == len(cells)
    assert len({cell.rng().random() for cell in cells}) == len(cells)


def test_a_cell_s_numbers_are_pinned() -> None:
    """The key and the first draw of one cell, so that stored results stay reproducible."""
    cell = Cell("density", "gaussian", "fourier4", 100, 1, "optimal", 0, 3, seed=7)
    assert cell.key == "e269aa94c719c738760f9c571da895c1"
    assert cell.rng().random() == 0.7346058026012219


def test_sweep_means_agree_with_exact_theory() -> None:
    cell = Cell("density", "gaussian", "fourier4", 100, 1, "2.5", 0, 400, seed=1)
    estimate = Estimate(np.array(compute(cell).values))
    exact = theory.mise("gaussian", "fourier4", n=100, radius=2.5).total
    assert abs(estimate.mean - exact) < MONTE_CARLO_SIGMAS * estimate.standard_error


@pytest.mark.parametrize("rule", TASKS["density"].rule_names)
def test_every_radius_rule_runs(rule: str) -> None:
    outcome = compute(Cell("density", "gaussian", "fourier4", 80, 1, rule, 0, 3, seed=0))
    assert len(outcome.values) == 3
    assert 0.5 < outcome.radius < 20.0


def test_regression_cells_run_at_a_point_and_integrated() -> None:
    for cell in (*FITS.cells(), *replace(FITS, at=None, dims=(1,)).cells()):
        outcome = compute(cell)
        assert len(outcome.values) + outcome.undefined == 4
        assert min(outcome.values) > 0


def test_a_finished_sweep_is_not_computed_again(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    run_sweep(SMALL, path)
    before = path.read_bytes()
    seen: list[tuple[int, int]] = []
    run_sweep(SMALL, path, workers=2, progress=lambda *counts: seen.append(counts))
    assert seen == [(16, 16)]
    assert path.read_bytes() == before


@pytest.mark.parametrize("cut", [1, 20, 10_000])
def test_a_line_cut_short_is_computed_again(
    cut: int, expected: dict[Cell, tuple[float, ...]], tmp_path: Path
) -> None:
    """Whatever a crash leaves of the last line, even of the header, is no obstacle."""
    path = tmp_path / "results.jsonl"
    run_sweep(SMALL, path)
    content = path.read_bytes()
    path.write_bytes(content[: max(7, len(content) - cut)])
    assert numbers(run_sweep(SMALL, path)) == expected
    assert count_lines(path) == 17


def test_summary_joins_the_blocks(tmp_path: Path) -> None:
    done = run_sweep(SMALL, tmp_path / "results.jsonl")
    rows = summarise(done)
    assert len(rows) == 8
    for row in rows:
        blocks = [v for c, o in done.items() if replace(c, block=0) == row.cell for v in o.values]
        assert row.replicates == len(blocks) == 8
        assert row.mean == pytest.approx(np.mean(blocks), rel=1e-14)
        assert row.undefined == 0


# --- killed workers and runs ----------------------------------------------------------------------

SLOW = Sweep(
    ("gaussian",),
    ("fourier4",),
    (20_000,),
    (1,),
    ("6.0",),
    task="regression",
    replicates=40,
    blocks=12,
    at=0.5,
)
RUN = """
import sys
from fourierkernels.simulation.sweep import Sweep, run_sweep
if __name__ == "__main__":
    sweep = Sweep(("gaussian",), ("fourier4",), (20_000,), (1,), ("6.0",), task="regression",
                  replicates=40, blocks=12, at=0.5)
    run_sweep(sweep, sys.argv[1], workers=2)
"""


@pytest.fixture(scope="module")
def slow_expected() -> dict[Cell, tuple[float, ...]]:
    return {cell: compute(cell).values for cell in SLOW.cells()}


def wait_for(condition: Callable[[], bool], what: str) -> None:
    for _ in range(1200):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError(f"{what}: not within a minute")


def children(pid: int) -> list[int]:
    """Workers of a process: its children that run our pool."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
                command = (entry / "cmdline").read_bytes()
            except (OSError, IndexError):
                continue
            if parent == pid and b"spawn_main" in command:
                found.append(int(entry.name))
    return found


def start(path: Path) -> "subprocess.Popen[bytes]":
    script = path.with_suffix(".py")
    script.write_text(RUN, encoding="utf-8")
    return subprocess.Popen([sys.executable, str(script), str(path)])


@pytest.mark.slow
def test_a_killed_worker_costs_only_the_cell_in_its_hands(
    slow_expected: dict[Cell, tuple[float, ...]], tmp_path: Path
) -> None:
    path = tmp_path / "results.jsonl"
    with start(path) as process:
        for lines in (2, 5):
            wait_for(lambda at_least=lines: count_lines(path) >= at_least, "lines")  # type: ignore[misc]
            os.kill(children(process.pid)[0], signal.SIGKILL)
        assert process.wait(timeout=120) == 0
    assert numbers(read_results(path)[1]) == slow_expected
    assert count_lines(path) == 13


def test_a_killed_run_keeps_what_it_finished_and_leaves_no_worker(
    slow_expected: dict[Cell, tuple[float, ...]], tmp_path: Path
) -> None:
    path = tmp_path / "results.jsonl"
    with start(path) as process:
        wait_for(lambda: count_lines(path) >= 3, "lines")
        workers = children(process.pid)
        process.kill()
    kept = read_results(path)[1]
    assert 2 <= len(kept) < 12
    assert numbers(kept).items() <= slow_expected.items()
    assert len(workers) == 2
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers), "end of workers")
    before = path.read_bytes()
    before = before[: before.rfind(b"\n") + 1]
    assert numbers(run_sweep(SLOW, path)) == slow_expected
    assert path.read_bytes().startswith(before)  # finished cells were not computed again
    assert count_lines(path) == 13


@pytest.mark.slow
def test_a_cell_that_ends_every_worker_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fourierkernels.foundation.workers._work", os.kill)  # a TypeError
    with pytest.raises(ChildProcessError, match=r"cell density .* ended 3 workers") as error:
        run_sweep(SMALL, tmp_path / "results.jsonl", workers=2)
    assert "Finished cells are kept" in str(error.value)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_failing_cell_is_named_and_the_others_are_kept(tmp_path: Path, workers: int) -> None:
    path = tmp_path / "results.jsonl"
    sweep = Sweep(("gaussian", "beta(0.3, 2)"), ("fourier4",), (50,), replicates=2)
    with pytest.raises(ValueError, match=r"cell density beta\(0.3, 2\) .* failed: ValueError: den"):
        run_sweep(sweep, path, workers=workers)
    kept = [cell.density for cell in read_results(path)[1]]
    assert kept == ["gaussian"]


# --- the results file -----------------------------------------------------------------------------


def test_a_second_run_is_refused_while_the_first_holds_the_file(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"

    def intrude(finished: int, total: int) -> None:
        if finished == 1:
            with pytest.raises(ValueError, match="results must not be in use by another run"):
                run_sweep(SMALL, path)

    run_sweep(SMALL, path, progress=intrude)
    assert count_lines(path) == 17


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            lambda lines: [lines[0], lines[1].replace(b"0.0", b"0.1", 1), *lines[2:]],
            r"got a damaged or foreign line 2 in .*: remove that line",
        ),
        (
            lambda lines: [lines[0], *lines[1:4], b"rubbish\n", *lines[4:]],
            "got a damaged or foreign line 5",
        ),
        (lambda lines: [lines[0], b"\xff\xfe\x00\n"], "got a damaged or foreign line 2"),
        (lambda lines: lines[1:], "no valid header line"),
        (lambda lines: [b"a,b,c\n", b"1,2,3\n"], "no valid header line"),
        (lambda lines: [b"no newline at all"], "no header line"),
    ],
)
def test_damaged_and_foreign_files_are_refused_and_left_alone(
    damage: Callable[[list[bytes]], list[bytes]], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "results.jsonl"
    run_sweep(SMALL, path)
    content = b"".join(damage(path.read_bytes().splitlines(keepends=True)))
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        run_sweep(SMALL, path)
    with pytest.raises(ValueError, match=message):
        read_results(path)
    assert path.read_bytes() == content


def test_removing_a_damaged_line_computes_that_cell_again(
    expected: dict[Cell, tuple[float, ...]], tmp_path: Path
) -> None:
    path = tmp_path / "results.jsonl"
    run_sweep(SMALL, path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:3] + lines[4:]))
    assert numbers(run_sweep(SMALL, path)) == expected


def test_the_same_line_twice_counts_once(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    run_sweep(SMALL, path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines, lines[-1]]))
    assert len(read_results(path)[1]) == 16
    assert all(row.replicates == 8 for row in summarise(read_results(path)[1]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 1}, r"same sweep, got .* with seed = 0 \(now 1\)"),
        ({"sizes": (60,)}, r"with sizes = \[60, 120\] \(now \[60\]\)"),
    ],
)
def test_a_file_of_another_sweep_is_refused(
    change: dict[str, object], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "results.jsonl"
    run_sweep(replace(SMALL, blocks=1, kernels=("fourier4",)), path)
    other = replace(SMALL, blocks=1, kernels=("fourier4",), **change)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=message):
        run_sweep(other, path)


def test_a_file_of_another_version_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "results.jsonl"
    run_sweep(SMALL, path)
    monkeypatch.setattr("fourierkernels.simulation.sweep.grid.__version__", "9.9")
    ours = re.escape(fourierkernels.__version__)
    with pytest.raises(ValueError, match=rf"results must be of fourierkernels 9\.9, got {ours}"):
        run_sweep(SMALL, path)


FULL = """
import resource, sys
from fourierkernels.simulation.sweep import Sweep, run_sweep
if __name__ == "__main__":
    sweep = Sweep(("gaussian", "laplace"), ("fourier1", "fourier4"), (60, 120), replicates=4,
                  blocks=2)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, resource.RLIM_INFINITY))
    try:
        run_sweep(sweep, sys.argv[1])
    except OSError as error:
        print(error)
"""


@pytest.mark.slow
def test_a_full_disk_is_told_and_loses_nothing(
    expected: dict[Cell, tuple[float, ...]], tmp_path: Path
) -> None:
    """A limit on the size of the file cuts the last line short, as a full disk does."""
    path, script = tmp_path / "results.jsonl", tmp_path / "run.py"
    script.write_text(FULL, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(script), str(path)], capture_output=True, text=True, check=True
    )
    assert "results could not be written (File too large)" in done.stdout
    assert "are kept: make room and run the same sweep again" in done.stdout
    assert path.read_bytes().endswith(b"}\n")
    assert 0 < len(read_results(path)[1]) < 16
    assert numbers(run_sweep(SMALL, path)) == expected


def test_a_failed_write_leaves_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a line is written, then the disk is full."""
    path, write, calls = tmp_path / "results.jsonl", os.write, []

    def full(file: int, data: bytes) -> int:
        calls.append(data)
        if len(calls) == 5:
            return write(file, data[:40])
        if len(calls) > 5:
            raise OSError(28, "No space left on device")
        return write(file, data)

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space left on device") as error:
        run_sweep(SMALL, path)
    assert str(path) in str(error.value)
    monkeypatch.undo()
    assert len(read_results(path)[1]) == 3
    assert count_lines(path) == 4


def test_every_line_is_forced_to_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = []
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: (synced.append(file), fsync(file))[1])
    run_sweep(SMALL, tmp_path / "results.jsonl")
    assert len(synced) == 16 + 2  # the cells, the header, the folder


def test_lines_are_plain_json(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    run_sweep(SMALL, path)
    header, first = map(json.loads, path.read_text(encoding="utf-8").splitlines()[:2])
    assert header["sweep"]["densities"] == ["gaussian", "laplace"]
    assert header["fourierkernels"] == fourierkernels.__version__
    assert first["cell"]["n"] == 120
    assert len(first["outcome"]["values"]) == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"task": "spectra"}, "task must be one of density, regression"),
        ({"kernels": ()}, "kernels must be distinct and at least one, got"),
        ({"sizes": (10, 10)}, "sizes must be distinct and at least one"),
        ({"sizes": (1,)}, "sizes must be at least 2, got 1"),
        ({"dims": (4,)}, "dims must be at most 3, got 4"),
        ({"radii": ("widest",)}, "radii must be one of optimal, normal_reference"),
        ({"radii": ("-1",)}, "radii must be positive and finite, got -1"),
        ({"radii": ("nan",)}, "radii must be positive and finite, got nan"),
        ({"radii": ("lscv",), "task": "regression"}, "radii must be one of optimal, got 'lscv'"),
        ({"densities": ("foo",)}, "density must be one of"),
        ({"kernels": ("foo",)}, "kernel must be one of"),
        ({"replicates": 1}, "replicates must be at least 2, got 1"),
        ({"blocks": 0}, "blocks must be at least 1, got 0"),
        ({"seed": -1}, "seed must be at least 0, got -1"),
        ({"function": "foo"}, "function must be one of"),
        ({"noise": "foo"}, "noise must be one of"),
        ({"at": float("inf")}, "at must be finite, got inf"),
    ],
)
def test_bad_sweeps_are_refused_before_anything_runs(
    options: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        replace(SMALL, **options)  # type: ignore[arg-type]


def test_bad_workers_and_paths_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="workers must be at least 1, got 0"):
        run_sweep(SMALL, tmp_path / "results.jsonl", workers=0)
    with pytest.raises(OSError, match="missing"):
        run_sweep(SMALL, tmp_path / "missing" / "results.jsonl")
    with pytest.raises(OSError, match="Is a directory"):
        run_sweep(SMALL, tmp_path)
    assert Outcome((1.0,), 0, 1.0, 0.1).values == (1.0,)
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 3000
