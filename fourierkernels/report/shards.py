"""A share of the inputs of a report, measured by a worker.

A shard is every so many-th batch of what one network reads. Batches, and the numbers of inputs that
the bootstrap draws by, are those of a run on all, so that what the shards have taken in adds up to
what one process takes in.
"""

import hashlib
import threading
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from typing import Any

import torch

from fourierkernels.checkpoints import (
    Checkpoint,
    CheckpointFiles,
    TextFile,
    load_checkpoint,
    read_texts,
)
from fourierkernels.checkpoints.placing import check_device, on_device
from fourierkernels.diagnostics.networks.control import SharpnessControl
from fourierkernels.diagnostics.networks.profile import HeadMeasures, head_measures, measure_heads
from fourierkernels.foundation.workers import Work, one_thread
from fourierkernels.report.inputs import inputs_digest
from fourierkernels.report.packing import packed

_AT_A_TIME = threading.Lock()  # recording a network changes functions of torch for a while


@dataclass(frozen=True, eq=False)
class Pass:
    """One network on all inputs: what its shards have in common.

    Attributes
    ----------
    network : str
        Its name in the report.
    loading : mapping
        Keywords of :func:`~fourierkernels.checkpoints.load.load_checkpoint`.
    drawn : bool
        Whether it has random weights.
    controlled : bool
        Whether random heads as sharp as its own are measured beside it.
    device : str or None
        Where it computes.
    inputs : iterable
    measured : mapping
        Keywords of :func:`~fourierkernels.diagnostics.networks.profile.head_measures` but the
        control.
    reading : mapping
        Keywords of :func:`~fourierkernels.diagnostics.networks.profile.measure_heads`.
    digests : mapping
        SHA-256 of "weights" and "inputs", by which a worker tells that it has the same ones.
    identity : str
        Of the report, and of all that its numbers depend on.
    """

    network: str
    files: CheckpointFiles
    loading: Mapping[str, Any]
    drawn: bool
    controlled: bool
    device: str | None
    inputs: Any
    measured: Mapping[str, Any]
    reading: Mapping[str, Any]
    digests: Mapping[str, str]
    identity: str

    @cached_property
    def key(self) -> str:
        """Identity of the pass."""
        return hashlib.sha256(f"{self.identity} {self.network}".encode()).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pass) and other.key == self.key

    def __hash__(self) -> int:
        return hash(self.key)

    def load(self, *, drawn: bool) -> Checkpoint:
        """Return the network, or its architecture with random weights."""
        seed = self.measured["seed"]
        random = {"random_weights": True, "seed": seed} if drawn else {}
        loaded = load_checkpoint(self.files, **self.loading, **random)
        if self.device is None:
            return loaded
        return on_device(loaded, torch.device(check_device(self.device)))

    def measures(self, random: Checkpoint | None) -> HeadMeasures:
        """Return all that is measured, before the first sample; without `random` only to merge."""
        metrics, seed = self.measured["metrics"], self.measured["seed"]
        control = SharpnessControl(random, metrics, seed=seed) if self.controlled else None
        return head_measures(**self.measured, control=control)


@dataclass(frozen=True)
class Shard:
    """Every `of`-th batch of a pass, from batch `place` on, counted from 0."""

    whole: Pass
    place: int
    of: int

    @property
    def key(self) -> str:
        """Identity of the shard."""
        return hashlib.sha256(f"{self.whole.key} {self.place} {self.of}".encode()).hexdigest()

    def __str__(self) -> str:
        return f"{self.place + 1} of {self.of} ({self.whole.network} weights)"


def measure_shard(shard: Shard) -> bytes:
    """Return what all measures have taken in of a shard, and what was read, as bytes.

    Raises
    ------
    ValueError
        For a checkpoint or inputs that cannot be used, or that are not those of the report.
    """
    whole = shard.whole
    with _AT_A_TIME, one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # given once, where all is put together
        network, random = _networks(whole)
        asked = whole.measures(random)
        counts = measure_heads(
            network,
            whole.inputs,
            asked.measures,
            share=(shard.place, shard.of),
            **whole.reading,
        )
    return packed({"key": shard.key, "counts": asdict(counts), "states": asked.states()})


def forget_networks() -> None:
    """Let go of the networks of the last pass that this process measured a shard of."""
    _networks.cache_clear()


SHARDS = Work(measure_shard, piece="shard", whole="report")


@lru_cache(maxsize=1)
def _networks(whole: Pass) -> tuple[Checkpoint, Checkpoint | None]:
    """Return the network of a pass and the random one beside it; a worker keeps the last ones."""
    found = {"weights": whole.files.digest(), "inputs": inputs_digest(_read_again(whole.inputs))}
    for name, digest in found.items():
        if digest != whole.digests[name]:
            raise ValueError(
                f"{name} must be the same for every worker, got SHA-256 {digest[:12]} and not "
                f"{whole.digests[name][:12]}"
            )
    random = whole.load(drawn=True) if whole.controlled else None
    return whole.load(drawn=whole.drawn), random


def _read_again(inputs: Any) -> Any:
    """Return the texts of a file as it is now, and on the machine of the worker."""
    if not isinstance(inputs, TextFile):
        return inputs
    return read_texts(inputs.path, blank_lines=inputs.blank_lines)
