"""Files of texts, one per line."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

BUNDLED = {"sentences": Path(__file__).with_name("sentences.txt")}  # sixty, in English


@dataclass(frozen=True)
class TextFile:
    """The texts of a file, one per line; iterating reads the file again, line by line.

    Attributes
    ----------
    n_skipped : int
        Empty lines, unless they are texts too.
    blank_lines : bool
        Whether they are.
    """

    path: Path
    n_texts: int
    n_skipped: int
    sha256: str
    blank_lines: bool = False

    def __iter__(self) -> Iterator[str]:
        with self.path.open(encoding="utf-8-sig", newline="\n") as lines:
            texts = map(str.strip, lines)
            yield from (text for text in texts if text or self.blank_lines)

    def __len__(self) -> int:
        return self.n_texts


def read_texts(path: str | Path, *, blank_lines: bool = False) -> TextFile:
    """Return the texts of a UTF-8 file, one per line; empty lines are skipped and counted.

    Parameters
    ----------
    path : str or Path
        A file, or where there is none of that name, one that the package brings: ``sentences``.
    blank_lines : bool
        Keep empty lines as texts. Language models read them as the end of a line.

    Raises
    ------
    ValueError
        If the file does not exist, is not UTF-8, or has no text.
    """
    file = Path(path)
    file = file if file.exists() else BUNDLED.get(str(path), file)
    if not file.is_file():
        raise ValueError(f"text file must exist, got {path}; texts themselves come in a list")
    digest, texts, skipped = hashlib.sha256(), 0, 0
    with file.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            digest.update(line)
            filled = bool(_decoded(line, file, number).strip())
            texts, skipped = texts + filled, skipped + (not filled)
    if not texts:
        raise ValueError(
            f"text file must hold at least one text, got {skipped} empty lines: {path}"
        )
    if blank_lines:
        texts, skipped = texts + skipped, 0
    return TextFile(file, texts, skipped, digest.hexdigest(), blank_lines)


def _decoded(line: bytes, file: Path, number: int) -> str:
    try:
        return line.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"text file must be UTF-8, got line {number} of {file}: {error}") from None


class Pairs:
    """Texts and their targets, line by line; iterating gives (source, target).

    Raises
    ------
    ValueError
        If the files do not have the same number of texts.
    """

    def __init__(self, sources: TextFile, targets: TextFile) -> None:
        if len(sources) != len(targets):
            raise ValueError(
                f"target must have as many texts as text, {len(sources)}, got {len(targets)}"
            )
        self._sides = sources, targets
        self.n_skipped = sources.n_skipped
        self.sha256 = hashlib.sha256((sources.sha256 + targets.sha256).encode()).hexdigest()

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return zip(*self._sides, strict=True)

    def __len__(self) -> int:
        return len(self._sides[0])
