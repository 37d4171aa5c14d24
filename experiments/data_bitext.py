"""Fetch a real corpus to train translation on: manuals of LibreOffice and Debian, two languages.

    python experiments/data_bitext.py [--pair en-it|en-de] [--output FOLDER] [--pages FOLDER]
                                      [--quick]

Downloads the packages of Debian with ``apt-get download`` (30 MB; nothing is installed, no root is
needed), unpacks them with ``dpkg-deb`` and aligns the pages of both languages: in the help of
LibreOffice, paragraphs have ids that are the same in all languages; pages of the other manuals are
used if both have the same sequence of elements. Paragraphs are split into sentences where both
sides have as many. What is too long, has no words or too different lengths, and what an earlier
page has, is left out. It writes text.en and text.it (or .de), a sentence per line,
text.documents, the page of each line, and origin.json, with the versions and digests of the
packages and the counts that are printed. Then:

    from fourierkernels.studies.translation.corpora import read_bitext
    read_bitext(FOLDER, pair="en-it")

--pages takes pages that have been unpacked already. --quick downloads nothing and aligns pages that
it makes itself.

Licences: LibreOffice help MPL-2.0; Debian Reference and aptitude's manual GPL-2+; Developer's
Reference and installation guide GPL-2. Of the text, 32 sentences that show what a trained model
does are part of this repository, in experiments/results/translation_report_attention.
"""

import argparse
import json
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from data_manuals import Block, all_blocks, download

from fourierkernels.studies.translation.classes import length_class
from fourierkernels.studies.translation.corpora import read_bitext
from fourierkernels.studies.translation.pair_files import PairFiles

PAIRS = ("en-it", "en-de")
TAGS = frozenset({"p", "h1", "h2", "h3", "h4", "dt", "dd", "li", "td", "th", "div"})
MOST_WORDS = 100
VOCABULARY = 8000  # of the joint BPE whose lengths are reported
_END_OF_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[\"'“„«‘‚]?[A-ZÀ-ÖØ-Þ])")
Aligned = Iterator[tuple[str, str]]


class Line(NamedTuple):
    """A sentence, its translation, and the page that they are on."""

    source: str
    target: str
    document: str


@dataclass(frozen=True)
class Manual:
    """A manual in English and other languages.

    Attributes
    ----------
    packages : tuple of str
        Packages of Debian; ``{}`` stands for the language.
    pages : str
        Where the English pages are.
    swap : tuple of str
        What is to be replaced in the path of an English page, and by what.
    align : callable
        From the blocks of two pages to pairs of texts.
    languages : tuple of str
        Languages there are.
    """

    packages: tuple[str, ...]
    pages: str
    swap: tuple[str, str]
    align: Callable[[Sequence[Block], Sequence[Block]], Aligned]
    languages: tuple[str, ...] = ("it", "de")


def by_name(english: Sequence[Block], other: Sequence[Block]) -> Aligned:
    """Yield texts of blocks that have the same id, and the same place among those with that id."""
    translations = named(other)
    for key, text in named(english).items():
        if key in translations:
            yield text, translations[key]


def named(blocks: Sequence[Block]) -> dict[tuple[str, int], str]:
    """Return the texts of paragraphs and headings by id and occurrence."""
    seen: Counter[str] = Counter()
    found = {}
    for block in blocks:
        if block.text and block.name.startswith(("par_id", "hd_id")):
            seen[block.name] += 1
            found[block.name, seen[block.name]] = block.text
    return found


def by_structure(english: Sequence[Block], other: Sequence[Block]) -> Aligned:
    """Yield texts block by block, if both pages have the same sequence of elements."""
    ours, theirs = ([block for block in page if block.tag in TAGS] for page in (english, other))
    if [block.tag for block in ours] == [block.tag for block in theirs]:
        yield from (
            (a.text, b.text) for a, b in zip(ours, theirs, strict=True) if a.text and b.text
        )


MANUALS = {
    "libreoffice": Manual(
        ("libreoffice-help-en-us", "libreoffice-help-{}"),
        "usr/share/libreoffice/help/en-US/text/**/*.html",
        ("/en-US/", "/{}/"),
        by_name,
    ),
    "debian-reference": Manual(
        ("debian-reference-en", "debian-reference-{}"),
        "usr/share/debian-reference/*.en.html",
        (".en.html", ".{}.html"),
        by_structure,
    ),
    "developers-reference": Manual(
        ("developers-reference", "developers-reference-{}"),
        "usr/share/developers-reference/*.html",
        ("/developers-reference/", "/developers-reference/{}/"),
        by_structure,
    ),
    "installation-guide": Manual(
        ("installation-guide-amd64",),
        "usr/share/doc/installation-guide-amd64/en/*.html",
        ("/en/", "/{}/"),
        by_structure,
    ),
    "aptitude": Manual(
        ("aptitude-doc-en", "aptitude-doc-{}"),
        "usr/share/doc/aptitude/html/en/*.html",
        ("/en/", "/{}/"),
        by_structure,
        languages=("it",),
    ),
}


def lines_of_page(manual: Manual, name: str, english: str, other: str) -> Iterator[Line]:
    """Yield the sentences of a page and their translations that pass the filter."""
    for source, target in manual.align(all_blocks(english), all_blocks(other)):
        yield from (Line(a, b, name) for a, b in sentences(source, target) if is_usable(a, b))


def sentences(source: str, target: str) -> Aligned:
    """Yield the sentences of two paragraphs side by side; whole paragraphs if they do not match."""
    ours, theirs = _END_OF_SENTENCE.split(source), _END_OF_SENTENCE.split(target)
    if len(ours) != len(theirs):
        ours, theirs = [source], [target]
    yield from zip(ours, theirs, strict=True)


def is_usable(source: str, target: str) -> bool:
    """Return whether two texts are of 1 to 100 words, mostly letters, different, of like length."""
    n, m = len(source.split()), len(target.split())
    letters = sum(character.isalpha() for character in source)
    alike = max(n, m) < 3 * min(n, m) or abs(n - m) <= 3
    sized = min(n, m) > 0 and max(n, m) <= MOST_WORDS
    return sized and alike and source != target and letters >= len(source) / 2


def lines_of_manuals(folder: Path, language: str) -> Iterator[tuple[str, Line]]:
    """Yield each line of the unpacked packages once, with the name of its manual."""
    seen: set[tuple[str, str]] = set()
    for manual, row in MANUALS.items():
        old, new = (part.format(language) for part in row.swap)
        for path in sorted(folder.glob(row.pages)):
            other = Path(str(path.relative_to(folder)).replace(old, new, 1))
            if not (folder / other).is_file():
                continue
            name = path.relative_to(folder).as_posix()
            for line in lines_of_page(row, name, read(path), read(folder / other)):
                if (line.source, line.target) not in seen:
                    seen.add((line.source, line.target))
                    yield manual, line


def read(path: Path) -> str:
    """Return a page."""
    return path.read_text(encoding="utf-8", errors="replace")


def packages(language: str) -> list[str]:
    """Return the packages of a language and of English."""
    rows = [row for row in MANUALS.values() if language in row.languages]
    return [name.format(language) for row in rows for name in row.packages]


def example(folder: Path, language: str) -> None:
    """Write pages in the layout of the packages."""
    for number in range(12):
        for part, words in (
            ("en-US", "The cat sat down. It slept"),
            (language, "Lo ha. Qui dorme"),
        ):
            path = folder / f"usr/share/libreoffice/help/{part}/text/{number}.html"
            path.parent.mkdir(parents=True, exist_ok=True)
            text = " ".join(f"{words} {'xyz'[number % 3]}{i}." for i in range(number + 1))
            path.write_text(f'<body><p id="par_id1">{text}</p></body>', encoding="utf-8")


def digits_agree(lines: Sequence[Line]) -> float:
    """Return the share of pairs with digits whose digits are the same on both sides."""
    digits = [tuple(sorted(re.findall(r"\d+", text)) for text in line[:2]) for line in lines]
    pairs = [pair for pair in digits if pair[0] or pair[1]]
    return sum(ours == theirs for ours, theirs in pairs) / max(len(pairs), 1)


def write(output: Path, pair: str, found: Sequence[tuple[str, Line]]) -> None:
    """Write the lines and their documents."""
    output.mkdir(parents=True, exist_ok=True)
    for place, ending in enumerate((*pair.split("-"), "documents")):
        text = "".join(f"{line[place]}\n" for _, line in found)
        (output / f"text.{ending}").write_text(text, encoding="utf-8")


def facts_of(found: Sequence[tuple[str, Line]], files: PairFiles) -> dict[str, object]:
    """Return the numbers of the corpus."""
    lines = [line for _, line in found]
    words = Counter(length_class(len(line.source.split())) for line in lines)
    return {
        "pairs": len(lines),
        "pairs of manuals": dict(Counter(manual for manual, _ in found)),
        "documents": len({line.document for line in lines}),
        "English words": sum(len(line.source.split()) for line in lines),
        "share of pairs with digits whose digits agree": round(digits_agree(lines), 4),
        "pairs by English words, 1-5, 6-10, ...": [words[place] for place in range(max(words) + 1)],
        "pairs by English subwords, 1-5, 6-10, ...": [
            sum(counts) for counts in zip(*files.classes.values(), strict=True)
        ],
        "subwords": len(files.bpe),
        "pairs of splits": files.pairs,
        "left out": files.dropped,
        "near-duplicates across splits": files.crossing,
        "the same with pairs drawn at random": files.crossing_at_random,
    }


def fetch(
    output: Path, pair: str, *, pages: Path | None = None, quick: bool = False
) -> tuple[list[tuple[str, Line]], dict[str, Any]]:
    """Write the sentences of the manuals; return them and which packages they are from.

    Parameters
    ----------
    pages : Path, optional
        Folder of packages that have been unpacked; they are downloaded by default.
    quick : bool
        Take pages of an example instead.
    """
    language = pair.split("-")[1]
    with tempfile.TemporaryDirectory() as scratch:
        folder, origin = pages or Path(scratch), {}
        if quick:
            example(folder := Path(scratch), language)
        elif not pages:
            origin = download(folder, packages(language))
        found = list(lines_of_manuals(folder, language))
        if not found:
            raise SystemExit(f"error: no page of the manuals in two languages in {folder}")
        write(output, pair, found)
    return found, origin


def main() -> None:
    """Fetch, align, write, report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--pair", choices=PAIRS, default=PAIRS[0])
    parser.add_argument("--output", type=Path, default=Path("bitext"))
    parser.add_argument("--pages", type=Path, help="folder of unpacked packages")
    parser.add_argument("--quick", action="store_true", help="pages of an example")
    options = parser.parse_args()
    found, origin = fetch(options.output, options.pair, pages=options.pages, quick=options.quick)
    size = 100 if options.quick else VOCABULARY
    with tempfile.TemporaryDirectory() as scratch:
        files = read_bitext(options.output, pair=options.pair, size=size, folder=Path(scratch))
    facts = facts_of(found, files)
    text = json.dumps({"packages": origin, **facts}, indent=2) + "\n"
    (options.output / "origin.json").write_text(text, encoding="utf-8")
    print("\n".join(f"{name}: {value}" for name, value in facts.items() if name != "left out"))
    print(files.table())


if __name__ == "__main__":
    main()
