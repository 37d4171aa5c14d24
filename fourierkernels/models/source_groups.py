"""Sources sorted into groups of one padded length, which depends on nothing but the sentence.

A DFT over a batch has the length to which the batch happens to be padded, and with it every
sentence another answer in every batch. So each sentence is given a length of its own, and those of
one length are transformed together.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from fourierkernels.foundation.validation import check_integer

KINDS = ("own", "fixed")
SourceLengths = str | Sequence[int]


class Group(NamedTuple):
    """Sources of one length: their rows in the batch ``(b,)``, ids ``(b, m)``, any padding."""

    rows: Tensor
    tokens: Tensor
    padded: bool


def check_source_lengths(value: object, *, length: int) -> SourceLengths:
    """Return "own", "fixed" or increasing lengths of at most `length`.

    Raises
    ------
    ValueError, TypeError
        If it is something else.
    """
    if value in KINDS:
        return str(value)
    if isinstance(value, str) or not isinstance(value, Sequence) or not value:
        raise ValueError(f"source_lengths must be {', '.join(KINDS)} or lengths, got {value!r}")
    ends = [check_integer("source_lengths", end) for end in value]
    if ends != sorted(set(ends)) or ends[-1] > length:
        raise ValueError(
            f"source_lengths must increase and be at most length = {length}, got {tuple(ends)}"
        )
    return tuple(ends)


def padded_length(n: int, source_lengths: SourceLengths, *, length: int) -> int:
    """Return to how many tokens a sentence of n is padded.

    Examples
    --------
    >>> [padded_length(n, (5, 10), length=40) for n in (3, 6, 11)]
    [5, 10, 40]
    """
    if source_lengths == "own":
        return n
    if source_lengths == "fixed":
        return length
    return min((int(end) for end in source_lengths if int(end) >= n), default=length)


def group_sources(
    source: Tensor, source_lengths: SourceLengths, *, length: int, padding_id: int
) -> list[Group]:
    """Return the sentences of a batch ``(B, N)`` by padded length.

    Raises
    ------
    ValueError
        If a row holds nothing but padding.
    """
    place = torch.arange(1, source.shape[1] + 1, device=source.device)
    lengths = ((source != padding_id) * place).amax(dim=1).tolist()
    if 0 in lengths:
        row = lengths.index(0)
        raise ValueError(f"source must hold a token in every row, got none in row {row}")
    padded = [padded_length(n, source_lengths, length=length) for n in lengths]
    groups = []
    for size in sorted(set(padded)):
        places = [i for i, m in enumerate(padded) if m == size]
        rows = torch.tensor(places, device=source.device)
        tokens = source.index_select(0, rows)[:, :size]
        tokens = pad(tokens, (0, size - tokens.shape[1]), value=padding_id)
        groups.append(Group(rows, tokens, any(lengths[i] < size for i in places)))
    return groups
