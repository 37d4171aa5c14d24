"""Splits of 8-1-1 that no near-duplicate crosses, whatever the order in which pairs are read.

Manuals and web pages repeat themselves: with pairs drawn at random, part of the test set is in the
training text but for a number or a capital. Here documents that share sentences go together while
they are small, documents are drawn by their digests, and of what still crosses the pair on the side
of the training text is left out. Pairs are known by hashes of 64 bits: while they are split, each
takes about 220 bytes of memory, whatever its length.
"""

import hashlib
import re
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fourierkernels.studies.texts.token_files import SPLITS
from fourierkernels.studies.translation.pairs import Pair

TRAIN, VALID, TEST, COPY, CROSSED = 0, 1, 2, -1, -2  # places in SPLITS, and what is left out
LARGEST = 0.01  # share of the pairs up to which documents go together
_HELD_OUT = 0.1
_NUMBER = re.compile(r"\d+")

Keys = NDArray[np.uint64]
Parts = NDArray[np.int8]


@dataclass(frozen=True)
class Survey:
    """Hashes of all pairs of a corpus, each array of shape ``(n,)``.

    Attributes
    ----------
    pairs : ndarray
        Of both sides as they are.
    sources, targets : ndarray
        Of one side with its numbers masked and in one case.
    documents : ndarray
        Of the documents; for a pair without, of its source, masked.
    """

    pairs: Keys
    sources: Keys
    targets: Keys
    documents: Keys


def masked(text: str) -> str:
    """Return a text in which near-duplicates are the same.

    Examples
    --------
    >>> masked("Section 12.3") == masked("SECTION 4.5")
    True
    """
    return _NUMBER.sub("0", text.casefold())


def survey(pairs: Iterable[Pair]) -> Survey:
    """Return the hashes of pairs."""
    columns = [array("Q") for _ in range(4)]
    for pair in pairs:
        source = _key(masked(pair.source), b"source")
        document = _key(pair.document, b"document") if pair.document else source
        keys = (_key("\0".join(pair[:2]), b"pair"), source, _key(masked(pair.target), b"target"))
        for column, key in zip(columns, (*keys, document), strict=True):
            column.append(key)
    return Survey(*(np.array(column, dtype=np.uint64) for column in columns))


def split_pairs(found: Survey, *, largest: float = LARGEST) -> Parts:
    """Return the split of each pair, ``(n,)``: a place in SPLITS, or why it is in none.

    Parameters
    ----------
    largest : float
        Share of all pairs above which documents that share sentences do not go together.
    """
    parts = np.full(len(found.pairs), COPY, dtype=np.int8)
    once = _first_copies(found)
    documents, inverse = np.unique(found.documents[once], return_inverse=True)
    groups = _linked(found, once, inverse, most=largest * len(once))
    parts[once] = _drawn(documents, groups, np.bincount(inverse, minlength=len(documents)))[inverse]
    for split, above in ((VALID, (TEST,)), (TRAIN, (VALID, TEST))):
        parts[(parts == split) & _shared(found, np.isin(parts, above))] = CROSSED
    return parts


def random_split(n: int, *, seed: int = 0) -> Parts:
    """Return the splits of n pairs drawn one by one, to compare with."""
    order = np.random.default_rng(seed).permutation(n)
    held = round(_HELD_OUT * n)
    parts = np.zeros(n, dtype=np.int8)
    parts[order[:held]], parts[order[held : 2 * held]] = VALID, TEST
    return parts


def crossing(found: Survey, parts: Parts) -> int:
    """Return how many held-out pairs have a side that, masked, is in another split, too.

    A pair of the test set is compared with the training and the validation text, one of the
    validation set with the training text.
    """
    test = (parts == TEST) & _shared(found, (parts == TRAIN) | (parts == VALID))
    valid = (parts == VALID) & _shared(found, parts == TRAIN)
    return int(test.sum() + valid.sum())


def copied(found: Survey, parts: Parts) -> dict[str, int]:
    """Return how many pairs of each held-out split are exact copies of training pairs."""
    training = np.isin(found.pairs, np.unique(found.pairs[parts == TRAIN]))
    return {SPLITS[part]: int(training[parts == part].sum()) for part in (VALID, TEST)}


def _key(text: str, kind: bytes) -> int:
    digest = hashlib.blake2b(text.encode(), digest_size=8, person=kind)
    return int.from_bytes(digest.digest(), "little")


def _first_copies(found: Survey) -> NDArray[np.intp]:
    """Return the places of pairs, each once: that of the first document by digest."""
    order = np.lexsort((found.documents, found.pairs))
    ordered = found.pairs[order]
    first = np.ones(len(order), dtype=bool)
    first[1:] = ordered[1:] != ordered[:-1]
    return np.sort(order[first])


def _shared(found: Survey, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which pairs have a side in common, masked, with one of those chosen."""
    sources = np.isin(found.sources, np.unique(found.sources[chosen]))
    return sources | np.isin(found.targets, np.unique(found.targets[chosen]))


def _linked(
    found: Survey, once: NDArray[np.intp], documents: NDArray[Any], *, most: float
) -> NDArray[np.intp]:
    """Return the group of each document, the number of its first one.

    The rarest sentences link first; a link that makes a group of more than `most` pairs is not
    made.
    """
    sizes = np.bincount(documents)
    groups = np.arange(len(sizes))

    def head(document: int) -> int:
        while groups[document] != document:
            groups[document] = groups[groups[document]]
            document = int(groups[document])
        return document

    for one, other in _links(found, once, documents):
        first, second = sorted((head(one), head(other)))
        if first != second and sizes[first] + sizes[second] <= most:
            groups[second] = first
            sizes[first] += sizes[second]
    return np.array([head(document) for document in range(len(groups))], dtype=np.intp)


def _links(
    found: Survey, once: NDArray[np.intp], documents: NDArray[Any]
) -> Iterator[tuple[int, int]]:
    """Yield documents that share a sentence, two by two, those of the rarest sentences first."""
    keys = np.concatenate((found.sources[once], found.targets[once]))
    order = np.lexsort((np.tile(documents, 2), keys))
    keys, places = keys[order], np.tile(documents, 2)[order]
    fresh = np.ones(len(keys), dtype=bool)
    fresh[1:] = (keys[1:] != keys[:-1]) | (places[1:] != places[:-1])
    keys, places = keys[fresh], places[fresh]
    _, inverse, counts = np.unique(keys, return_inverse=True, return_counts=True)
    same = np.flatnonzero(inverse[1:] == inverse[:-1])
    for i in same[np.argsort(counts[inverse[same]], kind="stable")]:
        yield int(places[i]), int(places[i + 1])


def _drawn(documents: Keys, groups: NDArray[np.intp], sizes: NDArray[Any]) -> Parts:
    """Return the split of each document: groups in the order of their digests, the test last."""
    weights = np.bincount(groups, weights=sizes, minlength=len(groups))
    heads = np.flatnonzero(np.arange(len(groups)) == groups)
    digests = [_key(str(int(documents[head])), b"group") for head in heads]
    heads = heads[np.argsort(np.array(digests, dtype=np.uint64), kind="stable")]
    before = (np.cumsum(weights[heads]) - weights[heads]) / max(weights.sum(), 1)
    drawn = np.zeros(len(groups), dtype=np.int8)
    drawn[heads] = np.select(
        [before >= 1 - _HELD_OUT, before >= 1 - 2 * _HELD_OUT], [TEST, VALID], TRAIN
    )
    return drawn[groups]


def copies(found: Survey, among: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which of the pairs chosen are exact copies of others of them, of which one is kept."""
    places = np.flatnonzero(among)
    columns = (found.pairs, found.sources, found.targets, found.documents)
    chosen = Survey(*(column[places] for column in columns))
    again = among.copy()
    again[places[_first_copies(chosen)]] = False
    return again


def given_split(counts: Iterable[tuple[str, int]]) -> Parts:
    """Return the splits of pairs that are read split by split."""
    return np.concatenate(
        [np.full(count, SPLITS.index(split), dtype=np.int8) for split, count in counts]
    )
