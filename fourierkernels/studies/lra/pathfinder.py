"""Pathfinder: whether two dots are ends of one dashed contour, among others that distract.

Files lie as ``lra_benchmarks/data/pathfinder.py`` of
https://github.com/google-research/long-range-arena reads them: lines of the text files
``metadata/*.npy`` name the folder and the file of an image, and in the fourth column its class.
The images of Path-X are larger, 128 × 128 pixels.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fourierkernels.studies.lra.examples import (
    BYTE_TOKENS,
    ArenaData,
    ArenaSplit,
    Tokens,
    check_splits,
)
from fourierkernels.studies.lra.pixels import pixel_tokens

HARD = "curv_contour_length_14"  # the published difficulty
CLASSES = ("apart", "connected")
_SHARES = (0.8, 0.9)  # of the examples, where validation and test begin, as published
_SEED = 0  # of the order in which examples are split
_MOST_TEXT = 2**26  # bytes of a file of metadata
_PICKLED = b"\x93NUMPY"


def has_pathfinder(folder: Path) -> bool:
    """Return whether a folder, or its folder of the hard images, has metadata of Pathfinder."""
    return any(next(place.glob("metadata/*.npy"), None) for place in (folder, folder / HARD))


def open_pathfinder(folder: Path) -> ArenaData:
    """Return the images, four fifths to train on and a tenth for each of the others.

    Images whose files are empty are left out, as in the published code.

    Raises
    ------
    ValueError
        If metadata are damaged, an image is missing, or there are no examples; when it is opened,
        if an image is broken or has another size than the first.
    ImportError
        If pillow is missing.
    """
    from fourierkernels.foundation.image_files import open_image

    place = folder if next(folder.glob("metadata/*.npy"), None) else folder / HARD
    listed = [row for file in sorted(place.glob("metadata/*.npy")) for row in _rows(file)]
    sizes = [_size(place / name) for name, _ in listed]
    kept = [row for row, size in zip(listed, sizes, strict=True) if size]
    order = np.random.default_rng(_SEED).permutation(len(kept))
    first, second = (int(share * len(kept)) for share in _SHARES)
    parts = zip(("train", "valid", "test"), np.split(order, [first, second]), strict=True)
    if not kept:
        raise ValueError(f"data must have images, got none in {place}")
    with open_image(place / kept[0][0], formats=("PNG",)) as image:
        side = image.height
    splits = {name: _split(place, kept, own, side) for name, own in parts}
    check_splits(folder, splits)
    digest = hashlib.sha256(f"pathfinder 1 {_SEED}".encode())
    for (name, label), size in zip(listed, sizes, strict=True):
        digest.update(f"{name} {label} {size}\n".encode())
    return ArenaData(
        "pathfinder",
        "pathfinder",
        str(folder),
        digest.hexdigest(),
        CLASSES,
        BYTE_TOKENS,
        splits,
        side=side,
        left_out=len(listed) - len(kept),
    )


def _rows(file: Path) -> list[tuple[str, int]]:
    """Return the images that a file of metadata names, with their classes."""
    with file.open("rb") as content:
        text = content.read(_MOST_TEXT + 1)
    if text.startswith(_PICKLED) or len(text) > _MOST_TEXT:
        raise ValueError(f"{file} must be lines of text of at most {_MOST_TEXT} bytes, got others")
    rows = []
    for number, line in enumerate(text.decode("ascii", errors="replace").splitlines(), start=1):
        columns = line.split()
        inside = len(columns) > 3 and not {"..", ""} & set(f"{columns[0]}/{columns[1]}".split("/"))
        if not inside or columns[3] not in {"0", "1"}:
            raise ValueError(
                f"line {number} of {file} must have a folder, a file inside it, a number and the "
                f"class 0 or 1, got {line[:60]!r}"
            )
        rows.append((f"{columns[0]}/{columns[1]}", int(columns[3])))
    return rows


def _size(file: Path) -> int:
    if not file.is_file():
        raise ValueError(f"data must have the images that metadata name, got no {file}")
    return file.stat().st_size


def _split(
    folder: Path, rows: list[tuple[str, int]], places: NDArray[np.int64], side: int
) -> ArenaSplit:
    names = [rows[place][0] for place in places]
    labels = np.array([rows[place][1] for place in places], dtype=np.int64)
    lengths = np.full(len(places), side**2, dtype=np.int64)
    return ArenaSplit(labels, lengths, _reader(folder, names, side))


def _reader(folder: Path, names: list[str], side: int) -> Callable[[int], tuple[Tokens, ...]]:
    from fourierkernels.foundation.image_files import open_image

    def opened(place: int) -> tuple[Tokens, ...]:
        file = folder / names[place]
        with open_image(file, formats=("PNG",)) as image:
            if image.size != (side, side):
                raise ValueError(
                    f"it has {image.width} x {image.height} pixels, not {side} x {side}"
                )
            return (pixel_tokens(np.asarray(image.convert("L"), dtype=np.uint8)),)

    return opened
