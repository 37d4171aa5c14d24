"""Batches of inputs compared with the inputs run one by one."""

from typing import Any

import torch

from fourierkernels.checkpoints import AttentionCall, Checkpoint, recording

ROUNDING = 1e-9
PARTS = ("maps", "queries", "keys", "values", "outputs", "projected")
IDS = [[1, 2, 3, 4, 5, 6, 7], [3, 4], [9, 8, 7, 6], [5, 5, 5], [2], [11, 12, 13, 1, 2, 3]]
PAIRS = [(row, [1, *IDS[-1 - k]]) for k, row in enumerate(IDS)]


def recorded_calls(checkpoint: Checkpoint, items: list[Any]) -> list[AttentionCall]:
    with torch.inference_mode(), recording(checkpoint.model) as calls:
        checkpoint.run(items)
    return [call for call in calls if checkpoint.selects(call)]


def check_batches(checkpoint: Checkpoint, items: list[Any]) -> None:
    """Compare batches with their items run one by one, in everything that is recorded.

    In float64: what padding adds would be seen, while float32 lets Fourier weights, whose sines
    have many zeros, move in the sixth digit with the order of a sum.
    """
    checkpoint.model.double()
    batches: dict[Any, list[Any]] = {}
    for item in items:
        batches.setdefault(checkpoint.batch_key(item), []).append(item)
    assert max(map(len, batches.values())) > 1
    for batch in batches.values():
        together = recorded_calls(checkpoint, batch)
        for row, item in enumerate(batch):
            check_row(checkpoint, together, row, item)


def check_row(checkpoint: Checkpoint, together: list[AttentionCall], row: int, item: Any) -> None:
    alone = recorded_calls(checkpoint, [item])
    assert len(alone) == len(together) > 0
    span = checkpoint.spans(item) or tuple(alone[0].maps.shape[2:])
    for one, other in zip(together, alone, strict=True):
        assert tuple(other.maps.shape[2:]) == span
        for name in PARTS if one.slices is not None else PARTS[:-1]:
            found, expected = one.part(name, row, *span), other.part(name, 0, *span)
            atol = ROUNDING * float(expected.abs().max())
            torch.testing.assert_close(found, expected, rtol=0, atol=atol, msg=name)
        sums = one.part("maps", row, *span).sum(dim=-1)
        torch.testing.assert_close(sums, torch.ones_like(sums))
