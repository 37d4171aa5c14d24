"""What is claimed of each metric of heads. A metric that a test asks about needs its claim here."""

import math
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def claim(table: dict[str, T], metric: str) -> T:
    """Return what is claimed of a metric; say where to add what is not."""
    assert metric in table, f"add {metric} to BOUND, TRIANGLE and INVARIANCE in {__file__}"
    return table[metric]


# Whether the triangle inequality holds.
TRIANGLE = {
    "frobenius": True,
    "frobenius_per_sqrt_n": True,
    "jensen_shannon": False,
    "total_variation": True,
    "cosine": False,
    "projected_distance": True,
    "projected_cosine": False,
    "projected_cka": False,
    "cka": False,
    "output_distance": True,
}
# From n, the largest value that two maps with rows of probabilities, or two outputs, can have.
BOUND: dict[str, Callable[[int], float]] = {
    "frobenius": lambda n: math.sqrt(2 * n),
    "frobenius_per_sqrt_n": lambda n: math.sqrt(2),
    "jensen_shannon": lambda n: math.log(2),
    "total_variation": lambda n: 1.0,
    "cosine": lambda n: 1.0,
    "projected_distance": lambda n: math.inf,
    "projected_cosine": lambda n: 2.0,
    "projected_cka": lambda n: 1.0,
    "cka": lambda n: 1.0,
    "output_distance": lambda n: math.inf,
}
# Changes of the values' basis, undone by the output projection and so without effect on the
# network, that leave the metric alone: "any", "rotations" or "none". Only a metric with "any" is a
# property of the function that the network computes.
INVARIANCE = {
    "frobenius": "any",
    "frobenius_per_sqrt_n": "any",
    "jensen_shannon": "any",
    "total_variation": "any",
    "cosine": "any",
    "projected_distance": "any",
    "projected_cosine": "any",
    "projected_cka": "any",
    "cka": "rotations",
    "output_distance": "none",
}
