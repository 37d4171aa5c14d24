"""The benchmark of the operator: what is measured, what is left out and why, and its files."""

import csv
import json
import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from fourierkernels.cli.card import bench, contenders
from fourierkernels.cli.card.bench import Plan, run_bench
from fourierkernels.cli.card.card import Card, Line, Results, card_of, card_or_cpu, record
from fourierkernels.cli.card.contenders import (
    CONTENDERS,
    QUICK,
    SHAPES,
    Contender,
    Shape,
    both_ways,
    floor_ms,
    installed,
)
from fourierkernels.foundation.timing import measure

CPU = torch.device("cpu")
CARD = Card("H200", "sm_90", 132, 0, 0, 1.755, "none", "none", "none", "none", "none")
PLAN = Plan(CPU, CARD, seconds=0.01)
TINY = (Shape("tiny", 1, 2, 16, 4),)


def lines(*names: str, plan: Plan = PLAN, shapes: Any = TINY, done: Any = ()) -> list[Line]:
    return list(run_bench(shapes, names, plan, done))


def test_every_contender_of_the_cpu_is_timed_with_its_error() -> None:
    names = [name for name in installed("cpu")[0] if "compile" not in name]
    found = lines(*names)
    assert {line.contender for line in found} == set(names)
    assert len(found) == 4 * len(names)  # causal or not, forward and backward
    for line in found:
        assert line.status == "ok", line
        assert 0 < line.quartile_low <= line.milliseconds <= line.quartile_high
        assert line.of_floor == pytest.approx(line.milliseconds / line.floor)
        exact = CONTENDERS[line.contender].exact and line.direction == "forward"
        assert line.error < 5e-6 if exact else math.isnan(line.error)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # the compiler warns of its own code
def test_the_compiled_reference_is_timed_with_its_error() -> None:
    found = lines("reference, torch.compile")
    assert [(line.status, line.note) for line in found] == [("ok", "")] * 4
    assert found[0].error < 5e-6


def test_ours_is_timed_on_every_shape_before_the_others() -> None:
    shapes = (*TINY, Shape("other", 1, 1, 8, 4))
    found = lines("ours", "softmax, float32", shapes=shapes)
    assert [line.contender for line in found] == ["ours"] * 8 + ["softmax, float32"] * 8


def test_wrong_numbers_show_as_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    run = CONTENDERS["ours"].run
    wrong = Contender(lambda *arguments: 1.01 * run(*arguments), pace=2.0, exact=True)
    monkeypatch.setitem(CONTENDERS, "ours", wrong)
    assert lines("ours")[0].error == pytest.approx(0.01, rel=1e-3)


# ---- what fails, or is left out ------------------------------------------------------------------


def raising(error: Exception) -> Contender:
    def run(query: Tensor, key: Tensor, value: Tensor, causal: bool) -> Tensor:
        raise error

    return Contender(run, pace=1.0)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (torch.OutOfMemoryError("Tried to allocate 9 GiB"), "out of memory"),
        (RuntimeError("fk_forward failed:\n invalid argument"), "failed"),
    ],
)
def test_a_failure_is_a_line_and_the_rest_goes_on(
    error: Exception, status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CONTENDERS, "bad", raising(error))
    found = lines("bad", "ours")
    assert [line.status for line in found] == [status] * 4 + ["ok"] * 4
    assert found[0].note == f"{type(error).__name__}: {' '.join(str(error).split())}"
    assert math.isnan(found[0].milliseconds)


def test_after_a_lost_device_nothing_more_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CONTENDERS, "bad", raising(RuntimeError("illegal address")))
    monkeypatch.setattr(bench, "is_usable", lambda device: False)
    first, *others = lines("bad", "ours")
    assert first.note == "RuntimeError: illegal address"
    notes = {line.note for line in others}
    assert notes == {"not run: the device was lost by bad on tiny, forward"}


def test_arrays_that_would_not_fit_are_not_tried() -> None:
    huge = Shape("huge", 1, 8, 2**16, 256)
    found = lines("reference, eager", shapes=[huge])
    assert [line.status for line in found] == ["too large"] * 4


def test_a_contender_without_a_causal_mask_is_left_out_there() -> None:
    assert not CONTENDERS["KeOps"].causal
    causal = both_ways(TINY[0])[1]
    empty = Line("tiny", 1, 2, 16, 4, True, "KeOps", "forward")
    assert bench._line(causal, empty, PLAN).status == "not for causal"


def test_nothing_is_begun_that_would_end_too_late() -> None:
    plan = replace(PLAN, until=time.monotonic() + 20.0)
    long = Shape("long", 1, 8, 2**16, 256)  # 3 s at the floor, forward
    found = lines("ours", plan=plan, shapes=[long, *TINY])
    assert [line.status for line in found] == ["no time left"] * 4 + ["ok"] * 4
    assert found[0].floor == pytest.approx(3e3, rel=0.15)


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CONTENDERS, "theirs", replace(CONTENDERS["KeOps"], package="no_such"))
    able, missing = installed("cpu")
    assert "theirs" not in able
    assert "theirs (no_such is not installed)" in missing
    assert "published extension" not in " ".join(able + missing)  # of a card only


# ---- the files -----------------------------------------------------------------------------------


def test_a_run_that_was_cut_short_is_continued(tmp_path: Path) -> None:
    path, facts = tmp_path / "bench.csv", record(CARD, {})
    results = Results(path, facts)
    kept, failed, *_ = lines("ours")
    results.add(kept)
    results.add(replace(failed, status="failed", note="a, b"))
    again = Results(path, facts)
    assert [line.key for line in again.lines] == [kept.key]
    assert again.lines[0] == replace(kept, error=pytest.approx(kept.error))
    rest = lines("ours", done={line.key for line in again.lines})
    assert len(rest) == 3
    for line in rest:
        again.add(line)
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["status"] for row in rows] == ["ok"] * 4
    assert json.loads(path.with_suffix(".json").read_text())["card"]["name"] == "H200"


def test_results_of_another_card_or_other_sources_are_not_continued(tmp_path: Path) -> None:
    path, facts = tmp_path / "bench.csv", record(CARD, {})
    Results(path, facts)
    for name, value in (("card", {"name": "H100"}), ("sources", "0123")):
        with pytest.raises(ValueError, match=rf"output must be new, or .* another {name}"):
            Results(path, {**facts, name: value})
    Results(path, {**facts, "commit": "another"})  # of no consequence if the sources are the same


def test_what_was_not_measured_is_empty_in_the_file(tmp_path: Path) -> None:
    Results(tmp_path / "x.csv", {}).add(replace(lines("softmax, float32")[0], floor=math.nan))
    with (tmp_path / "x.csv").open(encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    assert (row["floor"], row["error"], row["note"]) == ("", "", "")


# ---- the parts -----------------------------------------------------------------------------------


def test_the_floor_is_that_of_the_counted_instructions() -> None:
    """Milliseconds at 132 multiprocessors and 1.755 GHz; 11.31 and 29.07 slots a pair and D."""
    for name, forward, backward in (
        ("language model, small", 0.307, 0.790),
        ("language model, medium", 0.806, 2.073),
        ("N = 16k, D = 64", 52.4, 134.8),
    ):
        found = [floor_ms(SHAPES[name], each, CARD) for each in ("forward", "backward")]
        assert found == pytest.approx([forward, backward], rel=6e-3)
    small = SHAPES["language model, small"]
    share = floor_ms(both_ways(small)[1], "forward", CARD) / floor_ms(small, "forward", CARD)
    assert share == pytest.approx(257 / 512)


def test_the_floor_of_an_unknown_clock_is_unknown() -> None:
    assert math.isnan(floor_ms(TINY[0], "forward", replace(CARD, clock=0.0)))
    assert math.isnan(floor_ms(TINY[0], "forward", card_of(CPU)))


def test_shapes_are_those_of_the_models_and_long_ones() -> None:
    models = [(s.batch, s.heads, s.n, s.dim) for s in list(SHAPES.values())[:3]]
    assert models == [(96, 8, 256, 16), (56, 8, 384, 32), (256, 3, 197, 64)]
    long = list(SHAPES.values())[3:]
    assert {shape.n for shape in long} == {2**e for e in range(10, 17)}
    assert {shape.dim for shape in long} == {16, 32, 64, 128, 256}
    assert [shape.n for shape in long] == sorted(shape.n for shape in long)


def test_calls_take_turns_and_the_first_round_is_not_counted() -> None:
    order: list[int] = []
    calls = [lambda i=i: order.append(i) for i in range(3)]
    times = measure(calls, CPU, seconds=0.0)
    assert order == [0, 1, 2, 0, 1, 2, 0, 1]
    assert times.runs == 5


def test_a_long_call_runs_three_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fourierkernels.foundation.timing._LONG", 0.0)
    assert measure([lambda: None], CPU, seconds=0.0).runs == 3


@pytest.mark.parametrize("name", ["tpu", "cuda", "cuda:7", "mps", "no such"])
def test_devices_that_are_not_there_are_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match=rf"device must be .*{name!r}"):
        card_or_cpu(name)


def test_rows_from_outside_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = Contender(lambda query, key, value, causal: value * query * key, pace=1.0)
    monkeypatch.setitem(contenders.CONTENDERS, "mine", mine)
    monkeypatch.setitem(SHAPES, "my shape", Shape("my shape", 1, 1, 8, 2))
    (shape,) = bench._shapes(["my sh"])
    assert "mine" in installed("cpu")[0]
    assert [line.status for line in lines("mine", shapes=[shape])] == ["ok"] * 4
    assert QUICK[0].n < min(shape.n for shape in SHAPES.values() if shape.name != "my shape")
