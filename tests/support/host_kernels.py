"""The CUDA sources compiled as plain C++, for machines without a GPU."""

import ctypes
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest
import torch

from fourierkernels.ops.cuda_build import SOURCES, Variant
from fourierkernels.ops.cuda_library import Library

_FLAGS = (
    "-x",
    "c++",
    "-std=c++17",
    "-O2",
    "-march=native",
    "-shared",
    "-fPIC",
    "-Wall",
    "-Wextra",
    "-Werror",
)
_FOLDER = tempfile.TemporaryDirectory(prefix="fourierkernels-host-")
REALS = {torch.float32: "float", torch.float64: "double"}

needs_compiler = pytest.mark.skipif(
    shutil.which("g++") is None, reason="needs g++ to compile the sources for the host"
)


@cache
def host_library(dtype: torch.dtype, size: int) -> Library:
    """The kernels' programs, run block by block and thread by thread on one core."""
    variant = Variant(REALS[dtype], size)
    path = _compile(SOURCES / "attention.cu", f"{variant.real}{size}", variant.definitions)
    return Library.load(str(path), size)


@cache
def host_scalars() -> ctypes.CDLL:
    """The scalar functions over arrays."""
    return ctypes.CDLL(str(_compile(Path(__file__).parent / "scalar_math.cpp", "scalars")))


def _compile(source: Path, name: str, definitions: tuple[str, ...] = ()) -> Path:
    output = Path(_FOLDER.name) / f"{name}.so"
    command = ["g++", *_FLAGS, f"-I{SOURCES}", *definitions, str(source), "-o", str(output)]
    subprocess.run(command, check=True)
    return output
