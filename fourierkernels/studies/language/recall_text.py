"""A drawn text whose words tell what comes next by what they are, not by where they stand.

Each line gives four of eight names a value, in words such as ``c=1``, and then asks for all of
them in another order: after ``c?`` comes ``1``. Neither the frequencies of words nor their places
tell an answer: without a look at the one word that has the name, it costs log 4 = 1.39 nats. This
is associative recall with several questions ("Zoology", https://arxiv.org/abs/2312.04927), made
easier: a name and its value are one word, so that a single layer of attention can answer.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from fourierkernels.studies.texts.source import Source

LINES = {"train": 30_000, "valid": 800, "test": 1_000}
NAMES, VALUES, GIVEN = "abcdefgh", 4, 4
_SEED = 2024


def open_recall(folder: Path) -> Source:
    """Return the text, the same each time.

    Parameters
    ----------
    folder : Path
        Not used: the text is drawn when it is read.
    """
    rule = f"recall 1 {LINES} {NAMES} {VALUES} {GIVEN} {_SEED}"
    return Source("drawn recall", hashlib.sha256(rule.encode()).hexdigest(), recall_lines)


def recall_lines(split: str) -> Iterator[list[str]]:
    """Yield the words of each line of a split: pairs, then questions and answers."""
    rng = np.random.default_rng([_SEED, list(LINES).index(split)])
    for _ in range(LINES[split]):
        names = [NAMES[i] for i in rng.permutation(len(NAMES))[:GIVEN]]
        value = {name: str(rng.integers(VALUES)) for name in names}
        asked = [names[i] for i in rng.permutation(GIVEN)]
        pairs = [f"{name}={value[name]}" for name in names]
        yield pairs + [word for name in asked for word in (f"{name}?", value[name])]
