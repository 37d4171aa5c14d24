"""One process of a machine builds a library; the others wait, whatever happens to it."""

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from fake_nvcc import FakeNvcc, nvcc

from fourierkernels.ops.cuda import build as cuda_build
from fourierkernels.ops.cuda import cache as cuda_cache
from fourierkernels.ops.cuda.build import Variant, build
from fourierkernels.ops.cuda.cache import make_once
from fourierkernels.ops.cuda.errors import CompilationError

__all__ = ["nvcc"]  # a fixture

SMALL = Variant("float", 16)
PROGRAM = """
import sys
from pathlib import Path
from fourierkernels.ops.cuda import toolkit as cuda_toolkit
from fourierkernels.ops.cuda.build import Variant, build
cuda_toolkit.driver_release = lambda: None
print(build(Variant("float", 16), "sm_90", Path(sys.argv[1])))
"""


Start = Callable[[Path], "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a process that builds, in a group of its own that ends with the test."""
    with ExitStack() as stack:

        def begin(folder: Path) -> "subprocess.Popen[str]":
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
            command = [sys.executable, "-c", PROGRAM, str(folder)]
            process = subprocess.Popen(command, start_new_session=True, **pipes)
            stack.enter_context(process)
            stack.callback(end, process)
            return process

        yield begin


def end(process: "subprocess.Popen[str]") -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def wait_for(condition: object, seconds: float = 90.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def started_together(nvcc: FakeNvcc, folder: Path, start: Start) -> list[tuple[str, str]]:
    """Let two processes wait for one that builds; return what each printed and said."""
    nvcc.hold()
    first = start(folder)
    wait_for(lambda: nvcc.runs == 1)
    others = [start(folder) for _ in range(2)]
    said = [other.stderr.readline() for other in others]
    assert all("another process is building" in line for line in said)
    nvcc.let_go()
    return [process.communicate(timeout=90) for process in (first, *others)]


def test_processes_that_start_together_build_once(
    nvcc: FakeNvcc, tmp_path: Path, start: Start
) -> None:
    printed = started_together(nvcc, tmp_path / "cache", start)
    (path,) = {Path(out.strip()) for out, _ in printed}
    assert list((tmp_path / "cache").iterdir()) == [path]
    assert nvcc.runs == 1
    assert ["fourierkernels: building" in err for _, err in printed] == [True, False, False]


def test_a_failure_is_told_to_those_who_waited_for_it(
    nvcc: FakeNvcc, tmp_path: Path, start: Start
) -> None:
    nvcc.breaks("error: no such thing")
    printed = started_together(nvcc, tmp_path / "cache", start)
    assert all(out == "" and "error: no such thing" in err for out, err in printed)
    assert nvcc.runs == 1
    assert list((tmp_path / "cache").iterdir()) == []


def test_after_a_killed_builder_the_next_one_builds_and_tidies(
    nvcc: FakeNvcc, tmp_path: Path, start: Start
) -> None:
    folder = tmp_path / "cache"
    nvcc.hold()
    process = start(folder)
    wait_for(lambda: nvcc.runs == 1)
    left = next(folder.glob("*.lock")).with_suffix(".elsewhere-1.tmp")
    left.touch()
    end(process)
    process.communicate(timeout=60)
    nvcc.let_go()
    path = build(SMALL, "sm_90", folder)
    assert list(folder.iterdir()) == [path]
    assert nvcc.runs == 2


def test_a_waiting_process_takes_over_from_a_killed_one(
    nvcc: FakeNvcc, tmp_path: Path, start: Start
) -> None:
    folder = tmp_path / "cache"
    nvcc.hold()
    first = start(folder)
    wait_for(lambda: nvcc.runs == 1)
    second = start(folder)
    assert "waiting for it" in second.stderr.readline()
    end(first)
    first.communicate(timeout=60)
    nvcc.let_go()
    out, err = second.communicate(timeout=60)
    assert second.returncode == 0, err
    assert Path(out.strip()).exists()
    assert nvcc.runs == 2


def test_a_library_that_appears_meanwhile_is_not_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, take = tmp_path / "x.so", cuda_cache._take

    def late(handle: int, waiting: object) -> bool:
        path.write_text("theirs")
        return take(handle, waiting)

    monkeypatch.setattr(cuda_cache, "_take", late)
    assert not make_once(path, lambda output: output.write_text("ours"))
    assert path.read_text() == "theirs"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_system_without_locks_is_built_on_all_the_same(
    nvcc: FakeNvcc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    def refuse(*_: object) -> None:
        raise OSError(errno.EOPNOTSUPP, "no locks here")

    monkeypatch.setattr(fcntl, "flock", refuse)
    other = tmp_path / "cache" / "other.1.tmp"
    other.parent.mkdir()
    other.touch()
    path = build(SMALL, "sm_90", tmp_path / "cache")
    assert sorted(path.parent.iterdir()) == sorted([path, other])


def test_a_message_left_by_a_killed_builder_is_not_believed(tmp_path: Path) -> None:
    (tmp_path / "x.lock").write_text("nvcc failed long ago")
    assert make_once(tmp_path / "x.so", lambda output: output.write_text("new"))
    assert list(tmp_path.iterdir()) == [tmp_path / "x.so"]


def test_what_is_half_made_never_has_the_name(tmp_path: Path) -> None:
    def fail(output: Path) -> None:
        output.write_text("half", encoding="utf-8")
        assert not (tmp_path / "x.so").exists()
        raise CompilationError("no")

    with pytest.raises(CompilationError):
        make_once(tmp_path / "x.so", fail)
    assert list(tmp_path.iterdir()) == []


def test_names_keep_their_parts_when_the_suffix_changes() -> None:
    """`with_suffix` takes off what follows the last dot: names have one in the release."""
    name = Path(cuda_build.library_name(SMALL, "sm_90", "13.0"))
    assert name.with_suffix(".lock").stem == name.stem
