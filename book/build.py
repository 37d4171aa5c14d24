"""Build the book: ``python book/build.py``, from anywhere, with the environment's own Python.

Executes the chapters, renders with jupyter-book, every warning an error, then lints the pages.
FK_FAST=1 is the quick mode that the chapters read; it makes no pages of the package's source code.
Needs no network.

Pages are always rendered anew, and the outputs of chapters are kept (book/execute.py), each as soon
as its chapter is done: after an interruption or an error the same command goes on from there.
Sphinx executes nothing. It writes pages, and the lint reads them, with all cores.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]
HTML = Path("_build", "html")
PRIVATE = Path(".jupyter_cache", "settings")  # what programs would write into the home folder
MATHJAX = Path("book", "_static", "mathjax", "tex-svg.js")
EXECUTE = (sys.executable, "book/execute.py")
FAST = "FK_FAST"
GO_ON = "The chapters executed so far are kept: the same command goes on with the others."

MOST_TOGETHER = 4  # a chapter may hold a gigabyte
# Begun first. Chapter 12 compiles the loops of attention, which others then load; 17, 25 and 32
# run five networks. Begun last, they would keep one core busy when the others have nothing left
# to do.
FIRST = (
    "notebooks/12_",
    "notebooks/17_",
    "notebooks/25_",
    "notebooks/32_",
    "notebooks/24_",
    "notebooks/02_",
)
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"
)

JUPYTER_BOOK = (
    "-c",
    "from jupyter_book.cli.main import main; main()",
    "build",
    ".",
    "--config",
    "book/_config.yml",
    "--toc",
    "book/_toc.yml",
    "--path-output",
    ".",
    "-W",
    "-n",
    "--keep-going",
)


def provide_mathjax(root: Path) -> None:
    """Copy MathJax's one-file build out of the installed wheel; it is never committed."""
    package = find_spec("mathjax")
    if package is None or package.origin is None:
        raise FileNotFoundError(
            "MathJax is missing: install django-static-mathjax (the book extra)"
        )
    source = Path(package.origin).parent / "static" / "mathjax" / "es5" / MATHJAX.name
    (root / MATHJAX).parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, root / MATHJAX)


def build_environment(root: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the build: this Python's kernel and this checkout's package.

    Programs keep their files in the checkout: settings in a reader's home folder would change the
    outputs, and there may be none that can be written.
    """
    own, private = Path(sys.prefix, "share", "jupyter"), root / PRIVATE
    return {
        **environment,
        FAST: environment.get(FAST, ""),
        "JUPYTER_PATH": str(own),
        "JUPYTER_PREFER_ENV_PATH": "1",
        "JUPYTER_CONFIG_DIR": str(private / "jupyter"),
        "JUPYTER_DATA_DIR": str(private / "jupyter"),
        "IPYTHONDIR": str(private / "ipython"),
        "MPLCONFIGDIR": str(private / "matplotlib"),
        "PYTHONPATH": os.pathsep.join(filter(None, [str(root), environment.get("PYTHONPATH")])),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), environment.get("PATH", "")]),
    }


def missing(root: Path, environment: Mapping[str, str]) -> list[str]:
    """Return the chapters that are yet to be executed, as paths below the root."""
    listed = subprocess.run(
        EXECUTE, cwd=root, env=dict(environment), check=True, stdout=subprocess.PIPE, text=True
    )
    return listed.stdout.splitlines()


def execute(chapters: Sequence[str], root: Path, environment: Mapping[str, str]) -> None:
    """Execute chapters: in quick mode one per core, at most four, with one thread each.

    In full mode one after the other: they measure times, and a neighbour would be in them.
    """
    commands = [[*EXECUTE, chapter] for chapter in sorted(chapters, key=turn)]
    if environment.get(FAST) == "1":
        run_together(commands, min(cores(), MOST_TOGETHER), root, {**environment, **ONE_THREAD})
    else:
        run_together(commands, 1, root, environment)


def turn(chapter: str) -> int:
    """Return the place of a chapter in `FIRST`; all that are not there come after, as they are."""
    return next((i for i, start in enumerate(FIRST) if chapter.startswith(start)), len(FIRST))


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_together(
    commands: Sequence[Sequence[str]], limit: int, root: Path, environment: Mapping[str, str]
) -> None:
    """Run all commands, at most `limit` at a time; none survives an exception such as Ctrl-C."""
    waiting, running = list(commands), []
    try:
        while waiting or running:
            while waiting and len(running) < limit:
                running.append(subprocess.Popen(waiting.pop(0), cwd=root, env=dict(environment)))
            time.sleep(0.1)
            running = [process for process in running if process.poll() is None]
    finally:
        for process in running:
            process.kill()  # its kernel sees that its parent is gone, and leaves
        for process in running:
            process.wait()


def make_downloads(root: Path, environment: Mapping[str, str]) -> None:
    """Make the notebooks that the chapters offer, with the files that they read."""
    command = [sys.executable, "-m", "book.downloads"]
    if subprocess.run(command, cwd=root, env=dict(environment), check=False).returncode:
        raise FileNotFoundError("the downloads of the chapters could not be made")


def render(root: Path, environment: Mapping[str, str]) -> int:
    """Render the pages with the outputs that are kept; the exit status of the last command."""
    shutil.rmtree(root / "_build", ignore_errors=True)
    for command in ([*EXECUTE, "--hand-over"], [sys.executable, *JUPYTER_BOOK]):
        status = subprocess.run(command, cwd=root, env=dict(environment), check=False).returncode
        if status:
            break
    return status


def lint(root: Path) -> int:
    """Exit status of the page lint."""
    command = [sys.executable, "book/lint.py", str(HTML)]
    return subprocess.run(command, cwd=root, check=False).returncode


def build(root: Path, environment: Mapping[str, str]) -> int:
    """Build and check the book; 0 if every page is sound."""
    (root / PRIVATE).mkdir(parents=True, exist_ok=True)
    provide_mathjax(root)
    with TemporaryDirectory(ignore_cleanup_errors=True) as scratch:  # what is killed leaves files
        inner = {**build_environment(root, environment), "TMPDIR": scratch}
        make_downloads(root, inner)
        chapters, mode = missing(root, inner), "quick" if inner[FAST] == "1" else "full"
        sys.stdout.write(f"Building the book ({mode} mode, {len(chapters)} chapters to execute).\n")
        sys.stdout.flush()
        execute(chapters, root, inner)
        if left := missing(root, inner):
            sys.stderr.write(f"not executed: {', '.join(left)}\n{GO_ON}\n")
            return 1
        status = render(root, inner)
    return lint(root) or status


def main() -> int:
    """Build the book of this checkout and say where it is."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        status = build(ROOT, os.environ)
    except (OSError, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write(f"interrupted\n{GO_ON}\n")
        return 130
    if status:
        sys.stderr.write("The book is NOT sound: see the messages above.\n")
        return 1
    sys.stdout.write(
        f"The book is in {ROOT / HTML / 'index.html'}\n"
        f"or: {Path(sys.executable)} -m http.server --directory {ROOT / HTML} 8000"
        "   then http://localhost:8000\n"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
