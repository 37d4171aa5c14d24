"""Execute chapters and keep their outputs, for book/build.py.

    python book/execute.py                                list the chapters without outputs
    python book/execute.py notebooks/06_sinc_powers.md    execute one and keep its outputs
    python book/execute.py --hand-over                    give all outputs to Sphinx

Outputs are kept in .jupyter_cache: per mode and chapter one executed notebook, whose name has a key
of everything that they depend on. The file appears whole or not at all, as soon as its chapter is
done, and only if no input was written meanwhile. So a build may be interrupted or killed at any
moment; the next one goes on with what it left.

A cell may run for as long as it computes: a limit in seconds stops sound chapters on a slow or busy
machine. A kernel that dies is noticed at once; one that hangs is a case for Ctrl-C, which costs
only the chapters that are running.
"""

import hashlib
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from fourierkernels.foundation.files import file_digest, write_text

ROOT = Path(__file__).resolve().parents[1]
KEPT = Path(".jupyter_cache")
FAST = "FK_FAST"
KERNEL = "python3"  # the one that nb_kernel_rgx_aliases of book/_config.yml gives every chapter
WIDGET = "application/vnd.jupyter.widget-view+json"
UNLIMITED = 10**6  # seconds; two waits of nbclient cannot be told to have no limit

INPUTS = ("fourierkernels", "notebooks", "experiments", "constraints.txt", "pyproject.toml")
IGNORED_FOLDERS = {"__pycache__", ".ipynb_checkpoints"}


def settings(root: Path) -> dict[str, Any]:
    """Return the settings of the book."""
    text = (root / "book" / "_config.yml").read_text("utf-8")
    return dict(yaml.safe_load(text))


def chapters(root: Path) -> list[Path]:
    """Return the chapters of the table of contents; of one without a file Sphinx will tell."""
    contents = yaml.safe_load((root / "book" / "_toc.yml").read_text("utf-8"))
    files = [entry["file"] for part in contents["parts"] for entry in part["chapters"]]
    paths = [root / f"{file}.md" for file in files if file.startswith("notebooks/")]
    return [path for path in paths if path.is_file()]


def read(path: Path, extensions: list[str]) -> Any:
    """Read a chapter as Sphinx will."""
    from myst_nb.core.read import read_myst_markdown_notebook
    from myst_parser.config.main import MdParserConfig

    notebook = read_myst_markdown_notebook(
        path.read_text("utf-8"),
        config=MdParserConfig(enable_extensions=set(extensions)),
        add_source_map=True,
        path=path,
    )
    if "kernelspec" in notebook.metadata:
        notebook.metadata["kernelspec"]["name"] = KERNEL
    return notebook


def code_cells(notebook: Any) -> list[Any]:
    """Return the cells that have outputs."""
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


# --- what outputs depend on --------------------------------------------------------------------


def input_files(root: Path) -> Iterator[Path]:
    """Files that the outputs of all chapters may depend on; a chapter depends on its own text."""
    for name in INPUTS:
        start = root / name
        for path in sorted(start.rglob("*")) if start.is_dir() else [start]:
            chapter = name == "notebooks" and path.suffix == ".md"
            of_an_editor = path.name.startswith(".") or path.name.endswith("~")
            if chapter or of_an_editor or IGNORED_FOLDERS & set(path.relative_to(root).parts):
                continue
            if path.is_file():
                yield path


def inputs_key(root: Path) -> str:
    """Key of all inputs but the chapters: files, quick mode, Python and what is installed."""
    files = [(path.relative_to(root).as_posix(), file_digest(path)) for path in input_files(root)]
    installed = sorted({found.name for at in sys.path for found in Path(at).glob("*.dist-info")})
    content = [files, os.environ.get(FAST, ""), sys.version, installed]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def marks(root: Path) -> list[tuple[str, int, int, int]]:
    """Return marks of the input files, which change with every write, even one that is undone."""
    found = ((path.relative_to(root).as_posix(), path.stat()) for path in input_files(root))
    return [(name, s.st_ino, s.st_mtime_ns, s.st_ctime_ns) for name, s in found]


# --- outputs -----------------------------------------------------------------------------------


def place(root: Path, path: Path, notebook: Any, key: str) -> Path:
    """Return where the outputs of a chapter are, or will be, kept for these inputs."""
    code = [(cell.source, cell.metadata.get("tags")) for cell in code_cells(notebook)]
    own = hashlib.sha256(json.dumps([key, code]).encode()).hexdigest()[:32]
    mode = "quick" if os.environ.get(FAST) == "1" else "full"
    return root / KEPT / mode / f"{path.stem}-{own}.ipynb"


def kept(root: Path) -> Iterator[tuple[Path, Any, Path]]:
    """Yield each chapter, as path and notebook, and the place of its outputs."""
    extensions, key = settings(root)["parse"]["myst_enable_extensions"], inputs_key(root)
    for path in chapters(root):
        notebook = read(path, extensions)
        yield path, notebook, place(root, path, notebook, key)


def missing(root: Path) -> list[Path]:
    """Return the chapters whose outputs are not kept."""
    return [path for path, _, outputs in kept(root) if not outputs.is_file()]


def execute(root: Path, path: Path) -> None:
    """Execute a chapter and keep its outputs; those that it had for other inputs are dropped.

    Raises
    ------
    RuntimeError
        If a cell raises, the kernel dies, or an input is written while the chapter runs.
    """
    import nbformat

    before = marks(root)
    notebook = read(path, settings(root)["parse"]["myst_enable_extensions"])
    outputs = place(root, path, notebook, inputs_key(root))
    run(notebook, path.parent)
    written = {name for name, *_ in set(before) ^ set(marks(root))}
    if written:
        raise RuntimeError(f"written while the chapter ran: {', '.join(sorted(written))}")
    outputs.parent.mkdir(parents=True, exist_ok=True)
    write_text(outputs, nbformat.writes(notebook))
    for old in outputs.parent.glob(f"{path.stem}-*.ipynb"):
        if old != outputs:
            old.unlink(missing_ok=True)


def run(notebook: Any, folder: Path) -> None:
    """Execute a notebook in place, however long its cells compute, and without the network."""
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, DeadKernelError
    from traitlets.config import Config

    try:
        with TemporaryDirectory() as sockets:  # a path in the checkout may be too long for them
            NotebookClient(
                notebook,
                timeout=None,
                startup_timeout=UNLIMITED,
                iopub_timeout=UNLIMITED,  # by default an output that is 4 s late is left out
                store_widget_state=False,
                resources={"metadata": {"path": str(folder)}},
                config=Config({"KernelManager": {"transport": "ipc", "ip": f"{sockets}/kernel"}}),
            ).execute()
    except CellExecutionError as error:
        raise RuntimeError(f"a cell raised an exception\n{error}") from error
    except DeadKernelError as error:
        raise RuntimeError("its kernel died: killed, or out of memory") from error
    leave_out_widgets(notebook)


def leave_out_widgets(notebook: Any) -> None:
    """Drop sliders, which move nothing where no kernel runs; the picture beside them stays."""
    for cell in code_cells(notebook):
        for output in cell.outputs:
            output.get("data", {}).pop(WIDGET, None)


def hand_over(root: Path) -> None:
    """Put the outputs of all chapters where Sphinx looks for them.

    Raises
    ------
    RuntimeError
        If the outputs of a chapter are not kept.
    """
    import nbformat
    from jupyter_cache import get_cache
    from jupyter_cache.base import CacheBundleIn

    cache = get_cache(root / settings(root)["execute"]["cache"])
    try:
        for path, notebook, outputs in kept(root):
            if not outputs.is_file():
                raise RuntimeError(f"{path.name} has no outputs: inputs were written meanwhile")
            done = nbformat.read(outputs, as_version=4)
            notebook.metadata = {**done.metadata, **notebook.metadata}
            for cell, other in zip(code_cells(notebook), code_cells(done), strict=True):
                cell.update(outputs=other.outputs, execution_count=other.execution_count)
            bundle = CacheBundleIn(notebook, str(path))
            cache.cache_notebook_bundle(bundle, check_validity=False, overwrite=True)
    finally:
        cache.db.dispose()


def main(arguments: list[str]) -> int:
    """List what is missing, hand over, or execute the chapter named on the command line."""
    start = time.perf_counter()
    try:
        if not arguments:
            sys.stdout.writelines(f"{path.relative_to(ROOT)}\n" for path in missing(ROOT))
        elif arguments == ["--hand-over"]:
            hand_over(ROOT)
        else:
            execute(ROOT, ROOT / arguments[0])
            seconds = time.perf_counter() - start
            sys.stdout.write(f"executed {arguments[0]} ({seconds:.0f} s)\n")
    except RuntimeError as error:
        sys.stderr.write(f"error: {' '.join(arguments)}: {error}\n")
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
