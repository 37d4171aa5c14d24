"""Texts, images and sounds in files: what a user names as inputs, in their order."""

import hashlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

BUNDLED = {"sentences": Path(__file__).with_name("sentences.txt")}  # sixty, in English
SOUND_FORMATS = (".wav",)


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
        with self.path.open("rb") as lines:
            texts = (_decoded(line, self.path, number) for number, line in enumerate(lines, 1))
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
            filled = bool(_decoded(line, file, number))
            texts, skipped = texts + filled, skipped + (not filled)
    if not texts:
        raise ValueError(
            f"text file must hold at least one text, got {skipped} empty lines: {path}"
        )
    if blank_lines:
        texts, skipped = texts + skipped, 0
    return TextFile(file, texts, skipped, digest.hexdigest(), blank_lines)


def _decoded(line: bytes, file: Path, number: int) -> str:
    """Return the text of a line; files that were joined may have a mark of UTF-8 at any line."""
    try:
        return line.decode("utf-8-sig").strip()
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


@dataclass(frozen=True)
class FileFolder:
    """Files under a folder, in the order of their paths; iterating gives the paths."""

    path: Path
    files: tuple[Path, ...]
    sha256: str

    def __iter__(self) -> Iterator[Path]:
        return iter(self.files)

    def __len__(self) -> int:
        return len(self.files)

    @classmethod
    def of(cls, found: tuple[Path, tuple[Path, ...]]) -> Self:
        """Return a folder and its files with the digest of all their contents."""
        path, files = found
        digest = hashlib.sha256()
        for file in files:
            with file.open("rb") as content:
                digest.update(hashlib.file_digest(content, "sha256").digest())
        return cls(path, files, digest.hexdigest())


def files_under(
    what: str, folder: str | Path, suffixes: Collection[str]
) -> tuple[Path, tuple[Path, ...]]:
    """Return a folder and its files with one of the suffixes, in lower or upper case.

    Hidden files are left out.

    Parameters
    ----------
    what : str
        What a file is, for messages.

    Raises
    ------
    ValueError
        If there is no such folder, or it has no such file.
    """
    path = Path(folder)
    if not path.is_dir():
        raise ValueError(f"{what} folder must exist, got {folder}")
    files = tuple(
        file
        for file in sorted(path.rglob("*"))
        if file.suffix.lower() in suffixes and file.is_file() and not file.name.startswith(".")
    )
    if not files:
        raise ValueError(
            f"{what} folder must hold {what}s ({', '.join(suffixes)}), got none: {path}"
        )
    return path, files


class ImageFolder(FileFolder):
    """The image files under a folder, in the order of their paths; iterating gives the paths."""


def read_images(folder: str | Path) -> ImageFolder:
    """Return the images in a folder and its subfolders, recognised by their suffix.

    Only the header of every file is read here; pixels are read with the network.

    Parameters
    ----------
    folder : str or Path
        Suffixes are the keys of :data:`~fourierkernels.foundation.image_files.IMAGE_FORMATS`, in
        lower or upper case.

    Raises
    ------
    ValueError
        If there is no such folder or it has no image, or if a file is not an image or has more than
        :data:`~fourierkernels.foundation.image_files.MOST_PIXELS` pixels.
    """
    from fourierkernels.foundation.image_files import IMAGE_FORMATS, open_image  # needs Pillow

    path, files = files_under("image", folder, IMAGE_FORMATS)
    for file in files:
        with open_image(file):
            pass  # its header is read
    return ImageFolder.of((path, files))


class SoundFolder(FileFolder):
    """The WAV files under a folder, in the order of their paths; iterating gives the paths."""


def read_sounds(folder: str | Path) -> SoundFolder:
    """Return the WAV files in a folder and its subfolders.

    Their samples are read with the network.

    Raises
    ------
    ValueError
        If there is no such folder or it has no WAV file.
    """
    return SoundFolder.of(files_under("sound", folder, SOUND_FORMATS))
