"""A compiler that counts its runs, writes its arguments as the library, and can be broken."""

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from fourierkernels.ops.cuda import toolkit as cuda_toolkit

ARCHITECTURES = "compute_80 compute_86 compute_89 compute_90"

_SCRIPT = """#!/bin/sh
case "$1" in
    --version) echo "Cuda compilation tools, release $(cat {folder}/release), V1.2.3"; exit ;;
    --list-gpu-arch) printf '%s\\n' {architectures}; exit ;;
esac
echo run >> {folder}/runs
while [ -e {folder}/held ]; do sleep 0.05; done
[ -e {folder}/broken ] && cat {folder}/broken >&2 && exit 2
all="$*"; while [ $# -gt 1 ]; do shift; done; echo "$all" > "$1"
"""


class FakeNvcc:
    """The folder of the compiler, which is first on PATH."""

    def __init__(self, folder: Path, release: str = "12.4") -> None:
        folder.mkdir(parents=True)
        self.folder, self.script = folder, folder / "nvcc"
        self.release(release)
        self.script.write_text(_SCRIPT.format(folder=folder, architectures=ARCHITECTURES))
        self.script.chmod(self.script.stat().st_mode | stat.S_IEXEC)

    def release(self, text: str) -> None:
        """Change the release it tells, as a newer installation in the same place would."""
        (self.folder / "release").write_text(text)
        cuda_toolkit._release.cache_clear()

    def breaks(self, message: str) -> None:
        """Let every compilation fail with a message."""
        (self.folder / "broken").write_text(message)

    def mend(self) -> None:
        """Let compilations succeed again."""
        (self.folder / "broken").unlink()

    def hold(self) -> None:
        """Let compilations begin and not end."""
        (self.folder / "held").touch()

    def let_go(self) -> None:
        """Let compilations end."""
        (self.folder / "held").unlink()

    @property
    def runs(self) -> int:
        """Compilations so far."""
        file = self.folder / "runs"
        return len(file.read_text().splitlines()) if file.exists() else 0


@pytest.fixture
def nvcc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeNvcc]:
    """A fake compiler first on PATH, and no driver."""
    fake = FakeNvcc(tmp_path / "bin")
    monkeypatch.setenv("PATH", str(fake.folder), prepend=":")
    monkeypatch.setattr(cuda_toolkit, "driver_release", lambda: None)
    yield fake
    cuda_toolkit._release.cache_clear()
