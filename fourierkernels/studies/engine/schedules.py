"""Learning rates over a run, as factors of the largest one.

Adding a schedule is adding a row to :data:`SCHEDULES`.
"""

import math
from collections.abc import Callable

# From the number of updates already made, the updates of the warm-up and those of the whole run to
# the factor of the next update's rate.
Schedule = Callable[[int, int, int], float]


def _warm(schedule: Schedule) -> Schedule:
    """Rise linearly before what a schedule does afterwards."""

    def warmed(done: int, warmup: int, steps: int) -> float:
        return (done + 1) / (warmup + 1) if done < warmup else schedule(done, warmup, steps)

    return warmed


def _cosine(done: int, warmup: int, steps: int) -> float:
    share = (done - warmup) / max(steps - warmup, 1)
    return (1 + math.cos(math.pi * min(share, 1.0))) / 2


def _linear(done: int, warmup: int, steps: int) -> float:
    return max(steps - done, 0) / max(steps - warmup, 1)


def _inverse_root(done: int, warmup: int, steps: int) -> float:
    return math.sqrt(max(warmup, 1) / max(done, warmup, 1))


def _transformer_xl(done: int, warmup: int, steps: int) -> float:
    """Return the factor of the published language models, ``src/train.py`` of lmtool-fwp.

    Their cosine runs from the first update and not from the end of the warm-up, and the first
    update, before the warm-up has set a rate, has the largest one.
    """
    if 0 < done < warmup:
        return done / warmup
    return 1.0 if done == 0 else (1 + math.cos(math.pi * min(done / steps, 1.0))) / 2


_DEIT_WARMUP = 5  # epochs
_DEIT_FIRST, _DEIT_LAST = 1e-3, 1e-2  # rates of 1e-6 and 1e-5, as factors of 1e-3


def _deit(done: int, warmup: int, steps: int) -> float:
    """Return the factor of DeiT, whose rates change by epochs; the warm-up has five.

    ``main.py`` of https://github.com/facebookresearch/deit sets a rate after the epoch of its
    number, so each comes an epoch late. The cosine runs from the first epoch
    (``timm/scheduler/cosine_lr.py`` of https://github.com/huggingface/pytorch-image-models).
    """
    epoch = max(warmup // _DEIT_WARMUP, 1)
    number = max(done // epoch - 1, 0)
    if number < _DEIT_WARMUP:
        return _DEIT_FIRST + (1 - _DEIT_FIRST) * number / _DEIT_WARMUP
    share = min(number * epoch / steps, 1.0)
    return _DEIT_LAST + (1 - _DEIT_LAST) * (1 + math.cos(math.pi * share)) / 2


SCHEDULES: dict[str, Schedule] = {
    "constant": _warm(lambda done, warmup, steps: 1.0),
    "linear": _warm(_linear),
    "cosine": _warm(_cosine),
    # [vaswani2017attention]_ section 5.3: the rate falls as the root of the number of updates.
    "inverse_root": _warm(_inverse_root),
    "transformer_xl": _transformer_xl,
    "deit": _deit,
}
