"""Where the tokenizer of a checkpoint lies: named, in its folder, or one folder up."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from fourierkernels.checkpoints.find import CheckpointFiles
from fourierkernels.checkpoints.tokens import SPLITTERS

TOKENIZER_FILES = (
    "tokenizer.json",
    "vocab.txt",
    "vocab.json",
    "tokenizer.model",
    "spiece.model",
    "sentencepiece.bpe.model",
)
LISTS = ("vocab.txt", "vocab.json")
# Suffix of a file that is named -> what transformers calls such files.
_CALLED = {
    ".json": ("tokenizer.json",),
    ".txt": ("vocab.txt",),
    ".model": ("tokenizer.model", "spiece.model", "sentencepiece.bpe.model"),
}
_SETTINGS = "tokenizer_config.json"
_WITHOUT_FILES = ("ByT5Tokenizer", "CanineTokenizer", "PerceiverTokenizer")  # bytes, characters
_COMPANIONS = (
    _SETTINGS,
    "special_tokens_map.json",
    "added_tokens.json",
    "merges.txt",
)


@dataclass(frozen=True)
class TokenizerPlace:
    """A folder or file, and the note that it needs.

    Attributes
    ----------
    note : str
        Empty for what was named, and for the folder of a checkpoint.
    """

    path: Path
    note: str = ""


def check_tokenizer(path: str | Path) -> Path:
    """Return the folder or file of a tokenizer that was named.

    Raises
    ------
    ValueError
        If there is no such folder or file, or it holds no tokenizer.
    """
    place = Path(path)
    if place.is_dir():
        if not (holds(place) or _needs_no_files(place)):
            raise ValueError(
                f"tokenizer must be a folder with one of {', '.join(TOKENIZER_FILES)}, got {path}"
            )
    elif not place.is_file() or place.suffix not in _CALLED:
        raise ValueError(
            f"tokenizer must be an existing folder or a {', '.join(_CALLED)} file, got {path}"
        )
    return place


def find_tokenizer(files: CheckpointFiles | None, named: Path | None) -> TokenizerPlace:
    """Return where a tokenizer of transformers lies.

    Parameters
    ----------
    named : Path or None
        What :func:`check_tokenizer` returned.

    Raises
    ------
    ValueError
        If there is none, neither in the folder of the checkpoint nor one folder up.
    """
    if named is None and files is not None and files.folder and _needs_no_files(files.folder):
        return TokenizerPlace(files.folder)
    if named is None and files is not None and files.adapter and holds(files.adapter):
        return TokenizerPlace(files.adapter)
    place = _search(files, TOKENIZER_FILES) if named is None else TokenizerPlace(named)
    if place is None:
        raise _nowhere(files)
    return place


def find_list(files: CheckpointFiles | None, named: Path | None) -> TokenizerPlace:
    """Return where a plain list of tokens lies; the file need not exist.

    Raises
    ------
    ValueError
        If there is no folder of the checkpoint's own and no list beside it.
    """
    place = _search(files, LISTS) if named is None else TokenizerPlace(named)
    if place is None:
        if files is None or files.folder is None:
            raise _nowhere(files)
        place = TokenizerPlace(files.folder)
    if place.path.is_file():
        return place
    lists = (place.path / name for name in LISTS if (place.path / name).is_file())
    return replace(place, path=next(lists, place.path / LISTS[0]))


def _nowhere(files: CheckpointFiles | None) -> ValueError:
    if files is None or files.folder is None:
        return ValueError(
            "checkpoint must lie in a folder with its tokenizer, "
            f"got {'a network' if files is None else files.name}: {tokenizer_advice()}"
        )
    return ValueError(
        f"checkpoint must hold a tokenizer ({', '.join(TOKENIZER_FILES)}), itself or one folder "
        f"up, got none in {files.folder.name}: {tokenizer_advice()}"
    )


def tokenizer_advice() -> str:
    """Return what to type where no tokenizer is found."""
    return (
        "name one (--tokenizer PATH), name a way to split "
        f"(--tokens {' or '.join(SPLITTERS)}) or give ids (--ids FILE)"
    )


@contextmanager
def as_folder(place: Path) -> Iterator[Path]:
    """Yield a folder that transformers reads a tokenizer from: itself, or one made for a file.

    Settings beside a file are those of its tokenizer if the file has one of the usual names.
    """
    if place.is_dir():
        yield place
        return
    usual = place.name in TOKENIZER_FILES
    names = (place.name,) if usual else _CALLED[place.suffix]
    with TemporaryDirectory(prefix="tokenizer-") as scratch:
        for name in names:
            shutil.copyfile(place, Path(scratch) / name)
        for name in _COMPANIONS if usual else ():
            if (place.parent / name).is_file():
                shutil.copyfile(place.parent / name, Path(scratch) / name)
        yield Path(scratch)


def _search(files: CheckpointFiles | None, names: tuple[str, ...]) -> TokenizerPlace | None:
    """Look in the folder of a checkpoint, then one folder up."""
    if files is None:
        return None
    home = files.folder or files.path.parent
    if holds(home, names):
        return TokenizerPlace(home, "" if files.folder is not None else _note(home))
    above = home.absolute().parent
    return TokenizerPlace(above, _note(above)) if holds(above, names) else None


def _note(place: Path) -> str:
    return f"tokenizer: found in {place}, not in the folder of the checkpoint"


def _needs_no_files(folder: Path) -> bool:
    """Return whether a folder's settings name a tokenizer of bytes or characters."""
    try:
        settings = json.loads((folder / _SETTINGS).read_text(encoding="utf-8"))
        return settings.get("tokenizer_class") in _WITHOUT_FILES
    except (OSError, ValueError, AttributeError, TypeError, RecursionError):
        return False  # transformers says what is wrong


def holds(folder: Path, names: tuple[str, ...] = TOKENIZER_FILES) -> bool:
    """Return whether a folder has one of these files."""
    return any((folder / name).is_file() for name in names)
