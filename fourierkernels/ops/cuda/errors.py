"""What goes wrong when CUDA kernels are built, and what to do about it."""

import errno
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

CACHE_VARIABLE = "FOURIERKERNELS_CACHE"
_LAST_LINES = 20
_FULL = (errno.ENOSPC, errno.EDQUOT)

GO_ON = (
    'To go on without the CUDA kernels, pass implementation="reference" to fourier_attention: the '
    "same result, slower, in O(N M D) memory."
)


class BuildError(RuntimeError):
    """The CUDA kernels could not be built; the message says what to do."""


class CompilationError(BuildError):
    """nvcc ran and failed: with the same compilers it would fail again."""


@dataclass(frozen=True)
class Diagnosis:
    """A line that nvcc's output has when one thing is wrong, and what mends it.

    Attributes
    ----------
    pattern : str
        Regular expression.
    advice : str
        With the fields ``{folder}`` (the cache), ``{temporary}`` and ``{nvcc}``.
    """

    pattern: str
    advice: str


# The first that matches is told: a full disk shows as failures of every other kind too.
DIAGNOSES = (
    Diagnosis(
        "No space left on device|Disk quota exceeded",
        f"The disk is full: free some space in {{folder}}, or set {CACHE_VARIABLE} to a folder on "
        "another disk; for nvcc's temporary files, free {temporary} or set TMPDIR.",
    ),
    Diagnosis(
        "unsupported (GNU|clang|Microsoft|compiler) ?.*version|unsupported compiler",
        "The host C++ compiler is newer than this nvcc accepts: install an older one beside it "
        "and name it, such as NVCC_PREPEND_FLAGS='-ccbin g++-13', or install a newer toolkit.",
    ),
    Diagnosis(
        "Failed to preprocess host compiler|Cannot find compiler|cc1plus|"
        r"(gcc|g\+\+|c\+\+|clang\S*)'?: (command )?(not found|No such file)",
        "nvcc needs a host C++ compiler and finds none that works: install g++ (apt-get install "
        "g++, dnf install gcc-c++), or name one, such as NVCC_PREPEND_FLAGS='-ccbin g++-13'.",
    ),
    Diagnosis(
        "Unsupported gpu architecture|is not defined for option 'gpu-architecture'",
        "{nvcc} does not know this architecture: install a newer CUDA toolkit.",
    ),
    Diagnosis(
        "Killed|virtual memory exhausted|out of memory|signal 9",
        "The compiler ran out of memory: build one library at a time (--jobs 1), or on a larger "
        "machine.",
    ),
)


def failed_compilation(
    command: Sequence[str], printed: str, *, folder: Path, nvcc: Path
) -> CompilationError:
    """Return the error for a compiler's failure: advice if the cause is known, then its words."""
    found = next((each for each in DIAGNOSES if re.search(each.pattern, printed)), None)
    places = {"folder": folder, "temporary": tempfile.gettempdir(), "nvcc": nvcc}
    advice = [found.advice.format(**places)] if found else []
    lines = printed.strip().splitlines()[-_LAST_LINES:]
    failure = f"nvcc failed: {' '.join(command)}"
    return CompilationError("\n".join([*advice, failure, *lines, GO_ON]))


@contextmanager
def writing_to(folder: Path) -> Iterator[None]:
    """Turn the system's refusal to write into an error that says where else to write."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        advice = "free some space there, or set" if error.errno in _FULL else "set"
        raise BuildError(
            f"the folder of the CUDA kernels must be writable, got {folder} ({reason}): {advice} "
            f"{CACHE_VARIABLE} to a folder that is. {GO_ON}"
        ) from error


def no_compiler(arch: str, folder: Path, *, too_new: Sequence[str] = ()) -> BuildError:
    """Return the error for a machine without nvcc and without a library that it can run."""
    there = ""
    if too_new:
        there = f" Those in {folder} need a newer driver (built by CUDA {', '.join(too_new)})."
    return BuildError(
        "Fourier attention on cuda needs nvcc once, to build its kernels, and finds none."
        + there
        + " Install the CUDA toolkit (12 or later, with a host C++ compiler) and put its bin "
        "folder on PATH or its root into CUDA_HOME; or run `fourierkernels cuda build --arch "
        f"{arch}` on a machine that has it and copy the libraries to {folder}. {GO_ON}"
    )
