"""One process of a machine builds a library; the others wait, whatever happens to it."""

import errno
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fake_nvcc import FakeNvcc, nvcc

from fourierkernels.ops import cuda_build, cuda_cache
from fourierkernels.ops.cuda_build import Variant, build
from fourierkernels.ops.cuda_cache import make_once
from fourierkernels.ops.cuda_errors import CompilationError

__all__ = ["nvcc"]  # a fixture

SMALL = Variant("float", 16)
PROGRAM = """
import sys
from pathlib import Path
from fourierkernels.ops import cuda_toolkit
from fourierkernels.ops.cuda_build import Variant, build
cuda_toolkit.driver_release = lambda: None
print(build(Variant("float", 16), "sm_90", Path(sys.argv[1])))
"""


def start(folder: Path) -> "subprocess.Popen[str]":
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-c", PROGRAM, str(folder)], **pipes)


def wait_for(condition: object, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_processes_that_start_together_build_once(nvcc: FakeNvcc, tmp_path: Path) -> None:
    nvcc.sleeps(1.5)
    folder = tmp_path / "cache"
    processes = [start(folder) for _ in range(3)]
    printed = [process.communicate(timeout=60) for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], printed
    assert len({out for out, _ in printed}) == 1
    assert nvcc.runs == 1
    said = [err for _, err in printed]
    assert sum("fourierkernels: building" in err for err in said) == 1
    assert sum("another process is building" in err for err in said) >= 1
    assert len(list(folder.iterdir())) == 1


def test_a_failure_is_told_to_those_who_waited_for_it(nvcc: FakeNvcc, tmp_path: Path) -> None:
    nvcc.sleeps(1.5)
    nvcc.breaks("error: no such thing")
    processes = [start(tmp_path / "cache") for _ in range(2)]
    printed = [process.communicate(timeout=60)[1] for process in processes]
    assert [process.returncode for process in processes] == [1, 1]
    assert all("error: no such thing" in err for err in printed)
    assert nvcc.runs == 1
    assert list((tmp_path / "cache").iterdir()) == []


def test_after_a_killed_builder_the_next_one_builds_and_tidies(
    nvcc: FakeNvcc, tmp_path: Path
) -> None:
    folder = tmp_path / "cache"
    nvcc.sleeps(5)
    process = start(folder)
    wait_for(lambda: nvcc.runs == 1)
    left = next(folder.glob("*.lock")).with_suffix(".elsewhere-1.tmp")
    left.touch()
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    nvcc.sleeps(0)
    path = build(SMALL, "sm_90", folder)
    assert list(folder.iterdir()) == [path]
    assert nvcc.runs == 2


def test_a_waiting_process_takes_over_from_a_killed_one(nvcc: FakeNvcc, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    nvcc.sleeps(5)
    first = start(folder)
    wait_for(lambda: nvcc.runs == 1)
    nvcc.sleeps(0)
    second = start(folder)
    assert "waiting for it" in second.stderr.readline()
    first.send_signal(signal.SIGKILL)
    first.communicate(timeout=60)
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
        output.write_text("half")
        assert not (tmp_path / "x.so").exists()
        raise CompilationError("no")

    with pytest.raises(CompilationError):
        make_once(tmp_path / "x.so", fail)
    assert list(tmp_path.iterdir()) == []


def test_names_keep_their_parts_when_the_suffix_changes() -> None:
    """`with_suffix` takes off what follows the last dot: names have one in the release."""
    name = Path(cuda_build.library_name(SMALL, "sm_90", "13.0"))
    assert name.with_suffix(".lock").stem == name.stem
