"""The timing of calls: in turns, so that other load on the machine affects all alike.

Every benchmark takes its times here: the commands, and the scripts of ``experiments/benchmarks``.
"""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import torch

_LEAST_RUNS, _MOST_RUNS = 5, 100
_LONG = 2.0  # seconds: of a call that takes longer, three runs are enough
_FEW_RUNS = 3

Call = Callable[[], object]
Clock = Callable[[], float]


@dataclass(frozen=True)
class Times:
    """Median and quartiles in milliseconds, number of runs, and peak memory in bytes.

    The peak is that of all tensors during a call, those that were there before included; 0 on a
    CPU, where PyTorch does not know it.
    """

    median: float
    low: float
    high: float
    runs: int
    peak_bytes: int


class Ratios(NamedTuple):
    """Median seconds of a call and of another one, and the ratios of their turns."""

    seconds: float
    other_seconds: float
    ratio: float
    least: float
    largest: float


def seconds_of(call: Call, clock: Clock = time.perf_counter) -> float:
    """Return how long a call takes, on the clock of the wall or ``time.process_time``."""
    start = clock()
    call()
    return clock() - start


def rounds(
    calls: Mapping[str, Call],
    *,
    least: int,
    most: int = 10**9,
    seconds: float = 0.0,
    warm: int = 1,
    clock: Clock = time.perf_counter,
) -> dict[str, list[float]]:
    """Return the seconds of each call, all calls once a round.

    Parameters
    ----------
    least, most : int
        Rounds; between them, as many as begin within so many `seconds` of wall time.
    warm : int
        Rounds before, which compile and are not counted.
    clock : callable
        ``time.process_time`` on a machine with other work, which disturbs it least.

    Examples
    --------
    >>> times = rounds({"pass": lambda: None}, least=3)
    >>> len(times["pass"])
    3
    """
    for _ in range(warm):
        for call in calls.values():
            call()
    times: dict[str, list[float]] = {name: [] for name in calls}
    done, start = 0, time.perf_counter()
    while done < least or (done < most and time.perf_counter() - start < seconds):
        for name, call in calls.items():
            times[name].append(seconds_of(call, clock))
        done += 1
    return times


def in_turn(call: Call, other: Call, *, repeats: int, clock: Clock = time.perf_counter) -> Ratios:
    """Return how long two calls take, and the ratios of the two in each of so many turns.

    Examples
    --------
    >>> in_turn(lambda: None, lambda: None, repeats=3).least > 0
    True
    """
    times = rounds({"call": call, "other": other}, least=repeats, clock=clock)
    ratios = [mine / theirs for mine, theirs in zip(times["call"], times["other"], strict=True)]
    seconds, other_seconds = (statistics.median(each) for each in times.values())
    return Ratios(seconds, other_seconds, statistics.median(ratios), min(ratios), max(ratios))


# ---- on a device ---------------------------------------------------------------------------------


def measure(calls: Sequence[Call], device: "torch.device", seconds: float) -> Times:
    """Time calls in turns, for about as many seconds.

    Each of them is one call on inputs of its own, so that no run finds its inputs in the cache
    of the one before. On a card, device events around the call are read after it.
    """
    import torch

    for call in calls:
        call()
    is_card = device.type == "cuda"
    if is_card:
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
    taken: list[float] = []
    start = time.perf_counter()
    while not _enough(taken, time.perf_counter() - start, seconds):
        call = calls[len(taken) % len(calls)]
        taken.append(_on_card(call, device) if is_card else 1e3 * seconds_of(call))
    peak = torch.cuda.max_memory_allocated(device) if is_card else 0
    low, median, high = statistics.quantiles(taken, n=4, method="inclusive")
    return Times(median, low, high, len(taken), peak)


def _enough(taken: Sequence[float], passed: float, seconds: float) -> bool:
    least = _FEW_RUNS if taken and taken[0] > 1e3 * _LONG else _LEAST_RUNS
    return len(taken) >= least and (passed >= seconds or len(taken) >= _MOST_RUNS)


def _on_card(call: Call, device: "torch.device") -> float:
    """Return milliseconds between two events, which the host's own delays do not enter."""
    import torch

    first, last = (
        torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        for _ in range(2)
    )
    with torch.cuda.device(device):
        first.record()
        call()
        last.record()
    last.synchronize()
    return float(first.elapsed_time(last))
