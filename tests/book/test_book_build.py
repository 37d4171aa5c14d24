"""The cache of chapter outputs is reused when it may be, and never when it may not."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from book import build, execute

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
    monkeypatch.setattr(build, "make_downloads", lambda _root, _environment: None)
    monkeypatch.setattr(build, "execute_ahead", lambda _root, _environment: None)
    monkeypatch.setattr(build, "render", render)
    monkeypatch.setattr(build, "lint", lambda _root: 0)
    assert build.build(checkout, ENVIRONMENT) == status
    assert (checkout / build.STAMP).is_file() is stamped


def test_lint_findings_fail_a_build_that_rendered(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "provide_mathjax", lambda _root: None)
    monkeypatch.setattr(build, "make_downloads", lambda _root, _environment: None)
    monkeypatch.setattr(build, "execute_ahead", lambda _root, _environment: None)
    monkeypatch.setattr(build, "render", lambda _root, _environment: 0)
    monkeypatch.setattr(build, "lint", lambda _root: 1)
    assert build.build(checkout, ENVIRONMENT) == 1


def test_mathjax_comes_from_the_installed_wheel(tmp_path: Path) -> None:
    build.provide_mathjax(tmp_path)
    assert (tmp_path / build.MATHJAX).stat().st_size > 1_000_000


def test_chapters_run_with_this_python_and_this_package(tmp_path: Path) -> None:
    outer = {"JUPYTER_PATH": str(tmp_path / "jupyter"), "PATH": "/usr/bin"}
    environment = build.build_environment(tmp_path, outer, tmp_path / "own")
    assert environment["JUPYTER_PATH"] == str(Path(sys.prefix, "share", "jupyter"))
    assert environment["PATH"].startswith(str(Path(sys.executable).parent))
    assert environment["PYTHONPATH"] == str(tmp_path)
    assert environment[build.FAST] == ""
    assert environment["IPYTHONDIR"].startswith(str(tmp_path / "own"))


def test_quick_mode_executes_chapters_together_and_full_mode_does_not(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Any] = []
    listed = subprocess.CompletedProcess([], 0, stdout="notebooks/01_a.md\nnotebooks/02_b.md\n")
    monkeypatch.setattr(build.subprocess, "run", lambda *_args, **_options: listed)
    monkeypatch.setattr(build, "run_together", lambda *call: calls.append(call))
    build.execute_ahead(checkout, {build.FAST: ""})
    assert not calls
    build.execute_ahead(checkout, ENVIRONMENT)
    [(commands, limit, root, environment)] = calls
    assert [command[-1] for command in commands] == ["notebooks/01_a.md", "notebooks/02_b.md"]
    assert 1 <= limit <= build.MOST_TOGETHER
    assert root == checkout
    assert environment["OMP_NUM_THREADS"] == environment["NUMBA_NUM_THREADS"] == "1"


def test_commands_run_together_up_to_the_limit(tmp_path: Path) -> None:
    code = "import pathlib, sys; pathlib.Path(sys.argv[1]).touch()"
    commands = [[sys.executable, "-c", code, str(number)] for number in range(5)]
    build.run_together(commands, 2, tmp_path, os.environ)
    assert len(list(tmp_path.iterdir())) == len(commands)


def test_an_interrupt_leaves_no_process_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def start(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        started.append(popen(*arguments, **options))
        return started[-1]

    def interrupt(_seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(build.subprocess, "Popen", start)
    monkeypatch.setattr(time, "sleep", interrupt)
    sleeping = [sys.executable, "-c", "import signal; signal.pause()"]
    with pytest.raises(KeyboardInterrupt):
        build.run_together([sleeping] * 3, 2, tmp_path, os.environ)
    assert [process.poll() for process in started] == [-9, -9]


def write_chapter(root: Path, code: str) -> Path:
    """Write a book of one chapter, with the settings of this one."""
    for name in ("book", "notebooks"):
        (root / name).mkdir()
    own = Path(build.__file__).with_name("_config.yml")
    (root / "book" / "_config.yml").write_text(own.read_text("utf-8"))
    contents = "parts: [{chapters: [{file: notebooks/01_a}, {file: book/api}]}]"
    (root / "book" / "_toc.yml").write_text(contents)
    template = Path(build.__file__).with_name("chapter_template.md").read_text("utf-8")
    head = template[: template.index("# A title")]
    path = root / "notebooks" / "01_a.md"
    path.write_text(f"{head}# Title\n\n```{{code-cell}} python3\n{code}\n```\n")
    return path


def test_only_chapters_without_outputs_are_missing(tmp_path: Path) -> None:
    from jupyter_cache.base import CacheBundleIn

    path = write_chapter(tmp_path, "1 + 1")
    assert execute.chapters(tmp_path) == list(execute.missing(tmp_path)) == [path]
    notebook = execute.read(path, [])
    execute.open_cache(tmp_path).cache_notebook_bundle(
        CacheBundleIn(notebook, str(path)), check_validity=False
    )
    assert list(execute.missing(tmp_path)) == []


@pytest.mark.slow
def test_sphinx_finds_the_outputs_that_were_made_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in build.build_environment(tmp_path, os.environ, tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HOME", str(home := tmp_path / "home"))
    home.mkdir()
    path = write_chapter(tmp_path, "6 * 7")
    assert execute.execute(tmp_path, path)
    command = [
        *(sys.executable, "-m", "sphinx", "-C", "-D", "extensions=myst_nb"),
        *("-D", "root_doc=notebooks/01_a", "-D", "nb_execution_mode=cache"),
        *("-D", f"nb_execution_cache_path={tmp_path / build.CACHE}"),
        *(str(tmp_path), str(tmp_path / "html"), str(path)),
    ]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "Using cached notebook" in built.stdout, built.stderr
    assert {path.name for path in home.iterdir()} <= {".cache"}


@pytest.mark.slow
def test_a_chapter_that_fails_is_left_to_sphinx(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in build.build_environment(tmp_path, os.environ, tmp_path).items():
        monkeypatch.setenv(name, value)
    path = write_chapter(tmp_path, "assert False")
    assert not execute.execute(tmp_path, path)
    assert list(execute.missing(tmp_path)) == [path]
