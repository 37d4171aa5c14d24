"""How different are the attention heads of a network? Distances, summaries, checkpoints, reports.

Names that need torch and transformers are loaded on first use: distances and summaries of maps from
any source work without them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

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
from fourierkernels.diagnostics.loading.texts import TextFile, read_texts
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
    from fourierkernels.diagnostics.heads import (
        HeadProfile,
        compare_networks,
        head_statistics,
        measure_heads,
        profile_heads,
        profile_networks,
        summarise_heads,
    )
    from fourierkernels.diagnostics.importance import head_importance, pruning_curve
    from fourierkernels.diagnostics.lipschitz import layer_lipschitz, local_lipschitz
    from fourierkernels.diagnostics.listening.gates import gated_heads
    from fourierkernels.diagnostics.listening.recording import AttentionCall, attention_calls
    from fourierkernels.diagnostics.loading.checkpoint import load_checkpoint, load_tokenizer
    from fourierkernels.diagnostics.loading.images import read_images
    from fourierkernels.diagnostics.loading.inputs import read_items
    from fourierkernels.diagnostics.need import HeadNeed, head_need
    from fourierkernels.diagnostics.samples import HeadSample, head_samples

# Public name -> the module that defines it and needs torch.
_HOMES = {
    "AttentionCall": "listening.recording",
    "attention_calls": "listening.recording",
    "gated_heads": "listening.gates",
    "head_importance": "importance",
    "HeadProfile": "heads",
    "HeadNeed": "need",
    "HeadSample": "samples",
    "head_need": "need",
    "head_samples": "samples",
    "head_statistics": "heads",
    "layer_lipschitz": "lipschitz",
    "pruning_curve": "importance",
    "compare_networks": "heads",
    "measure_heads": "heads",
    "profile_heads": "heads",
    "profile_networks": "heads",
    "load_checkpoint": "loading.checkpoint",
    "read_images": "loading.images",
    "read_items": "loading.inputs",
    "local_lipschitz": "lipschitz",
    "load_tokenizer": "loading.checkpoint",
    "summarise_heads": "heads",
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
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
