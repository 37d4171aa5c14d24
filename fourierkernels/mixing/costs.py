"""Operations and parameters of a token mixer, counted.

Operations are multiply-adds of one forward pass over one sequence, as in Table 1 of
[leethorp2021fnet]_: real ones for attention, dense and Hadamard mixing (there additions alone),
complex ones for Fourier mixing, whose FFT of n points is counted as n log₂ n.
"""

from collections.abc import Callable
from math import ceil, log2
from typing import NamedTuple

FEATURES = 256  # m, the default of attention by random features


class Size(NamedTuple):
    """Size of the input: tokens N, features E."""

    length: int
    dim: int


Count = Callable[[Size], float]


def four_projections(s: Size) -> float:
    """Count the weights of query, key, value and output."""
    return 4 * s.dim**2


def and_a_radius(s: Size) -> float:
    """Count four projections and one radius."""
    return 4 * s.dim**2 + 1


def attention(s: Size) -> float:
    """Count the products with keys and values for each pair of tokens, and four projections."""
    return 2 * s.length**2 * s.dim + 4 * s.length * s.dim**2


def hard_attention(s: Size) -> float:
    """Count the product with values for each pair of tokens, and two projections."""
    return s.length**2 * s.dim + 2 * s.length * s.dim**2


def linear_attention(s: Size) -> float:
    """Count features of queries and keys, the products with them, and four projections."""
    return 6 * FEATURES * s.length * s.dim + 4 * s.length * s.dim**2


def positive_features(s: Size) -> float:
    """Count m features of queries and keys, the products with them, and four projections."""
    return 4 * FEATURES * s.length * s.dim + 4 * s.length * s.dim**2


def dense(s: Size) -> float:
    """Count a product with an N × N and one with an E × E matrix."""
    return s.length**2 * s.dim + s.length * s.dim**2


def nothing(s: Size) -> float:
    """Count none."""
    return 0


def fft(s: Size) -> float:
    """Count FFTs over tokens and over features."""
    return s.length * s.dim * (log2(s.length) + log2(s.dim))


def halving(s: Size) -> float:
    """Count two FFTs and a product of 2h points per node, N/2h nodes on levels h = 32, .. N/2."""
    levels = max(0, ceil(log2(s.length / 32)))
    size = 32 << levels if levels else s.length
    nodes = sum(2 * size * log2(64 << i) + size for i in range(levels))
    responses = sum((64 << i) * log2(64 << i) for i in range(levels))
    triangles = (size >> levels) * size
    per_feature = nodes + triangles + 2 * s.length + s.length * log2(s.dim)
    return float(s.dim * per_feature + responses)


def scaled_fft(s: Size) -> float:
    """Count both FFTs and one product for each number in between."""
    return fft(s) + s.length * s.dim


def hadamard(s: Size) -> float:
    """Count butterflies over tokens and over features, each padded to a power of two."""
    tokens, features = ceil(log2(s.length)), ceil(log2(s.dim))
    return s.dim * (tokens << tokens) + s.length * (features << features)
