"""The layout of WMT: ``CORPUS.SRC-TGT.SRC`` beside ``CORPUS.SRC-TGT.TGT``, test sets in .sgm files.

Of the test sets the last by name, and so by year, is the test, and the one before it validation.
"""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from fourierkernels.studies.translation.lines import (
    aligned,
    find,
    pairs_of_segments,
    with_documents,
)
from fourierkernels.studies.translation.pairs import (
    WHOLE,
    Pair,
    PairSource,
    Sides,
    source_of_sides,
    split_names,
)

_CORPUS = re.compile(r"(?P<stem>.+\.(?P<one>[a-z]{2})-(?P<two>[a-z]{2}))\.([a-z]{2})(\.gz)?")
_TEST = re.compile(r"(?P<set>.+?)(?:-(?P<role>src|ref))?\.(?P<language>[a-z]{2})\.sgm")


def is_wmt(folder: Path) -> bool:
    """Return whether a folder, or one in it, has texts named as those of WMT."""
    return bool(_corpora(folder))


def open_wmt(folder: Path, pair: tuple[str, str] | None) -> PairSource:
    """Return the texts of all corpora of a pair of languages, and the two last test sets.

    Without test sets the corpora are split here.

    Raises
    ------
    ValueError
        If a side is missing, there is one test set only, or more languages and none is named.
    """
    corpora = _corpora(folder)
    languages = pair or _only_pair(folder, corpora)
    stems = {
        stem: place for stem, (place, known) in corpora.items() if known == tuple(sorted(languages))
    }
    if not stems:
        raise ValueError(
            f"pair must be one of {', '.join(_pairs(corpora))} for {folder}, "
            f"got {'-'.join(languages)}"
        )
    trains = [
        (find(place, stem, languages[0]), find(place, stem, languages[1]))
        for stem, place in sorted(stems.items())
    ]
    tests = _tests(folder, languages)
    files = {WHOLE: trains} if not tests else {"train": trains, "valid": tests[-2:-1]}
    files |= {"test": tests[-1:]} if tests else {}
    facts = source_of_sides(folder.resolve().name, languages, with_documents(files), "wmt")

    def pairs(split: str, dropped: Counter[str]) -> Iterator[Pair]:
        read = pairs_of_segments if split in ("valid", "test") else aligned
        for sides in files[split]:
            yield from read(sides)

    return PairSource(*facts, pairs, split_names(files))


def _corpora(folder: Path) -> dict[str, tuple[Path, tuple[str, ...]]]:
    """Return the folder and the languages of each corpus, by the beginning of its name."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = _CORPUS.fullmatch(path.name)
        if name and path.is_file() and not path.name.startswith("train.tags."):
            found[name["stem"]] = path.parent, tuple(sorted((name["one"], name["two"])))
    return found


def _pairs(corpora: dict[str, tuple[Path, tuple[str, ...]]]) -> list[str]:
    return sorted({"-".join(languages) for _, languages in corpora.values()})


def _only_pair(folder: Path, corpora: dict[str, tuple[Path, tuple[str, ...]]]) -> tuple[str, str]:
    pairs = _pairs(corpora)
    if len(pairs) != 1:
        raise ValueError(f"pair must be named for {folder}: it has {', '.join(pairs)}")
    one, two = pairs[0].split("-")
    return one, two


def _tests(folder: Path, languages: tuple[str, str]) -> list[Sides]:
    """Return the test sets that have both sides, by name."""
    found: dict[str, dict[tuple[str, str], Path]] = {}
    for path in sorted(folder.rglob("*.sgm")):
        if name := _TEST.fullmatch(path.name):
            found.setdefault(name["set"], {})[name["language"], name["role"] or ""] = path
    tests = [sides for _, files in sorted(found.items()) if (sides := _sides(files, languages))]
    if len(tests) == 1:
        raise ValueError(
            f"{folder} must have two test sets of {'-'.join(languages)} or none, "
            f"got {tests[0][0].name} alone"
        )
    return tests


def _sides(files: dict[tuple[str, str], Path], languages: tuple[str, str]) -> Sides | None:
    """Return the file that is meant as a source, and the one that is meant as a translation."""
    chosen = []
    for language, roles in zip(languages, (("src", "", "ref"), ("ref", "", "src")), strict=True):
        known = [files[language, role] for role in roles if (language, role) in files]
        chosen += known[:1]
    return (chosen[0], chosen[1]) if len(chosen) == 2 else None
