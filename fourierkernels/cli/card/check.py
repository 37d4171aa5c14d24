"""Every case and probe on a device, each beside float64, its failure a row and no crash."""

import math
from collections.abc import Callable, Iterator, Sequence

import torch

from fourierkernels.cli.card.cases import CASES, Case
from fourierkernels.cli.card.compared import compare
from fourierkernels.cli.card.outcome import Measure, NotHere, Row
from fourierkernels.cli.card.probes import PROBES, Probe

_NONE = float("nan")


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
