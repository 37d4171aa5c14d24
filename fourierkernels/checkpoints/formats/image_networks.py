"""Networks that read images: how a folder prescribes their preprocessing, and how they are run."""

import json
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from fourierkernels.checkpoints.checkpoint import Checkpoint
from fourierkernels.checkpoints.formats.request import must_run
from fourierkernels.checkpoints.options import Config
from fourierkernels.checkpoints.recorders.recording import recording
from fourierkernels.foundation.arrays import BoolArray, FloatArray
from fourierkernels.foundation.image_files import MODES, Preprocessing, Resampling
from fourierkernels.foundation.run_folder import PREPROCESSING
from fourierkernels.foundation.validation import check_integer, check_number

MOST_SIDE = 4096  # of an image that a network reads
_MOST_EXTRA = 16  # class, teacher and register tokens; a network with more has no plain grid


def read_preprocessing(
    folder: Path | None, *, height: int, width: int, channels: int
) -> Preprocessing:
    """Return the preprocessing that the preprocessor_config.json of a folder prescribes.

    The defaults, without that file or for what it leaves open, are those of ViT: resize bilinearly
    to the size that the network reads, divide by 255, normalise with mean 0.5 and standard
    deviation 0.5.

    Parameters
    ----------
    folder : Path or None
        None for the defaults.
    height, width : int
        Size of the images that the network reads.

    Raises
    ------
    ValueError
        If the file is not such a configuration, or leads to another size.
    """
    if channels not in MODES:
        raise ValueError(f"channels must be 1 or 3 to read images, got {channels}")
    default = Preprocessing(channels, (height, width))
    file = None if folder is None else folder / PREPROCESSING
    if file is None or not file.is_file():
        return default
    try:
        rules = json.loads(file.read_text(encoding="utf-8"))
        chosen = _from_rules(rules, default)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ValueError(f"{file.name} must say how images are read, got {error!r}") from error
    expected = chosen.crop or chosen.size
    if expected not in {(height, width), None}:  # None: each image must have the size itself
        raise ValueError(
            f"{file.name} must lead to images of {height} x {width}, which the network reads, "
            f"got {expected}"
        )
    return chosen


def _from_rules(rules: Config, default: Preprocessing) -> Preprocessing:
    """Read the entries that image processors of transformers write."""
    kind = str(rules.get("image_processor_type") or rules.get("feature_extractor_type") or "")
    size, crop = rules.get("size", default.size), rules.get("crop_size")
    normalises, channels = rules.get("do_normalize", True), default.channels
    return Preprocessing(
        channels,
        size=_size(size, square=not kind.startswith("CLIP"))
        if rules.get("do_resize", True)
        else None,
        resample=Resampling(rules.get("resample", default.resample)),
        crop=_pair(crop) if rules.get("do_center_crop") else None,
        factor=_factor(rules, default.factor) if rules.get("do_rescale", True) else 1.0,
        mean=_numbers("image_mean", rules, default.mean, channels) if normalises else (0.0,),
        std=_numbers("image_std", rules, default.std, channels) if normalises else (1.0,),
    )


def _size(size: Any, *, square: bool) -> tuple[int, int] | int:
    """Return the size; one number, in old files, is the shorter side for CLIP, else both."""
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


def _factor(rules: Config, default: float) -> float:
    return check_number("rescale_factor", rules.get("rescale_factor", default), above=0.0)


def _numbers(
    name: str, rules: Config, default: tuple[float, ...], channels: int
) -> tuple[float, ...]:
    given = rules.get(name, default)
    least = 0.0 if name == "image_std" else -math.inf
    numbers = tuple(check_number(name, number, above=least) for number in given)
    if len(numbers) not in {1, channels}:
        raise ValueError(f"{name} must be of {channels} channels, got {len(numbers)}")
    return numbers


@dataclass(frozen=True, eq=False, kw_only=True)
class ImageCheckpoint(Checkpoint):
    """A network that reads images in files, as tokens or as patches of them.

    Attributes
    ----------
    shape : (int, int, int)
        Channels, height and width.
    patch : (int, int) or None
        Height and width of a patch; None if unknown.
    tokens : int
        Number of keys of a query, which :meth:`counted` fills in, as what follows.
    grid : (int, int) or None
        Rows and columns of patches, which come after all other tokens; None if the tokens do not
        form one grid of patches.
    windowed : bool
        Whether attention is not from all tokens to all tokens in every layer.
    """

    preprocess: Preprocessing
    shape: tuple[int, int, int]
    patch: tuple[int, int] | None
    tokens: int = 0
    grid: tuple[int, int] | None = None
    windowed: bool = False

    @property
    def reads(self) -> str:
        """Paths of images."""
        return "images"

    def call(self, images: Tensor) -> Any:
        """Run the model on images ``(B, channels, height, width)``."""
        return self.model(images)

    def forward(self, batch: Sequence[Path]) -> Any:
        """Read images and run the model on them."""
        images = torch.stack([self._read(file) for file in batch])
        return self.call(images.to(next(self.model.parameters())))  # dtype and device

    def _read(self, file: Path) -> Tensor:
        pixels = torch.from_numpy(self.preprocess(file))
        if tuple(pixels.shape) != self.shape:
            raise ValueError(
                f"images must have shape {self.shape}, got {tuple(pixels.shape)}: {file}"
            )
        return pixels

    def padding_key(self, item: Any) -> Hashable:
        """Return the image itself where windows of several images could not be told apart."""
        return item if self.windowed else None

    @cached_property
    def _places(self) -> list[tuple[float, float]]:
        rows, columns = self.grid or (0, 0)
        return [(float(row), float(column)) for row in range(rows) for column in range(columns)]

    @cached_property
    def _names(self) -> tuple[str, ...]:
        if self.grid is None:
            return tuple(f"token {i}" for i in range(self.tokens))
        extra = self.tokens - len(self._places)
        marks = ("class", *(f"extra {i}" for i in range(1, extra)))[:extra]
        return (*marks, *(f"patch {int(row)},{int(column)}" for row, column in self._places))

    def labels(self, item: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the places of patches."""
        return self._names, self._names

    def special(self, item: Any) -> BoolArray | None:
        """Return the tokens before the patches."""
        if self.grid is None:
            return None
        return np.arange(self.tokens) < self.tokens - len(self._places)

    @cached_property
    def positions(self) -> FloatArray | None:
        """Row and column of each token, in patches."""
        if self.grid is None:
            return None
        rows, columns = self.grid
        extra = self.tokens - len(self._places)
        return np.array([*[((rows - 1) / 2, (columns - 1) / 2)] * extra, *self._places])

    def counted(self) -> Self:
        """Return it with its number of tokens, for which it is run once on a black image.

        In networks that attend within windows, or on several scales, it is that of the first layer.

        Raises
        ------
        ValueError
            If the network cannot be run on such images, or has no attention.
        """
        with (
            torch.inference_mode(),
            recording(self.model) as calls,
            must_run(f"network must read images of shape {self.shape}", type(self.model).__name__),
        ):
            self.call(torch.zeros(1, *self.shape).to(next(self.model.parameters())))
        kept = self.own_calls(calls)
        shapes = [(len(call.maps), *map(int, call.maps.shape[2:])) for call in kept]
        if not shapes:
            raise ValueError(f"checkpoint must have attention, {calls.nothing(self.model)}")
        n = shapes[0][-1]
        whole = set(shapes) == {(1, n, n)}
        return replace(self, tokens=n, windowed=not whole, grid=self._grid(n) if whole else None)

    def _grid(self, n: int) -> tuple[int, int] | None:
        """Return the grid of patches if all but a few of the tokens form one."""
        if self.patch is None:
            return None
        rows, columns = self.shape[1] // self.patch[0], self.shape[2] // self.patch[1]
        return (rows, columns) if 0 <= n - rows * columns <= _MOST_EXTRA else None
