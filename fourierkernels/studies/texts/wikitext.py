"""WikiText as it is distributed: one file of tokens per split, words separated by blanks.

As in the published code (``src/data_utils.py`` and ``src/utils/vocabulary.py`` of
https://github.com/IDSIA/lmtool-fwp): the vocabulary is that of the training text alone, ``<eos>``
ends every line, empty ones included, and nothing is put into lower case.
"""

from pathlib import Path

from fourierkernels.studies.texts.source import Source, source_of_files
from fourierkernels.studies.texts.token_files import SPLITS


def is_wikitext(folder: Path, name: str) -> bool:
    """Return whether a folder, or the one of that name in it, has files of tokens.

    A folder of another name counts as WikiText-103.
    """
    if (folder / name).is_dir():
        return _has_tokens(folder / name)
    other = folder.resolve().name.startswith("wikitext-") and folder.resolve().name != name
    return _has_tokens(folder) and not other


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
    inside = [path for path in sorted(folder.glob("wikitext-*")) if path.is_dir()]
    home = folder if _has_tokens(folder) else inside[0]
    files = {split: home / f"wiki.{split}.tokens" for split in SPLITS}
    missing = [path.name for path in files.values() if not path.is_file()]
    if missing:
        raise ValueError(f"{home} must have {', '.join(missing)}, got {_names(home)}")
    empty = [path.name for path in files.values() if path.stat().st_size == 0]
    if empty:
        raise ValueError(f"{empty[0]} must have text, got an empty file in {home}")
    return home, {split: [path] for split, path in files.items()}


def _has_tokens(folder: Path) -> bool:
    return any((folder / f"wiki.{split}.tokens").exists() for split in SPLITS)


def _names(folder: Path) -> str:
    return ", ".join(sorted(path.name for path in folder.iterdir())[:5])
