"""Which command makes which committed result: the tables of experiments/README.md, read once."""

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from book.chapters import Chapter

ROOT = Path(__file__).resolve().parents[1]
PYTHON = ".venv/bin/python"
_COMMAND, _RESULTS = "reproduce ", "experiments/results"
_CODE = re.compile(r"`([^`]+)`")


@dataclass(frozen=True)
class Script:
    """A row of the tables: a script or command, its question, time and results."""

    name: str
    question: str
    time: str
    results: str

    @property
    def command(self) -> str:
        """What to type in the root of the repository."""
        if self.name.startswith(_COMMAND):
            return f"{PYTHON.replace('python', 'fourierkernels')} {self.name} --output {_RESULTS}"
        return f"{PYTHON} experiments/{self.name}"

    def files(self, root: Path = ROOT) -> list[str]:
        """Return the committed files among the results, by name."""
        folder = root / "experiments" / "results"
        names = [name.strip("/") for name in _CODE.findall(self.results)]
        found = {path.name for name in names for path in folder.glob(f"{name}*") if path.is_file()}
        return sorted(file for file in found if file in names or file.rsplit(".", 1)[0] in names)


def scripts(root: Path = ROOT) -> list[Script]:
    """Every script of experiments/README.md, in its order."""
    text = (root / "experiments" / "README.md").read_text("utf-8")
    rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines())
    return [Script(_CODE.findall(row[0])[0], *row[1:]) for row in rows if _is_script(row)]


def _is_script(row: list[str]) -> bool:
    return len(row) == 4 and (row[0].startswith(f"`{_COMMAND}") or row[0].endswith(".py`"))


def reproduction(kind: str) -> str:
    """Commands of the studies, or of the benchmarks, as MyST: one entry per script."""
    if kind not in ("studies", "benchmarks"):
        raise ValueError(f"kind must be 'studies' or 'benchmarks', got {kind!r}")
    wanted = [row for row in scripts() if row.name.startswith("benchmarks/") == (kind != "studies")]
    return "\n\n".join("\n".join(_entry(row)) for row in wanted)


def _entry(row: Script) -> Iterator[str]:
    yield f"`{row.command}`"
    yield f": {row.question}"
    yield ""
    time = "" if row.time == "–" else f"{row.time.capitalize()}. "
    yield f"  {time}Makes: {_results(row)}.{_chapters(row)}"


def _results(row: Script) -> str:
    links = [f"{{download}}`{name} <../experiments/results/{name}>`" for name in row.files()]
    return ", ".join(links) or row.results


def _chapters(row: Script) -> str:
    files = [path for path in sorted((ROOT / "notebooks").glob("*.md")) if _reads(path, row)]
    links = [f"{{doc}}`chapter {int(f.name[:2])} <../notebooks/{f.stem}>`" for f in files]
    return f" Read in {' and '.join(links)}." if links else ""


@functools.cache
def _files_of(chapter: Path) -> frozenset[str]:
    return Chapter(chapter).reads


def _reads(chapter: Path, row: Script) -> bool:
    """Whether a chapter reads a result of a script, or a file of a folder that it makes."""
    made = {*row.files(), *(Path(name).name for name in _CODE.findall(row.results))}
    return any(name.split("/")[0] in made for name in _files_of(chapter))
