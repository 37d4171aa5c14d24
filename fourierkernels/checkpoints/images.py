"""Folders of images, in the order of their paths."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fourierkernels.image_files import IMAGE_FORMATS, open_image


@dataclass(frozen=True)
class ImageFolder:
    """The image files under a folder, in the order of their paths; iterating gives the paths."""

    path: Path
    files: tuple[Path, ...]
    sha256: str

    def __iter__(self) -> Iterator[Path]:
        return iter(self.files)

    def __len__(self) -> int:
        return len(self.files)


def read_images(folder: str | Path) -> ImageFolder:
    """Return the images in a folder and its subfolders, recognised by their suffix.

    Only the header of every file is read here; pixels are read with the network.

    Parameters
    ----------
    folder : str or Path
        Suffixes are the keys of :data:`~fourierkernels.image_files.IMAGE_FORMATS`, in lower or
        upper case.

    Raises
    ------
    ValueError
        If there is no such folder or it has no image, or if a file is not an image or has more than
        :data:`~fourierkernels.image_files.MOST_PIXELS` pixels.
    """
    path = Path(folder)
    if not path.is_dir():
        raise ValueError(f"image folder must exist, got {folder}")
    files = tuple(
        file
        for file in sorted(path.rglob("*"))
        if file.suffix.lower() in IMAGE_FORMATS and file.is_file() and not file.name.startswith(".")
    )
    if not files:
        raise ValueError(
            f"image folder must hold images ({', '.join(IMAGE_FORMATS)}), got none: {path}"
        )
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as content:
            digest.update(hashlib.file_digest(content, "sha256").digest())
        with open_image(file):
            pass  # its header is read
    return ImageFolder(path, files, digest.hexdigest())
