"""The check on a card: every case and probe beside float64, a failure a row and no crash."""

import math
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from rich import box
from rich.table import Table

from fourierkernels.cli.card.card import Card, build_for, card_of, card_or_cpu, record, shortened
from fourierkernels.cli.card.cases import CASES, SEED, Case
from fourierkernels.cli.card.compared import BOUNDS, Measure, NotHere, Row, compare
from fourierkernels.cli.card.probes import PROBES, Probe
from fourierkernels.foundation.console import standard_output
from fourierkernels.ops.cuda.build import REALS

_NONE = float("nan")
_LONGEST_NOTE = 60
_TOOLS = ("memcheck", "racecheck", "synccheck")
# Groups of cases for the sanitizer, whose own allocator leaves no room for a captured graph.
_SANITISED = ("libraries", "lengths", "masks", "eps", "options", "half precision")


def chosen(*, quick: bool, names: Sequence[str] = ()) -> list[Case | Probe]:
    """Return the cases and probes to run.

    Parameters
    ----------
    quick : bool
        Only those of the short run.
    names : sequence of str
        Parts of the names or groups; everything if none is given.

    Raises
    ------
    ValueError
        If nothing is left.
    """
    known: list[Case | Probe] = [*CASES, *PROBES]
    found = [each for each in known if (each.quick or not quick) and _is_named(each, names)]
    if not found:
        groups = sorted({case.group for case in CASES} | {probe.name for probe in PROBES})
        raise ValueError(f"only must be part of {', '.join(groups)}, got {', '.join(names)}")
    return found


def _is_named(each: Case | Probe, names: Sequence[str]) -> bool:
    group, case, _ = _labels(each)
    return not names or any(name.lower() in f"{group}: {case}".lower() for name in names)


def run_check(asked: Sequence[Case | Probe], device: torch.device) -> Iterator[Row]:
    """Yield the rows of each case or probe.

    An error that leaves the device unusable, such as an access out of bounds, fails what comes
    after it without running it.
    """
    lost = ""
    for each in asked:
        if lost:
            yield _row(each, "failed", f"not run: the device was lost by {lost}")
            continue
        try:
            rows = list(_rows(each, device))
        except NotHere as reason:
            rows = [_row(each, "skipped", str(reason))]
        except Exception as error:
            rows = [_row(each, "failed", f"{type(error).__name__}: {error}")]
            lost = "" if is_usable(device) else ": ".join(_labels(each)[:2])
        yield from rows


def is_usable(device: torch.device) -> bool:
    """Whether the device still answers, after an error."""
    if device.type != "cuda":
        return True
    try:
        torch.cuda.synchronize(device)
        torch.ones(1, device=device).sum().item()
    except RuntimeError:
        return False
    torch.cuda.empty_cache()
    return True


def _rows(each: Case | Probe, device: torch.device) -> Iterator[Row]:
    run: Callable[[], list[Measure]]
    run = (lambda: compare(each, device)) if isinstance(each, Case) else lambda: each.run(device)
    for found in run():
        status = "ok" if found.holds else "miss"
        yield Row(*_labels(each), found.quantity, found.error, found.bound, status)


def _row(each: Case | Probe, status: str, note: str) -> Row:
    return Row(*_labels(each), "", _NONE, _NONE, status, " ".join(note.split()))


def _labels(each: Case | Probe) -> tuple[str, str, str]:
    if isinstance(each, Case):
        return each.group, each.name, each.dtype
    return "calls", each.name, ""


def summary(rows: Sequence[Row]) -> list[Row]:
    """Return the worst row of each group and precision, next to its bound; failures come first."""
    worst: dict[tuple[str, str], Row] = {}
    for row in rows:
        key = (row.group, row.dtype) if row.dtype else (row.case, "")
        if key not in worst or _badness(row) > _badness(worst[key]):
            worst[key] = row
    return list(worst.values())


def _badness(row: Row) -> tuple[int, float]:
    order = ("skipped", "ok", "miss", "failed")
    share = row.error / row.bound if row.bound > 0 else row.error
    return order.index(row.status), -1.0 if math.isnan(share) else share


# ---- the command ---------------------------------------------------------------------------------


def check_command(
    name: str | None, only: Sequence[str], *, quick: bool, jobs: int
) -> tuple[list[Row], dict[str, Any]]:
    """Run the cases, show the worst of each group, and return all rows with their provenance."""
    device, asked = card_or_cpu(name), chosen(quick=quick, names=only)
    card = card_of(device)
    build_for(device, REALS, jobs)
    rows: list[Row] = []
    for row in run_check(asked, device):
        if not rows or rows[-1].group != row.group:
            sys.stderr.write(f"checking {row.group}\n")  # names what a kernel that hangs belongs to
        rows.append(row)
        if row.bad:
            sys.stderr.write(f"{row.status}: {row.sentence}\n")
    standard_output().print(check_table(rows, card))
    return rows, record(card, {"seed": SEED, "quick": quick, "only": list(only)})


def sanitizer_command(
    check: Sequence[str], name: str | None, only: Sequence[str], *, jobs: int
) -> int:
    """Run the short check under each tool; return 1 if any of them finds something.

    Parameters
    ----------
    check : sequence of str
        The command line of the check, without its options.
    """
    program = shutil.which("compute-sanitizer")
    if program is None:
        raise ValueError(
            "sanitizer needs compute-sanitizer on PATH: it comes with the CUDA toolkit, in its bin "
            "folder"
        )
    device = card_or_cpu(name)
    build_for(device, REALS, jobs)
    parts = [word for group in (only or _SANITISED) for word in ("--only", group)]
    again = [*check, "--quick", *parts, "--device", str(device)]
    # Every tensor in an allocation of its own: from a pool, no access would be out of bounds.
    variables = {**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    found = {}
    for tool in _TOOLS:
        command = [program, "--tool", tool, "--error-exitcode", "1", *again]
        found[tool] = subprocess.run(command, env=variables, check=False).returncode
    told = ", ".join(f"{tool} {'found errors' if code else 'ok'}" for tool, code in found.items())
    standard_output().print(f"compute-sanitizer: {told}")
    return int(any(found.values()))


def check_table(rows: Sequence[Row], card: Card) -> Table:
    """Return the worst row of each group and precision beside its bound."""
    header = ("group", "dtype", "worst case", "quantity", "error", "bound", "")
    bad, skipped = (
        sum(row.status in kinds for row in rows) for kinds in (("miss", "failed"), ("skipped",))
    )
    told = f"{len(rows)} numbers on {card.sentence}: {bad} bad, {skipped} skipped"
    table = Table(*header, box=box.SIMPLE_HEAD, caption=f"{told}\n{_bounds()}")
    for row in summary(rows):
        state = row.status if row.status != "skipped" else f"skipped: {row.note[:_LONGEST_NOTE]}"
        if row.status == "failed":
            state = f"failed: {row.note[:_LONGEST_NOTE]}"
        cells = (
            row.group,
            row.dtype,
            row.case,
            row.quantity,
            shortened(row.error),
            shortened(row.bound),
        )
        table.add_row(*cells, state)
    return table


def _bounds() -> str:
    parts = [
        f"{dtype} {bounds['value']:.1e} and {bounds['gradient']:.1e}"
        for dtype, bounds in BOUNDS.items()
    ]
    return f"bounds of values and gradients, relative to float64: {'; '.join(parts)}"
