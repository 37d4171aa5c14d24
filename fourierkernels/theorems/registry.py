"""The theorems by name.

To add one, write a :class:`~fourierkernels.theorems.Theorem` in a file of its own beside
the others and put it into the list below.
"""

from fourierkernels.foundation.validation import check_choice
from fourierkernels.theorems.lemma_1 import LEMMA_1
from fourierkernels.theorems.not_in_the_papers import (
    DENSITY_LIMITED_BY_SMOOTHNESS,
    DENSITY_OF_HIGHER_ORDER,
    DENSITY_OF_ORDER_2,
    REGRESSION_OF_HIGHER_ORDER,
    REGRESSION_OF_ORDER_1,
    REGRESSION_OF_ORDER_2,
)
from fourierkernels.theorems.theorem import Theorem
from fourierkernels.theorems.theorem_1 import THEOREM_1
from fourierkernels.theorems.theorem_2 import THEOREM_2
from fourierkernels.theorems.theorem_3 import (
    THEOREM_3A_ORDINARY_SMOOTH,
    THEOREM_3A_SUPERSMOOTH,
    THEOREM_3B_ORDINARY_SMOOTH,
    THEOREM_3B_SUPERSMOOTH,
)
from fourierkernels.theorems.theorem_4 import THEOREM_4

THEOREMS: dict[str, Theorem] = {
    theorem.name: theorem
    for theorem in (
        THEOREM_1,
        THEOREM_3A_SUPERSMOOTH,
        THEOREM_3A_ORDINARY_SMOOTH,
        THEOREM_3B_SUPERSMOOTH,
        THEOREM_3B_ORDINARY_SMOOTH,
        DENSITY_OF_ORDER_2,
        DENSITY_OF_HIGHER_ORDER,
        DENSITY_LIMITED_BY_SMOOTHNESS,
        THEOREM_2,
        THEOREM_4,
        REGRESSION_OF_ORDER_1,
        REGRESSION_OF_ORDER_2,
        REGRESSION_OF_HIGHER_ORDER,
        LEMMA_1,
    )
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
