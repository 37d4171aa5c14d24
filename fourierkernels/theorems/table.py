"""The table of the theorems: each theorem in the settings that it names."""

from collections.abc import Iterable
from typing import Any

from fourierkernels.theorems.evidence import Evidence
from fourierkernels.theorems.registry import THEOREMS, as_theorem
from fourierkernels.theorems.theorem import Case, Theorem
from fourierkernels.theorems.verification import verify

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
    found = [(theorem, case) for theorem in chosen for case in theorem.cases]
    return sorted(found, key=_place)


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
