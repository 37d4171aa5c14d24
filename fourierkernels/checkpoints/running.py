"""What all kinds of checkpoints share: padding, images as tensors, and errors of a network."""

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from fourierkernels.checkpoints.checkpoint import Checkpoint
from fourierkernels.checkpoints.recorders.recording import recording
from fourierkernels.foundation.arrays import BoolArray, FloatArray
from fourierkernels.foundation.image_files import Preprocessing

_MOST_EXTRA = 16  # class, teacher and register tokens; a network with more has no plain grid


def pad(batch: Sequence[Sequence[int]], padding: int) -> tuple[Tensor, Tensor]:
    """Return ids ``(B, n)`` padded at their ends, and the mask that is 1 where they are not."""
    longest = max(map(len, batch))
    ids = torch.tensor([[*row, *[padding] * (longest - len(row))] for row in batch])
    mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in batch])
    return ids, mask


def as_pair(size: Any) -> tuple[int, int]:
    """Return height and width of a size given as one number or as a pair."""
    height, width = (size, size) if isinstance(size, int) else size
    return int(height), int(width)


@contextmanager
def must_run(rule: str, name: str) -> Iterator[None]:
    """Turn any exception of a network into a ValueError that begins with the rule it breaks."""
    try:
        yield
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).split("\n")[0]
        raise ValueError(f"{rule}, but {name} fails: {reason}") from error


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
        shapes = [(len(one.maps), *map(int, one.maps.shape[2:])) for one in calls if not one.cross]
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
