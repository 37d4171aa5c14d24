"""Milliseconds of repeated calls: warm, in turns over several inputs, median and quartiles."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

_LEAST_RUNS, _MOST_RUNS = 5, 100
_LONG = 2.0  # seconds: of a call that takes longer, three runs are enough
_FEW_RUNS = 3


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


def measure(calls: Sequence[Callable[[], object]], device: torch.device, seconds: float) -> Times:
    """Time calls in turns, for about as many seconds.

    Each of them is one call on inputs of its own, so that no run finds its inputs in the cache
    of the one before. On a card, device events around the call are read after it.
    """
    for call in calls:
        call()
    synchronise(device)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    taken: list[float] = []
    start = time.perf_counter()
    while not _enough(taken, time.perf_counter() - start, seconds):
        taken.append(_one(calls[len(taken) % len(calls)], device))
    peak = torch.cuda.max_memory_allocated(device) if device.type == "cuda" else 0
    low, median, high = statistics.quantiles(taken, n=4, method="inclusive")
    return Times(median, low, high, len(taken), peak)


def _enough(taken: Sequence[float], passed: float, seconds: float) -> bool:
    least = _FEW_RUNS if taken and taken[0] > 1e3 * _LONG else _LEAST_RUNS
    return len(taken) >= least and (passed >= seconds or len(taken) >= _MOST_RUNS)


def _one(call: Callable[[], object], device: torch.device) -> float:
    if device.type == "cpu":
        begin = time.perf_counter()
        call()
        return 1e3 * (time.perf_counter() - begin)
    first, last = (_event() for _ in range(2))
    with torch.cuda.device(device):
        first.record()
        call()
        last.record()
    last.synchronize()
    return float(first.elapsed_time(last))


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


def synchronise(device: torch.device) -> None:
    """Wait for what the device still has to do, and raise what went wrong there."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
