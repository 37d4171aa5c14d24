"""Building the CUDA library: the cache, its key, what is said meanwhile, real builds."""

import ctypes
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from fake_nvcc import FakeNvcc, nvcc
from host_kernels import host_library, needs_compiler

from fourierkernels.ops.arguments import Inputs, Options
from fourierkernels.ops.cuda import attention as cuda
from fourierkernels.ops.cuda import build as cuda_build
from fourierkernels.ops.cuda import cache as cuda_cache
from fourierkernels.ops.cuda import toolkit as cuda_toolkit
from fourierkernels.ops.cuda.build import QUIET_VARIABLE, BuildError, Variant, build, library_name
from fourierkernels.ops.cuda.errors import CACHE_VARIABLE
from fourierkernels.ops.cuda.library import Library, Packings, Problem

__all__ = ["nvcc"]  # a fixture

needs_nvcc = pytest.mark.skipif(cuda_toolkit.find_nvcc() is None, reason="needs nvcc")
SMALL = Variant("float", 16)
Load = Callable[[Variant, str], Library]


def test_a_library_is_built_once_and_then_found(nvcc: FakeNvcc, tmp_path: Path) -> None:
    first = build(SMALL, "sm_90", tmp_path / "cache")
    assert build(SMALL, "sm_90", tmp_path / "cache") == first
    assert nvcc.runs == 1
    assert "-gencode=arch=compute_90,code=sm_90" in first.read_text()
    assert "-DFK_REAL=float -DFK_SIZE=16" in first.read_text()
    assert list(first.parent.iterdir()) == [first]  # nothing unfinished stays


def test_the_cache_is_where_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    monkeypatch.delenv(CACHE_VARIABLE, raising=False)
    assert cuda_cache.cache_folder() == tmp_path / "user" / "fourierkernels"
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "own"))
    assert cuda_cache.cache_folder() == tmp_path / "own"


def test_variants_architectures_releases_and_sources_have_libraries_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {
        library_name(variant, arch, release)
        for variant in cuda_build.VARIANTS
        for arch in ("sm_80", "sm_90")
        for release in ("12.4", "13.0")
    }
    assert len(names) == 4 * len(cuda_build.VARIANTS) == 40
    sources = tmp_path / "csrc"
    sources.mkdir()
    for path in cuda_build.SOURCES.iterdir():
        (sources / path.name).write_bytes(path.read_bytes())
    monkeypatch.setattr(cuda_build, "SOURCES", sources)
    assert library_name(SMALL, "sm_90", "13.0") in names
    (sources / "scalar.cuh").write_text((sources / "scalar.cuh").read_text() + "// changed\n")
    assert library_name(SMALL, "sm_90", "13.0") not in names


def test_another_release_of_the_toolkit_builds_a_library_of_its_own(
    nvcc: FakeNvcc, tmp_path: Path
) -> None:
    first = build(SMALL, "sm_90", tmp_path)
    nvcc.release("13.0")
    second = build(SMALL, "sm_90", tmp_path)
    assert nvcc.runs == 2
    assert ["cuda12.4" in first.name, "cuda13.0" in second.name] == [True, True]


def test_without_nvcc_the_newest_library_that_the_driver_runs_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Built on a machine with a compiler, perhaps without a card, and copied."""
    monkeypatch.setattr(cuda_toolkit, "find_nvcc", lambda: None)
    for release in ("12.4", "12.10", "13.0"):
        (tmp_path / library_name(SMALL, "sm_90", release)).touch()
    for driver, expected in ((None, "13.0"), ((13, 1), "13.0"), ((12, 4), "12.10")):
        monkeypatch.setattr(cuda_toolkit, "driver_release", lambda: driver)  # noqa: B023
        assert build(SMALL, "sm_90", tmp_path).name == library_name(SMALL, "sm_90", expected)
    monkeypatch.setattr(cuda_toolkit, "driver_release", lambda: (11, 8))
    with pytest.raises(BuildError, match=r"need a newer driver \(built by CUDA 12.4, 12.10, 13.0"):
        build(SMALL, "sm_90", tmp_path)
    assert build(SMALL, "sm_90", tmp_path, elsewhere=True).name.count("cuda13.0") == 1


def test_a_first_build_says_what_it_does_and_how_long_it_took(
    nvcc: FakeNvcc, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build(SMALL, "sm_90", tmp_path)
    first, last = capsys.readouterr().err.splitlines()
    assert first == (
        "fourierkernels: building the CUDA kernels for float32, up to 16 features, on sm_90, once, "
        f"with nvcc 12.4 into {tmp_path}"
    )
    assert last.startswith("fourierkernels: done in ")
    build(SMALL, "sm_90", tmp_path)
    assert capsys.readouterr() == ("", "")


def test_it_is_quiet_on_request(
    nvcc: FakeNvcc,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(QUIET_VARIABLE, "1")
    build(SMALL, "sm_90", tmp_path)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("arch", ["sm_75", "90", "compute_90", "sm_90; rm"])
def test_other_architectures_are_refused(arch: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"arch must be sm_80 or later, got"):
        build(SMALL, arch, tmp_path)


def test_more_features_than_any_library_takes_are_refused() -> None:
    assert cuda_build.variant_for("float", 256).size == 256
    with pytest.raises(ValueError, match=r"at most 256 features on cuda, got 257.*reference"):
        cuda_build.variant_for("float", 257)


def offsets(structure: type[ctypes.Structure]) -> list[int]:
    return [getattr(structure, name).offset for name, _ in structure._fields_]


@needs_compiler
def test_python_and_c_agree_on_the_layout_of_their_structures() -> None:
    """Both end with what a wrong offset would move: checked through sizes the library reports."""
    handle = host_library(torch.float32, 16).handle
    assert handle.fk_problem_size() == ctypes.sizeof(Problem)
    assert handle.fk_packing_size() == ctypes.sizeof(Packings)
    assert offsets(Problem) == sorted(offsets(Problem))


# What differs between libraries: precision, and the registers that a size leaves to a thread.
BUILDS = [
    (SMALL, "sm_90"),
    (Variant("float", 128), "sm_80"),
    (Variant("double", 32), "sm_90"),
]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Load]:
    folder = tmp_path_factory.mktemp("libraries")

    def load(variant: Variant, arch: str) -> Library:
        return Library.load(str(build(variant, arch, folder)), variant.size)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cuda_build, "_FLAGS", (*cuda_build._FLAGS, "-Werror", "all-warnings"))
        yield load


@needs_nvcc
@pytest.mark.slow
@pytest.mark.parametrize(("variant", "arch"), BUILDS, ids=str)
def test_sources_compile_without_a_warning_and_the_library_loads(
    built: Load, variant: Variant, arch: str
) -> None:
    library = built(variant, arch)
    assert library.tile == (64 if variant.real == "float" else 32)
    assert library.handle.fk_error(0) == b"no error"


@needs_nvcc
@pytest.mark.slow
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU: nothing fails")
def test_an_error_of_cuda_is_raised_with_its_message(
    built: Load,
) -> None:
    tensors = [torch.zeros(1, 1, 2, 3) for _ in range(3)]
    inputs = Inputs(*tensors, torch.ones(1, 3), None)
    with pytest.raises(RuntimeError, match=r"fk_pack failed on cpu: \w+.*"):
        cuda.forward(built(*BUILDS[0]), inputs, Options(4, False, 0.0))
