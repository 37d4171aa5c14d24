"""Dropout that can be drawn again: which normalised weights are kept, as a function of a seed.

The generator is Philox4x32-10 [salmon2011parallel]_, which is a function and has no state: the
backward pass repeats the forward's draw pair by pair, on any device and in any order, and nothing
of the size of the weights is stored. Pair (i, j) of head h reads word j mod 4 of the counter
(j div 4, i, h, 0) under the key (low, high half of the seed).
"""

import math

import torch
from torch import Tensor

_ROUNDS = 10
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_WORD = 0xFFFFFFFF
_WORDS = 4  # of a counter
_BITS = 32

Words = tuple[Tensor, Tensor, Tensor, Tensor]


def draw_seed(device: torch.device) -> Tensor:
    """Return a seed, int64 of shape ``(1,)``, from torch's generator of the device."""
    return torch.randint(-(2**63), 2**63 - 1, (1,), dtype=torch.int64, device=device)


def threshold(p: float) -> int:
    """Return the least 32-bit word that keeps a weight: a word is below it with probability p."""
    return int(p * 2**_BITS)


def keep_mask(seed: Tensor, shape: tuple[int, int, int], p: float) -> Tensor:
    """Return which weights of heads are kept, boolean ``(H, N, M)``: each with probability 1 - p.

    Parameters
    ----------
    seed : Tensor
        int64, ``(1,)``.
    shape : tuple of int
        Batch times heads, queries, keys.
    p : float
        In [0, 1).
    """
    heads, queries, keys = shape
    groups = -(-keys // _WORDS)
    sizes = (groups, queries, heads)
    ranges = (torch.arange(size, device=seed.device) for size in sizes)
    group, query, head = torch.meshgrid(*ranges, indexing="ij")
    words = philox((group, query, head, torch.zeros_like(head)), (seed & _WORD, seed >> _BITS))
    drawn = torch.stack(words, dim=-1).permute(2, 1, 0, 3).reshape(heads, queries, -1)
    return drawn[..., :keys] >= threshold(p)


def drop(weights: Tensor, *, seed: Tensor, p: float) -> Tensor:
    """Return weights ``(..., H, N, M)`` with some set to zero and the others divided by 1 - p.

    Dimensions before the last two are counted as one: batch times heads.
    """
    *lead, queries, keys = weights.shape
    kept = keep_mask(seed, (math.prod(lead), queries, keys), p).reshape(weights.shape)
    return weights * kept / (1 - p)


def philox(counter: Words, key: tuple[Tensor, Tensor]) -> Words:
    """Return four words of 32 bits, in int64, for a counter of four and a key of two.

    Examples
    --------
    >>> zero = torch.zeros((), dtype=torch.int64)
    >>> [hex(int(word)) for word in philox((zero,) * 4, (zero, zero))]
    ['0x6627e8d5', '0xe169c58d', '0xbc57ac4c', '0x9b00dbd8']
    """
    c0, c1, c2, c3 = (word & _WORD for word in counter)
    k0, k1 = (word & _WORD for word in key)
    for _ in range(_ROUNDS):
        high_0, low_0 = _product(c0, _MULTIPLIERS[0])
        high_1, low_1 = _product(c2, _MULTIPLIERS[1])
        c0, c1, c2, c3 = high_1 ^ c1 ^ k0, low_1, high_0 ^ c3 ^ k1, low_0
        k0, k1 = (k0 + _KEY_STEPS[0]) & _WORD, (k1 + _KEY_STEPS[1]) & _WORD
    return c0, c1, c2, c3


def _product(word: Tensor, factor: int) -> tuple[Tensor, Tensor]:
    """Return the high and low words of a product of 64 bits, without int64's sign in the way."""
    half = _BITS // 2
    upper, lower = (word >> half) * factor, (word & 0xFFFF) * factor  # below 2^48
    high = (upper + (lower >> half)) >> half
    return high, (word * factor) & _WORD
