"""Whatever is wrong with compiler, driver or folder, one error says what and how to mend it."""

import errno
import re
from pathlib import Path

import pytest
from fake_nvcc import FakeNvcc, nvcc

from fourierkernels.ops.cuda import build as cuda_build
from fourierkernels.ops.cuda import cache as cuda_cache
from fourierkernels.ops.cuda import toolkit as cuda_toolkit
from fourierkernels.ops.cuda.build import BuildError, Variant, build
from fourierkernels.ops.cuda.errors import CACHE_VARIABLE, DIAGNOSES

__all__ = ["nvcc"]  # a fixture

SMALL = Variant("float", 16)
BROKEN = "error: no such thing"


def message(folder: Path, arch: str = "sm_90") -> str:
    with pytest.raises(BuildError) as caught:
        build(SMALL, arch, folder)
    text = str(caught.value)
    assert 'implementation="reference"' in text  # how to go on
    return text


def test_a_failed_build_shows_the_compiler_and_is_not_tried_again(
    nvcc: FakeNvcc, tmp_path: Path
) -> None:
    nvcc.breaks(BROKEN)
    for _ in range(2):
        text = message(tmp_path / "cache")
        assert text.startswith(f"nvcc failed: {nvcc.script}")
        assert BROKEN in text
    assert nvcc.runs == 1
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_failed_build_is_tried_again_when_asked(nvcc: FakeNvcc, tmp_path: Path) -> None:
    nvcc.breaks(BROKEN)
    message(tmp_path)
    nvcc.mend()  # nothing that can be seen from outside
    message(tmp_path)
    assert build(SMALL, "sm_90", tmp_path, again=True).exists()
    assert nvcc.runs == 2


def test_a_failed_build_is_tried_again_once_the_compiler_is_replaced(
    nvcc: FakeNvcc, tmp_path: Path
) -> None:
    nvcc.breaks(BROKEN)
    message(tmp_path / "cache")
    nvcc.mend()
    nvcc.script.write_text(nvcc.script.read_text() + "# repaired\n")
    assert build(SMALL, "sm_90", tmp_path / "cache").exists()


def test_a_failed_build_is_tried_again_once_the_environment_changes(
    nvcc: FakeNvcc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvcc.breaks(BROKEN)
    message(tmp_path / "cache")
    nvcc.mend()
    monkeypatch.setenv("NVCC_PREPEND_FLAGS", "-ccbin g++-13")
    assert build(SMALL, "sm_90", tmp_path / "cache").exists()


def test_what_another_process_built_after_a_failure_is_found(
    nvcc: FakeNvcc, tmp_path: Path
) -> None:
    nvcc.breaks(BROKEN)
    message(tmp_path)
    place = tmp_path / cuda_build.library_name(SMALL, "sm_90", "12.4")
    place.touch()
    assert build(SMALL, "sm_90", tmp_path) == place


# What compilers print, as seen with nvcc 13.0 and g++ 12 unless said.
FAILURES = {
    "no host compiler": (
        "gcc: No such file or directory\n"
        "nvcc fatal   : Failed to preprocess host compiler properties.",
        r"finds none that works: install g\+\+",
    ),
    "gcc without g++": (
        "gcc: fatal error: cannot execute 'cc1plus': execvp: No such file or directory",
        r"finds none that works: install g\+\+",
    ),
    "host compiler too new": (  # the line of crt/host_config.h
        "#error -- unsupported GNU version! gcc versions later than 13 are not supported! The nvcc "
        "flag '-allow-unsupported-compiler' can be used to override this version check",
        r"newer than this nvcc accepts: .*NVCC_PREPEND_FLAGS='-ccbin g\+\+-13'",
    ),
    "full disk": (
        "/usr/bin/ld: final link failed: No space left on device\n"
        "collect2: error: ld returned 1 exit status",
        rf"disk is full: .*{CACHE_VARIABLE}.*TMPDIR",
    ),
    "unknown architecture": (
        "nvcc fatal   : Unsupported gpu architecture 'compute_90'",
        "install a newer CUDA toolkit",
    ),
    "out of memory": ("Killed", "--jobs 1"),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_a_known_failure_is_explained_first(failure: str, nvcc: FakeNvcc, tmp_path: Path) -> None:
    printed, advice = FAILURES[failure]
    nvcc.breaks(printed)
    text = message(tmp_path / "cache")
    first, *rest = text.splitlines()
    assert re.search(advice, first), first
    assert printed in "\n".join(rest)


def test_every_diagnosis_has_a_failure_here() -> None:
    told = {
        next(each for each in DIAGNOSES if re.search(each.pattern, printed))
        for printed, _ in FAILURES.values()
    }
    assert told == set(DIAGNOSES)


def test_without_nvcc_the_error_says_what_to_install_and_where_to_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_toolkit, "find_nvcc", lambda: None)
    text = message(tmp_path)
    for part in (
        "needs nvcc",
        "Install the CUDA toolkit",
        "CUDA_HOME",
        "fourierkernels cuda build --arch sm_90",
        str(tmp_path),
    ):
        assert part in text


def test_an_old_driver_is_told_before_anything_is_compiled(
    nvcc: FakeNvcc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvcc.release("13.0")
    monkeypatch.setattr(cuda_toolkit, "driver_release", lambda: (12, 4))
    text = message(tmp_path)
    assert text.startswith("driver supports CUDA 12.4, nvcc is 13.0: no kernel it builds would")
    assert "Install driver 580.65.06 or later, or CUDA toolkit 12" in text
    assert nvcc.runs == 0
    assert build(SMALL, "sm_90", tmp_path, elsewhere=True).exists()
    with pytest.raises(BuildError, match=r"driver supports"):  # though the library is there
        build(SMALL, "sm_90", tmp_path)


@pytest.mark.parametrize("driver", [(12, 0), (12, 8), (13, 1), None])
def test_a_driver_of_the_same_major_release_serves(
    driver: tuple[int, int] | None,
    nvcc: FakeNvcc,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cuda_toolkit, "driver_release", lambda: driver)
    assert build(SMALL, "sm_90", tmp_path).exists()


def test_an_nvcc_too_old_for_the_card_is_told_with_the_release_that_serves(
    nvcc: FakeNvcc, tmp_path: Path
) -> None:
    text = message(tmp_path, "sm_120")
    assert text.startswith(f"nvcc must know sm_120, got nvcc 12.4 ({nvcc.script}), which goes up")
    assert "install CUDA toolkit 12.8 or later" in text
    assert "install a newer CUDA toolkit" in message(tmp_path, "sm_200")
    assert nvcc.runs == 0
    assert build(SMALL, "sm_90a", tmp_path).exists()  # a letter is no other number


def test_an_nvcc_that_does_not_run_is_told(
    nvcc: FakeNvcc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cuda_toolkit._release.cache_clear()
    nvcc.script.write_text("#!/no/such/interpreter\n")
    assert "must be a program that runs, got No such file or directory" in message(tmp_path)
    nvcc.script.write_text("#!/bin/sh\necho hello\n")
    assert "must tell its release when called with --version, got 'hello'" in message(tmp_path)


def test_nvcc_is_found_on_the_path_or_under_cuda_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "nvcc").touch()
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert cuda_toolkit.find_nvcc() == tmp_path / "bin" / "nvcc"


# ---- the folder ---------------------------------------------------------------------------------


def test_a_folder_that_cannot_be_made_is_told_and_not_remembered(
    nvcc: FakeNvcc, tmp_path: Path
) -> None:
    """A file stands in its way; root may write anywhere, so no permission would stop it."""
    wall = tmp_path / "cache"
    wall.touch()
    text = message(wall)
    assert f"must be writable, got {wall} (File exists): set {CACHE_VARIABLE} to a folder" in text
    assert nvcc.runs == 0
    wall.unlink()
    assert build(SMALL, "sm_90", wall).exists()


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.EACCES, "(Permission denied): set"),
        (errno.EROFS, "(Read-only file system): set"),
        (errno.ENOSPC, "(No space left on device): free some space there, or set"),
        (errno.EDQUOT, "(Disk quota exceeded): free some space there, or set"),
    ],
)
def test_a_folder_that_refuses_is_told_with_the_reason(
    number: int, advice: str, nvcc: FakeNvcc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(number, "refused")

    monkeypatch.setattr(cuda_cache.os, "open", refuse)
    text = message(tmp_path)
    assert f"{tmp_path} {advice} {CACHE_VARIABLE} to a folder that is" in text


@pytest.mark.slow
@pytest.mark.skipif(cuda_toolkit.find_nvcc() is None, reason="needs nvcc")
def test_a_real_nvcc_without_a_host_compiler_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NVCC_PREPEND_FLAGS", "-ccbin g++-there-is-none")
    monkeypatch.setattr(cuda_toolkit, "driver_release", lambda: None)
    text = message(tmp_path)
    assert text.startswith("nvcc needs a host C++ compiler and finds none that works")
