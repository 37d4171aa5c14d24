"""Outputs of chapters are kept when they may be, and never when they may not."""

import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest

from book import build, execute
from book._extensions import pages

FILES = {
    "fourierkernels/kernels.py": "POWER = 4",
    "notebooks/sample.csv": "1,2",
    "experiments/results/rates.csv": "1,2",
    "constraints.txt": "numpy==2.4.6",
    "pyproject.toml": "[project]",
}


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout in small, with one chapter, in quick mode; no kernel is needed to execute it."""
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    write_chapter(tmp_path, "6 * 7")
    monkeypatch.setenv(build.FAST, "1")
    monkeypatch.setattr(execute, "run", lambda *_arguments: None)
    return tmp_path


def write_chapter(root: Path, code: str) -> Path:
    """Write a book of one chapter, with the settings of this one."""
    for name in ("book", "notebooks"):
        (root / name).mkdir(exist_ok=True)
    own = Path(build.__file__).with_name("_config.yml")
    (root / "book" / "_config.yml").write_text(own.read_text("utf-8"))
    contents = "parts: [{chapters: [{file: notebooks/01_a}, {file: book/api}]}]"
    (root / "book" / "_toc.yml").write_text(contents)
    template = Path(build.__file__).with_name("chapter_template.md").read_text("utf-8")
    head = template[: template.index("# A title")]
    path = root / "notebooks" / "01_a.md"
    path.write_text(f"{head}# Title\n\n```{{code-cell}} python3\n{code}\n```\n")
    return path


def is_missing(root: Path) -> bool:
    return bool(execute.missing(root))


# --- what outputs depend on ------------------------------------------------------------------


@pytest.mark.parametrize("name", FILES)
def test_outputs_are_of_the_inputs_as_they_are(checkout: Path, name: str) -> None:
    [chapter] = execute.missing(checkout)
    execute.execute(checkout, chapter)
    assert not is_missing(checkout)
    (checkout / name).write_text("something else")
    assert is_missing(checkout)
    (checkout / name).write_text(FILES[name])
    assert not is_missing(checkout)


def test_key_changes_when_a_module_is_added_moved_or_removed(checkout: Path) -> None:
    module = checkout / "fourierkernels" / "kernels.py"
    keys = [execute.inputs_key(checkout)]
    module.rename(module.with_name("densities.py"))
    keys.append(execute.inputs_key(checkout))
    module.with_name("new.py").write_text("")
    keys.append(execute.inputs_key(checkout))
    module.with_name("densities.py").unlink()
    keys.append(execute.inputs_key(checkout))
    assert len(set(keys)) == len(keys)


def test_key_changes_when_another_version_is_installed(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = execute.inputs_key(checkout)
    (checkout / "site" / "numpy-9.0.dist-info").mkdir(parents=True)
    monkeypatch.syspath_prepend(checkout / "site")
    assert execute.inputs_key(checkout) != before


def test_prose_and_files_of_tools_are_no_inputs(checkout: Path) -> None:
    [chapter] = execute.missing(checkout)
    execute.execute(checkout, chapter)
    before = execute.marks(checkout)
    chapter.write_text(chapter.read_text().replace("# Title", "# A better title"))
    (checkout / "fourierkernels" / "__pycache__").mkdir()
    for name in ("__pycache__/kernels.pyc", ".kernels.py.swp", "kernels.py~"):
        (checkout / "fourierkernels" / name).write_bytes(b"\0")
    assert execute.marks(checkout) == before
    assert not is_missing(checkout)


def test_a_chapter_with_other_code_has_no_outputs_and_drops_the_old_ones(checkout: Path) -> None:
    for code in ("6 * 7", "6 * 8"):
        chapter = write_chapter(checkout, code)
        assert is_missing(checkout)
        execute.execute(checkout, chapter)
        assert len(list((checkout / execute.KEPT).rglob("*.ipynb"))) == 1


def test_quick_and_full_mode_keep_their_own_outputs(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [chapter] = execute.missing(checkout)
    execute.execute(checkout, chapter)
    monkeypatch.setenv(build.FAST, "")
    assert is_missing(checkout)
    execute.execute(checkout, chapter)
    monkeypatch.setenv(build.FAST, "1")
    assert not is_missing(checkout)


@pytest.mark.parametrize("undone", [False, True])
@pytest.mark.parametrize("name", FILES)
def test_no_outputs_are_kept_if_an_input_is_written_while_the_chapter_runs(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, name: str, undone: bool
) -> None:
    def edit(*_arguments: object) -> None:
        (checkout / name).write_text("something else")
        if undone:
            (checkout / name).write_text(FILES[name])

    [chapter] = execute.missing(checkout)
    monkeypatch.setattr(execute, "run", edit)
    with pytest.raises(RuntimeError, match=rf"written while the chapter ran: {name}"):
        execute.execute(checkout, chapter)
    assert is_missing(checkout)
    (checkout / name).write_text(FILES[name])
    assert is_missing(checkout)


def test_outputs_of_a_chapter_that_is_edited_while_it_runs_are_of_the_text_that_ran(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execute, "run", lambda *_arguments: write_chapter(checkout, "6 * 8"))
    execute.execute(checkout, write_chapter(checkout, "6 * 7"))
    assert is_missing(checkout)
    write_chapter(checkout, "6 * 7")
    assert not is_missing(checkout)


def test_sphinx_gets_nothing_if_a_chapter_has_no_outputs(checkout: Path) -> None:
    with pytest.raises(RuntimeError, match=r"01_a\.md has no outputs"):
        execute.hand_over(checkout)


# --- the build -------------------------------------------------------------------------------


def test_a_build_that_could_not_execute_all_says_how_to_go_on(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(build, "provide_mathjax", lambda _root: None)
    monkeypatch.setattr(build, "make_downloads", lambda _root, _environment: None)
    monkeypatch.setattr(build, "missing", lambda _root, _environment: ["notebooks/01_a.md"])
    monkeypatch.setattr(build, "execute", lambda *_arguments: None)
    assert build.build(checkout, {build.FAST: "1"}) == 1  # and nothing is rendered
    told = capsys.readouterr().err
    assert told.startswith("not executed: notebooks/01_a.md\nThe chapters executed so far are kept")


@pytest.mark.parametrize(("rendered", "found"), [(0, 1), (1, 0)])
def test_lint_findings_and_warnings_fail_a_build(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, rendered: int, found: int
) -> None:
    monkeypatch.setattr(build, "provide_mathjax", lambda _root: None)
    monkeypatch.setattr(build, "make_downloads", lambda _root, _environment: None)
    monkeypatch.setattr(build, "missing", lambda _root, _environment: [])
    monkeypatch.setattr(build, "render", lambda _root, _environment: rendered)
    monkeypatch.setattr(build, "lint", lambda _root: found)
    assert build.build(checkout, {}) == 1


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
    for name in ("IPYTHONDIR", "MPLCONFIGDIR", "JUPYTER_DATA_DIR"):
        assert Path(environment[name]).is_relative_to(tmp_path / build.PRIVATE)


@pytest.mark.parametrize("fast", ["1", ""])
def test_chapters_are_executed_together_in_quick_mode_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fast: str
) -> None:
    calls: list[Any] = []
    monkeypatch.setattr(build, "run_together", lambda *call: calls.append(call))
    monkeypatch.setattr(build, "cores", lambda: 64)
    build.execute(["notebooks/01_a.md", "notebooks/03_b.md"], tmp_path, {build.FAST: fast})
    [(commands, limit, root, environment)] = calls
    assert [command[-1] for command in commands] == ["notebooks/01_a.md", "notebooks/03_b.md"]
    assert limit == (build.MOST_TOGETHER if fast else 1)
    assert root == tmp_path
    assert ("NUMBA_NUM_THREADS" in environment) == bool(fast)


@pytest.mark.parametrize(("fast", "found"), [("1", []), ("", ["sphinx.ext.viewcode"])])
def test_quick_mode_alone_has_no_pages_of_source_code(
    monkeypatch: pytest.MonkeyPatch, fast: str, found: list[str]
) -> None:
    loaded: list[str] = []
    monkeypatch.setenv(build.FAST, fast)
    app = SimpleNamespace(setup_extension=loaded.append, connect=lambda *_: 0)
    pages.setup(app)  # type: ignore[arg-type]
    assert loaded == found


def test_sphinx_writes_pages_with_all_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    app = SimpleNamespace(parallel=1)
    monkeypatch.setattr(pages, "cores", lambda: 3)
    pages.write_together(app, None)  # type: ignore[arg-type]
    assert app.parallel == 3


def test_the_longest_chapters_begin_first_and_the_others_in_their_order() -> None:
    root = Path(build.__file__).parents[1]
    chapters = [path.relative_to(root).as_posix() for path in execute.chapters(root)]
    assert all(sum(name.startswith(start) for name in chapters) == 1 for start in build.FIRST)
    begun = sorted(chapters, key=build.turn)
    count = len(build.FIRST)
    for name, start in zip(begun, build.FIRST, strict=False):
        assert name.startswith(start)
    assert begun[count:] == [name for name in chapters if name not in begun[:count]]


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


# --- with a kernel ---------------------------------------------------------------------------


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a book that is executed by this Python."""
    for name, value in build.build_environment(tmp_path, os.environ).items():
        monkeypatch.setenv(name, value)
    (tmp_path / build.PRIVATE).mkdir(parents=True)
    return tmp_path


@pytest.mark.slow
def test_sphinx_finds_the_outputs_that_are_handed_over(kernel: Path) -> None:
    path = write_chapter(kernel, "6 * 7")
    execute.execute(kernel, path)
    execute.hand_over(kernel)
    cache = kernel / execute.settings(kernel)["execute"]["cache"]
    command = [
        *(sys.executable, "-m", "sphinx", "-C", "-D", "extensions=myst_nb"),
        *("-D", "root_doc=notebooks/01_a", "-D", "nb_execution_mode=cache"),
        *("-D", f"nb_execution_cache_path={cache}"),
        *(str(kernel), str(kernel / "html"), str(path)),
    ]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "Using cached notebook" in built.stdout, built.stderr
    assert "42" in (kernel / "html" / "notebooks" / "01_a.html").read_text("utf-8")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("assert False", "a cell raised an exception\n(.*\n)*.*AssertionError"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", "its kernel died"),
    ],
)
def test_a_chapter_that_fails_is_told_and_not_kept(kernel: Path, code: str, message: str) -> None:
    path = write_chapter(kernel, code)
    with pytest.raises(RuntimeError, match=message):
        execute.execute(kernel, path)
    assert execute.missing(kernel) == [path]


def test_pages_have_pictures_in_place_of_sliders() -> None:
    shown = {execute.WIDGET: {"model_id": "1"}, "image/svg+xml": "<svg/>", "text/plain": "sliders"}
    output = nbformat.v4.new_output("display_data", data=shown)
    cell = nbformat.v4.new_code_cell("view", outputs=[output, nbformat.v4.new_output("stream")])
    execute.leave_out_widgets(nbformat.v4.new_notebook(cells=[cell]))
    assert list(cell.outputs[0].data) == ["image/svg+xml", "text/plain"]
