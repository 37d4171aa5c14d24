"""The cache of chapter outputs is reused when it may be, and never when it may not."""

import sys
from pathlib import Path

import pytest

from book import build

ENVIRONMENT = {build.FAST: "1"}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout in small."""
    files = {
        "fourierkernels/kernels.py": "POWER = 4",
        "notebooks/01_chapter.md": "text",
        "notebooks/sample.csv": "1,2",
        "experiments/results/rates.csv": "1,2",
        "constraints.txt": "numpy==2.4.6",
        "pyproject.toml": "[project]",
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    return tmp_path


def fill_cache(root: Path) -> Path:
    entry = root / build.CACHE / "global.db"
    entry.parent.mkdir(exist_ok=True)
    entry.write_text("outputs")
    return entry


def key_of(root: Path) -> str:
    return build.cache_key(root, ENVIRONMENT)


@pytest.mark.parametrize(
    "name",
    [
        "fourierkernels/kernels.py",
        "notebooks/sample.csv",
        "experiments/results/rates.csv",
        "constraints.txt",
        "pyproject.toml",
    ],
)
def test_key_changes_with_every_input(checkout: Path, name: str) -> None:
    before = key_of(checkout)
    (checkout / name).write_text("something else")
    assert key_of(checkout) != before


def test_key_changes_when_a_module_is_added_moved_or_removed(checkout: Path) -> None:
    module = checkout / "fourierkernels" / "kernels.py"
    keys = [key_of(checkout)]
    module.rename(module.with_name("densities.py"))
    keys.append(key_of(checkout))
    module.with_name("new.py").write_text("")
    keys.append(key_of(checkout))
    module.with_name("densities.py").unlink()
    keys.append(key_of(checkout))
    assert len(set(keys)) == len(keys)


def test_key_tells_quick_from_full_mode(checkout: Path) -> None:
    assert build.cache_key(checkout, {}) != key_of(checkout)
    assert build.cache_key(checkout, {}) == build.cache_key(checkout, {build.FAST: ""})


def test_key_ignores_prose_and_compiled_files(checkout: Path) -> None:
    before = key_of(checkout)
    (checkout / "notebooks" / "01_chapter.md").write_text("better text")
    compiled = checkout / "fourierkernels" / "__pycache__" / "kernels.pyc"
    compiled.parent.mkdir()
    compiled.write_bytes(b"\0")
    assert key_of(checkout) == before


def test_cache_survives_an_unchanged_rebuild(checkout: Path) -> None:
    entry, key = fill_cache(checkout), key_of(checkout)
    build.close_cache(checkout, key, ENVIRONMENT)
    assert build.open_cache(checkout, key)
    assert entry.exists()


def test_cache_is_dropped_when_the_package_changes(checkout: Path) -> None:
    entry = fill_cache(checkout)
    build.close_cache(checkout, key_of(checkout), ENVIRONMENT)
    (checkout / "fourierkernels" / "kernels.py").write_text("raise RuntimeError")
    assert not build.open_cache(checkout, key_of(checkout))
    assert not entry.exists()


def test_cache_is_dropped_after_an_interrupted_build(checkout: Path) -> None:
    key = key_of(checkout)
    fill_cache(checkout)
    build.close_cache(checkout, key, ENVIRONMENT)
    build.open_cache(checkout, key)  # and no close_cache: the build never came back
    assert not build.open_cache(checkout, key)


def test_cache_is_not_trusted_when_the_package_changed_during_the_build(checkout: Path) -> None:
    key = key_of(checkout)
    fill_cache(checkout)
    (checkout / "fourierkernels" / "kernels.py").write_text("POWER = 6")
    build.close_cache(checkout, key, ENVIRONMENT)
    (checkout / "fourierkernels" / "kernels.py").write_text("POWER = 4")
    assert not build.open_cache(checkout, key)


@pytest.mark.parametrize(("status", "stamped"), [(0, True), (1, True), (-9, False)])
def test_a_killed_build_leaves_no_stamp(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, status: int, stamped: bool
) -> None:
    def render(root: Path, _environment: object) -> int:
        fill_cache(root)
        return status

    monkeypatch.setattr(build, "provide_mathjax", lambda _root: None)
    monkeypatch.setattr(build, "render", render)
    monkeypatch.setattr(build, "lint", lambda _root: 0)
    assert build.build(checkout, ENVIRONMENT) == status
    assert (checkout / build.STAMP).is_file() is stamped


def test_lint_findings_fail_a_build_that_rendered(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "provide_mathjax", lambda _root: None)
    monkeypatch.setattr(build, "render", lambda _root, _environment: 0)
    monkeypatch.setattr(build, "lint", lambda _root: 1)
    assert build.build(checkout, ENVIRONMENT) == 1


def test_mathjax_comes_from_the_installed_wheel(tmp_path: Path) -> None:
    build.provide_mathjax(tmp_path)
    assert (tmp_path / build.MATHJAX).stat().st_size > 1_000_000


def test_chapters_run_with_this_python_and_this_package(tmp_path: Path) -> None:
    outer = {"JUPYTER_PATH": str(tmp_path / "jupyter"), "PATH": "/usr/bin"}
    environment = build.build_environment(tmp_path, outer)
    assert environment["JUPYTER_PATH"] == str(Path(sys.prefix, "share", "jupyter"))
    assert environment["PATH"].startswith(str(Path(sys.executable).parent))
    assert environment["PYTHONPATH"] == str(tmp_path)
    assert environment[build.FAST] == ""
