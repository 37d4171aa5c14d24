"""How different are the attention heads of a network? Distances, statistics, importance.

The modules here measure arrays; ``diagnostics.networks`` runs networks and is loaded on first use,
so that maps from any source are measured without torch. ``fourierkernels.report.head_report`` puts
all of it together.
"""

from typing import TYPE_CHECKING

from fourierkernels.diagnostics.chance import chance_distances
from fourierkernels.diagnostics.changes import head_changes, output_changes
from fourierkernels.diagnostics.clusters import (
    head_clusters,
    nearest_distances,
    redundancy_against_importance,
)
from fourierkernels.diagnostics.comparison import head_difference, head_share, match_heads
from fourierkernels.diagnostics.corruption import CORRUPTIONS, Alphabet, Corrupted, corrupt
from fourierkernels.diagnostics.distances import METRICS, head_distances
from fourierkernels.diagnostics.flow import attention_flow, attention_rollout
from fourierkernels.diagnostics.kernel_gap import gaussian_gap
from fourierkernels.diagnostics.profile import HeadProfile
from fourierkernels.diagnostics.resampling import permutation_null
from fourierkernels.diagnostics.role_summary import head_roles
from fourierkernels.diagnostics.roles import ROLES
from fourierkernels.diagnostics.sharpening import sharpened_maps
from fourierkernels.diagnostics.statistic_summary import head_statistics, summarise_statistics
from fourierkernels.diagnostics.statistics import STATISTICS
from fourierkernels.diagnostics.summary import SPREADS, HeadSummary, summarise_maps
from fourierkernels.foundation.lazy import loaded_on_first_use

if TYPE_CHECKING:
    from fourierkernels.diagnostics.networks.importance import head_importance, pruning_curve
    from fourierkernels.diagnostics.networks.lipschitz import layer_lipschitz, local_lipschitz
    from fourierkernels.diagnostics.networks.profile import profile_heads
    from fourierkernels.diagnostics.networks.pruning import head_pruning
    from fourierkernels.diagnostics.networks.robustness import network_lipschitz, respond, steepest
    from fourierkernels.diagnostics.networks.samples import head_samples

# Public name -> the module that defines it and needs torch.
_HOMES = {
    "head_importance": "fourierkernels.diagnostics.networks.importance",
    "head_pruning": "fourierkernels.diagnostics.networks.pruning",
    "head_samples": "fourierkernels.diagnostics.networks.samples",
    "layer_lipschitz": "fourierkernels.diagnostics.networks.lipschitz",
    "local_lipschitz": "fourierkernels.diagnostics.networks.lipschitz",
    "network_lipschitz": "fourierkernels.diagnostics.networks.robustness",
    "profile_heads": "fourierkernels.diagnostics.networks.profile",
    "pruning_curve": "fourierkernels.diagnostics.networks.importance",
    "respond": "fourierkernels.diagnostics.networks.robustness",
    "steepest": "fourierkernels.diagnostics.networks.robustness",
}

__all__ = [
    "CORRUPTIONS",
    "METRICS",
    "ROLES",
    "SPREADS",
    "STATISTICS",
    "Alphabet",
    "Corrupted",
    "HeadProfile",
    "HeadSummary",
    "attention_flow",
    "attention_rollout",
    "chance_distances",
    "corrupt",
    "gaussian_gap",
    "head_changes",
    "head_clusters",
    "head_difference",
    "head_distances",
    "head_importance",
    "head_pruning",
    "head_roles",
    "head_samples",
    "head_share",
    "head_statistics",
    "layer_lipschitz",
    "local_lipschitz",
    "match_heads",
    "nearest_distances",
    "network_lipschitz",
    "output_changes",
    "permutation_null",
    "profile_heads",
    "pruning_curve",
    "redundancy_against_importance",
    "respond",
    "sharpened_maps",
    "steepest",
    "summarise_maps",
    "summarise_statistics",
]

__getattr__, __dir__ = loaded_on_first_use(__name__, _HOMES, extra="heads")
