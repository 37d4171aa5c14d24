"""Orders drawn without being written down: a place at a time, whatever the number of places."""

import numpy as np

_ROUNDS = 6
_WORD = (1 << 64) - 1
# Constants of splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
# OOPSLA 2014), remembered rather than read.
_STEP, _MIXERS = 0x9E3779B97F4A7C15, ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))


def order_key(*numbers: int) -> int:
    """Return the key of an order from nonnegative numbers, such as a seed and an epoch."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0])


def shuffled(place: int, count: int, key: int) -> int:
    """Return what comes at a place in [0, count) of the order of a key.

    A permutation by a Feistel network on the binary digits, walked until it falls below `count`;
    nothing is kept.

    Examples
    --------
    >>> sorted(shuffled(place, 5, order_key(2, 0)) for place in range(5))
    [0, 1, 2, 3, 4]
    """
    half = ((count - 1).bit_length() + 1) // 2
    while True:
        place = _permuted(place, half, key)
        if place < count:
            return place


def _permuted(place: int, half: int, key: int) -> int:
    mask = (1 << half) - 1
    left, right = place >> half, place & mask
    for turn in range(_ROUNDS):
        left, right = right, left ^ (_mixed(key + (turn << half) + right) & mask)
    return (left << half) | right


def _mixed(number: int) -> int:
    number = (number * _STEP + _STEP) & _WORD
    for shift, factor in _MIXERS:
        number = ((number ^ (number >> shift)) * factor) & _WORD
    return number ^ (number >> 31)
