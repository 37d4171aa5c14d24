"""Attention maps out of a checkpoint: the only module here that knows frameworks.

A checkpoint is a folder as Hugging Face transformers saves it. It is read offline, and nothing in
it is run: no custom code, no pickled objects.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from fourierkernels.diagnostics.folders import find_checkpoint
from fourierkernels.diagnostics.networks import Checkpoint
from fourierkernels.diagnostics.own_tokens import load_tokenizer
from fourierkernels.diagnostics.pretrained import load_folder
from fourierkernels.validation import check_integer

FloatArray = NDArray[np.float64]

_BATCHES_SORTED_TOGETHER = 16  # token ids only: similar lengths meet, and little padding is needed

__all__ = [
    "Checkpoint",
    "WindowMaps",
    "attention_maps",
    "load_checkpoint",
    "load_tokenizer",
    "sorted_batches",
    "token_batch",
]


@dataclass(frozen=True, eq=False)
class WindowMaps:
    """Attention maps ``(L, H, n, n)`` of window number `index`, one layer a call of attention."""

    index: int
    maps: FloatArray


def load_checkpoint(
    checkpoint: str | Path,
    *,
    model_class: str | None = None,
    part: str | None = None,
    random_weights: bool = False,
    seed: int = 0,
) -> Checkpoint:
    """Load a checkpoint, or its architecture with random weights, in float32 on the CPU.

    Parameters
    ----------
    checkpoint : str or Path
        A folder, or ``PACKAGE:FOLDER``.
    model_class : str, optional
        Name of a model class of transformers, for a config.json without "model_type".
    part : {"encoder", "decoder", "cross"}, optional
        Of an encoder-decoder, "encoder" by default; see
        :data:`~fourierkernels.diagnostics.networks.PARTS`.
    random_weights : bool
        Initialise the weights by the architecture's own rule instead of reading them.
    seed : int
        Seed of the random weights; the global random state is left as it was.

    Raises
    ------
    ValueError
        If the folder, its configuration or its weights cannot be used; weights that would have to
        run code are refused.
    """
    folder = find_checkpoint(checkpoint)
    check_integer("seed", seed, least=0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return load_folder(
            folder, str(checkpoint), model_class=model_class, part=part,
            random_weights=random_weights,
        )  # fmt: skip


def attention_maps(
    checkpoint: Checkpoint, windows: Iterable[list[int]], *, batch_size: int = 16
) -> Iterator[WindowMaps]:
    """Yield the attention maps of each window of token ids, in float64, padding cut away.

    Windows of similar length share a batch, so they come out of order. One batch of maps is held
    at a time.

    Parameters
    ----------
    checkpoint : Checkpoint
        What :func:`load_checkpoint` returned.
    windows : iterable of list of int
        Token ids; read lazily.

    Yields
    ------
    WindowMaps
        Its number in `windows`, and its maps: padded keys *and* padded queries are left out.

    Raises
    ------
    ValueError
        If the network gives no n x n attention maps, or layers with different numbers of heads.
    """
    for batch in sorted_batches(windows, batch_size):
        yield from _batch_maps(checkpoint, batch)


def sorted_batches(
    windows: Iterable[list[int]], batch_size: int
) -> Iterator[list[tuple[int, list[int]]]]:
    """Yield batches of numbered windows; those of similar length meet, and are padded little."""
    check_integer("batch_size", batch_size)
    numbered = enumerate(windows)
    while chunk := list(islice(numbered, batch_size * _BATCHES_SORTED_TOGETHER)):
        chunk.sort(key=lambda pair: len(pair[1]))
        for start in range(0, len(chunk), batch_size):
            yield chunk[start : start + batch_size]


def _batch_maps(checkpoint: Checkpoint, batch: list[tuple[int, list[int]]]) -> Iterator[WindowMaps]:
    layers = _forward(checkpoint, [ids for _, ids in batch])
    for row, (index, ids) in enumerate(batch):
        n = len(ids)
        maps = np.stack([layer[row, :, :n, :n].numpy() for layer in layers])
        yield WindowMaps(index, maps.astype(np.float64))


@torch.inference_mode()
def _forward(checkpoint: Checkpoint, batch: list[list[int]]) -> list[torch.Tensor]:
    """Return the maps of a padded batch, ``(B, H, n, n)`` for each call of attention."""
    longest = max(map(len, batch))
    ids, mask = token_batch(checkpoint, batch)
    output = checkpoint.model(input_ids=ids, attention_mask=mask, output_attentions=True)
    # A module shared by several layers (ALBERT) is there once a call; layers without attention in
    # a mixed network are None.
    layers = [maps for maps in getattr(output, "attentions", None) or () if maps is not None]
    _check_layers(checkpoint, layers, longest)
    return layers


def token_batch(
    checkpoint: Checkpoint, batch: list[list[int]]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return padded ids ``(B, n)``, and the mask that is 1 where they are not padding."""
    longest = max(map(len, batch))
    padding = getattr(checkpoint.model.config, "pad_token_id", None) or 0
    ids = torch.tensor([[*row, *[padding] * (longest - len(row))] for row in batch])
    mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in batch])
    return ids, mask


def _check_layers(checkpoint: Checkpoint, layers: list[torch.Tensor], n: int) -> None:
    name = type(checkpoint.model).__name__
    if not layers:
        raise ValueError(f"checkpoint must have attention, got none in {name}")
    shapes = {tuple(maps.shape[1:]) for maps in layers}
    if len(shapes) > 1 or next(iter(shapes))[1:] != (n, n):
        raise ValueError(
            f"checkpoint must give maps of one shape (heads, {n}, {n}) in every layer, "
            f"got {sorted(shapes)} in {name}"
        )
