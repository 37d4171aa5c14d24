"""Folders of images, and from an image file to the numbers that a network reads.

No framework is needed here, only pillow.
"""

import hashlib
import json
import math
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

try:
    from PIL import Image, ImageOps
except ImportError as missing:
    raise ImportError(
        f"reading images needs pillow ({missing}): pip install 'fourierkernels[heads]'"
    ) from missing

from fourierkernels.validation import check_choice, check_integer, check_number

# Name of the format, as pillow is allowed to try it, by suffix. Formats that call other programs
# (PostScript) or hold no pixels are not here.
FORMATS = {
    ".bmp": "BMP",
    ".gif": "GIF",
    ".jpeg": "JPEG",
    ".jpg": "JPEG",
    ".pgm": "PPM",
    ".png": "PNG",
    ".ppm": "PPM",
    ".tif": "TIFF",
    ".tiff": "TIFF",
    ".webp": "WEBP",
}
MODES = {1: "L", 3: "RGB"}
MOST_PIXELS = 2**26  # 200 MB as RGB; a small file may unpack to much more
MOST_SIDE = 4096  # of an image that a network reads
_TOO_DEEP = ("I", "F")  # 16 and 32 bits: pillow would cut them off at 255


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
    """Return the images of a folder and of the folders in it, known by their suffix.

    The head of every file is read here; pixels are when a network reads them.

    Parameters
    ----------
    folder : str or Path
        Suffixes are the keys of :data:`FORMATS`, in small or capital letters.

    Raises
    ------
    ValueError
        If there is no such folder, no image in it, or a file that is no image or has more than
        :data:`MOST_PIXELS`.
    """
    path = Path(folder)
    if not path.is_dir():
        raise ValueError(f"image folder must exist, got {folder}")
    files = tuple(
        file
        for file in sorted(path.rglob("*"))
        if file.suffix.lower() in FORMATS and file.is_file() and not file.name.startswith(".")
    )
    if not files:
        raise ValueError(f"image folder must hold images ({', '.join(FORMATS)}), got none: {path}")
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as content:
            digest.update(hashlib.file_digest(content, "sha256").digest())
        with _opened(file):
            pass  # its head is read
    return ImageFolder(path, files, digest.hexdigest())


@contextmanager
def _opened(file: Path) -> Iterator[Image.Image]:
    """Open an image file; whatever goes wrong with it, also in the block, is one ValueError."""
    try:
        kind = FORMATS[check_choice("suffix", file.suffix.lower(), list(FORMATS))]
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(file, formats=[kind]) as image:
                width, height = image.size
                if width * height > MOST_PIXELS:
                    raise ValueError(f"it has {width} x {height} pixels")
                if image.mode.startswith(_TOO_DEEP):
                    raise ValueError(f"it has more than 8 bits a channel (mode {image.mode})")
                yield image
    except Exception as error:
        reason = (str(error) or type(error).__name__).split("\n")[0]
        raise ValueError(
            f"images must be whole files of at most {MOST_PIXELS} pixels, got {file}: {reason}"
        ) from error


@dataclass(frozen=True)
class Preprocessing:
    """What is done to an image before a network reads it.

    In this order: turned as its camera says, converted, resized, cropped around its middle,
    multiplied by `factor`, normalised.

    Attributes
    ----------
    channels : int
        1 for grey, 3 for colours.
    size : (int, int), int or None
        Height and width to resize to, or the length of the shorter side, the ratio being kept.
    resample : int
        Number of pillow's filter.
    crop : (int, int) or None
        Height and width; black around images that are smaller.
    mean, std : tuple of float
        Of each channel, or one for all.
    """

    channels: int
    size: tuple[int, int] | int | None
    resample: int = Image.Resampling.BILINEAR
    crop: tuple[int, int] | None = None
    factor: float = 1 / 255
    mean: tuple[float, ...] = (0.5,)
    std: tuple[float, ...] = (0.5,)

    def __call__(self, file: Path) -> NDArray[np.float32]:
        """Return the pixels ``(channels, height, width)`` of a file.

        Raises
        ------
        ValueError
            If it is no whole image file.
        """
        with _opened(file) as image:
            pixels = np.asarray(self._shaped(image), dtype=np.float64) * self.factor
        normed = (pixels.reshape(*pixels.shape[:2], self.channels) - self.mean) / self.std
        return np.ascontiguousarray(normed.transpose(2, 0, 1), dtype=np.float32)

    def _shaped(self, image: Image.Image) -> Image.Image:
        turned = ImageOps.exif_transpose(image).convert(MODES[self.channels])
        if self.size is not None:
            height, width = _resized(turned.height, turned.width, self.size)
            turned = turned.resize((width, height), Image.Resampling(self.resample))
        if self.crop is not None:
            height, width = self.crop
            top, left = (turned.height - height) // 2, (turned.width - width) // 2
            turned = turned.crop((left, top, left + width, top + height))
        return turned


def _resized(height: int, width: int, size: tuple[int, int] | int) -> tuple[int, int]:
    if not isinstance(size, int):
        return size
    short, long = sorted((height, width))
    long = int(size * long / short)
    return (long, size) if height > width else (size, long)


def read_preprocessing(
    folder: Path | None, *, height: int, width: int, channels: int
) -> Preprocessing:
    """Return what a folder says is to be done to images, in its preprocessor_config.json.

    Without that file, and for what it leaves open: the images are resized to the size that the
    network reads, bilinearly, divided by 255 and normalised by mean 0.5 and standard deviation
    0.5, as ViT does.

    Parameters
    ----------
    folder : Path or None
        None for the defaults.
    height, width : int
        What the network reads.

    Raises
    ------
    ValueError
        If the file is no such configuration, or leads to another size.
    """
    if channels not in MODES:
        raise ValueError(f"channels must be 1 or 3 to read images, got {channels}")
    default = Preprocessing(channels, (height, width))
    file = None if folder is None else folder / "preprocessor_config.json"
    if file is None or not file.is_file():
        return default
    try:
        rules = json.loads(file.read_text(encoding="utf-8"))
        chosen = _from_rules(rules, default)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ValueError(f"{file.name} must say how images are read, got {error!r}") from error
    found = chosen.crop or chosen.size
    if found not in {(height, width), None}:  # None: each image must have the size itself
        raise ValueError(
            f"{file.name} must lead to images of {height} x {width}, which the network reads, "
            f"got {found}"
        )
    return chosen


def _from_rules(rules: Mapping[str, Any], default: Preprocessing) -> Preprocessing:
    """Read the names that the image processors of transformers write."""
    kind = str(rules.get("image_processor_type") or rules.get("feature_extractor_type") or "")
    size, crop = rules.get("size", default.size), rules.get("crop_size")
    normalises, channels = rules.get("do_normalize", True), default.channels
    return Preprocessing(
        channels,
        size=_size(size, square=not kind.startswith("CLIP"))
        if rules.get("do_resize", True)
        else None,
        resample=Image.Resampling(rules.get("resample", default.resample)),
        crop=_pair(crop) if rules.get("do_center_crop") else None,
        factor=_factor(rules, default.factor) if rules.get("do_rescale", True) else 1.0,
        mean=_numbers("image_mean", rules, default.mean, channels) if normalises else (0.0,),
        std=_numbers("image_std", rules, default.std, channels) if normalises else (1.0,),
    )


def _size(size: Any, *, square: bool) -> tuple[int, int] | int:
    """Old files have one number, which meant the shorter side for CLIP and both for others."""
    if isinstance(size, Mapping) and "shortest_edge" in size:
        return _side(size["shortest_edge"])
    return _pair(size) if square or not isinstance(size, int) else _side(size)


def _pair(size: Any) -> tuple[int, int]:
    if isinstance(size, Mapping):
        size = (size["height"], size["width"])
    height, width = (size, size) if isinstance(size, int) else size
    return _side(height), _side(width)


def _side(length: Any) -> int:
    if check_integer("size", length) > MOST_SIDE:
        raise ValueError(f"size must be at most {MOST_SIDE}, got {length}")
    return int(length)


def _factor(rules: Mapping[str, Any], default: float) -> float:
    return check_number("rescale_factor", rules.get("rescale_factor", default), above=0.0)


def _numbers(
    name: str, rules: Mapping[str, Any], default: tuple[float, ...], channels: int
) -> tuple[float, ...]:
    given = rules.get(name, default)
    least = 0.0 if name == "image_std" else -math.inf
    numbers = tuple(check_number(name, number, above=least) for number in given)
    if len(numbers) not in {1, channels}:
        raise ValueError(f"{name} must be of {channels} channels, got {len(numbers)}")
    return numbers
