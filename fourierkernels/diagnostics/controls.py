"""What distances between heads are compared with: heads that share nothing but what is kept.

To add a control that is computed from the heads' own maps, add a row here and its mean map in
:mod:`fourierkernels.diagnostics.chance`; one made of a network with random weights is a Rényi order
of :func:`~fourierkernels.diagnostics.sharpening.sharpened_maps`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from fourierkernels.foundation.validation import check_choices

ROWS, ALL_KEYS, POSITION = "rows", "all_keys", "position"
DEFAULT_CONTROLS = (ROWS, ALL_KEYS, POSITION)


@dataclass(frozen=True)
class Control:
    """Heads that decide independently of each other, but for what is kept.

    Attributes
    ----------
    title : str
        Of its column.
    heads : str
        A phrase for such heads.
    kept : str
        The null hypothesis: what is kept, and what is independent.
    order : int
        Rényi order of the entropy that rows of a network with random weights are given; 0 if the
        heads' own rows are kept, and no other network is needed.
    """

    name: str
    title: str
    heads: str
    kept: str
    order: int = 0

    @property
    def needs_random(self) -> bool:
        """Whether it is made of a network with random weights."""
        return self.order > 0


CONTROLS = {
    row.name: row
    for row in (
        Control(
            ROWS,
            "unrelated keys",
            "heads with the same weights on unrelated keys",
            "each row's weights, and what it gives to special tokens; each head deals the rest out "
            "to the other keys that the row may see, independently of the other heads",
        ),
        Control(
            ALL_KEYS,
            "all keys unrelated",
            "heads with the same weights on unrelated keys, special tokens among them",
            "each row's weights; each head deals them out to the keys that the row may see, "
            "special tokens among them, independently of the other heads",
        ),
        Control(
            POSITION,
            "positions only",
            "heads that attend to the same positions and to unrelated keys otherwise",
            "what each row gives to special tokens, and each head's total weight at each offset "
            "from query to key and on the first key; the rest is independent of the other heads",
        ),
        Control(
            "squares",
            "random, equal Σp²",
            "random heads with rows of equal Σp²",
            "Σp² of each row, and nothing else of it; rows of random heads raised to a power; one "
            "draw of weights, and no interval holds what another would change",
            order=2,
        ),
        Control(
            "entropy",
            "equally sharp random",
            "random heads with rows of equal entropy",
            "the entropy of each row, and nothing else of it: distances depend on Σp² or on more, "
            "so that heads that share nothing may lie on either side of it; one draw of weights, "
            "and no interval holds what another would change",
            order=1,
        ),
    )
}


def control_names(names: Sequence[str] | str) -> tuple[str, ...]:
    """Return the controls asked for, each once; "none" for none.

    Raises
    ------
    ValueError
        For one that is not known.

    Examples
    --------
    >>> control_names("position"), control_names(["none"])
    (('position',), ())
    """
    return check_choices("control", names, CONTROLS)
