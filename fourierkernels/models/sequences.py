"""Sequences: their positions, the mean over what is valid, groups of one padded length.

A DFT over a batch has the length to which the batch happens to be padded, and with it every
sentence another answer in every batch. So each source is given a length that depends on nothing but
the sentence, and those of one length are transformed together.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from fourierkernels.foundation.validation import check_integer
from fourierkernels.models.inputs import padded_inside, without_token


def sinusoids(length: int, dim: int) -> Tensor:
    """Return sin and cos of n/10000^(2i/E), ``(length, dim)``: first all sines, then all cosines.

    Source: [vaswani2017attention]_ section 3.5, which interleaves them; the order of features is
    that of the published FourierFormer and Marian code. As there, values are those of single
    precision: a model that is built in double precision and one that is moved to it are the same.
    """
    rate = 10000.0 ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    angle = torch.arange(length, dtype=torch.float64)[:, None] * rate  # (length, ceil(dim/2))
    cosines = torch.cos(angle)[:, : dim // 2]
    table = torch.cat([torch.sin(angle), cosines], dim=-1)
    return table.float().to(torch.get_default_dtype())


def mean_over_valid(states: Tensor, padding: Tensor | None) -> Tensor:
    """Return the mean of states ``(B, N, E)`` over what is no padding, ``(B, E)``."""
    if padding is None:
        return states.mean(dim=1)
    valid = (~padding)[..., None].to(states.dtype)
    return (states * valid).sum(dim=1) / valid.sum(dim=1).clamp(min=1.0)


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
        If a row holds nothing but padding, or a token after it: on any device, as the lengths of
        the rows have to be read in any case.
    """
    filled = source != padding_id
    place = torch.arange(1, source.shape[1] + 1, device=source.device)
    lengths, counts = torch.stack([(filled * place).amax(dim=1), filled.sum(dim=1)]).tolist()
    if 0 in lengths:
        raise without_token(lengths.index(0))
    if lengths != counts:
        raise padded_inside([n == m for n, m in zip(lengths, counts, strict=True)].index(False))
    padded = [padded_length(n, source_lengths, length=length) for n in lengths]
    groups = []
    for size in sorted(set(padded)):
        places = [i for i, m in enumerate(padded) if m == size]
        rows = torch.tensor(places, device=source.device)
        tokens = source.index_select(0, rows)[:, :size]
        tokens = pad(tokens, (0, size - tokens.shape[1]), value=padding_id)
        groups.append(Group(rows, tokens, any(lengths[i] < size for i in places)))
    return groups
