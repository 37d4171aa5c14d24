"""Check the source of chapters: what a student is promised and no parser sees.

    python book/chapters.py notebooks/*.md

A rule is a function from a chapter to descriptions of its defects; adding one means adding a row to
RULES. Exit status 1 if anything was found.
"""

import ast
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import yaml

LONGEST_CELL, WIDEST_CELL = 15, 78  # what a page of 1,280 pixels shows
MOST_WORDS, MOST_TABLES = 4_999, 3  # of a chapter; of a lesson
WORDS_BEFORE_FIGURE = 120
TABLES = 19  # from this number on chapters are looked up: tables and details, no lessons
LEVELS = ("Level 1", "Level 2", "Level 3")
HIDDEN = {"hide-input", "hide-cell", "remove-input", "remove-cell"}
READERS = {"result", "data", "read_rows", "read_frame"}

CHECKOUT = re.compile(r"experiments/results|notebooks/data")
_CELL = re.compile(r"^```\{code-cell\}[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_EXERCISE = re.compile(r"^(`{3,}|:{3,})\{exercise\}([^\n]*)\n(.*?)^\1$", re.MULTILINE | re.DOTALL)
_LABEL = re.compile(r"^:label:\s*(\S+)", re.MULTILINE)
_NUMBERED = re.compile(
    r"(?:^:label:|^\s*name:|^:name:|\$\$ \()\s*([a-z]+-(\d\d)-[\w-]+)", re.MULTILINE
)
_RULE = re.compile(r"^\|[ :|-]+\|$", re.MULTILINE)  # below the head of a table in Markdown
_SOLVED = re.compile(r"\{solution(?:-start)?\}\s*(\S+)")


@dataclass(frozen=True)
class Cell:
    """A cell of code: its settings, its code, and where it begins in the chapter."""

    tags: frozenset[str]
    settings: str
    code: str
    start: int

    @property
    def hidden(self) -> bool:
        """Whether a reader has to ask for the code."""
        return bool(HIDDEN & self.tags)

    @property
    def draws(self) -> bool:
        """Whether the cell makes a figure of the book."""
        return bool(re.search(r"^\s+figure:", self.settings, re.MULTILINE))

    @cached_property
    def tree(self) -> ast.Module:
        """The code, parsed; without lines that are for IPython."""
        lines = [
            line for line in self.code.splitlines() if not line.lstrip().startswith(("%", "!"))
        ]
        return ast.parse("\n".join(lines))


class Chapter:
    """The source of a chapter."""

    def __init__(self, path: Path) -> None:
        self.name = path.stem
        self.text = path.read_text("utf-8")

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """Its cells of code, in order."""
        return tuple(_cell(match) for match in _CELL.finditer(self.text))

    @cached_property
    def exercises(self) -> tuple[tuple[str, str], ...]:
        """Title and text of each exercise."""
        return tuple((m[2].strip(), m[3]) for m in _EXERCISE.finditer(self.text))

    @cached_property
    def reads(self) -> frozenset[str]:
        """Names of the committed files that its cells read."""
        calls = (node for cell in self.cells for node in ast.walk(cell.tree))
        return frozenset(
            str(node.args[0].value)
            for node in calls
            if isinstance(node, ast.Call) and _called(node) in READERS and _names_file(node)
        )


def _cell(match: re.Match[str]) -> Cell:
    settings, code = _parts(match[1])
    tags = (yaml.safe_load(settings) or {}).get("tags", [])
    return Cell(frozenset(tags), settings, code, match.start())


def _parts(text: str) -> tuple[str, str]:
    """Split a cell into its settings, as YAML, and its code."""
    if text.startswith("---\n"):
        settings, _, code = text[4:].partition("\n---\n")
        return settings + "\n", code.strip("\n")
    lines = text.splitlines()
    count = next((i for i, line in enumerate(lines) if not line.startswith(":")), len(lines))
    return "\n".join(line[1:] for line in lines[:count]), "\n".join(lines[count:]).strip("\n")


# --- rules -----------------------------------------------------------------------------------


def opening(chapter: Chapter) -> Iterator[str]:
    """Find chapters that do not begin with a question and the figure that decides it."""
    head = re.split(r"^## ", chapter.text, maxsplit=1, flags=re.MULTILINE)[0]
    if "**Question.**" not in head:
        yield "no paragraph begins with **Question.** before the first section"
    first = next((c for c in chapter.cells if c.draws and c.start < len(head)), None)
    if first is None:
        yield "no figure with a name and a caption before the first section"
        return
    if "title" not in first.code or "legend(" in first.code:
        yield "the first figure has a title that states its finding, and no legend"
    before = re.sub(r"^---\n.*?^---\n", "", head[: first.start], flags=re.MULTILINE | re.DOTALL)
    words = len(_CELL.sub("", before).split())
    if words > WORDS_BEFORE_FIGURE:
        yield f"{words} words before the first figure, at most {WORDS_BEFORE_FIGURE} are wanted"


def cell_sizes(chapter: Chapter) -> Iterator[str]:
    """Visible code fits on the page."""
    for cell in chapter.cells:
        lines = cell.code.splitlines() or [""]
        if cell.hidden:
            continue
        if len(lines) > LONGEST_CELL:
            yield f"a visible cell has {len(lines)} lines, at most {LONGEST_CELL}: {lines[0]!r}"
        for line in lines:
            if len(line) > WIDEST_CELL:
                yield f"a visible line has {len(line)} columns, at most {WIDEST_CELL}: {line!r}"


def length(chapter: Chapter) -> Iterator[str]:
    """Find chapters that are too long for one sitting."""
    words = len(chapter.text.split())
    if words > MOST_WORDS:
        yield f"{words:,} words, at most {MOST_WORDS:,} are wanted"


def tables(chapter: Chapter) -> Iterator[str]:
    """Find lessons with many tables: those to look things up in have chapters of their own."""
    calls = (node for cell in chapter.cells for node in ast.walk(cell.tree))
    count = sum(isinstance(node, ast.Call) and _called(node) == "table" for node in calls)
    count += len(_RULE.findall(_CELL.sub("", chapter.text)))
    if count > MOST_TABLES:
        yield f"{count} tables, at most {MOST_TABLES} are wanted in a lesson"


def plotting_code(chapter: Chapter) -> Iterator[str]:
    """Code that draws is behind a click."""
    for cell in chapter.cells:
        if cell.draws and not cell.hidden:
            yield f"a cell that draws shows its code (tag hide-input): {cell.code[:50]!r}"


def exercises(chapter: Chapter) -> Iterator[str]:
    """Exercises have three levels, hints and solutions; one breaks an assumption."""
    titles = [title for title, _ in chapter.exercises]
    for level in LEVELS:
        if not any(title.startswith(level) for title in titles):
            yield f"no exercise whose title begins with {level}"
    if not any("break" in title.lower() for title in titles):
        yield "no exercise that breaks an assumption and says so in its title"
    solved = set(_SOLVED.findall(chapter.text))
    for title, text in chapter.exercises:
        label = _LABEL.search(text)
        if not title.startswith(LEVELS):
            yield f"exercise without a level: {title!r}"
        if "{dropdown} Hint" not in text:
            yield f"exercise without a hint: {title!r}"
        if label is None or label[1] not in solved:
            yield f"exercise without a solution: {title!r}"


def exercise_order(chapter: Chapter) -> Iterator[str]:
    """Exercises go from the first level to the third."""
    levels = [title.split(":")[0] for title, _ in chapter.exercises]
    if levels != sorted(levels):
        yield f"exercises are not in the order of their levels: {', '.join(levels)}"


def labels(chapter: Chapter) -> Iterator[str]:
    """Labels carry the number of the chapter they stand in."""
    for label, number in _NUMBERED.findall(chapter.text):
        if number != chapter.name[:2]:
            yield f"a label of another chapter: {label}"


def one_home(chapter: Chapter) -> Iterator[str]:
    """Tables and files come from `plotting.notebook`, files by a name that stands there."""
    for node in (node for cell in chapter.cells for node in ast.walk(cell.tree)):
        if isinstance(node, ast.FunctionDef) and node.name == "table":
            yield "table() is defined again: import it from fourierkernels.plotting.notebook"
        elif isinstance(node, ast.Call) and _called(node) in READERS and not _names_file(node):
            yield f"{ast.unparse(node)}: the name of a file must stand there as it is"
        elif isinstance(node, ast.Constant) and CHECKOUT.search(str(node.value)):
            yield f"a path of the checkout: {node.value!r} (use result() or data())"


def _names_file(node: ast.Call) -> bool:
    return bool(node.args) and isinstance(node.args[0], ast.Constant)


def _called(node: ast.Call) -> str:
    return node.func.id if isinstance(node.func, ast.Name) else ""


RULES: dict[str, Callable[[Chapter], Iterator[str]]] = {
    rule.__name__: rule
    for rule in (
        opening,
        length,
        tables,
        cell_sizes,
        plotting_code,
        exercises,
        exercise_order,
        labels,
        one_home,
    )
}
OF_LESSONS = {"opening", "tables", "exercises"}


def check(path: Path) -> list[str]:
    """Return all findings of one chapter, each with its rule."""
    chapter = Chapter(path)
    return [
        f"{chapter.name}: {name}: {found}"
        for name, rule in RULES.items()
        if name not in OF_LESSONS or int(chapter.name[:2]) < TABLES
        for found in rule(chapter)
    ]


def main(arguments: list[str]) -> int:
    """Check the chapters named on the command line."""
    if not arguments:
        sys.stderr.write("usage: python book/chapters.py CHAPTER.md ...\n")
        return 2
    findings = [found for name in arguments for found in check(Path(name))]
    sys.stdout.writelines(f"{found}\n" for found in findings)
    sys.stdout.write(f"chapters: {len(findings)} finding(s)\n")
    return 1 if findings else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
