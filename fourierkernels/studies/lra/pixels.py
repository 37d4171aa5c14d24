"""Images as sequences of their pixels, row by row: CIFAR-10, and scikit-learn's digits."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fourierkernels.studies.images.digits import open_digits
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
    """Return the images of the binary version of CIFAR-10, in grey.

    Raises
    ------
    ValueError
        If a file is missing, of the version for Python (a pickle, which could run code) or cut
        off, or a label is not below 10.
    """
    files = [folder / name for name in (*_TRAIN, _TEST)]
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
        name: _split(labels[own], SIDE**2, _reader(batches, ends, own))
        for name, own in places.items()
    }
    check_splits(folder, splits)
    digest = digest_of("cifar 1", files)
    return ArenaData(
        "image", "cifar10", str(folder), digest, CLASSES, BYTE_TOKENS, splits, side=SIDE
    )


def open_digit_pixels(folder: Path) -> ArenaData:
    """Return the 8 × 8 pixels of the handwritten digits; `folder` is not used."""
    data = open_digits(folder)

    def reader(split: str) -> Callable[[int], tuple[Tokens, ...]]:
        def opened(place: int) -> tuple[Tokens, ...]:
            return (pixel_tokens(np.asarray(data.open(split, place))),)

        return opened

    side = data.side or 0
    splits = {name: _split(own, side**2, reader(name)) for name, own in data.labels.items()}
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


def _records(file: Path) -> NDArray[np.uint8]:
    """Return the records of a batch, ``(n, 3073)``, which are read where they are needed."""
    if not file.is_file():
        other = file.with_suffix("")
        hint = (
            f"; {other.name} is of the version for Python, a pickle, which is not read"
            if other.is_file()
            else ""
        )
        raise ValueError(
            f"data must have the file {file.name} of CIFAR-10's binary version, "
            f"got none in {file.parent}{hint}"
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
