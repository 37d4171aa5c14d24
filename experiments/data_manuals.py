"""Fetch a real text to train language models on: English manuals of LibreOffice and Debian.

    python experiments/data_manuals.py [--output FOLDER] [--pages FOLDER] [--documents] [--quick]

Downloads four packages of Debian with ``apt-get download`` (23 MB; nothing is installed, no root is
needed), unpacks them with ``dpkg-deb`` and writes train.txt, valid.txt and test.txt: one paragraph,
heading or item of a list per line. A twentieth of the pages is for validation, another one for the
test; pages are drawn by a digest of their path, so the split is the same everywhere. A paragraph
that an earlier page has is left out. About 730,000 words of 2,671 pages. Then:

    fourierkernels train language --data FOLDER

--documents puts a blank line after each page, for ``fourierkernels train masked``. --pages takes
pages that have been unpacked already. --quick downloads nothing and writes the text
of a page that it makes itself, to try the extraction.

Licences: LibreOffice help MPL-2.0, Debian Reference and Developer's Reference GPL-2+, installation
guide GPL-2. Of the text, 32 windows are part of this repository, as numbers of words, in
experiments/results/language_heads_train.txt and language_heads_test.txt; its 8,000 commonest words
are in language_softmax/vocabulary.txt there.
"""

import argparse
import hashlib
import json
import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

PACKAGES = (
    "libreoffice-help-en-us",
    "debian-reference-en",
    "developers-reference",
    "installation-guide-amd64",
)
# Where the English pages of each package are.
PAGES = (
    "usr/share/libreoffice/help/en-US/text/**/*.html",
    "usr/share/debian-reference/*.en.html",
    "usr/share/developers-reference/*.html",
    "usr/share/doc/installation-guide-amd64/en/*.html",
)
_BLOCKS = """p h1 h2 h3 h4 h5 h6 li dt dd td th title caption pre div table tbody thead tr ul ol dl
section blockquote body article main"""
BLOCKS = frozenset(_BLOCKS.split())
SKIPPED = frozenset({"script", "style", "nav", "header", "footer", "aside", "head"})
HELD_OUT = 20
EXAMPLE = "<body><h1>Title</h1><nav>menu</nav><p>One <b>bold</b> word.<p>Two.</body>"


class Block(NamedTuple):
    """A piece of the text of a page between two boundaries of its block elements.

    Attributes
    ----------
    tag, name : str
        Tag and id of the innermost element that it is in.
    text : str
        With single blanks; empty between two boundaries that follow each other.
    """

    tag: str
    name: str
    text: str


class Blocks(HTMLParser):
    """Collects the text of the innermost block elements of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Block] = []
        self._open: list[tuple[str, str]] = []
        self._text: list[str] = []
        self._skipped: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """End a block where another one begins."""
        if tag in SKIPPED:
            self._skipped.append(tag)
        elif tag in BLOCKS:
            self.end_block()
            if self._open and self._open[-1][0] == "p":  # HTML need not close it
                self._open.pop()
            self._open.append((tag, dict(attrs).get("id") or ""))

    def handle_endtag(self, tag: str) -> None:
        """End a block where it ends."""
        if self._skipped and tag == self._skipped[-1]:
            self._skipped.pop()
        elif tag in BLOCKS:
            self.end_block()
            places = [place for place, (known, _) in enumerate(self._open) if known == tag]
            del self._open[places[-1] if places else len(self._open) :]

    def handle_data(self, data: str) -> None:
        """Collect text."""
        if not self._skipped:
            self._text.append(data)

    def end_block(self) -> None:
        """Keep the text since the last boundary."""
        tag, name = self._open[-1] if self._open else ("", "")
        self.found.append(Block(tag, name, " ".join("".join(self._text).split())))
        self._text = []


def all_blocks(page: str) -> list[Block]:
    """Return the blocks of a page of HTML, empty ones too: pages of one structure have as many."""
    parser = Blocks()
    parser.feed(page)
    parser.close()
    parser.end_block()
    return parser.found


def blocks(page: str) -> list[str]:
    """Return the texts of the blocks that have a letter."""
    return [block.text for block in all_blocks(page) if re.search(r"[A-Za-z]", block.text)]


def download(folder: Path, names: Sequence[str] = PACKAGES) -> dict[str, str]:
    """Unpack packages into a folder; return their files' names, which have the versions."""
    subprocess.run(["apt-get", "download", *names], cwd=folder, check=True)
    packages = sorted(folder.glob("*.deb"))
    for package in packages:
        subprocess.run(["dpkg-deb", "-x", str(package), str(folder)], check=True)
    return {package.name: hashlib.sha256(package.read_bytes()).hexdigest() for package in packages}


def pages(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the path and the blocks of each page, in the order of the digests of their paths."""
    paths = [path for pattern in PAGES for path in folder.glob(pattern)]
    named = {path.relative_to(folder).as_posix(): path for path in paths}
    for name in sorted(named, key=lambda name: hashlib.sha256(name.encode()).hexdigest()):
        yield name, blocks(named[name].read_text(encoding="utf-8", errors="replace"))


def split(found: list[list[str]], *, documents: bool = False) -> dict[str, list[str]]:
    """Return the lines of the three texts, with a blank one after each page if asked for."""
    held = max(len(found) // HELD_OUT, 1)
    parts = {"valid": found[:held], "test": found[held : 2 * held], "train": found[2 * held :]}
    end = [""] if documents else []
    return {name: [line for page in part for line in (*page, *end)] for name, part in parts.items()}


def once(found: list[list[str]]) -> list[list[str]]:
    """Return pages without the blocks that an earlier page has: menus, notices, repetitions."""
    seen: set[str] = set()
    kept = []
    for page in found:
        kept.append([line for line in page if line not in seen])
        seen.update(page)
    return kept


def write(
    output: Path, found: list[list[str]], origin: dict[str, str], *, documents: bool = False
) -> None:
    """Write the three texts and where they come from."""
    output.mkdir(parents=True, exist_ok=True)
    texts = split(once(found), documents=documents)
    for name, lines in texts.items():
        (output / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    words = {name: sum(len(line.split()) for line in lines) for name, lines in texts.items()}
    facts = {"packages": origin, "pages": len(found), "words": words}
    (output / "origin.json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    print(f"{output}: {len(found)} pages, {words}")


def main() -> None:
    """Fetch, extract, split, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--output", type=Path, default=Path("manuals"))
    parser.add_argument("--pages", type=Path, help="folder of unpacked packages")
    parser.add_argument("--documents", action="store_true", help="blank lines between pages")
    parser.add_argument("--quick", action="store_true", help="the text of an example")
    options = parser.parse_args()
    if options.quick:
        write(options.output, [blocks(EXAMPLE)] * 3, {})
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.pages or Path(scratch)
        origin = {} if options.pages else download(folder)
        found = [page for _, page in pages(folder)]
    if not found:
        raise SystemExit(f"error: no page of the manuals in {folder}")
    write(options.output, found, origin, documents=options.documents)


if __name__ == "__main__":
    main()
