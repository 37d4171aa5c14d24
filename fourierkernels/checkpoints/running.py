"""What all kinds of checkpoints share: padding, images as tensors, and errors of a network."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fourierkernels.checkpoints.checkpoint import Checkpoint, image_fields
from fourierkernels.checkpoints.find import CheckpointFiles
from fourierkernels.checkpoints.recorders.recording import recording
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


def image_checkpoint(
    model: nn.Module,
    call: Callable[[Tensor], Any],
    *,
    files: CheckpointFiles,
    preprocess: Preprocessing,
    shape: tuple[int, int, int],
    patch: tuple[int, int] | None,
) -> Checkpoint:
    """Return a checkpoint that reads images; it is run once on a black image to count tokens.

    Parameters
    ----------
    call : callable
        Runs the model on images ``(B, channels, height, width)``.
    shape : (int, int, int)
        Channels, height and width.
    patch : (int, int) or None
        Height and width of a patch; None if unknown.

    Raises
    ------
    ValueError
        If the network cannot be run on such images, or has no attention.
    """
    grid = None if patch is None else (shape[1] // patch[0], shape[2] // patch[1])
    n, whole = _count_tokens(model, call, shape)
    if not whole:
        grid = None
    if grid is not None and not 0 <= n - grid[0] * grid[1] <= _MOST_EXTRA:
        grid = None

    def run(files: Sequence[Path]) -> Any:
        images = torch.stack([_read(file, preprocess, shape) for file in files])
        return call(images.to(next(model.parameters())))  # dtype and device

    loaded = Checkpoint(
        files=files,
        model=model,
        run=run,
        selects=lambda call: not call.cross,
        **image_fields(n, grid),
    )
    # Windows of several images could not be told apart.
    return loaded if whole else replace(loaded, batch_key=lambda item: item)


def _read(file: Path, preprocess: Preprocessing, shape: tuple[int, int, int]) -> Tensor:
    pixels = torch.from_numpy(preprocess(file))
    if tuple(pixels.shape) != shape:
        raise ValueError(f"images must have shape {shape}, got {tuple(pixels.shape)}: {file}")
    return pixels


def _count_tokens(
    model: nn.Module, call: Callable[[Tensor], Any], shape: tuple[int, int, int]
) -> tuple[int, bool]:
    """Return the number of keys of a query, and whether that is all tokens in every layer.

    In networks that attend within windows, or on several scales, it is that of the first layer.
    """
    name = type(model).__name__
    with (
        torch.inference_mode(),
        recording(model) as calls,
        must_run(f"network must read images of shape {shape}", name),
    ):
        call(torch.zeros(1, *shape).to(next(model.parameters())))
    shapes = [(len(one.maps), *map(int, one.maps.shape[2:])) for one in calls if not one.cross]
    if not shapes:
        raise ValueError(f"checkpoint must have attention, {calls.nothing(model)}")
    n = shapes[0][-1]
    return n, set(shapes) == {(1, n, n)}
