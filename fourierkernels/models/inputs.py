"""Checks of the inputs of models, made once at the public edge: ids, features and padding.

Values are read on a CPU only. On a GPU the answer would have to come back before anything is
computed; there torch itself refuses an id without a vector, and a NaN is seen in the output.
"""

from collections.abc import Mapping

import torch
from torch import Tensor


def check_tokens(
    tokens: Tensor, *, vocabulary: int, length: int, name: str = "tokens", limit: str = "length"
) -> Tensor:
    """Return ids ``(B, N)`` of at most `length` tokens, in int64.

    Parameters
    ----------
    name, limit : str
        Names of the ids and of the longest length in messages.

    Raises
    ------
    TypeError
        If they are no tensor of integers.
    ValueError
        If their shape is another, there are none, or one is not in [0, vocabulary).
    """
    ids = _check_integers(name, tokens)
    if ids.ndim != 2 or ids.numel() == 0:
        raise ValueError(f"{name} must be (batch, length), got shape {tuple(ids.shape)}")
    check_length(name, ids.shape[1], length, limit=limit)
    _check_range(name, ids, vocabulary, f"in [0, {vocabulary})")
    return ids


def read_ids(name: str, row: object) -> Tensor:
    """Return a row of ids, a sequence or a tensor ``(n,)``, in int64.

    Raises
    ------
    TypeError, ValueError
        If it is no row of integers, or empty.
    """
    try:
        if isinstance(row, str | bytes | Mapping):
            raise TypeError("no ids")
        ids = torch.as_tensor(row)
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"{name} must be integers, got {row!r}") from None
    if ids.ndim != 1:
        raise ValueError(f"{name} must be a row of ids, got {row!r}")
    if not ids.numel():
        raise ValueError(f"{name} must hold at least one id, got none")
    return _check_integers(name, ids)


def check_beside(
    name: str, ids: Tensor, tokens: Tensor, *, vocabulary: int, ignored: int | None = None
) -> Tensor:
    """Return ids of the shape of checked tokens, in int64: one for each of them.

    Parameters
    ----------
    ignored : int or None
        An id outside [0, vocabulary) that is allowed, too.

    Raises
    ------
    TypeError, ValueError
        As for :func:`check_tokens`.
    """
    ids = _check_integers(name, ids)
    if ids.shape != tokens.shape:
        raise ValueError(
            f"{name} must have the shape of the tokens, {tuple(tokens.shape)}, "
            f"got shape {tuple(ids.shape)}"
        )
    rule = f"in [0, {vocabulary})" + ("" if ignored is None else f" or {ignored}")
    if _readable(ids) and ignored is not None:
        _check_range(name, ids[ids != ignored], vocabulary, rule)
    else:
        _check_range(name, ids, vocabulary, rule)
    return ids


def check_features(name: str, features: Tensor, shape: tuple[int | None, ...]) -> None:
    """Refuse what is not a finite floating tensor of a shape, None in which stands for any size.

    Raises
    ------
    TypeError
        If it is no floating tensor.
    ValueError
        If its shape is another, it is empty, or holds a NaN or infinity.
    """
    if not isinstance(features, Tensor) or not features.is_floating_point():
        raise TypeError(f"{name} must be a floating tensor, got {_kind(features)}")
    actual = tuple(features.shape)
    fits = len(actual) == len(shape) and all(
        wanted in (None, size) for wanted, size in zip(shape, actual, strict=True)
    )
    if not fits or not features.numel():
        wanted = ", ".join("any" if size is None else str(size) for size in shape)
        raise ValueError(f"{name} must have shape ({wanted}) and not be empty, got shape {actual}")
    if _readable(features) and not features.isfinite().all():
        bad = features.detach()[~features.isfinite()].flatten()[0].item()
        raise ValueError(f"{name} must be finite, got {bad}")


def check_length(name: str, n: int, length: int, *, limit: str = "length") -> int:
    """Return the number n of tokens in a sequence, at most `length`.

    Raises
    ------
    ValueError
        If it is more.
    """
    if n > length:
        raise ValueError(f"{name} must be at most {limit} = {length} long, got {n}")
    return n


def check_padding(padding: Tensor | None, shape: tuple[int, int]) -> None:
    """Refuse what is not boolean ``(B, N)``, or leaves nothing of a sequence.

    Raises
    ------
    TypeError, ValueError
        If it is something else.
    """
    if padding is None:
        return
    if not isinstance(padding, Tensor) or padding.dtype is not torch.bool:
        raise TypeError(f"padding must be a boolean tensor, got {_kind(padding)}")
    if tuple(padding.shape) != shape:
        raise ValueError(f"padding must have shape {shape}, got shape {tuple(padding.shape)}")
    if _readable(padding) and padding.all(dim=1).any():
        row = int(padding.all(dim=1).int().argmax())
        raise ValueError(f"padding must leave something of every sequence, got all of row {row}")


def check_no_empty_row(tokens: Tensor, padding_id: int, name: str = "source") -> None:
    """Refuse ids ``(B, N)`` of which a row is nothing but padding.

    Raises
    ------
    ValueError
        If one is.
    """
    if not _readable(tokens):
        return
    empty = (tokens == padding_id).all(dim=1)
    if empty.any():
        raise without_token(int(empty.int().argmax()), name)


def check_padded_at_end(tokens: Tensor, padding_id: int) -> None:
    """Refuse ids ``(B, N)`` of which a row begins with padding or has some inside.

    Raises
    ------
    ValueError
        If one does.
    """
    if not _readable(tokens):
        return
    padding = tokens == padding_id
    inside = (padding[:, :-1] & ~padding[:, 1:]).any(dim=1)
    if inside.any():
        raise padded_inside(int(inside.int().argmax()))


def without_token(row: int, name: str = "source") -> ValueError:
    """Return the error of a row that is nothing but padding."""
    return ValueError(f"{name} must hold a token in every row, got none in row {row}")


def padded_inside(row: int) -> ValueError:
    """Return the error of a source that has a token after padding."""
    return ValueError(f"source must be padded at the end only, got a token after in row {row}")


def check_same_batch(name: str, tensor: Tensor, other_name: str, other: Tensor) -> None:
    """Refuse two tensors of different batches.

    Raises
    ------
    ValueError
        If their first sizes differ.
    """
    if len(tensor) != len(other):
        raise ValueError(
            f"{name} must have a row for each of the {len(other)} of {other_name}, "
            f"got {len(tensor)}"
        )


def _check_integers(name: str, ids: Tensor) -> Tensor:
    if not isinstance(ids, Tensor):
        raise TypeError(f"{name} must be a tensor of integers, got {_kind(ids)}")
    if ids.is_floating_point() or ids.is_complex() or ids.dtype is torch.bool:
        raise TypeError(f"{name} must be integers, got {ids.dtype}")
    return ids.long()  # no arithmetic on ids may wrap around


def _check_range(name: str, ids: Tensor, vocabulary: int, rule: str) -> None:
    if not _readable(ids) or not ids.numel():
        return
    low, high = int(ids.min()), int(ids.max())
    if low < 0 or high >= vocabulary:
        raise ValueError(f"{name} must be {rule}, got {low if low < 0 else high}")


def _readable(tensor: Tensor) -> bool:
    return tensor.device.type == "cpu" and not torch.compiler.is_compiling()


def _kind(value: object) -> str:
    return str(value.dtype) if isinstance(value, Tensor) else type(value).__name__
