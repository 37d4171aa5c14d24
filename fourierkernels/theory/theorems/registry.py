"""The theorems by name."""

from fourierkernels.theory.theorems import density, regression, tail
from fourierkernels.theory.theorems.base import Theorem
from fourierkernels.validation import check_choice

THEOREMS: dict[str, Theorem] = {
    theorem.name: theorem for theorem in (*density.THEOREMS, *regression.THEOREMS, *tail.THEOREMS)
}


def as_theorem(theorem: Theorem | str) -> Theorem:
    """Return a theorem given itself or its name in :data:`THEOREMS`.

    Raises
    ------
    ValueError
        If the name is unknown.
    TypeError
        If it is neither a name nor a theorem.
    """
    if isinstance(theorem, str):
        return THEOREMS[check_choice("theorem", theorem, list(THEOREMS))]
    if not isinstance(theorem, Theorem):
        raise TypeError(f"theorem must be a theorem or its name, got {theorem!r}")
    return theorem
