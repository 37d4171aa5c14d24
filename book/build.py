"""Build the book: ``python book/build.py``, from anywhere, with the environment's own Python.

Executes the chapters (cached), renders with jupyter-book, every warning an error, then lints the
pages. FK_FAST=1 is the quick mode that the chapters read. Needs no network.

What is cached are the chapters' outputs, in .jupyter_cache. jupyter-cache keys a chapter by the
code of its cells and does not see the package behind them, so a stamp beside the cache holds a key
of everything else an output depends on. The stamp is missing while a build runs: an interrupted
build leaves a cache that the next one drops. Pages are always rendered anew; only execution is
slow, so in quick mode chapters are executed side by side before Sphinx, which runs one at a time,
asks for them.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]
HTML = Path("_build", "html")
CACHE = Path(".jupyter_cache")
STAMP = CACHE / "inputs.sha256"
MATHJAX = Path("book", "_static", "mathjax", "tex-svg.js")
FAST = "FK_FAST"
# Folders that Jupyter and its kernels write to, by default below the home folder.
JUPYTER = ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR")

MOST_TOGETHER = 4  # a chapter may hold a gigabyte
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"
)

INPUTS = ("fourierkernels", "notebooks", "experiments", "constraints.txt", "pyproject.toml")
IGNORED_FOLDERS = {"__pycache__", ".ipynb_checkpoints"}
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


def input_files(root: Path) -> Iterator[Path]:
    """Files that the outputs of the chapters depend on, the chapters' own text excepted."""
    for name in INPUTS:
        start = root / name
        for path in sorted(start.rglob("*")) if start.is_dir() else [start]:
            chapter = name == "notebooks" and path.suffix == ".md"  # keyed by jupyter-cache itself
            if path.is_file() and not chapter and not IGNORED_FOLDERS & set(path.parts):
                yield path


def cache_key(root: Path, environment: Mapping[str, str]) -> str:
    """Key of everything but the chapters: package, experiments, versions, quick mode, Python."""
    digest = hashlib.sha256()
    for path in input_files(root):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        digest.update(f"{path.relative_to(root).as_posix()} {content}\n".encode())
    digest.update(f"{FAST}={environment.get(FAST, '')} {sys.version}".encode())
    return digest.hexdigest()


def open_cache(root: Path, key: str) -> bool:
    """Keep the cache if its stamp is `key`, else drop it; take the stamp away. True if kept."""
    stamp = root / STAMP
    kept = stamp.is_file() and stamp.read_text("ascii") == key
    if kept:
        stamp.unlink()
    else:
        shutil.rmtree(root / CACHE, ignore_errors=True)
    return kept


def close_cache(root: Path, key: str, environment: Mapping[str, str]) -> None:
    """Stamp the cache, unless an input changed while the chapters ran."""
    if (root / CACHE).is_dir() and cache_key(root, environment) == key:
        (root / STAMP).write_text(key, "ascii")


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


def build_environment(root: Path, environment: Mapping[str, str], home: Path) -> dict[str, str]:
    """Return the environment of the build: this Python's kernel and this checkout's package.

    What Jupyter and the kernels write for themselves goes to the folder `home`.
    """
    own = Path(sys.prefix, "share", "jupyter")
    return {
        **environment,
        FAST: environment.get(FAST, ""),
        **{name: str(home / name.lower()) for name in JUPYTER},
        "JUPYTER_PATH": str(own),
        "JUPYTER_PREFER_ENV_PATH": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(root), environment.get("PYTHONPATH")])),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), environment.get("PATH", "")]),
    }


def execute_ahead(root: Path, environment: Mapping[str, str]) -> None:
    """Execute what the cache lacks, a chapter per core, at most four, with one thread each.

    Only in quick mode: in full mode chapters measure times, and a neighbour would be in them.
    """
    if environment.get(FAST) != "1":
        return
    command = [sys.executable, "book/execute.py"]
    one_thread = {**environment, **ONE_THREAD}
    listed = subprocess.run(
        command, cwd=root, env=one_thread, check=True, stdout=subprocess.PIPE, text=True
    )
    commands = [[*command, chapter] for chapter in listed.stdout.split()]
    run_together(commands, min(os.cpu_count() or 1, MOST_TOGETHER), root, one_thread)


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
    """Execute and render; the exit status of jupyter-book."""
    shutil.rmtree(root / "_build", ignore_errors=True)
    command = [sys.executable, *JUPYTER_BOOK]
    return subprocess.run(command, cwd=root, env=dict(environment), check=False).returncode


def lint(root: Path) -> int:
    """Exit status of the page lint."""
    command = [sys.executable, "book/lint.py", str(HTML)]
    return subprocess.run(command, cwd=root, check=False).returncode


def build(root: Path, environment: Mapping[str, str]) -> int:
    """Build and check the book; 0 if every page is sound."""
    provide_mathjax(root)
    with TemporaryDirectory(prefix="fourierkernels-book-", ignore_cleanup_errors=True) as home:
        return _build(root, environment, build_environment(root, environment, Path(home)))


def _build(root: Path, environment: Mapping[str, str], inner: Mapping[str, str]) -> int:
    make_downloads(root, inner)
    key = cache_key(root, environment)
    mode = "quick" if environment.get(FAST) == "1" else "full"
    cache = (
        "outputs of unchanged chapters are reused" if open_cache(root, key) else "all chapters run"
    )
    sys.stdout.write(f"Building the book ({mode} mode, {cache}).\n")
    sys.stdout.flush()
    execute_ahead(root, inner)
    status = render(root, inner)
    if status >= 0:  # negative: killed by a signal, so the cache is not to be trusted
        close_cache(root, key, environment)
    return lint(root) or status


def main() -> int:
    """Build the book of this checkout and say where it is."""
    try:
        status = build(ROOT, os.environ)
    except FileNotFoundError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("interrupted: the next build runs every chapter again\n")
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
