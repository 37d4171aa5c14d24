"""The CUDA toolkit and the driver of this machine: their versions, and whether they go together."""

import ctypes
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from fourierkernels.ops.cuda.errors import GO_ON, BuildError

Release = tuple[int, int]  # (13, 0) is CUDA 13.0

# Variables that change which compilers run, or how.
_VARIABLES = (
    "PATH",
    "CUDA_HOME",
    "CUDA_PATH",
    "NVCC_CCBIN",
    "NVCC_PREPEND_FLAGS",
    "NVCC_APPEND_FLAGS",
)
# The oldest Linux driver that runs programs of each major release, whatever its minor release:
# CUDA Toolkit release notes, "CUDA Toolkit and minimum required driver version for CUDA minor
# version compatibility". Our libraries hold machine code, which that compatibility covers.
_OLDEST_DRIVERS = {11: "450.80.02", 12: "525.60.13", 13: "580.65.06"}
# The first release that knows an architecture, for the advice.
_FIRST_RELEASES = {
    80: "11.0",
    86: "11.1",
    87: "11.4",
    88: "13.0",
    89: "11.8",
    90: "11.8",
    100: "12.8",
    103: "12.9",
    110: "13.0",
    120: "12.8",
    121: "12.9",
}
_REPAIR = "repair the CUDA toolkit, or put another one's bin folder first on PATH."


@dataclass(frozen=True)
class Toolkit:
    """An nvcc and its release."""

    nvcc: Path
    release: Release

    def check_architecture(self, arch: str) -> None:
        """Refuse an architecture that this nvcc does not know.

        Raises
        ------
        BuildError
            With the release that knows it, if that is known here.
        """
        number = number_of(arch)
        known = _architectures(self.nvcc, self.nvcc.stat().st_mtime_ns)
        if not known or number in known:
            return
        first = _FIRST_RELEASES.get(number)
        wanted = f"CUDA toolkit {first} or later" if first else "a newer CUDA toolkit"
        raise BuildError(
            f"nvcc must know {arch}, got nvcc {text_of(self.release)} ({self.nvcc}), which goes up "
            f"to sm_{max(known)}: install {wanted} and put its bin folder first on PATH. {GO_ON}"
        )


def number_of(arch: str) -> int:
    """Return the number of an architecture.

    Examples
    --------
    >>> number_of("sm_90a")
    90
    """
    return int(re.sub(r"\D", "", arch))


def text_of(release: Release) -> str:
    """Return a release as it is written.

    Examples
    --------
    >>> text_of((12, 4))
    '12.4'
    """
    return ".".join(map(str, release))


def find_nvcc() -> Path | None:
    """Return nvcc from PATH, $CUDA_HOME, $CUDA_PATH or /usr/local/cuda."""
    found = shutil.which("nvcc")
    if found:
        return Path(found)
    roots = (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda")
    places = [Path(root) / "bin" / "nvcc" for root in roots if root]
    return next((place for place in places if place.exists()), None)


def find_toolkit() -> Toolkit | None:
    """Return the toolkit of this machine, or None.

    Raises
    ------
    BuildError
        If there is an nvcc that does not run or does not tell its release.
    """
    nvcc = find_nvcc()
    return None if nvcc is None else Toolkit(nvcc, _release(nvcc, nvcc.stat().st_mtime_ns))


def surroundings(toolkit: Toolkit) -> tuple[object, ...]:
    """Return what a compilation depends on beside its sources; if equal, it would go as before."""
    compiler = shutil.which("g++")
    changed = [Path(path).stat().st_mtime_ns for path in (toolkit.nvcc, compiler) if path]
    variables = tuple(os.environ.get(name) for name in _VARIABLES)
    return toolkit, driver_release(), compiler, *changed, *variables


@cache  # asked once for each version of the file; a failure is not kept
def _release(nvcc: Path, changed: int) -> Release:
    printed = _printed(nvcc, "--version")
    found = re.search(r"release (\d+)\.(\d+)", printed)
    if found is None:
        raise BuildError(
            f"{nvcc} must tell its release when called with --version, got "
            f"{' '.join(printed.split())!r}: {_REPAIR} {GO_ON}"
        )
    return int(found[1]), int(found[2])


@cache
def _architectures(nvcc: Path, changed: int) -> frozenset[int]:
    """Return the numbers of the architectures; none if this nvcc is too old to list them."""
    listed = _printed(nvcc, "--list-gpu-arch")
    return frozenset(int(number) for number in re.findall(r"^compute_(\d+)", listed, re.MULTILINE))


def _printed(nvcc: Path, option: str) -> str:
    try:
        done = subprocess.run([str(nvcc), option], capture_output=True, text=True, check=False)
    except OSError as error:
        raise BuildError(
            f"{nvcc} must be a program that runs, got {error.strerror}: {_REPAIR} {GO_ON}"
        ) from error
    return done.stdout + done.stderr


# ---- the driver ---------------------------------------------------------------------------------


@cache
def driver_release() -> Release | None:
    """Return the newest CUDA release that the driver supports; None without a driver."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    version = ctypes.c_int()
    if driver.cuDriverGetVersion(ctypes.byref(version)):
        return None
    return version.value // 1000, version.value % 1000 // 10


def runs(release: Release) -> bool:
    """Whether the driver runs what a toolkit of this release builds; True without a driver."""
    driver = driver_release()
    return driver is None or driver[0] >= release[0]


def check_driver(release: Release) -> None:
    """Refuse a driver that could not launch a kernel built by a toolkit of this release.

    Raises
    ------
    BuildError
        With both versions and what to install.
    """
    driver = driver_release()
    if driver is None or runs(release):
        return
    oldest = _OLDEST_DRIVERS.get(release[0])
    newer = f"driver {oldest} or later" if oldest else "a newer driver"
    raise BuildError(
        f"driver supports CUDA {text_of(driver)}, nvcc is {text_of(release)}: no kernel it builds "
        f"would start. Install {newer}, or CUDA toolkit {driver[0]} and put its bin folder first "
        f"on PATH. {GO_ON}"
    )
