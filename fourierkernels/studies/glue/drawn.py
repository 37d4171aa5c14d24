"""Drawn tasks in the manner of GLUE, whose labels no count of words tells.

A line has names with values, and then all values, as in the documents of
:mod:`fourierkernels.studies.masked.drawn`: an encoder that finds the value of a masked name has
what the tasks ask for. At the end of a line two values that differ may have changed places. The
question of "agrees" (as CoLA) is whether they have not, that of "which" (as RTE) in which of two
lines they have. Every word is as frequent in one class as in the other.
"""

import numpy as np

from fourierkernels.studies.glue.tasks import Row, Rows
from fourierkernels.studies.masked.drawn import NAMES, VALUES, line_of

TEXTS = {"agrees": 1, "which": 2}  # lines of a row
DRAWN = {"train": 20_000, "test": 2_000}  # rows; a twentieth of the former is held out
_SEED = 2027


def rule(name: str) -> str:
    """Return all that the rows of a task depend on."""
    return f"drawn task 1 {name} {DRAWN} {NAMES} {VALUES} {_SEED}"


def drawn_rows(name: str, split: str) -> Rows:
    """Return the rows of a split, the same each time.

    Examples
    --------
    >>> drawn_rows("agrees", "test").rows[1]
    Row(texts=('b0 h2 f3 d1 e2 g6 a2 c2 2 0 2 1 2 3 6 2',), label='1')
    """
    rng = np.random.default_rng([_SEED, list(TEXTS).index(name), list(DRAWN).index(split)])
    return Rows([_row(name, rng) for _ in range(DRAWN[split])], 0)


def _row(name: str, rng: np.random.Generator) -> Row:
    label = int(rng.integers(2))
    lines = [_line(rng, agrees=bool(label) != place) for place in range(TEXTS[name])]
    return Row(tuple(lines), str(label))


def _line(rng: np.random.Generator, *, agrees: bool) -> str:
    """Return names with their values, and all values, two of which may have changed places."""
    values = rng.integers(VALUES, size=len(NAMES))
    while len(set(values)) == 1:
        values = rng.integers(VALUES, size=len(NAMES))
    order = rng.permutation(len(NAMES))
    return line_of(order, values, values if agrees else _swapped(values, rng))


def _swapped(values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return values two of which, that differ, have changed places."""
    one, two = rng.choice(len(values), size=2, replace=False)
    while values[one] == values[two]:
        one, two = rng.choice(len(values), size=2, replace=False)
    found = values.copy()
    found[[one, two]] = values[[two, one]]
    return found
