"""Table of the theorems in the settings that they name, also for the terminal."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from fourierkernels.foundation.console import standard_output
from fourierkernels.foundation.progress import tracked
from fourierkernels.theorems.evidence import Answer, Evidence, Verdict
from fourierkernels.theorems.registry import THEOREMS, as_theorem
from fourierkernels.theorems.theorem import FORMS, Case, FormName, Theorem
from fourierkernels.theorems.verification import verify
from fourierkernels.theory.slopes import LimitSlope, Slope

if TYPE_CHECKING:
    from rich.table import Table

Entry = tuple[Theorem, Case]


def entries(theorems: Iterable[Theorem | str] | None = None) -> list[Entry]:
    """Return theorems with their cases: densities first, then regression by dimension.

    Parameters
    ----------
    theorems : iterable of Theorem or str, optional
        By default all of :data:`THEOREMS`. The order is that of the registry.

    Raises
    ------
    ValueError, TypeError
        For something that is no theorem and no name of one.

    Examples
    --------
    >>> [case.kernel for theorem, case in entries(["3b supersmooth"])]
    ['fourier2', 'fourier2']
    """
    chosen = list(THEOREMS.values()) if theorems is None else _in_order(theorems)
    rows = [(theorem, case) for theorem in chosen for case in theorem.cases]
    return sorted(rows, key=_place)


def table(rows: Iterable[Entry] | None = None, **options: Any) -> list[Evidence]:
    """Return the evidence for theorems in their cases; `options` go to :func:`verify`.

    Parameters
    ----------
    rows : iterable of (Theorem, Case), optional
        By default all :func:`entries`.

    Examples
    --------
    >>> [row.verdict for row in table(entries(["1"])[:1])]
    ['holds, loose']
    """
    return [
        verify(
            theorem,
            case.density,
            case.kernel,
            case.function,
            dim=case.dim,
            beyond=case.beyond,
            **options,
        )
        for theorem, case in (entries() if rows is None else rows)
    ]


def _in_order(theorems: Iterable[Theorem | str]) -> list[Theorem]:
    chosen = {theorem.name: theorem for theorem in map(as_theorem, theorems)}
    known = [name for name in THEOREMS if name in chosen]
    return [chosen[name] for name in (*known, *(n for n in chosen if n not in THEOREMS))]


def _place(entry: Entry) -> tuple[bool, int]:
    theorem, case = entry
    regression = theorem.error.about_regression
    return regression, case.dim if regression else 0


_HEADER = (
    "theorem",
    "setting",
    "paper's rate",
    "sharp rate",
    "slope, N → ∞",
    "simulated",
    *(form.removeprefix("as ") for form in FORMS),
)


def run(names: Sequence[str], case: Case | None, *, simulate: bool) -> list[Evidence]:
    """Verify theorems and show the evidence on standard output.

    Parameters
    ----------
    names : sequence of str
        Theorems; all if empty.
    case : Case, optional
        The setting in which to verify them; by default those that each theorem names.

    Raises
    ------
    ValueError, TypeError
        As :func:`verify`.
    """
    rows = entries(names or None) if case is None else _in_one_setting(names, case)
    evidence = [
        row for entry in tracked(rows, "theorems") for row in table([entry], simulate=simulate)
    ]
    console = standard_output(width=140)
    console.print(_summary(evidence))
    for line in _details(evidence[0]) if len(evidence) == 1 else _reasons(evidence):
        console.print(line, markup=False, highlight=False)
    return evidence


def _in_one_setting(names: Sequence[str], case: Case) -> list[Entry]:
    """Leave out theorems on regression where no function is given and none was asked for."""
    if names:
        return [(as_theorem(name), case) for name in names]
    return [
        (theorem, case)
        for theorem in THEOREMS.values()
        if case.function is not None or not theorem.error.about_regression
    ]


def _summary(evidence: Sequence[Evidence]) -> "Table":
    from rich import box
    from rich.table import Table

    shown = Table(*_HEADER, box=box.SIMPLE_HEAD, caption=_CAPTION)
    shown.columns[1].no_wrap = True
    for row in evidence:
        shown.add_row(
            row.theorem,
            _name(row),
            str(row.claimed or "-"),
            str(row.sharp or "-"),
            _short(row.slope),
            _short(row.simulated_slope),
            *(_verdict(row, form) for form in FORMS),
        )
    return shown


_SHORT: dict[Verdict, str] = {
    "holds and sharp": "sharp",
    "holds, loose": "loose",
    "does not hold": "fails",
    "not applicable": "n/a",
    "undecided": "undecided",
}
_CAPTION = (
    "sharp: holds, and no faster rate does; loose: holds, and the error falls faster; "
    "fails: does not hold; n/a: a condition fails"
)


def _verdict(row: Evidence, form: FormName) -> str:
    answer = row.answer(form)
    return "-" if answer is None else _SHORT[answer.verdict]


def _name(row: Evidence) -> str:
    setting = row.setting
    parts = [type(setting.density).__name__.lower(), setting.kernel.name]
    if setting.function:
        parts.append(setting.function.name)
    return ", ".join([*parts, f"D = {setting.dim}"])


def _short(slope: LimitSlope | Slope | None) -> str:
    return "-" if slope is None else str(slope).replace("moved ", "")


def _reasons(evidence: Sequence[Evidence]) -> Iterator[str]:
    """Say why a form does not apply or fails, each reason once."""
    for row in evidence:
        said: dict[str, list[str]] = {}
        for answer in row.answers:
            if answer.reason:
                said.setdefault(answer.reason, []).append(answer.form)
        for reason, forms in said.items():
            yield f"{row.theorem} ({_name(row)}), {', '.join(forms)}: {reason}"


def _details(row: Evidence) -> Iterator[str]:
    theorem = as_theorem(row.theorem)
    yield f"source: {theorem.source.replace('[', '').replace(']_', '')}"
    for answer in row.answers:
        yield from _form(answer)
    if theorem.radius is not None and row.claimed is not None:
        yield f"best radius, as printed: {theorem.radius(row.setting)}"
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
    for erratum in theorem.errata:
        yield f"erratum: {erratum}"


def _form(answer: Answer) -> Iterator[str]:
    rate = f", {answer.rate}" if answer.rate else ""
    yield f"{answer.form}: {answer.verdict}{rate}"
    for check in answer.checks:
        ours = " (ours)" if check.ours else ""
        yield f"  {'holds' if check.holds else 'FAILS'}: {check.assumption}{ours}; {check.reason}"
    if answer.refuted:
        yield f"  FAILS: {answer.refuted}"
