"""TMX, the exchange format of translation memories, read as a stream.

Entities cannot be declared: a file that expands to many times its size, or reads other files,
declares some, and no translation memory does. The external document type that TMX files name is
not fetched.
"""

import gzip
import zlib
from collections import Counter, deque
from collections.abc import Iterator
from pathlib import Path
from xml.parsers import expat

from fourierkernels.studies.texts.source import open_bytes
from fourierkernels.studies.translation.pairs import (
    LONGEST_LINE,
    WHOLE,
    Pair,
    PairSource,
    source_of_sides,
)

INCOMPLETE = "a unit without a text in both languages"
_CODES = frozenset({"bpt", "ept", "it", "ph", "ut", "sub"})  # formatting inside a text, not text
_CHUNK = 1 << 16


def has_tmx(folder: Path) -> bool:
    """Return whether a folder has translation memories."""
    return bool(_files(folder))


def open_tmx(folder: Path, pair: tuple[str, str] | None) -> PairSource:
    """Return the texts of all files .tmx and .tmx.gz of a folder, which are split here.

    Raises
    ------
    ValueError
        If no languages are named.
    """
    if pair is None:
        raise ValueError(
            f"pair must be named for {folder} of TMX, for instance --pair en-it, got none"
        )
    files = _files(folder)
    facts = source_of_sides(
        folder.resolve().name, pair, {WHOLE: [(path, path) for path in files]}, "tmx"
    )

    def pairs(split: str, dropped: Counter[str]) -> Iterator[Pair]:
        for path in files:
            yield from units(path, pair, dropped)

    return PairSource(*facts, pairs)


def units(path: Path, languages: tuple[str, str], dropped: Counter[str]) -> Iterator[Pair]:
    """Yield the translation units of a file that have both languages.

    ``en`` stands for ``EN-GB``, too.

    Raises
    ------
    ValueError
        If the file is no well-formed XML, declares entities, or has no <tmx>.
    """
    reader = _Reader(languages)
    with open_bytes(path) as content:
        try:
            while chunk := content.read(_CHUNK):
                reader.parser.Parse(chunk, False)
                yield from reader.take(dropped)
            reader.parser.Parse(b"", True)
        except (expat.ExpatError, LookupError, gzip.BadGzipFile, zlib.error, EOFError) as error:
            raise ValueError(f"{path} must be well-formed XML, got {error}") from error
        except _RefusedError as error:
            raise ValueError(f"{path} must {error}") from None
    yield from reader.take(dropped)


class _RefusedError(Exception):
    """What a file must be, and what was got."""


class _Reader:
    """Collects the texts of the units that the parser comes upon."""

    def __init__(self, languages: tuple[str, str]) -> None:
        self._languages = languages
        self._done: deque[dict[str, str]] = deque()
        self._unit: dict[str, str] = {}
        self._language, self._text, self._size = "", [""], 0
        self._depth, self._inside, self._codes = 0, False, 0
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._begin
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._add
        self.parser.EntityDeclHandler = self._refuse

    def take(self, dropped: Counter[str]) -> Iterator[Pair]:
        """Yield the units that are complete."""
        while self._done:
            unit = self._done.popleft()
            if all(language in unit for language in self._languages):
                yield Pair(*(unit[language] for language in self._languages))
            else:
                dropped[INCOMPLETE] += 1

    def _refuse(self, name: str, *declaration: object) -> None:
        line = self.parser.CurrentLineNumber
        raise _RefusedError(f"declare no entities, got {name[:40]!r} in line {line}")

    def _begin(self, tag: str, attributes: dict[str, str]) -> None:
        if self._depth == 0 and tag != "tmx":
            raise _RefusedError(f"be TMX, whose first element is tmx, got {tag[:40]!r}")
        self._depth += 1
        if tag == "tu":
            self._unit = {}
        elif tag == "tuv":
            self._language = self._known(attributes.get("xml:lang") or attributes.get("lang", ""))
        elif tag == "seg":
            self._text, self._size, self._inside = [], 0, True
        self._codes += tag in _CODES

    def _end(self, tag: str) -> None:
        self._depth -= 1
        self._codes -= tag in _CODES
        if tag == "seg":
            self._inside = False
            self._unit.setdefault(self._language, " ".join("".join(self._text).split()))
        elif tag == "tu":
            self._done.append(self._unit)

    def _add(self, text: str) -> None:
        if self._inside and not self._codes and self._size <= LONGEST_LINE:
            self._text.append(text[: 2 * LONGEST_LINE])
            self._size += len(text)

    def _known(self, language: str) -> str:
        """Return the language of ours that a code stands for; the code itself if none."""
        short = language.lower().replace("_", "-")
        for known in self._languages:
            if short == known.lower() or short.split("-")[0] == known.lower():
                return known
        return short


def _files(folder: Path) -> list[Path]:
    return sorted([*folder.glob("*.tmx"), *folder.glob("*.tmx.gz")])
