"""Batches as a training loop has them, taken apart into rows without padding.

A row is one text or image: it is run with others of its own shape, so that no padding is needed and
none can leak, whatever the network does with it.
"""

import hashlib
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

# A mask, and the entries with one number per token that it belongs to.
_MASKS = {
    "attention_mask": (
        "input_ids",
        "token_type_ids",
        "position_ids",
        "inputs_embeds",
        "cross_attention_mask",
    ),
    "decoder_attention_mask": ("decoder_input_ids", "decoder_inputs_embeds"),
}
_ALONE = ""  # the name of a batch that is one tensor: the positional argument


@dataclass(frozen=True, eq=False)
class Row:
    """One text or image of a batch.

    Attributes
    ----------
    entries : mapping of str to Tensor
        Arguments of the network by name, each with a first dimension of 1; "" for the positional
        one.
    batch : int
        Number of the batch that it came in; rows of two are never run together.
    """

    entries: Mapping[str, Tensor]
    batch: int

    @property
    def key(self) -> Hashable:
        """Rows with equal keys may be run together."""
        shapes = ((name, entry.shape[1:], entry.dtype) for name, entry in self.entries.items())
        return (self.batch, *shapes)

    @property
    def ids(self) -> list[int]:
        """Token ids, if there are any."""
        return self._whole_numbers("input_ids") or self._whole_numbers(_ALONE)

    @property
    def target_ids(self) -> list[int]:
        """Token ids of the decoder, if there are any."""
        return self._whole_numbers("decoder_input_ids")

    def __len__(self) -> int:
        return self.length()

    def length(self, *, decoded: bool = False) -> int:
        """Return the length of the first entry that has one, of the decoder or of the rest."""
        lengths = (
            entry.shape[1]
            for name, entry in self.entries.items()
            if entry.ndim > 1 and name.startswith("decoder_") == decoded
        )
        return next(lengths, 0)

    def beginning(self, count: int) -> "Row":
        """Return the row with at most so many tokens in every entry and mask."""
        return Row(
            {name: _begun(name, entry, count) for name, entry in self.entries.items()}, self.batch
        )

    def padding_at_end(self, unseen: int) -> int:
        """Return how many of the last tokens, of those not seen, are said to be padding.

        It is said by a mask with one number per token, or by an id that is repeated at the end and
        found nowhere else.
        """
        rows = {
            name: entry[0].tolist()
            for name, entry in self.entries.items()
            if entry.ndim == 2 and entry.shape[1] == self.length()
        }
        masks = {name: numbers for name, numbers in rows.items() if "mask" in name}
        ids = next((numbers for name, numbers in rows.items() if name not in masks), [])
        runs = [_run_at_end(mask) for mask in masks.values()]
        run = _run_at_end(ids)
        if run > 1 and ids[-1] not in ids[:-run]:
            runs.append(run)
        return max((run for run in runs if run <= unseen), default=0)

    def _whole_numbers(self, name: str) -> list[int]:
        ids = self.entries.get(name)
        if ids is None or ids.ndim != 2 or ids.is_floating_point():
            return []
        return [int(number) for number in ids[0]]


def _run_at_end(numbers: Sequence[float]) -> int:
    """Return how many numbers at the end are equal; 0 if all are."""
    others = [place for place, number in enumerate(numbers) if number != numbers[-1]]
    return len(numbers) - 1 - others[-1] if others else 0


def _begun(name: str, entry: Tensor, count: int) -> Tensor:
    """Return the beginning of an entry along its tokens; a mask may have several such sides."""
    if entry.ndim < 2:
        return entry
    sides = entry.ndim if "mask" in name else 2
    for dim in range(1, sides):
        if dim == 1 or entry.shape[dim] > 1:
            entry = entry.narrow(dim, 0, min(count, entry.shape[dim]))
    return entry


class Batches:
    """Ready batches that can be read again for every network.

    Parameters
    ----------
    given : iterable
        Of dictionaries of tensors, or of tensors: a list, or a DataLoader that does not shuffle.

    Raises
    ------
    TypeError
        If the first is neither.
    ValueError
        If there is none.
    """

    def __init__(self, given: Iterable[Any]) -> None:
        self._given = given
        first = next(iter(given), None)
        if first is None:
            raise ValueError("inputs must hold at least one batch, got none")
        self._first = _digest([_entries(first)])
        self.sha256 = _digest(_entries(batch) for batch in given)

    def __iter__(self) -> Iterator[Any]:
        for number, batch in enumerate(self._given):
            if number == 0 and _digest([_entries(batch)]) != self._first:
                raise ValueError(
                    "inputs must be the same batches every time, got others: a DataLoader must "
                    "have shuffle=False"
                )
            yield batch

    def __len__(self) -> int:
        return sum(_count(_entries(batch)) for batch in self)


def holds_batches(inputs: Any) -> bool:
    """Tell whether inputs are ready batches, by the first of them.

    Examples
    --------
    >>> holds_batches(["a text"])
    False
    """
    if isinstance(inputs, str | Tensor | Mapping) or not isinstance(inputs, Iterable):
        return isinstance(inputs, Tensor | Mapping)
    return isinstance(next(iter(inputs), None), Tensor | Mapping)


def as_batches(inputs: Any) -> Batches:
    """Return inputs as batches; one dictionary or tensor is one batch."""
    if isinstance(inputs, Batches):
        return inputs
    return Batches([inputs] if isinstance(inputs, Tensor | Mapping) else inputs)


def batch_rows(batches: Iterable[Any]) -> Iterator[Row]:
    """Yield the rows of batches, padding cut away where a mask says where it is.

    Raises
    ------
    TypeError
        For a batch that is no dictionary of tensors and no tensor.
    ValueError
        If the tensors of a batch differ in their first dimension, or a mask fits no entry.
    """
    for number, batch in enumerate(batches):
        entries = _entries(batch)
        for row in range(_count(entries)):
            row_entries = {name: entry[row : row + 1] for name, entry in entries.items()}
            yield Row(_without_padding(row_entries), number)


def joined(rows: Sequence[Row]) -> dict[str, Tensor]:
    """Return rows of equal keys as one batch."""
    names = rows[0].entries
    return {name: torch.cat([row.entries[name] for row in rows]) for name in names}


def _entries(batch: Any) -> dict[str, Tensor]:
    entries = batch if isinstance(batch, Mapping) else {_ALONE: batch}
    for name, entry in entries.items():
        if not isinstance(entry, Tensor):
            where = f"{type(entry).__name__} for {name!r}" if name else type(entry).__name__
            raise TypeError(f"batches must be dictionaries of tensors, or tensors, got {where}")
    return {str(name): entry for name, entry in entries.items() if name != "labels"}


def _count(entries: Mapping[str, Tensor]) -> int:
    counts = {name: len(entry) if entry.ndim else 0 for name, entry in entries.items()}
    if len(set(counts.values())) != 1 or 0 in counts.values():
        raise ValueError(
            f"batches must have tensors of one and the same number of rows, got {counts}"
        )
    return next(iter(counts.values()))


def _without_padding(row: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Cut away the tokens that a mask of zeros and ones hides, and with them the mask's zeros."""
    cut = dict(row)
    for mask_name, names in _MASKS.items():
        mask = row.get(mask_name)
        if mask is None or mask.ndim != 2:  # none, or a mask of queries and keys: taken as it is
            continue
        kept = mask[0].bool()
        if not kept.any():
            raise ValueError(f"batches must have a token in every row, got an empty {mask_name}")
        for name in (mask_name, *(name for name in names if name in row)):
            if row[name].shape[:2] != mask.shape:
                raise ValueError(
                    f"{mask_name} must fit {name}, got {tuple(mask.shape)} and "
                    f"{tuple(row[name].shape)} in one row"
                )
            cut[name] = row[name][:, kept]
    return cut


def tensors_digest(tensors: Iterable[tuple[str, Tensor]]) -> str:
    """Return the SHA-256 of named tensors: names, dtypes, shapes and values, in their order."""
    digest = hashlib.sha256()
    for name, tensor in tensors:
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _digest(batches: Iterable[Mapping[str, Tensor]]) -> str:
    return tensors_digest(pair for entries in batches for pair in sorted(entries.items()))
