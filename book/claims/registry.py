"""The claims of the papers: ``book/claims/*.toml``, one file per paper, read and checked.

A file has the paper's ``key`` and ``title``, its ``items`` (every numbered theorem, remark,
definition and table) and its claims. A claim has an ``id``, the ``place`` in the paper, the
``items`` it is about, what the paper ``says`` in our words, a ``verdict`` and ``how`` it was
reached, the ``evidence`` (an experiment or a derivation, by its file or chapter and, after a colon,
the part of it: claims with one evidence have one verdict), what was ``found``, its ``scope``, the
``chapter`` with the title of a section (``08_theorems#What is loose, and why``), the ``results``
and ``tests`` that show it, and ``numbers``: for each number quoted, where it comes from (see
``numbers.py``). What was not seen has the ``smallest`` gain that would have shown, and the one that
the ``paper`` claims.
"""

import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from docutils.nodes import make_id

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "book" / "claims"

# The verdicts, with the class that colours them, and how one is reached.
VERDICTS = {
    "holds": "holds",
    "holds with conditions that we add": "conditions",
    "false as printed": "fails",
    "reversed here": "reversed",
    "not seen": "unseen",
    "not tested": "untested",
}
HOW = {
    "derived": "derived",
    "measured": "measured here, on a small scale",
    "elsewhere": "on another device or data than stated",
}

_CELL = re.compile(r"^(`{3,}|:{3,}).*?^\1\s*$", re.DOTALL | re.MULTILINE)
_HEADING = re.compile(r"^#{1,4} +(.+?)\s*$", re.MULTILINE)


@dataclass(frozen=True)
class Claim:
    """One sentence, theorem or table of a paper, and what became of it here."""

    id: str
    place: str
    says: str
    verdict: str
    found: str
    chapter: str
    how: str = ""
    evidence: str = ""
    smallest: str = ""
    paper: str = ""
    scope: str = ""
    items: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    numbers: Mapping[str, str] = field(default_factory=dict)

    @property
    def page(self) -> str:
        """Name of the chapter, without its folder and ending."""
        return self.chapter.partition("#")[0]

    @property
    def section(self) -> str:
        """Title of the section."""
        return self.chapter.partition("#")[2]


@dataclass(frozen=True)
class Paper:
    """A paper, the items that it numbers, and its claims."""

    key: str
    title: str
    items: tuple[str, ...]
    claims: tuple[Claim, ...]


def anchor(title: str) -> str:
    """Return the identifier that Sphinx gives to the section of this title."""
    identifier: str = make_id(title)
    return identifier


def section_titles(chapter: str) -> list[str]:
    """Titles of a chapter's sections, in their order; code cells and directives are left out."""
    return _HEADING.findall(_CELL.sub("", chapter))


def load_papers(folder: Path = FOLDER) -> tuple[Paper, ...]:
    """Return all papers, in the order of their file names.

    Raises
    ------
    ValueError
        If a file, a claim or a field is not as described above.
    """
    papers = tuple(read_paper(path) for path in sorted(folder.glob("*.toml")))
    ids = Counter(f"{paper.key}-{claim.id}" for paper in papers for claim in paper.claims)
    if repeated := [name for name, count in ids.items() if count > 1]:
        raise ValueError(f"every claim must have an id of its own, got {repeated} more than once")
    return papers


def read_paper(path: Path) -> Paper:
    """Read one file of claims."""
    data = tomllib.loads(path.read_text("utf-8"))
    try:
        claims = tuple(_claim(entry) for entry in data.pop("claims", []))
        return Paper(**_frozen(data), claims=claims)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path.name}: {error}") from None


def _claim(entry: dict[str, Any]) -> Claim:
    name = entry.get("id", "without id")
    known = {each.name for each in fields(Claim)}
    if unknown := set(entry) - known:
        raise ValueError(f"claim {name}: fields must be among {sorted(known)}, got {unknown}")
    if entry.get("verdict") not in VERDICTS:
        verdict = entry.get("verdict")
        raise ValueError(f"claim {name}: verdict must be one of {list(VERDICTS)}, got {verdict!r}")
    if entry.get("how", "") not in ("", *HOW):
        raise ValueError(f"claim {name}: how must be one of {list(HOW)}, got {entry['how']!r}")
    if empty := [key for key in _needed(entry["verdict"]) if not entry.get(key)]:
        raise ValueError(f"claim {name}: {empty} must not be empty")
    return Claim(**_frozen(entry))


def _needed(verdict: str) -> tuple[str, ...]:
    """Fields that a claim of this verdict has."""
    always = ("place", "says", "found", "chapter")
    if verdict == "not tested":
        return always
    return (*always, "how", "evidence", *(("smallest", "paper") if verdict == "not seen" else ()))


def _frozen(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: _tidy(value) for key, value in entry.items()}


def _tidy(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(value)
    return " ".join(value.split()) if isinstance(value, str) else value


def problems(paper: Paper, root: Path = ROOT) -> Iterator[str]:
    """Find items without a claim, and chapters, sections and files that are not there."""
    covered = {item for claim in paper.claims for item in claim.items}
    yield from (f"{item} has no claim" for item in paper.items if item not in covered)
    yield from (f"{item} is not in the list of items" for item in covered - set(paper.items))
    for claim in paper.claims:
        yield from (f"{claim.id}: {problem}" for problem in _broken_links(claim, root))


def contradictions(papers: Iterable[Paper]) -> Iterator[str]:
    """Find what rests on one experiment or derivation and has more than one verdict."""
    found: dict[str, dict[str, str]] = {}
    for claim in (claim for paper in papers for claim in paper.claims if claim.evidence):
        found.setdefault(claim.evidence, {})[claim.id] = claim.verdict
    for evidence, verdicts in found.items():
        if len(set(verdicts.values())) > 1:
            yield f"{evidence} must have one verdict, got {verdicts}"


def _broken_links(claim: Claim, root: Path) -> Iterator[str]:
    chapter = root / "notebooks" / f"{claim.page}.md"
    if not chapter.is_file():
        yield f"there is no chapter {claim.page!r}"
    elif claim.section not in section_titles(chapter.read_text("utf-8")):
        yield f"{claim.page} has no section {claim.section!r}"
    table = claim.evidence.partition(":")[0]
    if table.endswith(".csv") and table not in claim.results:
        yield f"its evidence {table!r} must be among its results"
    files = [*(f"experiments/results/{name}" for name in claim.results), *claim.tests]
    yield from (f"there is no file {name}" for name in files if not (root / name).is_file())
