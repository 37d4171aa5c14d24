"""Building the CUDA kernels of Fourier attention: once, with nvcc alone, into a cache.

A library holds one precision and one size for one architecture, so that a first use compiles for
seconds only. Its name contains the SHA-256 of its sources, flags and architecture, so that one of
older sources is never loaded. Ahead of time, for machines without nvcc:

    python -m fourierkernels.ops.cuda_build --arch sm_80 --arch sm_90 [--output FOLDER]
"""

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from itertools import product
from pathlib import Path

SOURCES = Path(__file__).parent / "csrc"
REALS = ("float", "double")
# Features and columns a library can take: the accumulators of a row live in registers.
SIZES = (16, 32, 64, 128, 256)
CACHE_VARIABLE = "FOURIERKERNELS_CACHE"
_FLAGS = ("-O3", "-std=c++17", "-shared", "-Xcompiler", "-fPIC")
_LAST_LINES = 20


class BuildError(RuntimeError):
    """The CUDA kernels could not be built; the message says what to do."""


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
# A build that failed is not tried again by this process: every call would wait for it.
_failures: dict[Path, str] = {}


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


def cache_folder() -> Path:
    """Return where libraries are kept: $FOURIERKERNELS_CACHE, or the user's cache folder."""
    given = os.environ.get(CACHE_VARIABLE)
    if given:
        return Path(given)
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "fourierkernels"


def find_nvcc() -> Path | None:
    """Return nvcc from PATH, $CUDA_HOME or /usr/local/cuda."""
    found = shutil.which("nvcc")
    if found:
        return Path(found)
    roots = (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda")
    places = [Path(root) / "bin" / "nvcc" for root in roots if root]
    return next((place for place in places if place.exists()), None)


def compile_command(nvcc: Path, variant: Variant, arch: str, output: Path) -> list[str]:
    """Return the command that makes one library."""
    target = f"-gencode=arch=compute_{arch.removeprefix('sm_')},code={arch}"
    source = str(SOURCES / "attention.cu")
    return [str(nvcc), *_FLAGS, target, *variant.definitions, source, "-o", str(output)]


def library_path(variant: Variant, arch: str, folder: Path | None = None) -> Path:
    """Return where the library of these sources, flags and architecture belongs.

    Raises
    ------
    ValueError
        If `arch` is not of the form sm_90, or older than sm_80.
    """
    if not re.fullmatch(r"sm_\d{2,3}[af]?", arch) or int(re.sub(r"\D", "", arch)) < 80:
        raise ValueError(f"arch must be sm_80 or later, got {arch!r}")
    digest = hashlib.sha256(" ".join((*_FLAGS, *variant.definitions, arch)).encode())
    for path in sorted(SOURCES.iterdir()):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    name = f"attention_{variant.real}{variant.size}_{arch}_{digest.hexdigest()[:16]}.so"
    return (cache_folder() if folder is None else folder) / name


def build(variant: Variant, arch: str, folder: Path | None = None) -> Path:
    """Return the library, made if it is not there.

    Raises
    ------
    BuildError
        If there is no nvcc, or it fails; also at every later call of this process.
    """
    path = library_path(variant, arch, folder)
    if path.exists():
        return path
    if path not in _failures:
        try:
            _make(variant, arch, path)
        except BuildError as error:
            _failures[path] = str(error)
    if path in _failures:
        raise BuildError(_failures[path])
    return path


def _make(variant: Variant, arch: str, path: Path) -> None:
    nvcc = find_nvcc()
    if nvcc is None:
        raise BuildError(_missing(arch, path.parent))
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(f".{os.getpid()}.tmp")  # two processes may build at once
    command = compile_command(nvcc, variant, arch, unfinished)
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            lines = (done.stdout + done.stderr).strip().splitlines()[-_LAST_LINES:]
            raise BuildError("\n".join([f"nvcc failed: {' '.join(command)}", *lines, _GO_ON]))
        unfinished.replace(path)  # atomic: nobody loads half a library
    finally:
        unfinished.unlink(missing_ok=True)


_GO_ON = (
    'To go on without the CUDA kernels, pass implementation="reference" to fourier_attention: the '
    "same result, slower, in O(N M D) memory."
)


def _missing(arch: str, folder: Path) -> str:
    return (
        "Fourier attention on cuda needs nvcc once, to build its kernels. Install the CUDA toolkit "
        "(12 or later, with a host C++ compiler) and put its bin folder on PATH or its root into "
        "CUDA_HOME; or run `python -m fourierkernels.ops.cuda_build --arch "
        f"{arch}` on a machine that has it and copy the libraries to {folder}. {_GO_ON}"
    )


def main(arguments: list[str] | None = None) -> int:
    """Build libraries ahead of time and print where they are."""
    parser = argparse.ArgumentParser(
        prog="python -m fourierkernels.ops.cuda_build", description=main.__doc__
    )
    parser.add_argument("--arch", action="append", required=True, help="such as sm_90; repeatable")
    parser.add_argument("--output", type=Path, help="folder; the cache if not given")
    parser.add_argument("--real", action="append", choices=REALS, help="both if not given")
    parser.add_argument("--size", action="append", type=int, choices=SIZES, help="all if not given")
    options = parser.parse_args(arguments)
    try:
        for arch, variant in product(options.arch, VARIANTS):
            if variant.real in (options.real or REALS) and variant.size in (options.size or SIZES):
                sys.stdout.write(f"{build(variant, arch, options.output)}\n")
    except (BuildError, ValueError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
