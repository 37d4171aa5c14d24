"""The check of the operator: it passes where it should, and each planted fault is found."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from fourierkernels.attention import fourier_attention
from fourierkernels.cli.card import check, compared, probes
from fourierkernels.cli.card.cases import CASES, MASKS, Case, draw
from fourierkernels.cli.card.check import chosen, run_check, summary
from fourierkernels.cli.card.compared import (
    BOUNDS,
    PLAIN,
    Measure,
    NotHere,
    Row,
    compare,
    relative_error,
)
from fourierkernels.cli.card.probes import PROBES, Probe
from fourierkernels.ops.cuda.build import REALS, SIZES

CPU = torch.device("cpu")
SMALL = Case("libraries", "small", queries=9, keys=12, features=4, columns=3)
QUICK = [case for case in CASES if case.quick]


def statuses(rows: list[Row]) -> set[str]:
    return {row.status for row in rows}


@pytest.mark.parametrize("case", QUICK, ids=lambda case: f"{case.group}, {case.name}, {case.dtype}")
def test_the_operator_of_the_cpu_passes_the_short_run(case: Case) -> None:
    rows = list(run_check([case], CPU))
    assert [row for row in rows if row.status != "ok"] == []
    assert {"output", "gradient of query", "gradient of radius"} <= {row.quantity for row in rows}


@pytest.mark.slow
@pytest.mark.parametrize("group", sorted({case.group for case in CASES}))
def test_the_operator_of_the_cpu_passes_every_case(group: str) -> None:
    rows = list(run_check([case for case in CASES if case.group == group], CPU))
    assert [row for row in rows if row.bad] == []


@pytest.mark.parametrize(
    "name",
    [
        "two equal calls",
        "dropout draws anew",
        "two autograd threads",
        "autocast",
        "strided inputs",
        "dropout draws by Philox",
        "what is not finite",
        "sums of the estimators",
    ],
)
def test_the_operator_of_the_cpu_passes_the_probe(name: str) -> None:
    rows = list(run_check([next(probe for probe in PROBES if probe.name == name)], CPU))
    assert rows
    assert [row for row in rows if row.status != "ok"] == []


@pytest.mark.parametrize("name", ["another stream", "CUDA graph"])
def test_what_only_a_card_has_is_skipped_with_the_reason(name: str) -> None:
    (row,) = run_check(chosen(quick=False, names=[name]), CPU)
    assert row.status == "skipped"
    assert row.note.endswith("is of a card")
    assert not row.bad


@pytest.mark.slow
def test_without_what_the_estimators_need_the_rest_is_checked() -> None:
    program = (
        "import sys, torch\n"
        "sys.modules['finufft'] = None\n"
        "from fourierkernels.cli.card.check import chosen, run_check\n"
        "for row in run_check(chosen(quick=True, names=['eps', 'sums']), torch.device('cpu')):\n"
        "    print(row.status, row.note)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    *others, last = done.stdout.splitlines()
    assert {line.strip() for line in others} == {"ok"}, done.stderr
    assert last == "skipped the estimators need finufft"


def test_cases_cover_every_library_mask_and_option() -> None:
    libraries = {
        (case.dtype, min(size for size in SIZES if size >= max(case.features, case.columns)))
        for case in CASES
        if case.group == "libraries" and case.quick
    }
    assert len(libraries) == len(REALS) * len(SIZES)  # the sanitizer runs only the quick ones
    assert {case.mask for case in CASES} == set(MASKS)
    assert {case.dtype for case in CASES} == set(BOUNDS)
    assert {1, 3, 40} <= {case.power for case in CASES}
    assert {0.0, 1e-6} <= {case.eps for case in CASES}
    assert any(case.dropout and case.weights and case.mask_gradient for case in CASES)
    assert len({(case.group, case.name, case.dtype) for case in CASES}) == len(CASES)


def test_the_reference_of_a_check_is_the_formula() -> None:
    """Beside the textbook's, with dropout given and without."""
    case = replace(SMALL, eps=1e-2, mask="boolean")
    drawn = draw(case)
    kept = torch.rand(2, 3, 9, 12) > 0.3
    for keep in (None, kept):
        case = replace(case, dropout=0.0 if keep is None else 0.3)
        found, _ = compared._by_reference(case, drawn, keep)
        x = drawn["radius"][:, None, None] * (
            drawn["query"][..., :, None, :] - drawn["key"][..., None, :, :]
        )
        weights = (torch.sinc(x / torch.pi) ** 4).prod(dim=-1) * drawn["mask"]
        weights = weights / (weights.sum(dim=-1, keepdim=True) + 1e-2)
        if keep is not None:
            weights = weights * keep / 0.7
        assert torch.allclose(found["output"], weights @ drawn["value"], rtol=1e-12, atol=1e-14)


Faulty = Callable[..., Any]


def scaled(*arguments: Any, **options: Any) -> Tensor:
    return fourier_attention(*arguments, **options) * (1 + 1e-4)


def wrong_gradient(query: Tensor, *others: Any, **options: Any) -> Tensor:
    """The right output, and 1.001 times the gradient of the query."""
    return fourier_attention(query + 1e-3 * (query - query.detach()), *others, **options)


def one_tile_late(query: Tensor, key: Tensor, *others: Any, **options: Any) -> Tensor:
    """The causal mask off by one."""
    causal = options.pop("is_causal")
    seen = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool).tril(1)
    return fourier_attention(query, key, *others, **options, attn_mask=seen if causal else None)


def not_a_number(*arguments: Any, **options: Any) -> Tensor:
    return fourier_attention(*arguments, **options) * torch.nan


FAULTS: dict[str, tuple[Faulty, dict[str, Any], set[str]]] = {
    "output off by 1e-4": (scaled, {}, {"output", "gradient of value"}),
    "gradient off by 1e-3": (wrong_gradient, {}, {"gradient of query"}),
    "causal mask off by one": (one_tile_late, {"causal": True}, {"output", "gradient of key"}),
    "NaN": (not_a_number, {}, {"output", "gradient of radius"}),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    attend, options, seen = FAULTS[fault]

    def faulty(*arguments: Any, **given: Any) -> Any:
        if given.get("implementation") == "reference":
            return fourier_attention(*arguments, **given)
        given = {k: v for k, v in given.items() if k != "attn_mask" or v is not None}
        return attend(*arguments, **given)

    monkeypatch.setattr(compared, "fourier_attention", faulty)
    missed = {row.quantity for row in run_check([replace(SMALL, **options)], CPU) if row.bad}
    assert seen <= missed


def test_dropout_that_draws_differently_without_weights_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def faulty(*arguments: Any, **options: Any) -> Any:
        if not options.get("return_weights"):
            torch.rand(1)  # the draw is no function of the seed alone
        return fourier_attention(*arguments, **options)

    monkeypatch.setattr(compared, "fourier_attention", faulty)
    case = replace(SMALL, dropout=0.4)
    rows = {measure.quantity: measure for measure in compare(case, CPU)}
    assert not rows["output"].holds
    monkeypatch.undo()
    assert all(measure.holds for measure in compare(case, CPU))


def test_dropout_of_another_probability_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def faulty(*arguments: Any, **options: Any) -> Any:
        given = options.get("dropout_p", 0.0)
        return fourier_attention(*arguments, **{**options, "dropout_p": 1.2 * given})

    monkeypatch.setattr(compared, "fourier_attention", faulty)
    case = replace(SMALL, dropout=0.3, queries=60, keys=70)
    share = compare(case, CPU)[-1]
    assert share.quantity == "share kept"
    assert not share.holds
    monkeypatch.undo()
    assert compare(case, CPU)[-1].holds


def test_calls_that_differ_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    count = iter(range(100))

    def restless(*arguments: Any, **options: Any) -> Any:
        return fourier_attention(*arguments, **options) * (1 + 1e-6 * next(count))

    monkeypatch.setattr(probes, "results", lambda inputs, **options: plain(inputs, restless))
    rows = list(run_check(chosen(quick=False, names=["two equal calls"]), CPU))
    assert statuses(rows) == {"miss"}
    assert all(row.error > 0 for row in rows)


def plain(inputs: Any, attend: Faulty) -> list[Tensor]:
    return [attend(*inputs[:4], is_causal=True).detach()]


# ---- what is not finite --------------------------------------------------------------------------


def textbook(*leaves: Tensor, attn_mask: Tensor | None, is_causal: bool) -> Tensor:
    """Attention of small problems, in which what is masked does not count."""
    query, key, value, radius = leaves
    x = radius[:, None, None] * (query[..., :, None, :] - key[..., None, :, :])
    seen = attn_mask if attn_mask is not None and attn_mask.dtype is torch.bool else None
    if seen is not None:
        x = torch.where(seen[..., None], x, 0.0)
    weights = (torch.sinc(x / torch.pi) ** 4).prod(dim=-1)
    if seen is not None:
        weights = weights * seen
    elif attn_mask is not None:
        weights = weights * attn_mask.exp()
    total = weights.sum(dim=-1, keepdim=True)
    weights = weights / total.masked_fill(total == 0, 1.0)
    return (weights if seen is None else torch.where(seen, weights, 0.0)) @ value


SMALL_POISONED = replace(PLAIN, causal=False, queries=20, keys=80, features=4, columns=4)


def test_nan_that_spreads_as_it_must_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "_mapped", textbook)
    monkeypatch.setattr(probes, "_SHAPE", SMALL_POISONED)
    assert [m for m in probes.not_finite(CPU) if not m.holds] == []


def test_nan_that_is_swallowed_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def swallowing(*leaves: Tensor, **options: Any) -> Tensor:
        return textbook(*(leaf.nan_to_num() for leaf in leaves), **options)

    monkeypatch.setattr(probes, "_mapped", swallowing)
    monkeypatch.setattr(probes, "_SHAPE", SMALL_POISONED)
    assert not any(measure.holds for measure in probes.not_finite(CPU)[:6])


# ---- rows ----------------------------------------------------------------------------------------


def failing(message: str) -> Callable[[torch.device], list[Measure]]:
    def run(device: torch.device) -> list[Measure]:
        raise RuntimeError(message)

    return run


def test_a_failure_is_a_row_and_the_rest_goes_on() -> None:
    asked = [Probe("bad", failing("fk_forward failed:\n  too many resources")), SMALL]
    first, *others = run_check(asked, CPU)
    assert (first.status, first.note) == (
        "failed",
        "RuntimeError: fk_forward failed: too many resources",
    )
    assert first.bad
    assert statuses(others) == {"ok"}


def test_after_a_lost_device_nothing_more_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "is_usable", lambda device: False)
    first, second = run_check([Probe("bad", failing("illegal address")), SMALL], CPU)
    assert first.note == "RuntimeError: illegal address"
    assert second.status == "failed"
    assert second.note == "not run: the device was lost by calls: bad"


def test_the_summary_shows_the_worst_of_each_group() -> None:
    def row(error: float, status: str, dtype: str = "float32") -> Row:
        return Row("g", "c", dtype, "output", error, 1.0, status)

    rows = [row(0.1, "ok"), row(0.5, "ok"), row(0.2, "ok", "float64"), row(3.0, "miss")]
    assert [(each.dtype, each.error) for each in summary(rows)] == [
        ("float32", 3.0),
        ("float64", 0.2),
    ]
    failed = row(float("nan"), "failed")
    assert summary([*rows, failed])[0] is failed


def test_errors_are_relative_but_not_to_almost_nothing() -> None:
    exact = torch.full((4,), 2.0, dtype=torch.float64)
    assert relative_error(exact * (1 + 1e-3), exact) == pytest.approx(1e-3)
    assert relative_error(torch.full((4,), 1e-6), torch.zeros(4)) == pytest.approx(1e-4)


def test_nothing_holds_of_nan() -> None:
    assert not Measure("output", float("nan"), 1.0).holds
    assert Measure("output", 1.0, 1.0).holds


def test_parts_of_names_choose() -> None:
    assert {case.group for case in chosen(quick=False, names=["half"])} == {"half precision"}
    assert len(chosen(quick=False)) == len(CASES) + len(PROBES)
    with pytest.raises(ValueError, match=r"only must be part of .*masks.*, got zzz"):
        chosen(quick=False, names=["zzz"])


def test_rows_from_outside_are_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def mine(device: torch.device) -> list[Measure]:
        raise NotHere("elsewhere")

    monkeypatch.setattr(check, "CASES", [*CASES, replace(SMALL, group="mine", name="case")])
    monkeypatch.setattr(check, "PROBES", [*PROBES, Probe("mine too", mine)])
    rows = list(run_check(chosen(quick=False, names=["mine"]), CPU))
    assert {(row.group, row.case, row.status) for row in rows} == {
        ("mine", "case", "ok"),
        ("calls", "mine too", "skipped"),
    }
