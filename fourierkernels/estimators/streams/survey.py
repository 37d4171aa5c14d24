"""First pass over a stream: number of samples, range, moments, checksum."""

import math
from dataclasses import dataclass

import numpy as np

from fourierkernels.estimators.radius.sample import moments
from fourierkernels.estimators.streams.blocks import Block
from fourierkernels.foundation.arrays import FloatArray


@dataclass(frozen=True)
class StreamFingerprint:
    """Fingerprint of one reading of a stream.

    Attributes
    ----------
    n : int
        Samples of positive weight.
    checksum : int
        Sum of all numbers, read as integers, modulo 2^64: exact in any order, however cut.
    """

    n: int
    checksum: int

    @classmethod
    def of(cls, block: Block) -> "StreamFingerprint":
        """Return the fingerprint of a block."""
        bits = (np.ascontiguousarray(array).view(np.uint64) for array in block)
        return cls(len(block.points), sum(int(each.sum()) for each in bits) % 2**64)

    def __add__(self, other: "StreamFingerprint") -> "StreamFingerprint":
        """Return the fingerprint of both."""
        return StreamFingerprint(self.n + other.n, (self.checksum + other.checksum) % 2**64)

    def check_same(self, other: "StreamFingerprint") -> None:
        """Refuse a stream that was another when it was read again.

        Raises
        ------
        ValueError
        """
        if self != other:
            raise ValueError(
                "X must be the same each time it is read, got "
                f"{self.n} samples with checksum {self.checksum:016x}, then {other.n} with "
                f"{other.checksum:016x}"
            )


@dataclass(frozen=True)
class Survey:
    """Facts of the samples of positive weight; those of two parts add up.

    Attributes
    ----------
    fingerprint : StreamFingerprint
    weight, norm : float
        Σ w and √(Σ w²).
    lightest, heaviest : float
        Ends of the weights.
    low, high : arrays of shape (dim,)
    mean, deviation : arrays of shape (dim,)
        Weighted, with divisor Σw.
    """

    fingerprint: StreamFingerprint
    weight: float
    norm: float
    lightest: float
    heaviest: float
    low: FloatArray
    high: FloatArray
    mean: FloatArray
    deviation: FloatArray

    @classmethod
    def of(cls, block: Block) -> "Survey":
        """Return the facts of a block."""
        points, _, weights = block
        lightest, heaviest = float(weights.min()), float(weights.max())
        with np.errstate(over="ignore", invalid="ignore"):  # a range without end is refused later
            mean, deviation = moments(points, weights)
        return cls(
            StreamFingerprint.of(block),
            float(weights.sum()),
            heaviest * math.sqrt(float(np.square(weights / heaviest).sum())),
            lightest,
            heaviest,
            points.min(axis=0),
            points.max(axis=0),
            mean,
            deviation,
        )

    def __add__(self, other: "Survey") -> "Survey":
        """Return the facts of both."""
        share = self.weight / (self.weight + other.weight)
        mean = share * self.mean + (1.0 - share) * other.mean
        return Survey(
            self.fingerprint + other.fingerprint,
            self.weight + other.weight,
            math.hypot(self.norm, other.norm),
            min(self.lightest, other.lightest),
            max(self.heaviest, other.heaviest),
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
            mean,
            _joint_deviation(
                share, (self.mean - mean, self.deviation), (other.mean - mean, other.deviation)
            ),
        )

    @property
    def alike(self) -> bool:
        """Whether all weights are equal, so that quantiles can ignore them."""
        return self.lightest == self.heaviest

    def size(self, weighting: str) -> float:
        """Return the number of samples that the weights stand for, if rows are distinct.

        Those of frequencies are taken for copies that are samples, see `estimators.weights`.
        """
        if weighting == "precision":
            return float(self.fingerprint.n)
        return self.weight if weighting == "frequency" else (self.weight / self.norm) ** 2


Spread = tuple[FloatArray, FloatArray]  # of a part: its mean less that of all, its deviation


def _joint_deviation(share: float, one: Spread, other: Spread) -> FloatArray:
    """Return the deviation of both parts; squares are taken of ratios, and do not overflow."""
    size = np.max(np.abs([*one, *other]), axis=0)
    size[size == 0] = 1.0
    first, second = (sum(np.square(part / size) for part in spread) for spread in (one, other))
    return np.asarray(size * np.sqrt(share * first + (1.0 - share) * second))
