"""Folders of plain text, of three files or of many that are split here, and WikiText.

WikiText as it is distributed: one file of tokens per split, words separated by blanks, or the raw
text, in which no word is ``<unk>`` yet. Each file may be packed, with the ending .gz.

As in the published code (``src/data_utils.py`` and ``src/utils/vocabulary.py`` of
https://github.com/IDSIA/lmtool-fwp): the vocabulary is that of the training text alone, ``<eos>``
ends every line, empty ones included, and nothing is put into lower case.
"""

import hashlib
import re
from pathlib import Path

from fourierkernels.foundation.words import END, WORD
from fourierkernels.studies.texts.source import Source, source_of_files
from fourierkernels.studies.texts.token_files import SPLITS

_WORD = re.compile(WORD)
_PACKED = ".gz"
_KINDS = ("tokens", "raw")
_HELD_OUT = 20  # one file in so many is for validation, another one for the test


def words_of(line: str) -> list[str]:
    """Return the words and the punctuation marks of a line, as they are written.

    ``<eos>`` in a text is punctuation and a word, since only the end of a line may be ``<eos>``.

    Examples
    --------
    >>> words_of("Don't panic: <unk>.")
    ['Don', "'", 't', 'panic', ':', '<unk>', '.']
    """
    return _WORD.findall(line)


def has_texts(folder: Path) -> bool:
    """Return whether a folder has text files."""
    return any(folder.rglob("*.txt")) or any(folder.rglob(f"*.txt{_PACKED}"))


def open_texts(folder: Path) -> Source:
    """Return the texts of train.txt, valid.txt and test.txt, or of all .txt files, split by file.

    By file, and not by line, because neighbouring lines repeat each other. The order and the split
    follow a digest of the path of each file in the folder, and so no random numbers. A file that
    is there packed and not packed is read once.

    Raises
    ------
    ValueError
        If one of the three files is missing while another is there, or a split has no file.
    """
    files = text_files(folder)
    return source_of_files(folder.resolve().name, files, words_of, f"words {END}")


def text_files(folder: Path) -> dict[str, list[Path]]:
    """Return the files of each split, see :func:`open_texts`."""
    there = named_files(folder)
    if there and len(there) < len(SPLITS):
        missing = ", ".join(f"{split}.txt" for split in SPLITS if split not in there)
        raise ValueError(f"{folder} must have {missing} beside {next(iter(there))}.txt, got none")
    return {split: [path] for split, path in there.items()} or _split_files(folder)


def named_files(folder: Path) -> dict[str, Path]:
    """Return those of train.txt, valid.txt and test.txt that are in a folder."""
    named = {split: _plain_or_packed(folder / f"{split}.txt") for split in SPLITS}
    return {split: path for split, path in named.items() if path.is_file()}


def _plain_or_packed(path: Path) -> Path:
    """Return a file, or the packed one where there is only that."""
    packed = path.with_name(f"{path.name}{_PACKED}")
    return packed if packed.is_file() and not path.is_file() else path


def _split_files(folder: Path) -> dict[str, list[Path]]:
    packed = (path.with_suffix("") for path in folder.rglob(f"*.txt{_PACKED}"))
    found = map(_plain_or_packed, {*folder.rglob("*.txt"), *packed})
    paths = sorted(path for path in found if path.is_file())

    def key(path: Path) -> str:
        return hashlib.sha256(path.relative_to(folder).as_posix().encode()).hexdigest()

    shuffled = sorted(paths, key=key)
    held = max(len(shuffled) // _HELD_OUT, 1)
    files = {
        "train": shuffled[2 * held :],
        "valid": shuffled[:held],
        "test": shuffled[held : 2 * held],
    }
    if not files["train"]:
        raise ValueError(
            f"{folder} must have train.txt, valid.txt and test.txt, or at least three .txt files, "
            f"got {len(paths)}"
        )
    return files


def is_wikitext(folder: Path, name: str) -> bool:
    """Return whether a folder, or the one of that name in it, has files of tokens.

    A folder of another name counts as WikiText-103.
    """
    if (folder / name).is_dir():
        return _kind(folder / name) == "tokens"
    own = folder.resolve().name
    other = own.startswith("wikitext-") and not own.startswith(name)
    return _kind(folder) == "tokens" and not other


def has_wikitext(folder: Path, kind: str | None = None) -> bool:
    """Return whether a folder, or one named wikitext-… in it, has files of WikiText.

    Parameters
    ----------
    kind : {"tokens", "raw"}, optional
        Either by default.
    """
    found = _kind(_wikitext_home(folder))
    return found is not None and kind in (None, found)


def open_wikitext(folder: Path) -> Source:
    """Return the texts of a WikiText folder, or of the one in a folder.

    Raises
    ------
    ValueError
        If one of the three files is missing or empty.
    """
    home, named = wikitext_files(folder)
    return source_of_files(home.name, named, str.split, "wikitext")


def wikitext_files(folder: Path) -> tuple[Path, dict[str, list[Path]]]:
    """Return the folder that has the files of tokens, and these; see :func:`open_wikitext`."""
    home = _wikitext_home(folder)
    files = {split: _plain_or_packed(home / f"wiki.{split}.{_kind(home)}") for split in SPLITS}
    missing = [path.name for path in files.values() if not path.is_file()]
    if missing:
        raise ValueError(f"{home} must have {', '.join(missing)}, got {_names(home)}")
    empty = [path.name for path in files.values() if path.stat().st_size == 0]
    if empty:
        raise ValueError(f"{empty[0]} must have text, got an empty file in {home}")
    return home, {split: [path] for split, path in files.items()}


def _wikitext_home(folder: Path) -> Path:
    inside = [path for path in sorted(folder.glob("wikitext-*")) if path.is_dir()]
    return inside[0] if inside and _kind(folder) is None else folder


def _kind(folder: Path) -> str | None:
    """Return which files of WikiText a folder has; None if it has none."""

    def has(kind: str) -> bool:
        paths = (_plain_or_packed(folder / f"wiki.{split}.{kind}") for split in SPLITS)
        return any(path.exists() for path in paths)

    return next((kind for kind in _KINDS if has(kind)), None)


def _names(folder: Path) -> str:
    return ", ".join(sorted(path.name for path in folder.iterdir())[:5])
