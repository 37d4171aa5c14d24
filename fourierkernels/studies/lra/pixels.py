"""Images as sequences of their pixels, row by row.

Pathfinder: whether two dots are ends of one dashed contour, among others that distract.

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
    Labels,
    Tokens,
    check_splits,
    digest_of,
)

SIDE = 32
RECORD = 1 + 3 * SIDE**2  # label, then red, green and blue
CLASSES = (
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
)
_TRAIN = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
_TEST = "test_batch.bin"
_TRAINED = 0.9  # of the training images; the last tenth is for validation, as published
_GREY = np.array([0.2989, 0.5870, 0.1140])  # of red, green and blue in tf.image


def has_cifar(folder: Path) -> bool:
    """Return whether a folder has a batch of CIFAR-10, of whatever version."""
    stems = (*_TRAIN, _TEST)
    return any((folder / name).is_file() or (folder / name[:-4]).is_file() for name in stems)


def open_cifar(folder: Path) -> ArenaData:
    """Return the images of CIFAR-10 in grey, of its binary version or that for Python.

    The latter are pickles, of which nothing is run.

    Raises
    ------
    ValueError
        If a file is missing or cut off, or a label is not below 10.
    """
    files = [_version(folder / name) for name in (*_TRAIN, _TEST)]
    batches = [_records(file) for file in files]
    ends = np.cumsum([len(batch) for batch in batches])
    trained = int(_TRAINED * ends[-2])
    places = {
        "train": np.arange(trained),
        "valid": np.arange(trained, ends[-2]),
        "test": np.arange(ends[-2], ends[-1]),
    }
    labels = np.concatenate([batch[:, 0] for batch in batches]).astype(np.int64)
    splits = {
        name: _split(labels[place], SIDE**2, _reader(batches, ends, place))
        for name, place in places.items()
    }
    check_splits(folder, splits)
    digest = digest_of("cifar 1", files)
    return ArenaData(
        "image", "cifar10", str(folder), digest, CLASSES, BYTE_TOKENS, splits, side=SIDE
    )


def open_digit_pixels(folder: Path) -> ArenaData:
    """Return the 8 × 8 pixels of the handwritten digits; `folder` is not used."""
    from fourierkernels.studies.images.sets import open_digits  # pillow is not for all tasks

    data = open_digits(folder)

    def reader(split: str) -> Callable[[int], tuple[Tokens, ...]]:
        def opened(place: int) -> tuple[Tokens, ...]:
            return (pixel_tokens(np.asarray(data.open(split, place))),)

        return opened

    side = data.side or 0
    splits = {name: _split(labels, side**2, reader(name)) for name, labels in data.labels.items()}
    return ArenaData(
        "image", "digits", data.source, data.digest, data.vocabulary, BYTE_TOKENS, splits, side=side
    )


def pixel_tokens(image: NDArray[np.uint8]) -> Tokens:
    """Return the pixels of a grey image row by row, one more than each, for 0 is padding.

    The published code has no token of its own for padding, and so its mask leaves black pixels out.

    Examples
    --------
    >>> pixel_tokens(np.array([[0, 255]], dtype=np.uint8)).tolist()
    [1, 256]
    """
    return image.reshape(-1).astype(np.int64) + 1


def grey(colours: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return grey values ``(n,)`` of colours ``(3, n)``, as tf.image.rgb_to_grayscale rounds them.

    ``image_ops_impl.py`` of https://github.com/tensorflow/tensorflow: the weighted mean as a share
    of 255, times 255.5 (``convert_image_dtype``: "avoid rounding problems in the cast"), rounded
    down.
    """
    shares = np.tensordot(_GREY, colours.astype(np.float64), axes=1) / 255
    return np.minimum(shares * 255.5, 255).astype(np.uint8)


def _version(file: Path) -> Path:
    """Return a batch of the binary version, or that for Python where there is only that."""
    other = file.with_suffix("")
    return other if other.is_file() and not file.is_file() else file


def _records(file: Path) -> NDArray[np.uint8]:
    """Return the records of a batch, ``(n, 3073)``, which are read where they are needed."""
    if not file.suffix:
        from fourierkernels.studies.images.cifar import read_batch  # not of all tasks

        pixels, labels = read_batch(file)
        return np.hstack([labels[:, None].astype(np.uint8), pixels])
    if not file.is_file():
        raise ValueError(
            f"data must have the file {file.name} of CIFAR-10, or {file.stem} of its version for "
            f"Python, got neither in {file.parent}"
        )
    size = file.stat().st_size
    if not size or size % RECORD:
        raise ValueError(f"{file} must have whole records of {RECORD} bytes, got {size} bytes")
    records: NDArray[np.uint8] = np.memmap(file, np.uint8, mode="r").reshape(-1, RECORD)
    highest = int(records[:, 0].max())
    if highest >= len(CLASSES):
        raise ValueError(f"{file} must have labels below {len(CLASSES)}, got {highest}")
    return records


def _reader(
    batches: list[NDArray[np.uint8]], ends: NDArray[np.int64], places: NDArray[np.int64]
) -> Callable[[int], tuple[Tokens, ...]]:
    def opened(place: int) -> tuple[Tokens, ...]:
        number = int(np.searchsorted(ends, places[place], side="right"))
        record = batches[number][places[place] - ends[number]]  # counted from the end
        return (pixel_tokens(grey(record[1:].reshape(3, -1))),)

    return opened


def _split(labels: Labels, length: int, opened: Callable[[int], tuple[Tokens, ...]]) -> ArenaSplit:
    return ArenaSplit(labels, np.full(len(labels), length, dtype=np.int64), opened)


HARD = "curv_contour_length_14"  # the published difficulty
CONNECTED = ("apart", "connected")
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
    splits = {name: _png_split(place, kept, own, side) for name, own in parts}
    check_splits(folder, splits)
    digest = hashlib.sha256(f"pathfinder 1 {_SEED}".encode())
    for (name, label), size in zip(listed, sizes, strict=True):
        digest.update(f"{name} {label} {size}\n".encode())
    return ArenaData(
        "pathfinder",
        "pathfinder",
        str(folder),
        digest.hexdigest(),
        CONNECTED,
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


def _png_split(
    folder: Path, rows: list[tuple[str, int]], places: NDArray[np.int64], side: int
) -> ArenaSplit:
    names = [rows[place][0] for place in places]
    labels = np.array([rows[place][1] for place in places], dtype=np.int64)
    lengths = np.full(len(places), side**2, dtype=np.int64)
    return ArenaSplit(labels, lengths, _png_reader(folder, names, side))


def _png_reader(folder: Path, names: list[str], side: int) -> Callable[[int], tuple[Tokens, ...]]:
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
