"""The gradient of an additive mask on a GPU: some heads at a time, in torch summed to its shape.

A mask that heads or batches share has one gradient for all; a sum by atomic additions would differ
from run to run. The gradients of all pairs of a few heads are stored instead, and added in order.
"""

from collections.abc import Callable, Iterator

from torch import Tensor

_ENTRIES = 2**24  # of the buffer, unless the mask itself or one head is larger

Run = Callable[[int, int, Tensor], None]


def mask_gradient(mask: Tensor, shape: tuple[int, int, int, int], run: Run) -> Tensor:
    """Return the gradient of a mask in its shape.

    Parameters
    ----------
    mask : Tensor
        Four dimensions, each 1 or that of `shape`.
    shape : tuple of int
        ``(B, H, N, M)``.
    run : callable
        From the first head, counted over batches, the number of heads and a buffer ``(B', H', N,
        M)`` of zeros for them; fills in the gradients of the pairs.
    """
    batch, heads, n, m = shape
    result, whole = mask.new_zeros(mask.shape), mask.shape == shape
    most = max(mask.numel(), _ENTRIES) // (n * m)
    for batches, some in _pieces(batch, heads, max(1, most)):
        part = result[
            batches if mask.shape[0] > 1 else slice(None),
            some if mask.shape[1] > 1 else slice(None),
        ]
        sizes = batches.stop - batches.start, some.stop - some.start, n, m
        buffer = part if whole else mask.new_zeros(sizes)
        run(batches.start * heads + some.start, sizes[0] * sizes[1], buffer)
        if not whole:
            part += buffer.sum_to_size(part.shape)
    return result


def _pieces(batch: int, heads: int, most: int) -> Iterator[tuple[slice, slice]]:
    """Cut batches and heads into pieces of at most so many heads, each contiguous in memory."""
    batches, some = max(1, most // heads), min(most, heads)
    for b in range(0, batch, batches):
        for h in range(0, heads, some):
            yield slice(b, min(b + batches, batch)), slice(h, min(h + some, heads))
