"""The numbers that the built book shows: of chapters, equations, figures, theorems and exercises.

Sphinx gives them while it builds; a notebook that leaves the book needs them before.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import yaml

from book.chapters import Chapter

UNNUMBERED = {"proof"}
_TITLE = re.compile(r"^# (.+)$", re.MULTILINE)
_CODE_CELL = re.compile(r"^```\{code-cell\}.*?^```$", re.MULTILINE | re.DOTALL)
_OPTIONS = r"\n((?::[a-z-]+:.*\n)*)"
_LABELLED = re.compile(
    r"\$\$ *\((?P<eq>[^)\s]+)\) *$"
    rf"|^[`:]{{3,}}\{{(?:prf:)?(?P<kind>[a-z]+)\}}(?P<title>.*){_OPTIONS}"
    r"|^\((?P<target>[^)\s]+)\)=\s*#+ (?P<heading>.+)$",
    re.MULTILINE,
)
_NAME = re.compile(r"^:(?:label|name): *(\S+)", re.MULTILINE)
PICTURES = ("figure", "moving")  # directives that make a figure, as a cell may
KINDS = (
    *("theorem", "lemma", "proposition", "corollary", "definition", "assumption", "remark"),
    *("example", "axiom", "conjecture", "property", "observation", "algorithm", "exercise"),
)


@dataclass(frozen=True)
class Label:
    """What a reference to a label shows, such as ``Theorem 2.1``, and its number alone."""

    text: str
    number: str


@dataclass(frozen=True)
class Book:
    """The titles and labels of the book below a folder."""

    root: Path

    @cached_property
    def chapters(self) -> tuple[Path, ...]:
        """Chapters of the table of contents that exist, in order."""
        return tuple(path for path in self._listed if path.is_file())

    @cached_property
    def _listed(self) -> list[Path]:
        contents = yaml.safe_load((self.root / "book" / "_toc.yml").read_text("utf-8"))
        files = [entry["file"] for part in contents["parts"] for entry in part["chapters"]]
        return [self.root / f"{file}.md" for file in files if file.startswith("notebooks/")]

    def number(self, chapter: Path) -> int:
        """Return the number of a chapter."""
        return self._listed.index(chapter) + 1

    def title(self, page: Path) -> str:
        """Return the title of a chapter or another page.

        Raises
        ------
        ValueError
            If there is no such page, or it has no title.
        """
        found = _TITLE.search(page.read_text("utf-8")) if page.is_file() else None
        if found is None:
            raise ValueError(f"a page with a title was expected at {page.relative_to(self.root)}")
        return found[1].strip()

    @cached_property
    def labels(self) -> dict[str, Label]:
        """Every label of the chapters, and the named sections of the other pages."""
        found = {
            name: label
            for path in self.chapters
            for name, label in _labels(Chapter(path), self.number(path))
        }
        for path in sorted((self.root / "book").glob("*.md")):
            for match in _LABELLED.finditer(path.read_text("utf-8")):
                if match["target"]:
                    found[match["target"]] = Label(match["heading"], "")
        return found


def _labels(chapter: Chapter, number: int) -> Iterator[tuple[str, Label]]:
    figures = dict(_figures(chapter))
    code = [match.span() for match in _CODE_CELL.finditer(chapter.text)]
    counts: Counter[str] = Counter()
    for match in _LABELLED.finditer(chapter.text):
        if any(start <= match.start() < end for start, end in code):
            continue
        if match["target"]:
            yield match["target"], Label(match["heading"].strip(), "")
            continue
        kind, options = "eq" if match["eq"] else match["kind"], match[4] or ""
        name = match["eq"] or (_NAME.search(options) or ["", ""])[1]
        if kind in PICTURES and name:
            figures[match.start()] = name
        elif kind in ("eq", *KINDS) and ":nonumber:" not in options:
            counts[kind] += 1
            shown = f"{number}.{counts[kind]}"
            yield name, Label(f"({shown})" if kind == "eq" else f"{kind.title()} {shown}", shown)
    for count, (_, name) in enumerate(sorted(figures.items()), 1):
        yield name, Label(f"Fig. {number}.{count}", f"{number}.{count}")


def _figures(chapter: Chapter) -> Iterator[tuple[int, str]]:
    """Yield the figures that cells make: where, and their names."""
    for cell in chapter.cells:
        settings = yaml.safe_load(cell.settings) or {}
        name = settings.get("mystnb", {}).get("figure", {}).get("name")
        if name:
            yield cell.start, name
