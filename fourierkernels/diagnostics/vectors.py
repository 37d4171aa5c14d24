"""Maps, queries, keys, values and outputs of a checkpoint, window by window."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from fourierkernels.diagnostics.capture import Checkpoint, sorted_batches, token_batch
from fourierkernels.diagnostics.recording import AttentionCall, attention_calls

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class WindowHeads:
    """All that the heads of a checkpoint compute on window number `index`, in float64.

    Attributes
    ----------
    maps : ndarray, shape (L, H, n, n)
    queries, keys, values, outputs : ndarray, shape (L, H, n, d)
        Outputs before the output projection.
    projected : ndarray, shape (L, H, n, E), or None
        Outputs after it; None if what reads the heads is not a linear layer.
    scale : float
        What multiplies q·k in the first layer.
    """

    index: int
    maps: FloatArray
    queries: FloatArray
    keys: FloatArray
    values: FloatArray
    outputs: FloatArray
    projected: FloatArray | None
    scale: float


def head_vectors(
    checkpoint: Checkpoint, windows: Iterable[list[int]], *, batch_size: int = 16
) -> Iterator[WindowHeads]:
    """Yield what the heads compute on each window of token ids, padding cut away.

    One batch is held at a time. Windows come out of order, as in
    :func:`~fourierkernels.diagnostics.capture.attention_maps`.

    Parameters
    ----------
    checkpoint : Checkpoint
        What :func:`~fourierkernels.diagnostics.capture.load_checkpoint` returned.
    windows : iterable of list of int
        Token ids; read lazily.

    Raises
    ------
    ValueError
        If the network has no attention, or layers of different shapes.
    """
    for batch in sorted_batches(windows, batch_size):
        ids, mask = token_batch(checkpoint, [window for _, window in batch])
        calls = attention_calls(checkpoint.model, input_ids=ids, attention_mask=mask)
        _check_one_shape(checkpoint, calls)
        for row, (index, window) in enumerate(batch):
            yield _window(index, calls, row, len(window))


def _check_one_shape(checkpoint: Checkpoint, calls: list[AttentionCall]) -> None:
    shapes = {tuple(call.maps.shape[1:]) + tuple(call.outputs.shape[3:]) for call in calls}
    if len(shapes) > 1:
        raise ValueError(
            "checkpoint must have layers of one shape (heads, n, n, features), "
            f"got {sorted(shapes)} in {type(checkpoint.model).__name__}"
        )


def _window(index: int, calls: list[AttentionCall], row: int, n: int) -> WindowHeads:
    layers = [call.cut(row, n, n) for call in calls]
    arrays = {name: _stacked([layer[name] for layer in layers])
              for name in ("maps", "queries", "keys", "values", "outputs")}  # fmt: skip
    whole = all("projected" in layer for layer in layers)
    projected = _stacked([layer["projected"] for layer in layers]) if whole else None
    return WindowHeads(index, **arrays, projected=projected, scale=calls[0].scale)


def _stacked(layers: list[torch.Tensor]) -> FloatArray:
    return torch.stack(layers).to(torch.float64).numpy()
