"""Calls of a library's entry points with all the memory they see, to be run again elsewhere."""

import ctypes
import gc
import struct
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from host_kernels import CACHE, EMULATION, compiled
from torch import Tensor

from fourierkernels.ops.cuda.build import Variant
from fourierkernels.ops.cuda.library import Library

_THREADS = ("-g", "-pthread", "-DEMULATION_THREADS")
# How a program runs the lanes, and what watches it.
ENGINES = {
    "fibres": (),
    "address": (*_THREADS, "-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
    "thread": (*_THREADS, "-fsanitize=thread"),
}
_ENVIRONMENT = {"TSAN_OPTIONS": "halt_on_error=1", "PATH": "/usr/bin:/bin"}
_SECONDS = 300  # lanes that wait for each other for ever are a fault too


@dataclass(frozen=True)
class RecordingLibrary(Library):
    """A library that keeps what each call was given and what it left."""

    calls: list[bytes] = field(default_factory=list)

    def call(self, name: str, argument: ctypes.Structure, device: torch.device) -> None:
        """Run an entry point; every pointer must point into a live tensor."""
        pointers, arrays = _followed(argument)
        before = [bytes(each) for each in arrays]
        super().call(name, argument, device)
        structure = bytes(argument)
        parts = [name.encode().ljust(32, b"\0"), _numbers(len(structure)), structure]
        parts += [_numbers(len(pointers)), *(_numbers(*each) for each in pointers)]
        parts.append(_numbers(len(arrays)))
        for old, new in zip(before, arrays, strict=True):
            parts += [_numbers(len(old)), old, bytes(new)]
        self.calls.append(b"".join(parts))

    def write(self, path: Path) -> Path:
        """Write the calls as replay.cpp reads them."""
        path.write_bytes(_numbers(len(self.calls)) + b"".join(self.calls))
        return path


def _numbers(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}q", *values)


def _followed(argument: ctypes.Structure) -> tuple[list[tuple[int, int, int]], list[memoryview]]:
    """Return (place, array, offset) of each pointer, and the arrays, which alias the tensors."""
    tensors = [each for each in gc.get_objects() if type(each) is Tensor]
    storages = dict(filter(None, map(_place, tensors)))
    pointers, arrays = [], {}
    for place, address in _pointers_of(argument):
        inside = [at for at, s in storages.items() if at <= address < at + s.nbytes()]
        assert inside, f"the pointer at byte {place} points into no live tensor"
        at = inside[0]
        arrays.setdefault(at, (len(arrays), storages[at].nbytes()))
        pointers.append((place, arrays[at][0], address - at))
    views = [(ctypes.c_char * size).from_address(at) for at, (_, size) in arrays.items()]
    return pointers, [memoryview(view) for view in views]


def _pointers_of(argument: ctypes.Structure, start: int = 0) -> Iterator[tuple[int, int]]:
    """Yield place and address of each pointer that is not null, also in arrays of structures."""
    for name, kind in argument._fields_:
        place, value = start + getattr(type(argument), name).offset, getattr(argument, name)
        if kind is ctypes.c_void_p and value is not None:
            yield place, value
        elif issubclass(kind, ctypes.Array) and issubclass(kind._type_, ctypes.Structure):
            for i, part in enumerate(value):
                yield from _pointers_of(part, place + i * ctypes.sizeof(part))


def _place(tensor: Tensor) -> tuple[int, torch.UntypedStorage] | None:
    """Return a tensor's address and memory; None for the stand-ins of a compiler, without any."""
    try:
        storage = tensor.untyped_storage()
        return (storage.data_ptr(), storage) if storage.nbytes() else None
    except (RuntimeError, NotImplementedError):
        return None


def replay(
    engine: str,
    variant: Variant,
    calls: Path,
    *,
    order: int = 1,
    files: Mapping[str, str] | None = None,
    folder: Path = CACHE,
) -> subprocess.CompletedProcess[str]:
    """Run recorded calls again in a program of their own; it fails if a byte differs.

    Parameters
    ----------
    engine : str
        One of `ENGINES`.
    files : mapping of str to str
        Sources in place of those of the package, and
    folder : Path
        where their program goes.
    """
    program = compiled(
        f"{engine}-{variant.real}{variant.size}",
        variant,
        flags=("-O1", "-rdynamic", *ENGINES[engine]),
        main=(EMULATION / "replay.cpp").read_text("utf-8"),
        files=files,
        folder=folder,
    )
    # Without randomised addresses: the sanitizers' own memory has fixed places.
    command = ["setarch", "-R", str(program), str(calls), str(order)]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env=_ENVIRONMENT, timeout=_SECONDS
    )
