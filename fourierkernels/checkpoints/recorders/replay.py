"""What closes the account of a pass: each call replays what came out where its weights met values.

A call has to be one of the meetings of weights with values, by what came out, and its maps times
its values have to be that. What is left of either is named.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from fourierkernels.checkpoints.recorders.call import AttentionCall, RecordedCalls
from fourierkernels.checkpoints.recorders.facts import Origin
from fourierkernels.checkpoints.recorders.meetings import Meeting, fingerprint, run_of

_UNMATCHED = "its weights meet values in a way that no recorded map shows"
_PAIRED = "it reads pairs of numbers, as a state of keys times values, which no map shows"
_UNUSED = "its weights meet no values in a product of matrices"
_SCORES = "its scores are used otherwise than as weights of values"
_WITHDRAWN = "the map found for it is not what its outputs come from"
_ROWS = 8  # replayed of each call
_DIGITS = 32.0  # last digits of a weight and of a sum of weights times values that may differ


def settle(
    recorded: RecordedCalls,
    meetings: Sequence[Meeting],
    origins: Sequence[Origin],
    *,
    replayed: bool,
) -> None:
    """Name what met values and is no recorded call, calls that do not replay, and unused weights.

    Parameters
    ----------
    recorded : RecordedCalls
        Calls are withdrawn from it, and reasons added to it.
    meetings : sequence of Meeting
        In order.
    origins : sequence of Origin
        Weights that were normalised, and products of two computed tensors.
    replayed : bool
        Whether maps times values are outputs; they are not beside dropout.
    """
    left = [meeting for meeting in meetings if not meeting.silent]
    # By queries that the network has learnt.
    pooled = [meeting for meeting in meetings if meeting.pools]
    for call in list(recorded):
        digit = torch.finfo(call.outputs.dtype).eps
        wanted = fingerprint(call.outputs)
        run = run_of(left, wanted, digit) or run_of(pooled, wanted, digit)
        left = [meeting for meeting in left if meeting not in run]
        missed = not run and call.pieced and call.maps.shape[-1] > 1  # one key has all weight
        if missed or (replayed and not replays(call)):
            recorded.remove(call)
            recorded.unread.setdefault(call.name, _WITHDRAWN)
    for meeting in left:
        recorded.unread.setdefault(meeting.where, _PAIRED if meeting.paired else _UNMATCHED)
    for origin in origins:
        if origin.scores and origin.places and origin.used and not origin.met:
            recorded.unread.setdefault(origin.where, _UNUSED if origin.normal else _SCORES)


@torch.no_grad()
def replays(call: AttentionCall) -> bool:
    """Tell whether maps times values are the outputs, up to rounding, in some rows of a call."""
    n = call.outputs.shape[2]
    rows = sorted({round(k * (n - 1) / (_ROWS - 1)) for k in range(_ROWS)})
    if call.rows is None:
        return _equal(call.maps[:, :, rows], call.values, call.outputs[:, :, rows])
    return all(
        _equal(call.map_rows(text, row, row + 1), call.values[text], call.outputs[text, :, [row]])
        for text in {0, len(call.outputs) - 1}
        for row in {0, n - 1}
    )


def _equal(maps: Tensor, values: Tensor, outputs: Tensor) -> bool:
    """Compare in one direction of the features, by a bound of the rounding.

    The direction is none that a difference is likely to be orthogonal to. Rows that see no key may
    be not numbers, or zeros.
    """
    maps, values = maps.to(outputs.dtype), values.to(outputs.dtype)
    along = torch.linspace(0.5, 1.5, values.shape[-1], dtype=values.dtype, device=values.device)
    made, wanted = maps @ (values @ along)[..., None], outputs @ along
    sizes, size = (torch.linalg.vector_norm(x, dim=-1, keepdim=True) for x in (values, outputs))
    room = (maps.abs() @ sizes + size) * torch.linalg.vector_norm(along)  # Cauchy and Schwarz
    near = (made - wanted[..., None]).abs() <= _DIGITS * torch.finfo(outputs.dtype).eps * room
    return bool((near | made.isnan()).all())
