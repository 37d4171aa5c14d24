"""All that was measured of the heads of a checkpoint, before it is shown or written anywhere."""

import platform
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import metadata
from importlib.util import find_spec
from pathlib import PurePath, PurePosixPath, PureWindowsPath
from typing import Any

import numpy as np

from fourierkernels.diagnostics.comparison import (
    HeadDifference,
    HeadMatches,
    HeadShare,
    head_difference,
    head_share,
    match_heads,
)
from fourierkernels.diagnostics.controls import CONTROLS
from fourierkernels.diagnostics.distances import DEFAULT_METRIC, MAPS, METRICS
from fourierkernels.diagnostics.profile import Example, HeadProfile, HeadPruning
from fourierkernels.diagnostics.resampling import NullComparison
from fourierkernels.diagnostics.summary import DEFAULT_SPREAD, SPREADS, HeadSummary
from fourierkernels.foundation.validation import check_choice

_PACKAGES = (
    "fourierkernels",
    "numpy",
    "scipy",
    "torch",
    "transformers",
    "tokenizers",
    "safetensors",
)


def provenance(options: Mapping[str, object], digests: Mapping[str, str]) -> dict[str, Any]:
    """Return versions, options and digests, so that a result can be made again.

    Parameters
    ----------
    options : mapping
        Everything that was asked for.
    digests : mapping of str to str
        SHA-256 of what was read, by name.
    """
    versions = {"python": platform.python_version()}
    for package in _PACKAGES:
        if find_spec(package) is not None:
            versions[package] = metadata.version(package)
    return {"versions": versions, "options": dict(options), "sha256": dict(digests)}


def without_folders(value: Any) -> Any:
    """Return `value` with every absolute path in it as its last part: what may be shared.

    Parameters
    ----------
    value : str, Path, mapping, sequence or other
        Paths may be strings; those below the home folder count as absolute.

    Examples
    --------
    >>> without_folders({"text": "/home/me/texts.txt", "checkpoint": "runs/large"})
    {'text': 'texts.txt', 'checkpoint': 'runs/large'}
    """
    if isinstance(value, Mapping):
        return {name: without_folders(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [without_folders(part) for part in value]
    if isinstance(value, str | PurePath):
        for kind in (PurePosixPath, PureWindowsPath):
            path = kind(value)
            if path.is_absolute() or str(value).startswith("~"):
                return path.name
    return value


@dataclass(frozen=True, eq=False, repr=False)
class ReportContent:
    """All that was measured of the heads of a checkpoint; only the title is needed.

    Attributes
    ----------
    title : str
        The checkpoint.
    profiles : mapping of str to HeadProfile
        By the name of the network: "trained" first, then "random" and "other" if measured.
    spread : str
        Key of :data:`~fourierkernels.diagnostics.summary.SPREADS`: what ± is.
    pruning : HeadPruning, optional
        Importance and pruning curves of the first network.
    against : str, optional
        The checkpoint named "other".
    skipped : int
        Empty lines among the texts.
    kind : {"text", "image"}
        What the examples are.
    origin : mapping
        Versions, options, digests.

    Raises
    ------
    ValueError
        If the parts do not fit each other.
    """

    title: str
    profiles: Mapping[str, HeadProfile] = field(default_factory=dict)
    spread: str = DEFAULT_SPREAD
    pruning: HeadPruning | None = None
    against: str | None = None
    skipped: int = 0
    kind: str = "text"
    origin: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_choice("spread", self.spread, list(SPREADS))
        for number, example in enumerate(self.first.examples, start=1):
            _check_example(number, example)
        _check_grids(self)
        if self.first.null is not None:
            _check_null(self.first.null, self.summaries())

    @property
    def first(self) -> HeadProfile:
        """Profile of the network asked about."""
        return next(iter(self.profiles.values()), HeadProfile())

    @property
    def name(self) -> str:
        """The checkpoint, without the folders of this machine: for what may be shared."""
        return str(without_folders(self.title))

    @property
    def against_name(self) -> str:
        """The same of the checkpoint named "other"."""
        return str(without_folders(self.against or "the other network"))

    @property
    def shared_origin(self) -> dict[str, Any]:
        """Versions, options and digests, without the folders of this machine."""
        return dict(without_folders(self.origin))

    @property
    def metrics(self) -> list[str]:
        """Names of the metrics, the first of which is drawn."""
        return list(self.first.distances)

    def summaries(self, metric: str | None = None) -> dict[str, HeadSummary]:
        """Return distances by the name of the network; of the first metric by default.

        What the controls expect of the first network stands behind it, by their titles.
        """
        summaries: dict[str, HeadSummary] = {}
        for network, profile in self.profiles.items():
            name = self._metric(metric)
            if name not in profile.distances:
                continue
            summaries[network] = profile.distances[name]
            if network == next(iter(self.profiles)):
                summaries |= {
                    CONTROLS[key].title: summary for key, summary in self.controls(metric).items()
                }
        return summaries

    def controls(self, metric: str | None = None) -> dict[str, HeadSummary]:
        """Return what the distances would be by chance, by control; of the first metric first."""
        name, measured = self._metric(metric), self.first.controls
        return {key: shares[name] for key, shares in measured.items() if name in shares}

    def shares(self, metric: str | None = None) -> dict[str, HeadShare]:
        """Return how much nearer the heads are than under each control."""
        observed = self.first.distances.get(self._metric(metric))
        if observed is None:
            return {}
        return {
            key: head_share(observed, summary) for key, summary in self.controls(metric).items()
        }

    def _metric(self, metric: str | None) -> str:
        if metric is None:
            return self.metrics[0] if self.metrics else ""
        return check_choice("metric", metric, self.metrics)

    def difference(self, metric: str | None = None) -> HeadDifference | None:
        """Return the first network minus the one named "other"; None without it."""
        summaries = self.summaries(metric)
        if "other" not in summaries:
            return None
        return head_difference(next(iter(summaries.values())), summaries["other"])

    @cached_property
    def examples(self) -> list[tuple[Example, Example | None]]:
        """Examples, each with that of the network named "other" of the same tokens, or None.

        Of several inputs of the same label and tokens, as images of one name may be, the first
        belongs to the first; where one network has fewer of them, to none.
        """
        other = self.profiles.get("other", HeadProfile()).examples
        own, theirs = _numbered(self.first.examples), _numbered(other)
        return [(example, theirs.get(key)) for key, example in own.items()]

    @cached_property
    def matches(self) -> HeadMatches | None:
        """The head of the network named "other" that is nearest to each, on the examples.

        By the first metric, or by the default one if that compares no maps; None without examples
        of two keys or more that both networks read as the same tokens.
        """
        pairs = [(example, other) for example, other in self.examples if other is not None]
        both = [(example.maps, other.maps) for example, other in pairs if len(example.keys) > 1]
        if not both:
            return None
        of_maps = [name for name in self.metrics[:1] if METRICS[name].of == MAPS]
        metric = of_maps[0] if of_maps else DEFAULT_METRIC
        return match_heads(*zip(*both, strict=True), metric=metric)


def _numbered(examples: Sequence[Example]) -> dict[Hashable, Example]:
    """Examples by their label and tokens, how many there are of them, and which of these it is."""
    tokens = [(example.label, example.queries, example.keys) for example in examples]
    keys = [(key, tokens.count(key), tokens[:k].count(key)) for k, key in enumerate(tokens)]
    return dict(zip(keys, examples, strict=True))


def _check_example(number: int, example: Example) -> None:
    shape = np.shape(example.maps)
    wanted = len(example.queries), len(example.keys)
    if len(shape) != 4 or shape[2:] != wanted or 0 in shape:
        raise ValueError(
            f"maps of example {number} must have shape (layers, heads, {wanted[0]}, {wanted[1]}), "
            f"as many as labels of queries and keys, got {shape}"
        )


def _check_grids(content: ReportContent) -> None:
    """Statistics, importance and distances are those of the same layers and heads."""
    shapes = {name: summary.mean.shape for name, summary in content.first.statistics.items()}
    if content.pruning is not None:
        shapes["importance"] = content.pruning.importance.values.shape
    for name, summary in content.first.distances.items():
        shapes[f"distances by {name}"] = summary.distances.shape[:2]
    if len(set(shapes.values())) > 1:
        raise ValueError(f"layers and heads must be the same in all parts, got {shapes}")


def _check_null(null: NullComparison, summaries: Mapping[str, HeadSummary]) -> None:
    shapes = {"observed": null.observed.shape, "p_value": null.p_value.shape}
    shapes["null"] = null.null.shape[1:]
    layers = [summary.mean.shape for summary in summaries.values()][:1]
    if sorted(set(shapes.values())) != layers:
        raise ValueError(f"null must have arrays of shapes {layers}, (layers,), got {shapes}")
