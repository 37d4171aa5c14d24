"""Nested lists and dictionaries of arrays as bytes, and back, without running any code."""

import io
import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

_ARRAY, _TEXT = "array of the file", "text"  # the key that stands for an array, and the JSON


def packed(value: Any) -> bytes:
    """Return a nested value as the bytes of an .npz file: JSON, and the arrays in it.

    Parameters
    ----------
    value : object
        Dictionaries with string keys, lists, tuples, arrays, numbers, strings, None. Tuples become
        lists.

    Examples
    --------
    >>> unpacked(packed({"a": [1, np.arange(3)], "b": None}))
    {'a': [1, array([0, 1, 2])], 'b': None}
    """
    arrays: dict[str, NDArray[Any]] = {}

    def plain(one: Any) -> Any:
        if isinstance(one, np.ndarray):
            name = f"array_{len(arrays)}"
            arrays[name] = one
            return {_ARRAY: name}
        if isinstance(one, dict):
            return {key: plain(part) for key, part in one.items()}
        return [plain(part) for part in one] if isinstance(one, list | tuple) else one

    text = json.dumps(plain(value)).encode()
    content = io.BytesIO()
    np.savez(content, allow_pickle=False, **{_TEXT: np.frombuffer(text, dtype=np.uint8)}, **arrays)
    return content.getvalue()


def unpacked(content: bytes) -> Any:
    """Return what :func:`packed` was given.

    Raises
    ------
    ValueError
        If the bytes are damaged.
    """
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as found:
            arrays = {name: found[name] for name in found.files}
        value = json.loads(arrays.pop(_TEXT).tobytes())
    except Exception as error:  # NumPy and zipfile raise a dozen kinds
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(f"content must be what packed returned, got {reason}") from error

    def filled(one: Any) -> Any:
        if isinstance(one, dict):
            named = one.get(_ARRAY)
            return arrays[named] if named is not None else {k: filled(v) for k, v in one.items()}
        return [filled(part) for part in one] if isinstance(one, list) else one

    return filled(value)
