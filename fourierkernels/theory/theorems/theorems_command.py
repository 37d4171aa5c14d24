"""The work behind ``fourierkernels theorems``: which cases, and the tables on the terminal."""

from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Console
from rich.progress import track
from rich.table import Table

from fourierkernels.console import standard_output
from fourierkernels.theory.slopes import Slope
from fourierkernels.theory.theorems.base import Evidence
from fourierkernels.theory.theorems.cases import CASES, Case, table
from fourierkernels.theory.theorems.registry import THEOREMS, as_theorem

_HEADER = (
    "theorem",
    "setting",
    "paper's rate",
    "sharp rate",
    "slope, N → ∞",
    "simulated",
    "verdict",
)


def run(names: Sequence[str], setting: Case | None, *, simulate: bool) -> list[Evidence]:
    """Verify theorems and show the evidence on standard output.

    Parameters
    ----------
    names : sequence of str
        Theorems; all if empty.
    setting : Case, optional
        The setting in which to look at them, its theorem left empty; by default those of
        :data:`CASES`.

    Raises
    ------
    ValueError, TypeError
        As :func:`verify`.
    """
    chosen = [as_theorem(name).name for name in names] or list(THEOREMS)
    if setting is None:
        cases = [case for case in CASES if case.theorem in chosen]
    else:
        cases = [setting._replace(theorem=name) for name in _about(chosen, setting, bool(names))]
    found = [row for case in _progress(cases) for row in table([case], simulate=simulate)]
    console = standard_output(width=140)
    console.print(_summary(found))
    for line in _details(found[0]) if len(found) == 1 else _reasons(found):
        console.print(line, markup=False, highlight=False)
    return found


def _about(names: Sequence[str], setting: Case, named: bool) -> list[str]:
    """Leave out theorems on regression where no function is given and none was asked for."""
    return [
        name
        for name in names
        if named or setting.function is not None or THEOREMS[name].error != "mse"
    ]


def _summary(found: Sequence[Evidence]) -> Table:
    shown = Table(*_HEADER, box=box.SIMPLE_HEAD)
    for row in found:
        shown.add_row(
            row.theorem,
            _name(row),
            str(row.claimed or "-"),
            str(row.sharp or "-"),
            _short(row.slope),
            _short(row.simulated_slope),
            row.verdict,
        )
    return shown


def _name(row: Evidence) -> str:
    setting = row.setting
    parts = [type(setting.density).__name__.lower(), setting.kernel.name]
    if setting.function:
        parts.append(setting.function.name)
    return ", ".join([*parts, f"D = {setting.dim}"])


def _short(slope: Slope | None) -> str:
    return "-" if slope is None else str(slope)


def _reasons(found: Sequence[Evidence]) -> Iterator[str]:
    for row in found:
        if row.verdict == "not applicable":
            yield f"{row.theorem} ({_name(row)}): {row.reason}"


def _details(row: Evidence) -> Iterator[str]:
    theorem = as_theorem(row.theorem)
    yield f"source: {theorem.source.replace('[', '').replace(']_', '')}"
    for check in row.checks:
        yield f"{'holds' if check.holds else 'FAILS'}: {check.assumption}; {check.reason}"
    if row.computed is not None:
        sizes = row.computed.sizes
        yield f"slope: {row.computed.method}, n = {sizes[0]:g} to {sizes[-1]:g}"
        n, radius = row.worst
        yield f"constant of the bound: {row.constant:.4g}, needed at n = {n:g}, R = {radius:.4g}"
    if row.simulated is not None:
        sizes = row.simulated.sizes
        yield f"simulated: {row.simulated.method}, n = {sizes[0]:g} to {sizes[-1]:g}"
        yield f"simulated over computed error, slope: {_short(row.residual)}"
    yield f"why: {theorem.derivation}"
    if theorem.remark:
        yield f"note: {theorem.remark}"


def _progress(cases: Sequence[Case]) -> Iterator[Case]:
    console = Console(stderr=True)
    quiet = not console.is_terminal  # nothing but messages goes into a file or a pipe
    yield from track(cases, "theorems", console=console, transient=True, disable=quiet)
