"""Building the CUDA kernels of Fourier attention: once, with nvcc alone, into a cache.

A library holds one precision and one size for one architecture, so that a first use compiles for
seconds only. Its name is its key: precision, size, architecture, release of the CUDA toolkit, and
the SHA-256 of sources and flags, so that one of older sources is never loaded. The driver is no
part of it, so that libraries can be built on a machine without a card and copied
(``fourierkernels cuda build``): with nvcc, a library of that nvcc's release is wanted; without, any
release's that the driver can run.

torch.utils.cpp_extension.load is not used. It needs ninja, its module is of one release of torch
and of Python, while a library without torch serves all; and its lock is a file, which a process
that is killed leaves behind, for others to wait at.
"""

import hashlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path

from fourierkernels.foundation.progress import bar
from fourierkernels.ops.cuda.cache import cache_folder, make_once
from fourierkernels.ops.cuda.errors import (
    GO_ON,
    BuildError,
    CompilationError,
    failed_compilation,
    no_compiler,
)
from fourierkernels.ops.cuda.toolkit import (
    Release,
    Toolkit,
    check_driver,
    find_toolkit,
    number_of,
    runs,
    surroundings,
    text_of,
)

QUIET_VARIABLE = "FOURIERKERNELS_QUIET"
__all__ = ["REALS", "SIZES", "VARIANTS", "BuildError", "Variant", "build", "variant_for"]

SOURCES = Path(__file__).parent / "csrc"
REALS = ("float", "double")
# Features and columns a library can take: the accumulators of a row live in registers.
SIZES = (16, 32, 64, 128, 256)
_OLDEST = 80
_FLAGS = ("-O3", "-std=c++17", "-shared", "-Xcompiler", "-fPIC")

Announce = Callable[[str], AbstractContextManager[None]]


def say(message: str) -> None:
    """Write a line on standard error, unless $FOURIERKERNELS_QUIET is set."""
    if not os.environ.get(QUIET_VARIABLE):
        sys.stderr.write(f"fourierkernels: {message}\n")
        sys.stderr.flush()


@contextmanager
def announced(message: str) -> Iterator[None]:
    """Say what is being done, then how long it took; on a terminal, with the time meanwhile.

    Nothing is said with $FOURIERKERNELS_QUIET. A failure has no last line: its error is one.
    """
    start = time.perf_counter()
    say(message)
    with nullcontext() if os.environ.get(QUIET_VARIABLE) else bar("nvcc"):
        yield
    say(f"done in {time.perf_counter() - start:.1f} s")


@dataclass(frozen=True)
class Variant:
    """One library: a C++ type, and the largest number of features and columns."""

    real: str
    size: int

    @property
    def definitions(self) -> tuple[str, ...]:
        """Compiler flags that select it."""
        return f"-DFK_REAL={self.real}", f"-DFK_SIZE={self.size}"


VARIANTS = tuple(Variant(real, size) for real, size in product(REALS, SIZES))
# A compilation that failed is not tried again by this process while nothing around it changed:
# every call would wait for it.
_failures: dict[tuple[object, ...], str] = {}


def variant_for(real: str, width: int) -> Variant:
    """Return the smallest library that takes `width` features or columns.

    Examples
    --------
    >>> variant_for("float", 40)
    Variant(real='float', size=64)
    """
    for size in SIZES:
        if width <= size:
            return Variant(real, size)
    raise ValueError(
        f"query and value must have at most {SIZES[-1]} features on cuda, got {width}: "
        'pass implementation="reference"'
    )


def compile_command(nvcc: Path, variant: Variant, arch: str, output: Path) -> list[str]:
    """Return the command that makes one library."""
    target = f"-gencode=arch=compute_{arch.removeprefix('sm_')},code={arch}"
    source = str(SOURCES / "attention.cu")
    return [str(nvcc), *_FLAGS, target, *variant.definitions, source, "-o", str(output)]


def check_arch(arch: str) -> str:
    """Return an architecture of the form sm_90; refuse others and those before sm_80."""
    if not re.fullmatch(r"sm_\d{2,3}[af]?", arch) or number_of(arch) < _OLDEST:
        raise ValueError(f"arch must be sm_{_OLDEST} or later, got {arch!r}")
    return arch


def library_name(variant: Variant, arch: str, release: str) -> str:
    """Return the name of the library of these sources and flags; `release` may be a pattern.

    Raises
    ------
    ValueError
        If `arch` is not of the form sm_90, or older than sm_80.
    """
    check_arch(arch)
    key = sources_digest(*variant.definitions, arch)
    return f"attention_{variant.real}{variant.size}_{arch}_cuda{release}_{key}.so"


def sources_digest(*words: str) -> str:
    """Return 16 hexadecimal digits of the SHA-256 of sources, flags and further words."""
    digest = hashlib.sha256(" ".join((*_FLAGS, *words)).encode())
    for path in sorted(SOURCES.iterdir()):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def build(
    variant: Variant,
    arch: str,
    folder: Path | None = None,
    *,
    elsewhere: bool = False,
    again: bool = False,
    announce: Announce = announced,
) -> Path:
    """Return the library, made if it is not there; one process of a machine makes it.

    Parameters
    ----------
    variant : Variant
    arch : str
        Such as sm_90.
    folder : Path or None
        The cache if not given.
    elsewhere : bool
        The library is for another machine: the driver of this one does not matter.
    again : bool
        Compile even if that has failed before in this process.
    announce : callable
        Given a message, a context that shows it while the compiler runs.

    Raises
    ------
    ValueError
        If `arch` is not of the form sm_90, or older than sm_80.
    BuildError
        If nvcc, its host compiler, the driver or the folder does not serve; the message says which
        and what to do. What nvcc refused is refused at once, until something around it changes:
        the compilers, the driver, or the environment variables that they read.
    """
    check_arch(arch)
    if sys.platform == "win32":  # its compiler takes other options, and no open file is removed
        raise BuildError(f"CUDA kernels must be built on Linux, got Windows. {GO_ON}")
    folder = cache_folder() if folder is None else folder
    toolkit = find_toolkit()
    if toolkit is None:
        return _built_before(variant, arch, folder, elsewhere=elsewhere)
    if not elsewhere:
        check_driver(toolkit.release)
    path = folder / library_name(variant, arch, text_of(toolkit.release))
    if path.exists():
        return path
    attempt = (path, *surroundings(toolkit))
    if attempt in _failures and not again:
        raise CompilationError(_failures[attempt])
    try:
        make = partial(_make, toolkit, variant, arch, announce, path)
        make_once(path, make, waiting=partial(say, _waiting(variant, arch)))
    except CompilationError as error:
        _failures[attempt] = str(error)
        raise
    return path


def _built_before(variant: Variant, arch: str, folder: Path, *, elsewhere: bool) -> Path:
    """Return the library by the newest toolkit that the driver can run."""
    found = {_release(path): path for path in folder.glob(library_name(variant, arch, "*"))}
    able = [release for release in found if elsewhere or runs(release)]
    if not able:
        raise no_compiler(arch, folder, too_new=[text_of(each) for each in sorted(found)])
    return found[max(able)]


def _release(path: Path) -> Release:
    major, minor = path.stem.partition("_cuda")[2].partition("_")[0].split(".")
    return int(major), int(minor)


def _make(
    toolkit: Toolkit, variant: Variant, arch: str, announce: Announce, path: Path, output: Path
) -> None:
    toolkit.check_architecture(arch)
    command = compile_command(toolkit.nvcc, variant, arch, output)
    where = f"with nvcc {text_of(toolkit.release)} into {path.parent}"
    with announce(f"building {_what(variant, arch)}, once, {where}"):
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            raise BuildError(f"nvcc could not be started: {error}. {GO_ON}") from error
        if done.returncode:
            printed = done.stdout + done.stderr
            raise failed_compilation(command, printed, folder=path.parent, nvcc=toolkit.nvcc)


def _what(variant: Variant, arch: str) -> str:
    real = {"float": "float32", "double": "float64"}[variant.real]
    return f"the CUDA kernels for {real}, up to {variant.size} features, on {arch}"


def _waiting(variant: Variant, arch: str) -> str:
    return f"another process is building {_what(variant, arch)}: waiting for it"
