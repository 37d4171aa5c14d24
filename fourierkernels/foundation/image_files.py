"""Safe opening of image files, and preprocessing to the array that a network reads.

No framework is needed, only pillow.
"""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from fourierkernels.foundation.extras import needed_for
from fourierkernels.foundation.validation import check_choice

with needed_for("reading images"):
    from PIL import Image, ImageOps

# Suffix -> the one format that pillow may try. Formats that call other programs (PostScript) or
# hold no pixels are left out.
IMAGE_FORMATS = {
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
MOST_PIXELS = 2**26  # 200 MB as RGB; a small file may expand to much more
Resampling = Image.Resampling  # pillow's filters
_TOO_DEEP = ("I", "F")  # 16 and 32 bits: pillow would clip them at 255


@contextmanager
def open_image(
    file: Path, *, content: IO[bytes] | None = None, formats: Sequence[str] = ()
) -> Iterator[Image.Image]:
    """Open an image file; any failure, in the block too, becomes one ValueError.

    Parameters
    ----------
    content : file, optional
        Its bytes, where they do not lie in a file of that name.
    formats : sequence of str, optional
        Formats that pillow may try; by default the one that the suffix names.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            kinds = list(formats) or [_format_of(file)]
            with Image.open(content or file, formats=kinds) as image:
                width, height = image.size
                if width * height > MOST_PIXELS:
                    raise ValueError(f"it has {width} x {height} pixels")
                if image.mode.startswith(_TOO_DEEP):
                    raise ValueError(f"it has more than 8 bits per channel (mode {image.mode})")
                yield image
    except Exception as error:
        reason = (str(error) or type(error).__name__).split("\n")[0]
        raise ValueError(
            f"images must be whole files of at most {MOST_PIXELS} pixels, got {file}: {reason}"
        ) from error


def _format_of(file: Path) -> str:
    return IMAGE_FORMATS[check_choice("suffix", file.suffix.lower(), list(IMAGE_FORMATS))]


@dataclass(frozen=True)
class Preprocessing:
    """Preprocessing of an image before a network reads it.

    The steps, in order: rotate by the camera's orientation, convert to channels, resize, crop
    around the centre, multiply by `factor`, normalise.

    Attributes
    ----------
    channels : int
        1 for grey, 3 for colour.
    size : (int, int), int or None
        Height and width to resize to, or the length of the shorter side, keeping the ratio.
    resample : int
        Number of the filter of pillow.
    crop : (int, int) or None
        Height and width; smaller images get a black border.
    mean, std : tuple of float
        One per channel, or one for all.
    """

    channels: int
    size: tuple[int, int] | int | None
    resample: int = Resampling.BILINEAR
    crop: tuple[int, int] | None = None
    factor: float = 1 / 255
    mean: tuple[float, ...] = (0.5,)
    std: tuple[float, ...] = (0.5,)

    def __call__(self, file: Path) -> NDArray[np.float32]:
        """Return the pixels ``(channels, height, width)`` of a file.

        Raises
        ------
        ValueError
            If the file is not a complete image.
        """
        with open_image(file) as image:
            return self.normalised(self.shaped(image))

    def normalised(self, image: Image.Image) -> NDArray[np.float32]:
        """Return the pixels ``(channels, height, width)`` of an image of those channels."""
        pixels = np.asarray(image, dtype=np.float64) * self.factor
        normed = (pixels.reshape(*pixels.shape[:2], self.channels) - self.mean) / self.std
        return np.ascontiguousarray(normed.transpose(2, 0, 1), dtype=np.float32)

    def shaped(self, image: Image.Image) -> Image.Image:
        """Return the image upright, of the channels and of the size that are read."""
        turned = ImageOps.exif_transpose(image).convert(MODES[self.channels])
        if self.size is not None:
            height, width = _resized(turned.height, turned.width, self.size)
            turned = turned.resize((width, height), Resampling(self.resample))
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
