"""A share of the inputs of a report, measured by a worker and packed without running any code.

A shard is every so many-th batch of what one network reads. Batches, and the numbers of inputs that
the bootstrap draws by, are those of a run on all, so that what the shards have taken in adds up to
what one process takes in.
"""

import hashlib
import io
import json
import threading
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fourierkernels.checkpoints import Checkpoint, TextFile, read_texts
from fourierkernels.checkpoints.options import ReadOptions
from fourierkernels.diagnostics.networks.profile import HeadMeasures, head_measures, measure_heads
from fourierkernels.diagnostics.profile import MeasureOptions
from fourierkernels.foundation.workers import Work, one_thread
from fourierkernels.report.inputs import inputs_digest
from fourierkernels.report.sources import FileSource

_ARRAY, _TEXT = "array of the file", "text"  # the key that stands for an array, and the JSON
_AT_A_TIME = threading.Lock()  # recording a network changes functions of torch for a while


def packed(value: Any) -> bytes:
    """Return a nested value as the bytes of an .npz file: JSON, and the arrays in it.

    Parameters
    ----------
    value : object
        Dictionaries with string keys, lists, tuples, arrays, numbers, strings, None. Tuples become
        lists.

    Examples
    --------
    >>> unpacked(packed({"a": [1, np.arange(3)], "b": None}))
    {'a': [1, array([0, 1, 2])], 'b': None}
    """
    arrays: dict[str, NDArray[Any]] = {}

    def plain(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            name = f"array_{len(arrays)}"
            arrays[name] = value
            return {_ARRAY: name}
        if isinstance(value, dict):
            return {key: plain(part) for key, part in value.items()}
        return [plain(part) for part in value] if isinstance(value, list | tuple) else value

    text = json.dumps(plain(value)).encode()
    content = io.BytesIO()
    np.savez(content, allow_pickle=False, **{_TEXT: np.frombuffer(text, dtype=np.uint8)}, **arrays)
    return content.getvalue()


def unpacked(content: bytes) -> Any:
    """Return what :func:`packed` was given.

    Raises
    ------
    ValueError
        If the bytes are damaged.
    """
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        value = json.loads(arrays.pop(_TEXT).tobytes())
    except Exception as error:  # NumPy and zipfile raise a dozen kinds
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(f"content must be what packed returned, got {reason}") from error

    def filled(value: Any) -> Any:
        if isinstance(value, dict):
            named = value.get(_ARRAY)
            return arrays[named] if named is not None else {k: filled(v) for k, v in value.items()}
        return [filled(part) for part in value] if isinstance(value, list) else value

    return filled(value)


@dataclass(frozen=True, eq=False)
class Pass:
    """One network on all inputs: what its shards have in common.

    Attributes
    ----------
    network : str
        Its name in the report.
    digests : mapping
        SHA-256 of "weights" and "inputs", by which a worker tells that it has the same ones.
    identity : str
        Of the report, and of all that its numbers depend on.
    drawn : bool
        Whether it has random weights.
    controlled : bool
        Whether a control is made of random heads, which are measured beside it.
    """

    network: str
    source: FileSource
    inputs: Any
    measure: MeasureOptions
    read: ReadOptions
    digests: Mapping[str, str]
    identity: str
    drawn: bool = False
    controlled: bool = False

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
        return self.source.draw(self.measure.seed) if drawn else self.source.load()

    def measures(self, random: Checkpoint | None) -> HeadMeasures:
        """Return all that is measured, before the first sample; without `random` only to merge."""
        return head_measures(self.measure, random)


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
            whole.read,
            share=(shard.place, shard.of),
            repeated=asked.repeated,
            seed=whole.measure.seed,
        )
    return packed({"key": shard.key, "counts": asdict(counts), "states": asked.states()})


def forget_networks() -> None:
    """Let go of the networks of the last pass that this process measured a shard of."""
    _networks.cache_clear()


SHARDS = Work(measure_shard, piece="shard", whole="report")


@lru_cache(maxsize=1)
def _networks(whole: Pass) -> tuple[Checkpoint, Checkpoint | None]:
    """Return the network of a pass and the random one beside it; a worker keeps the last ones."""
    digests = {"weights": whole.source.digest(), "inputs": inputs_digest(_read_again(whole.inputs))}
    for name, digest in digests.items():
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
