"""The English that every Python ships: its manual for `help`, and the docstrings of its library.

A small real text for machines without network. It differs between versions of Python, whose number
is in the name of the source.
"""

import ast
import hashlib
import platform
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from pydoc_data.topics import topics

from fourierkernels.studies.texts.plain import words_of
from fourierkernels.studies.texts.source import Source

# Not prose of the library: tests, examples of a text editor, what was installed later.
_LEFT_OUT = frozenset({"test", "tests", "idlelib", "lib2to3", "site-packages", "__pycache__"})
_HELD_OUT = 20


def open_python(folder: Path) -> Source:
    """Return the texts, split by topic and module: a twentieth for validation, another for a test.

    They are known by the version and the build of Python, and read only when they are numbered.

    Parameters
    ----------
    folder : Path
        Not used: the texts are where Python is installed.
    """
    version, build = python_version()

    def lines(split: str) -> Iterator[Sequence[str]]:
        for text in python_documents(split):
            yield from (words_of(line) for line in text.splitlines() if line.strip())

    return Source(f"Python {version}", hashlib.sha256(build.encode()).hexdigest(), lines)


def python_version() -> tuple[str, str]:
    """Return the version of this Python, and what else tells its texts from those of others."""
    version = platform.python_version()
    return version, " ".join((version, *platform.python_build()))


def python_documents(split: str) -> Iterator[str]:
    """Yield the topics and the docstrings of modules of a split, in the order of their digests."""
    documents = _documents()
    for name in _names(split, documents):
        yield documents[name]


def _names(split: str, documents: Mapping[str, str]) -> list[str]:
    order = sorted(documents, key=lambda name: hashlib.sha256(name.encode()).hexdigest())
    held = len(order) // _HELD_OUT
    parts = {
        "train": order[2 * held :],
        "valid": order[:held],
        "test": order[held : 2 * held],
    }
    return parts[split]


@cache
def _documents() -> dict[str, str]:
    """Return the topics of `help` and the docstrings of each module, by name."""
    found = {f"topic {name}": text for name, text in topics.items()}
    library = Path(sysconfig.get_path("stdlib"))
    for path in sorted(library.rglob("*.py")):
        inside = path.relative_to(library)
        if _LEFT_OUT.isdisjoint(inside.parts) and (text := _docstrings(path)):
            found[f"module {inside.as_posix()}"] = text
    return found


def _docstrings(path: Path) -> str:
    """Return all docstrings of a module, in order; none for a file that is not UTF-8."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, SyntaxError):  # of another version of the language
        return ""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(tree) if isinstance(node, kinds)]
    nodes.sort(key=lambda node: getattr(node, "lineno", 0))
    return "\n".join(text for node in nodes if (text := ast.get_docstring(node)))
