"""One cell of a sweep, and what identifies it."""

import hashlib
import json
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Cell:
    """One unit of work: a block of replicates of one setting.

    Attributes
    ----------
    task : str
        Key in :data:`fourierkernels.simulation.sweep.TASKS`.
    density, kernel : str
    n, dim : int
    radius : str
        A number, or a rule of its task in :data:`fourierkernels.simulation.sweep.TASKS`.
    block, replicates : int
        Number of the block, and how many replicates it holds.
    seed : int
        Of the sweep; with the other fields it determines the random numbers.
    function, noise : str
        Of a regression, else empty.
    at : float or None
        Every coordinate of the point of a regression; None for the integrated error.
    """

    task: str
    density: str
    kernel: str
    n: int
    dim: int
    radius: str
    block: int
    replicates: int
    seed: int
    function: str = ""
    noise: str = ""
    at: float | None = None

    @cached_property
    def _digest(self) -> bytes:
        return hashlib.sha256(canonical(asdict(self)).encode()).digest()

    @property
    def key(self) -> str:
        """Identity of the cell, 32 hexadecimal digits."""
        return self._digest.hex()[:32]

    def rng(self) -> np.random.Generator:
        """Return the cell's own generator: seeded by what the cell is, not by when it runs."""
        words = np.frombuffer(self._digest, dtype="<u4")
        return np.random.default_rng(np.random.SeedSequence([int(word) for word in words]))

    def __str__(self) -> str:
        return (
            f"{self.task} {self.density} {self.kernel} n={self.n} dim={self.dim} "
            f"radius={self.radius} block={self.block}"
        )


def as_number(rule: str) -> float | None:
    """Return the radius if the rule is a number, else None."""
    try:
        return float(rule)
    except ValueError:
        return None


def canonical(value: dict[str, Any]) -> str:
    """Return the one JSON text of a record."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
