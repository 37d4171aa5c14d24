"""The kinds of kernel that the compiled loops know, their tiles, and a series they share.

Plans and the reference read them too, without loading numba.
"""

from typing import NamedTuple

TILE = 256  # samples that loops go through together
QUERIES = 16  # that go through a tile together, and the least a thread takes

# c_k = 2^(2k) |B_2k| / (2k)! of d/dx log(sin x / x) = cot x - 1/x = -Σ_k c_k x^(2k-1).
LOG_SINC_SLOPE = (
    1 / 3,
    1 / 45,
    2 / 945,
    1 / 4725,
    2 / 93555,
    1382 / 638512875,
    4 / 18243225,
    3617 / 162820783125,
    87734 / 38979295480125,
    349222 / 1531329465290625,
)


class Shape(NamedTuple):
    """The Gaussian, whose power is 1 and counts for nothing, or a power of the sinc."""

    gaussian: bool
    power: int
