"""Pickles of lists, dictionaries and arrays of numbers, read without Python's unpickler.

A pickle is a program for a small machine that may call any function of any module. Here it is not
run. :mod:`pickletools` splits the file into its instructions, and the machine below knows only
those that build lists, tuples, dictionaries, texts, bytes and numbers; of functions it knows the
few by which numpy writes an array, each replaced by a function of this file. Everything else is
refused by name. Strings of Python 2, which are bytes, become texts of as many characters.
"""

import math
import mmap
import pickletools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_MARK = object()
_KINDS = "fiub"  # floats, integers, booleans
_ORDERS = "<>=|"


@dataclass
class Kind:
    """A numpy dtype of numbers, while it is read."""

    name: str
    order: str = "|"

    def set_state(self, state: Any) -> None:
        """Take the byte order; anything else would be a dtype that is no number."""
        order, *rest = state[1:5] if isinstance(state, tuple) and len(state) >= 5 else ("", 0)
        if order not in _ORDERS or any(part is not None for part in rest):
            raise ValueError(f"arrays must be of plain numbers, got a dtype with state {state!r}")
        self.order = order

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype."""
        return np.dtype(self.name).newbyteorder("<" if self.order == "|" else self.order)  # type: ignore[arg-type]


@dataclass
class Array:
    """An array, which a pickle makes first and fills later."""

    values: NDArray[Any] | None = None

    def set_state(self, state: Any) -> None:
        """Take shape, dtype, order and bytes."""
        if not isinstance(state, tuple) or len(state) != 5:
            raise ValueError("arrays must have a shape, a dtype and bytes, got others")
        _, shape, kind, by_columns, content = state
        self.values = _filled(content, kind, shape, "F" if by_columns else "C")


@dataclass(frozen=True)
class Name:
    """A function or class of another module, by its name alone."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


def _filled(content: Any, kind: Any, shape: Any, order: Any) -> NDArray[Any]:
    """Return the array of some bytes."""
    sizes = shape if isinstance(shape, tuple) else (shape,)
    content = content.encode("latin1") if isinstance(content, str) else content  # of Python 2
    if not isinstance(kind, Kind) or not isinstance(content, bytes | bytearray):
        raise ValueError("arrays must be bytes of plain numbers, got objects")
    if order not in ("C", "F") or not all(type(size) is int and size >= 0 for size in sizes):
        raise ValueError(f"arrays must have a shape, got {shape!r:.40}")
    if len(content) != math.prod(sizes) * kind.dtype.itemsize:
        raise ValueError(f"arrays must have the bytes of their shape {sizes}, got {len(content)}")
    return np.frombuffer(content, kind.dtype).reshape(sizes, order=order)


def _kind(name: Any, *flags: Any) -> Kind:
    if not isinstance(name, str) or name[:1] not in _KINDS or not name[1:].isdigit():
        raise ValueError(f"arrays must be of plain numbers, got dtype {name!r:.40}")
    np.dtype(name)  # TypeError if there is no such size
    return Kind(name)


def _empty(cls: Any, shape: Any, code: Any) -> Array:
    if cls != Name("numpy", "ndarray"):
        raise ValueError(f"arrays must be of numpy.ndarray, got {cls!s:.40}")
    return Array()


def _from_buffer(content: Any, kind: Any, shape: Any, order: Any) -> Array:
    return Array(_filled(content, kind, shape, order))


def _scalar(kind: Any, content: Any) -> Any:
    return _filled(content, kind, (), "C").item()


def _latin_bytes(text: Any, encoding: Any) -> bytes:
    if not isinstance(text, str) or encoding != "latin1":
        raise ValueError(f"bytes must be encoded as latin1, got {encoding!r:.40}")
    return text.encode("latin1")


# What numpy writes: before version 2 its modules had no underscore. Protocol 2 has bytes as text.
_CALLS: dict[Name, Callable[..., Any]] = {
    Name("numpy", "dtype"): _kind,
    Name("_codecs", "encode"): _latin_bytes,
    **{Name(f"numpy.{core}.multiarray", "_reconstruct"): _empty for core in ("core", "_core")},
    **{Name(f"numpy.{core}.multiarray", "scalar"): _scalar for core in ("core", "_core")},
    **{Name(f"numpy.{core}.numeric", "_frombuffer"): _from_buffer for core in ("core", "_core")},
}
_NAMES = {*_CALLS, Name("numpy", "ndarray")}


class _Machine:
    """The stack and the memory of a pickle."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memory: dict[int, Any] = {}

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def above_mark(self) -> list[Any]:
        place = len(self.stack) - 1
        while self.stack[place] is not _MARK:
            place -= 1
        items = self.stack[place + 1 :]
        del self.stack[place:]
        return items

    def take(self, count: int) -> tuple[Any, ...]:
        items = tuple(self.stack[len(self.stack) - count :])
        if len(items) != count:
            raise IndexError("stack")
        del self.stack[len(self.stack) - count :]
        return items

    def extend(self, items: list[Any]) -> None:
        _as(list, self.stack[-1]).extend(items)

    def update(self, items: list[Any]) -> None:
        target = _as(dict, self.stack[-1])
        for key, value in zip(items[::2], items[1::2], strict=True):
            target[_as(str, key)] = value

    def find(self, module: Any, name: Any) -> None:
        found = Name(_as(str, module), _as(str, name))
        if found not in _NAMES:
            raise ValueError(f"must hold arrays, lists and dictionaries alone, got {found}")
        self.push(found)

    def call(self) -> None:
        function, arguments = self.take(2)
        if not isinstance(function, Name) or function not in _CALLS:
            raise ValueError(f"must call what builds arrays alone, got {function!s:.40}")
        self.push(_CALLS[function](*_as(tuple, arguments)))

    def build(self) -> None:
        (state,) = self.take(1)
        target = self.stack[-1]
        if not isinstance(target, Array | Kind):
            raise ValueError(f"must fill arrays alone, got {type(target).__name__}")
        target.set_state(state)


def _as(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise ValueError(f"must have a {kind.__name__} there, got {type(value).__name__}")
    return value


# Instruction -> what it does with the machine and its argument.
_DOES: dict[str, Callable[[_Machine, Any], object]] = {
    **dict.fromkeys(("PROTO", "FRAME"), lambda m, a: None),
    **dict.fromkeys(
        (
            *("BININT", "BININT1", "BININT2", "LONG1", "LONG4", "BINFLOAT"),
            *("BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
            *("BINSTRING", "SHORT_BINSTRING"),
            *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
        ),
        _Machine.push,
    ),
    "NONE": lambda m, a: m.push(None),
    "NEWTRUE": lambda m, a: m.push(True),
    "NEWFALSE": lambda m, a: m.push(False),
    "EMPTY_LIST": lambda m, a: m.push([]),
    "EMPTY_DICT": lambda m, a: m.push({}),
    "EMPTY_TUPLE": lambda m, a: m.push(()),
    "MARK": lambda m, a: m.push(_MARK),
    "TUPLE": lambda m, a: m.push(tuple(m.above_mark())),
    "TUPLE1": lambda m, a: m.push(m.take(1)),
    "TUPLE2": lambda m, a: m.push(m.take(2)),
    "TUPLE3": lambda m, a: m.push(m.take(3)),
    "APPEND": lambda m, a: m.extend(list(m.take(1))),
    "APPENDS": lambda m, a: m.extend(m.above_mark()),
    "SETITEM": lambda m, a: m.update(list(m.take(2))),
    "SETITEMS": lambda m, a: m.update(m.above_mark()),
    **dict.fromkeys(("BINPUT", "LONG_BINPUT"), lambda m, a: m.memory.__setitem__(a, m.stack[-1])),
    "MEMOIZE": lambda m, a: m.memory.__setitem__(len(m.memory), m.stack[-1]),
    **dict.fromkeys(("BINGET", "LONG_BINGET"), lambda m, a: m.push(m.memory[a])),
    "GLOBAL": lambda m, a: m.find(*a.split(" ", 1)),
    "STACK_GLOBAL": lambda m, a: m.find(*m.take(2)),
    "REDUCE": lambda m, a: m.call(),
    "BUILD": lambda m, a: m.build(),
}


def read_plain_pickle(file: Path) -> Any:
    """Return what a pickle holds, its arrays as :class:`Array`; nothing in it is run.

    Raises
    ------
    ValueError
        If the file is cut off or no pickle, or holds anything but lists, tuples, dictionaries,
        texts, numbers and arrays of numbers.
    """
    machine = _Machine()
    with file.open("rb") as content:
        if not file.stat().st_size:
            raise ValueError(f"{file} must be a whole pickle, got an empty file")
        with mmap.mmap(content.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            try:
                for instruction, argument, _ in pickletools.genops(mapped):  # type: ignore[arg-type]
                    if instruction.name == "STOP":
                        break
                    _DOES[_known(instruction.name)](machine, argument)
                (found,) = machine.take(1)
            except (IndexError, KeyError, TypeError) as error:
                raise ValueError(f"{file} must be a whole pickle, got {error!r:.60}") from error
            except ValueError as error:
                raise ValueError(f"{file} {_rule(error)}") from error
    return found


def _known(name: str) -> str:
    if name not in _DOES:
        raise ValueError(f"must hold arrays, lists and dictionaries alone, got {name}")
    return name


def _rule(error: ValueError) -> str:
    """Return what a file must be, after its name; pickletools has other messages."""
    text = str(error)
    if text.startswith("must "):
        return text
    return (
        f"must be a whole pickle of plain arrays, got one whose {text:.100}"
        if text.startswith(("arrays must", "bytes must"))
        else f"must be a whole pickle, got {text:.60}"
    )
