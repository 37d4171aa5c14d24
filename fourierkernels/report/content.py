"""All that was found out about the heads of a checkpoint, before it is written anywhere."""

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from fourierkernels.diagnostics.summary import DEFAULT_SPREAD, HeadSummary

if TYPE_CHECKING:
    from fourierkernels.diagnostics.networks.heads import HeadProfile
    from fourierkernels.diagnostics.networks.pruning import HeadNeed

_PACKAGES = (
    "fourierkernels",
    "numpy",
    "scipy",
    "torch",
    "transformers",
    "tokenizers",
    "safetensors",
)


@dataclass(frozen=True, eq=False)
class HeadReport:
    """All that was found out about the heads of a checkpoint.

    Attributes
    ----------
    title : str
        The checkpoint.
    profiles : mapping
        By the name of the network: "trained" first, then "random" and "other" if measured.
    over : str
        Key of :data:`~fourierkernels.diagnostics.summary.SPREADS`: what ± is.
    need : HeadNeed, optional
        Importance and pruning curves of the first network.
    origin : mapping
        Versions, options, digests.
    kind : {"text", "image"}
        What the examples are.
    """

    title: str
    profiles: "Mapping[str, HeadProfile]"
    over: str = DEFAULT_SPREAD
    need: "HeadNeed | None" = None
    origin: Mapping[str, Any] | None = None
    kind: str = "text"

    @property
    def first(self) -> "HeadProfile":
        """Of the network asked about."""
        return next(iter(self.profiles.values()))

    @property
    def metrics(self) -> list[str]:
        """Names of the metrics, the first of which is drawn."""
        return list(self.first.distances)

    def summaries(self, metric: str) -> dict[str, HeadSummary]:
        """Return distances by the name of the network."""
        return {name: profile.distances[metric] for name, profile in self.profiles.items()}


def provenance(options: Mapping[str, object]) -> dict[str, Any]:
    """Return versions and options, so that a result can be made again."""
    versions = {"python": platform.python_version()}
    for package in _PACKAGES:
        if find_spec(package) is not None:
            versions[package] = metadata.version(package)
    return {"versions": versions, "options": dict(options)}
