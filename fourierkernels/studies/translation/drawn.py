"""Drawn sentences whose translation needs what another word of the sentence says.

A source names four things with what they are, ``a3 f1 c2 h3``, and goes on with the names alone in
another order, ``c h a f``; its translation says what each of these is, ``two three three one``. The
same name has another translation in the next sentence: an encoder has to find the word that has the
name, or a decoder has to look twice. Copies of the source are right nowhere. There are 24 names: of
eight, an encoder that mixes regardless of the tokens learned the task from some seeds.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from fourierkernels.studies.texts.token_files import SPLITS
from fourierkernels.studies.translation.pairs import Pair, PairSource

COUNTS = {"train": 20_000, "valid": 500, "test": 1_000}
NAMES, GIVEN = "abcdefghijklmnopqrstuvwx", 4
WORDS = ("zero", "one", "two", "three")
LANGUAGES = ("xx", "yy")
_SEED = 2025


def open_drawn(folder: Path, pair: tuple[str, str] | None) -> PairSource:
    """Return the sentences, the same each time.

    Parameters
    ----------
    folder : Path
        Not used: the sentences are drawn when they are read.
    pair : tuple of str or None
        ``("xx", "yy")``, which is the default.

    Raises
    ------
    ValueError
        If the languages are others.
    """
    if pair not in (None, LANGUAGES):
        raise ValueError(f"pair must be {'-'.join(LANGUAGES)} for drawn, got {'-'.join(pair)}")
    rule = f"drawn 1 {COUNTS} {NAMES} {WORDS} {GIVEN} {_SEED}"
    digest = hashlib.sha256(rule.encode()).hexdigest()
    return PairSource("drawn sentences", LANGUAGES, digest, drawn_pairs, SPLITS, prepared=True)


def drawn_pairs(split: str, dropped: Counter[str] | None = None) -> Iterator[Pair]:
    """Yield the sentences of a split with their translations; none is left out.

    Examples
    --------
    >>> next(drawn_pairs("test"))[:2]
    ('u1 m0 b3 q0 u q b m', 'one zero three zero')
    """
    rng = np.random.default_rng([_SEED, SPLITS.index(split)])
    for _ in range(COUNTS[split]):
        names = [NAMES[i] for i in rng.permutation(len(NAMES))[:GIVEN]]
        value = {name: int(rng.integers(len(WORDS))) for name in names}
        asked = [names[i] for i in rng.permutation(GIVEN)]
        said = [f"{name}{value[name]}" for name in names]
        yield Pair(" ".join(said + asked), " ".join(WORDS[value[name]] for name in asked))
