"""The CUDA sources compiled for machines without a GPU; see ``emulation/README.md``.

The sources are those that nvcc compiles. What is not C++ in them (launches, shared memory, PTX) is
rewritten, and ``emulation/cuda_runtime.h`` gives the rest.
"""

import ctypes
import fcntl
import hashlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest
import torch

from fourierkernels.ops.cuda.build import SOURCES, Variant
from fourierkernels.ops.cuda.library import Library

SUPPORT = Path(__file__).parent
EMULATION = SUPPORT / "emulation"
REALS = {torch.float32: "float", torch.float64: "double"}
SMALL = Variant("float", 16)
CACHE = SUPPORT.parents[1] / ".pytest_cache" / "emulation"
# fma where the sources say so and nowhere else: two builds give the same bits.
_FLAGS = (
    *("-x", "c++", "-std=c++17", "-march=native", "-ffp-contract=off", "-fno-math-errno"),
    *("-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas", "-U_FORTIFY_SOURCE", "-fno-ipa-icf"),
)
# Measured over ten libraries and 60 problems, in seconds: 14.5 + 3.5 with -O1, 19.5 + 2.8 with -O2.
LIBRARY_FLAGS = ("-O1", "-shared", "-fPIC")

needs_compiler = pytest.mark.skipif(
    shutil.which("g++") is None, reason="needs g++ to compile the sources for the host"
)

# What is CUDA and not C++, and what it becomes.
_LAUNCH = re.compile(r"([\w:]+(?:<[^<>;]*>)?)\s*<<<(.*?)>>>\s*\((.*?)\);", re.DOTALL)
_DYNAMIC = re.compile(r"extern\s+__shared__\s+(?:__align__\(\d+\)\s+)?(\w+)\s+(\w+)\[\];")
_STATIC = re.compile(r"__shared__\s+(\w[\w:<>, ]*?)\s+(\w+)((?:\[[^\]]*\])*);")
_PTX = re.compile(r'asm(?:\s+volatile)?\s*\(\s*"([\w.]+)\s[^"]*"((?:\s*:[^;]*)?)\);')
_OPERAND = re.compile(r'"[^"]*"\s*\(([^()]*)\)')


def as_cpp(source: str) -> str:
    """Return a file of CUDA C++ as C++ over the emulation."""
    source = _LAUNCH.sub(_launch, source)
    source = _DYNAMIC.sub(r"\1* \2 = reinterpret_cast<\1*>(::emulation::dynamic_shared());", source)
    source = _STATIC.sub(
        r"static char key_of_\2; "
        r"auto& \2 = ::emulation::shared_variable<\1\3>(&key_of_\2);",
        source,
    )
    return _PTX.sub(_call_of_ptx, source)


def _launch(found: re.Match[str]) -> str:
    arguments = f", {found[3]}" if found[3].strip() else ""
    return f"::emulation::Launch({found[2]})({found[1]}{arguments});"


def _call_of_ptx(found: re.Match[str]) -> str:
    operands = ", ".join(_OPERAND.findall(found[2]))
    return f"::emulation::ptx_{found[1].replace('.', '_')}({operands});"


@cache
def sources() -> Mapping[str, str]:
    """Return the files of ``csrc`` by name."""
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(SOURCES.iterdir())}


@cache
def host_library(dtype: torch.dtype, size: int) -> Library:
    """The kernels, run lane by lane on one core, the lanes of a block meeting at its barriers."""
    variant = Variant(REALS[dtype], size)
    return Library.load(str(compiled(f"{variant.real}{size}", variant)), size)


@cache
def host_scalars() -> ctypes.CDLL:
    """The scalar functions over arrays."""
    source = (SUPPORT / "scalar_math.cpp").read_text(encoding="utf-8")
    return ctypes.CDLL(str(_made("scalars", (*_FLAGS, *LIBRARY_FLAGS), source, sources())))


def compiled(
    name: str,
    variant: Variant,
    *,
    flags: tuple[str, ...] = LIBRARY_FLAGS,
    main: str = "",
    files: Mapping[str, str] | None = None,
    folder: Path = CACHE,
) -> Path:
    """Return attention.cu, or the files given in its place, compiled over the emulation.

    Parameters
    ----------
    main : str
        C++ that follows the sources.
    """
    chosen = {path: as_cpp(text) for path, text in (files or sources()).items()}
    emulation = {path.name: path.read_text("utf-8") for path in sorted(EMULATION.glob("*.h"))}
    source = f'#include "cuda_runtime.h"\n#include "attention.cu"\n{main}'
    options = (*_FLAGS, *flags, *variant.definitions)
    return _made(name, options, source, chosen | emulation, folder)


def _made(
    name: str,
    options: tuple[str, ...],
    source: str,
    headers: Mapping[str, str],
    folder: Path = CACHE,
) -> Path:
    """Compile once for all processes; what was made of older sources is removed."""
    key = (_compiler(), options, source, sorted(headers.items()))
    digest = hashlib.sha256(repr(key).encode())
    folder.mkdir(parents=True, exist_ok=True)
    output = folder / f"{name}-{digest.hexdigest()[:16]}"
    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not output.exists():
            for older in folder.glob(f"{name}-*"):
                older.unlink()
            _compile(output, options, source, headers)
    return output


@cache
def _compiler() -> str:
    """Return what the compiler says of itself and of this machine's processor."""
    command = ["g++", "-v", "-E", "-march=native", "-x", "c++", "/dev/null"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stderr


def _compile(
    output: Path, options: tuple[str, ...], source: str, headers: Mapping[str, str]
) -> None:
    with tempfile.TemporaryDirectory(prefix="fourierkernels-emulation-") as folder:
        for name, text in headers.items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
        main, made = Path(folder) / "main.cpp", Path(folder) / "made"
        main.write_text(source, encoding="utf-8")
        subprocess.run(["g++", *options, f"-I{folder}", str(main), "-o", str(made)], check=True)
        shutil.copy(made, output)
