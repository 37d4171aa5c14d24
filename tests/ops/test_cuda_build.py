"""Building the CUDA library: the cache, its key, failures that explain themselves, real builds."""

import ctypes
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from host_kernels import host_library, needs_compiler

from fourierkernels.ops import cuda, cuda_build
from fourierkernels.ops.arguments import Inputs, Options
from fourierkernels.ops.cuda_build import BuildError, Variant, build, library_path, main
from fourierkernels.ops.cuda_library import Library, Packing, Problem

needs_nvcc = pytest.mark.skipif(cuda_build.find_nvcc() is None, reason="needs nvcc")
SMALL = Variant("float", 16)
Load = Callable[[Variant, str], Library]


@pytest.fixture
def fake_nvcc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A compiler that counts its runs, writes its arguments as the library, and can be broken."""
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / "nvcc"
    script.write_text(
        "#!/bin/sh\n"
        f"echo run >> {folder}/runs\n"
        f"[ -e {folder}/broken ] && echo 'error: no such thing' >&2 && exit 2\n"
        'all="$*"; while [ $# -gt 1 ]; do shift; done; echo "$all" > "$1"\n'
    )
    script.chmod(script.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    return folder


def runs(folder: Path) -> int:
    return len((folder / "runs").read_text().splitlines()) if (folder / "runs").exists() else 0


def test_a_library_is_built_once_and_then_found(fake_nvcc: Path, tmp_path: Path) -> None:
    first = build(SMALL, "sm_90", tmp_path / "cache")
    assert build(SMALL, "sm_90", tmp_path / "cache") == first
    assert runs(fake_nvcc) == 1
    assert "-gencode=arch=compute_90,code=sm_90" in first.read_text()
    assert "-DFK_REAL=float -DFK_SIZE=16" in first.read_text()
    assert list(first.parent.iterdir()) == [first]  # nothing unfinished stays


def test_the_cache_is_where_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    monkeypatch.delenv(cuda_build.CACHE_VARIABLE, raising=False)
    assert library_path(SMALL, "sm_90").parent == tmp_path / "user" / "fourierkernels"
    monkeypatch.setenv(cuda_build.CACHE_VARIABLE, str(tmp_path / "own"))
    assert library_path(SMALL, "sm_90").parent == tmp_path / "own"


def test_variants_architectures_and_sources_have_libraries_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = {
        library_path(v, arch, tmp_path) for v in cuda_build.VARIANTS for arch in ("sm_80", "sm_90")
    }
    assert len(paths) == 2 * len(cuda_build.VARIANTS) == 20
    sources = tmp_path / "csrc"
    sources.mkdir()
    for path in cuda_build.SOURCES.iterdir():
        (sources / path.name).write_bytes(path.read_bytes())
    monkeypatch.setattr(cuda_build, "SOURCES", sources)
    assert library_path(SMALL, "sm_90", tmp_path) in paths
    (sources / "scalar.cuh").write_text((sources / "scalar.cuh").read_text() + "// changed\n")
    assert library_path(SMALL, "sm_90", tmp_path) not in paths


def test_a_failed_build_shows_the_compiler_and_is_not_tried_again(
    fake_nvcc: Path, tmp_path: Path
) -> None:
    (fake_nvcc / "broken").touch()
    for _ in range(2):
        with pytest.raises(BuildError, match=r"(?s)nvcc failed: .*error: no such thing.*reference"):
            build(SMALL, "sm_90", tmp_path / "cache")
    assert runs(fake_nvcc) == 1
    assert list((tmp_path / "cache").iterdir()) == []


def test_without_nvcc_the_error_says_what_to_install_and_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_build, "find_nvcc", lambda: None)
    with pytest.raises(BuildError) as caught:
        build(SMALL, "sm_90", tmp_path)
    for part in (
        "needs nvcc",
        "Install the CUDA toolkit",
        "CUDA_HOME",
        "--arch sm_90",
        str(tmp_path),
        'implementation="reference"',
    ):
        assert part in str(caught.value)


def test_nvcc_is_found_on_the_path_or_under_cuda_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "nvcc").touch()
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert cuda_build.find_nvcc() == tmp_path / "bin" / "nvcc"


def test_the_command_builds_ahead_of_time_what_first_use_would_look_for(
    fake_nvcc: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--arch", "sm_80", "--arch", "sm_90", "--real", "float", "--size", "64"]
    assert main([*arguments, "--output", str(tmp_path / "out")]) == 0
    expected = [library_path(Variant("float", 64), f"sm_{n}", tmp_path / "out") for n in (80, 90)]
    assert capsys.readouterr().out.split() == list(map(str, expected))
    assert all(path.exists() for path in expected)
    assert runs(fake_nvcc) == 2


@pytest.mark.parametrize("arch", ["sm_75", "90", "compute_90", "sm_90; rm"])
def test_other_architectures_are_refused(
    arch: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--arch", arch, "--output", str(tmp_path)]) == 2
    assert f"arch must be sm_80 or later, got {arch!r}" in capsys.readouterr().err


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
    assert handle.fk_packing_size() == ctypes.sizeof(Packing)
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
@pytest.mark.parametrize(("variant", "arch"), BUILDS, ids=str)
def test_sources_compile_without_a_warning_and_the_library_loads(
    built: Load, variant: Variant, arch: str
) -> None:
    library = built(variant, arch)
    assert library.tile == (64 if variant.real == "float" else 32)
    assert library.handle.fk_error(0) == b"no error"


@needs_nvcc
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU: nothing fails")
def test_an_error_of_cuda_is_raised_with_its_message(
    built: Load,
) -> None:
    tensors = [torch.zeros(1, 1, 2, 3) for _ in range(3)]
    inputs = Inputs(*tensors, torch.ones(1, 3), None)
    with pytest.raises(RuntimeError, match=r"fk_pack failed on cpu: \w+.*"):
        cuda.forward(built(*BUILDS[0]), inputs, Options(4, False, 0.0))
