"""How different are the attention heads of a network? Distances, summaries, checkpoints, reports.

Names that need torch and transformers are loaded on first use: distances and summaries of maps from
any source work without them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fourierkernels.checkpoints.texts import TextFile, read_texts
from fourierkernels.diagnostics.clusters import (
    Association,
    head_clusters,
    head_linkage,
    head_positions,
    nearest_distances,
    redundancy_against_importance,
)
from fourierkernels.diagnostics.comparison import HeadDifference, head_difference
from fourierkernels.diagnostics.distances import METRICS, HeadMetric, head_distances
from fourierkernels.diagnostics.flow import attention_flow, attention_rollout
from fourierkernels.diagnostics.kernel_gap import (
    gaussian_counterpart,
    gaussian_gap,
    key_norm_spread,
)
from fourierkernels.diagnostics.maps import STATISTICS, MapStatistic, map_statistics
from fourierkernels.diagnostics.profile import (
    StatisticAccumulator,
    StatisticSummary,
    summarise_statistics,
)
from fourierkernels.diagnostics.resampling import (
    NullComparison,
    PoissonBootstrap,
    permutation_null,
)
from fourierkernels.diagnostics.summary import (
    SPREADS,
    HeadAccumulator,
    HeadSummary,
    summarise_maps,
)

if TYPE_CHECKING:
    from fourierkernels.checkpoints.images import read_images
    from fourierkernels.checkpoints.inputs import read_items
    from fourierkernels.checkpoints.load import load_checkpoint, load_tokenizer
    from fourierkernels.checkpoints.recorders.call import AttentionCall
    from fourierkernels.checkpoints.recorders.gates import gated_heads
    from fourierkernels.checkpoints.recorders.recording import attention_calls
    from fourierkernels.diagnostics.networks.heads import (
        HeadProfile,
        compare_networks,
        head_statistics,
        measure_heads,
        profile_heads,
        profile_networks,
        summarise_heads,
    )
    from fourierkernels.diagnostics.networks.importance import head_importance, pruning_curve
    from fourierkernels.diagnostics.networks.lipschitz import layer_lipschitz, local_lipschitz
    from fourierkernels.diagnostics.networks.pruning import HeadNeed, head_need
    from fourierkernels.diagnostics.networks.samples import HeadSample, head_samples

# Public name -> the module that defines it and needs torch.
_HOMES = {
    "AttentionCall": "fourierkernels.checkpoints.recorders.call",
    "attention_calls": "fourierkernels.checkpoints.recorders.recording",
    "gated_heads": "fourierkernels.checkpoints.recorders.gates",
    "head_importance": "fourierkernels.diagnostics.networks.importance",
    "HeadProfile": "fourierkernels.diagnostics.networks.heads",
    "HeadNeed": "fourierkernels.diagnostics.networks.pruning",
    "HeadSample": "fourierkernels.diagnostics.networks.samples",
    "head_need": "fourierkernels.diagnostics.networks.pruning",
    "head_samples": "fourierkernels.diagnostics.networks.samples",
    "head_statistics": "fourierkernels.diagnostics.networks.heads",
    "layer_lipschitz": "fourierkernels.diagnostics.networks.lipschitz",
    "pruning_curve": "fourierkernels.diagnostics.networks.importance",
    "compare_networks": "fourierkernels.diagnostics.networks.heads",
    "measure_heads": "fourierkernels.diagnostics.networks.heads",
    "profile_heads": "fourierkernels.diagnostics.networks.heads",
    "profile_networks": "fourierkernels.diagnostics.networks.heads",
    "load_checkpoint": "fourierkernels.checkpoints.load",
    "read_images": "fourierkernels.checkpoints.images",
    "read_items": "fourierkernels.checkpoints.inputs",
    "local_lipschitz": "fourierkernels.diagnostics.networks.lipschitz",
    "load_tokenizer": "fourierkernels.checkpoints.load",
    "summarise_heads": "fourierkernels.diagnostics.networks.heads",
}

__all__ = [
    "METRICS",
    "SPREADS",
    "STATISTICS",
    "Association",
    "AttentionCall",
    "HeadAccumulator",
    "HeadDifference",
    "HeadMetric",
    "HeadNeed",
    "HeadProfile",
    "HeadSample",
    "HeadSummary",
    "MapStatistic",
    "NullComparison",
    "PoissonBootstrap",
    "StatisticAccumulator",
    "StatisticSummary",
    "TextFile",
    "attention_calls",
    "attention_flow",
    "attention_rollout",
    "compare_networks",
    "gated_heads",
    "gaussian_counterpart",
    "gaussian_gap",
    "head_clusters",
    "head_difference",
    "head_distances",
    "head_importance",
    "head_linkage",
    "head_need",
    "head_positions",
    "head_samples",
    "head_statistics",
    "key_norm_spread",
    "layer_lipschitz",
    "load_checkpoint",
    "load_tokenizer",
    "local_lipschitz",
    "map_statistics",
    "measure_heads",
    "nearest_distances",
    "permutation_null",
    "profile_heads",
    "profile_networks",
    "pruning_curve",
    "read_images",
    "read_items",
    "read_texts",
    "redundancy_against_importance",
    "summarise_heads",
    "summarise_maps",
    "summarise_statistics",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
