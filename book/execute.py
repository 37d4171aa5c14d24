"""Execute a chapter into the cache of outputs, where Sphinx finds them: ``python book/execute.py``.

    python book/execute.py                                list the chapters that the cache lacks
    python book/execute.py notebooks/06_sinc_powers.md    execute one

Read, executed and cached as myst-nb does it, so that its key is the same: the code of the cells and
the kernel. A chapter that fails is not cached: Sphinx runs it again and reports it.
"""

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
KERNEL = "python3"  # the one that nb_kernel_rgx_aliases of book/_config.yml gives every chapter


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


def open_cache(root: Path) -> Any:
    """Return the cache of outputs; its database is made if there is none."""
    from jupyter_cache import get_cache

    cache = get_cache(root / settings(root)["execute"]["cache"])
    assert cache.db is not None  # made at first use: chapters executed together must find it
    return cache


def missing(root: Path) -> Iterator[Path]:
    """Yield the chapters whose outputs the cache lacks."""
    cache, extensions = open_cache(root), settings(root)["parse"]["myst_enable_extensions"]
    for path in chapters(root):
        try:
            cache.match_cache_notebook(read(path, extensions))
        except KeyError:
            yield path


def execute(root: Path, path: Path) -> bool:
    """Execute a chapter into the cache; whether no cell raised."""
    from jupyter_cache.base import CacheBundleIn
    from jupyter_cache.executors.utils import single_nb_execution

    options = settings(root)
    notebook = read(path, options["parse"]["myst_enable_extensions"])
    timeout = options["execute"]["timeout"]
    done = single_nb_execution(
        notebook, cwd=str(path.parent), timeout=timeout, allow_errors=False, meta_override=True
    )
    if done.err is None:
        data = {"execution_seconds": done.time}
        bundle = CacheBundleIn(notebook, str(path), data=data)
        open_cache(root).cache_notebook_bundle(bundle, check_validity=False, overwrite=True)
    return done.err is None


def main(arguments: list[str]) -> int:
    """List what is missing, or execute the chapter named on the command line."""
    if not arguments:
        paths = (path.relative_to(ROOT).as_posix() for path in missing(ROOT))
        sys.stdout.writelines(f"{path}\n" for path in paths)
        return 0
    start = time.perf_counter()
    try:
        sound = execute(ROOT, ROOT / arguments[0])
    except KeyboardInterrupt:
        return 130
    verb = "executed" if sound else "FAILED, to be reported below:"
    sys.stdout.write(f"{verb} {arguments[0]} ({time.perf_counter() - start:.0f} s)\n")
    return 0 if sound else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
